"""ConvS2S: a PyTorch reproduction of Convolutional Sequence to Sequence Learning (Gehring et al., 2017)."""
