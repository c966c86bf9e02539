"""From a model to sentences: beam search, ensembles, translation of text; knows no training."""

from convs2s.search.beam import Hypothesis, beam_search, check_search
from convs2s.search.translate import Translation, translate_lines

__all__ = ["Hypothesis", "Translation", "beam_search", "check_search", "translate_lines"]
