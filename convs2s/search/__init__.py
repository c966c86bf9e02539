"""From a model to sentences: beam search, ensembles, translation of text; knows no training."""
