"""From a model to sentences: beam search, ensembles, translation of text; knows no training."""

from convs2s.search.beam import beam_search, search_sentences
from convs2s.search.settings import check_search
from convs2s.search.trace import Hypothesis
from convs2s.search.translate import Translation, translate_lines

__all__ = ["Hypothesis", "Translation", "beam_search", "check_search", "search_sentences", "translate_lines"]
