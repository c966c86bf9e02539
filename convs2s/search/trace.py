"""What a beam search has done so far, and the hypotheses read back from it.

B sentences in the batch · K beam · S source length · L attention layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from convs2s.text.vocabulary import EOS

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.floating]


@dataclass
class Hypothesis:
    """One translation of a sentence, in ids.

    ``attention``: (tokens, source tokens), on the CPU; row t is the distribution that led to token t, over the real
    source positions only, </s> included: column 0 is the first word whatever the padding.
    ``original_attention``: the same as the original stores it, for comparison with its output and for its coverage
    penalty. It reads the attention of a step in the order that the beam has *after* that step, so where the beam
    changed it gives a hypothesis the row of another one (original: search.lua "selectHypos").
    ``layers``: as ``attention``, of each layer that attends: (L, tokens, source tokens), models one after another.
    """

    ids: list[int]  # the final </s> included
    score: float  # log-probability with penalties / length ** lenpen + coverage term
    attention: Tensor | None = None
    original_attention: Tensor | None = None
    layers: Tensor | None = None


@dataclass
class End:
    """Where a hypothesis ended: after ``length`` tokens, in row ``row`` of the beam that entered the last step."""

    score: float
    length: int
    row: int
    original_row: int  # whose attention the original takes for the last step


@dataclass
class Step:
    """One step of the batch as it was then; rows are those of the beam that entered the step."""

    numbers: Ints  # (B,) of the sentences, ascending
    tokens: Ints  # (B, K) of the beam that left it
    parents: Ints  # (B, K) the rows that these continue
    attention: Tensor | None  # (B, K, S)
    layers: Tensor | None  # (L, B, K, S)

    def to_host(self) -> None:
        """Attention on the CPU, where it is read."""
        self.attention = None if self.attention is None else self.attention.cpu()
        self.layers = None if self.layers is None else self.layers.float().cpu()


class Trace:
    """Tokens and back-pointers of the last steps.

    Nothing is copied per hypothesis while the search runs: a hypothesis is the place where it ended, and its tokens are
    found by walking the back-pointers.
    """

    def __init__(self) -> None:
        self.steps: list[Step] = []

    def keep(self, count: int) -> None:
        """Forget all steps but the last ``count``, which the sentences in the batch go back to."""
        del self.steps[: len(self.steps) - count]

    def read(
        self, number: int, age: int, ends: Sequence[End], nbest: int, real: Tensor | None, vocabulary: Ints | None
    ) -> list[Hypothesis]:
        """A sentence's ``nbest`` hypotheses, best first (among equals, the one that ended first).

        age: steps that the sentence has taken part in, of which the last is the trace's last; real: (S,), True where
        its source is not padding, needed for attention; vocabulary: ids of the tokens, where they are not ids.
        """
        steps = self.steps[len(self.steps) - age :]
        columns = None if real is None else real.cpu().nonzero().squeeze(1)
        return [
            read(number, steps[: end.length], end, columns, vocabulary)
            for end in sorted(ends, key=lambda end: -end.score)[:nbest]
        ]


def read(number: int, steps: Sequence[Step], end: End, columns: Tensor | None, vocabulary: Ints | None) -> Hypothesis:
    """Walk from the end to the start; ``steps``: those that led to a token of the hypothesis."""
    places = [int(np.searchsorted(step.numbers, number)) for step in steps]
    ids, own, original = [EOS], [end.row], [end.original_row]
    row = end.row
    for step, place in zip(reversed(steps[:-1]), reversed(places[:-1]), strict=True):
        token = int(step.tokens[place, row])
        ids.append(token if vocabulary is None else int(vocabulary[token]))
        original.append(row)
        row = int(step.parents[place, row])
        own.append(row)
    hypothesis = Hypothesis(ids[::-1], end.score)
    if columns is not None:
        for step in steps:
            step.to_host()
        attention = [step.attention for step in steps]
        hypothesis.attention = rows_of(attention, places, own[::-1], columns)
        hypothesis.original_attention = rows_of(attention, places, original[::-1], columns)
        if steps[0].layers is not None:
            hypothesis.layers = rows_of([step.layers for step in steps], places, own[::-1], columns)
    return hypothesis


def rows_of(attention: Sequence[Tensor | None], places: Sequence[int], rows: Sequence[int], columns: Tensor) -> Tensor:
    """The rows of one hypothesis, (..., tokens, source tokens)."""
    chosen = zip(attention, places, rows, strict=True)
    return torch.stack([step[..., place, row, columns] for step, place, row in chosen if step is not None], -2)
