"""A line of text <-> ids: tokenisers and vocabulary."""

from convs2s.text.tokenizer import Tokenizer, Tokenizers, train_tokenizers
from convs2s.text.vocabulary import EOS, PAD, SPECIALS, UNK

__all__ = ["EOS", "PAD", "SPECIALS", "UNK", "Tokenizer", "Tokenizers", "train_tokenizers"]
