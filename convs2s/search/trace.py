"""What a beam search has done so far, and the hypotheses read back from it.

N sentences at the start · B of them still in the batch · K beam · S source length · T steps taken · L attention layers.
"""

from __future__ import annotations

from dataclasses import dataclass, field

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
class Trace:
    """Tokens and back-pointers of every step, and where hypotheses ended.

    Nothing is copied per hypothesis while the search runs: a hypothesis is the place where it ended, and its tokens are
    found by walking the back-pointers.
    """

    sentences: int  # N
    ends: list[list[End]] = field(init=False)
    steps: list[tuple[Ints, Ints, Ints]] = field(default_factory=list)  # (N,) places, (B, K) tokens, (B, K) parents
    attention: list[Tensor] = field(default_factory=list)  # (B, K, S), rows are those of the beam entering the step
    layers: list[Tensor] = field(default_factory=list)  # (L, B, K, S)

    def __post_init__(self) -> None:
        self.ends = [[] for _ in range(self.sentences)]

    def advance(self, numbers: Ints, tokens: Ints, parents: Ints) -> None:
        """The next beam: (B,) sentence numbers, (B, K) tokens and the rows they continue."""
        places = np.full(self.sentences, -1)
        places[numbers] = np.arange(len(numbers))
        self.steps.append((places, tokens, parents))

    def hypotheses(self, real: Tensor, nbest: int, vocabulary: Ints | None) -> list[list[Hypothesis]]:
        """For each sentence its ``nbest`` hypotheses, best first (among equals, the one that ended first).

        real: (N, S), True where the source is not padding; vocabulary: ids of the tokens, where they are not ids.
        """
        self.attention = [step.cpu() for step in self.attention]
        self.layers = [step.float().cpu() for step in self.layers]
        columns = real.cpu() if self.attention else real
        return [
            [
                self._read(number, end, columns[number], vocabulary)
                for end in sorted(ends, key=lambda end: -end.score)[:nbest]
            ]
            for number, ends in enumerate(self.ends)
        ]

    def _read(self, number: int, end: End, real: Tensor, vocabulary: Ints | None) -> Hypothesis:
        """Walk from the end to the start."""
        ids, own, original = [EOS], [end.row], [end.original_row]
        row = end.row
        for places, tokens, parents in reversed(self.steps[: end.length - 1]):
            place = places[number]
            token = int(tokens[place, row])
            ids.append(token if vocabulary is None else int(vocabulary[token]))
            original.append(row)
            row = int(parents[place, row])
            own.append(row)
        hypothesis = Hypothesis(ids[::-1], end.score)
        if self.attention:
            hypothesis.attention = self._rows(number, own[::-1], self.attention)[:, real]
            hypothesis.original_attention = self._rows(number, original[::-1], self.attention)[:, real]
        if self.layers:
            hypothesis.layers = self._rows(number, own[::-1], self.layers)[..., real]
        return hypothesis

    def _rows(self, number: int, rows: list[int], attention: list[Tensor]) -> Tensor:
        """The rows of one hypothesis, (..., tokens, S)."""
        places = (step[0][number] for step in self.steps)
        picked = [step[..., place, row, :] for step, place, row in zip(attention, places, rows, strict=False)]
        return torch.stack(picked, -2)
