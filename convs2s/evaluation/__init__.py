"""Scores of a model: BLEU and chrF of a split, with everything needed to compare them."""
