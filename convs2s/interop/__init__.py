"""The authors' Lua and PyTorch checkpoints in; safetensors, ONNX and Hugging Face folders out."""
