"""How probable models find the references of a split, and how much of its source they cannot read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from convs2s.config import SearchConfig
from convs2s.model import Seq2Seq
from convs2s.model.loss import perplexity
from convs2s.search.ensemble import Ensemble
from convs2s.search.scoring import score_lines
from convs2s.text.tokenizer import Tokenizers
from convs2s.text.vocabulary import UNK


class Perplexity(NamedTuple):
    """Of target pieces, </s> included: comparable only between models that share a vocabulary."""

    score: float | None  # None where no pair can be read
    tokens: int
    left_out: int  # pairs with a blank side, as in training, or with one longer than the models take

    def as_dict(self) -> dict[str, Any]:
        return self._asdict()


def reference_perplexity(
    models: Sequence[Seq2Seq], tokenizers: Tokenizers, pairs: Sequence[tuple[str, str]], search: SearchConfig
) -> Perplexity:
    """Teacher-forced: exp of the mean negative log-probability of the second lines' pieces, given the first.

    Here alone a reference is read through the vocabulary: its unknown pieces are ``<unk>``, as in training.
    """
    ensemble = Ensemble(models)
    limits = ensemble.max_source_length, ensemble.max_target_length
    sides = [tokenizer.encode([pair[side] for pair in pairs]) for side, tokenizer in enumerate(tokenizers)]
    lengths = zip(*([len(ids) for ids in side] for side in sides), strict=True)
    fit = [all(0 < n < limit for n, limit in zip(both, limits, strict=True)) for both in lengths]
    kept = [pair for pair, fits in zip(pairs, fit, strict=True) if fits]
    found = [score.tokens for score in score_lines(models, tokenizers, kept, search)]
    total, tokens = math.fsum(value for values in found for value in values), sum(map(len, found))
    return Perplexity(perplexity(-total / tokens) if tokens else None, tokens, len(pairs) - len(kept))


def unknown_pieces(ids: Sequence[Sequence[int]]) -> float:
    """Share of pieces that are <unk>."""
    return sum(line.count(UNK) for line in ids) / max(1, sum(map(len, ids)))
