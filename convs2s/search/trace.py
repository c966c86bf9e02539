"""What a beam search has done so far, and the hypotheses read back from it.

N sentences at the start · B of them still in the batch · K beam · S source length · T steps taken.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from convs2s.text.vocabulary import EOS

Ints = npt.NDArray[np.int64]


@dataclass
class Hypothesis:
    """One translation of a sentence, in ids.

    ``attention``: (tokens, source tokens), on the CPU; row t is the distribution that led to token t, over the real
    source positions only, </s> included: column 0 is the first word whatever the padding.
    ``original_attention``: the same as the original stores it, for comparison with its output and for its coverage
    penalty. It reads the attention of a step in the order that the beam has *after* that step, so where the beam
    changed it gives a hypothesis the row of another one (original: search.lua "selectHypos").
    """

    ids: list[int]  # the final </s> included
    score: float  # log-probability with penalties / length ** lenpen + coverage term
    attention: Tensor | None = None
    original_attention: Tensor | None = None


class Trace:
    """Tokens and back-pointers of every step, and where hypotheses ended.

    Nothing is copied per hypothesis while the search runs: a hypothesis is the place where it ended, and its tokens are
    found by walking the back-pointers once, for all sentences together, in ``hypotheses``.
    """

    def __init__(self, sentences: int, beam: int, like: Tensor) -> None:
        """``like``: a tensor of the scores' type and device."""
        self.sentences, self.beam = sentences, beam
        # Column K takes what does not count, so that writing needs no branch.
        self.score = like.new_full((sentences, beam + 1), float("-inf"))
        self.row = torch.zeros_like(self.score, dtype=torch.long)  # of the beam that entered the last step
        self.original_row = torch.zeros_like(self.row)  # whose attention the original takes for the last step
        self.length = torch.zeros_like(self.row)  # 0: nothing here
        self.steps: list[tuple[Tensor, Tensor, Tensor]] = []  # (B,) sentence numbers, (B, K) tokens, (B, K) parents
        self.attention: list[Tensor] = []  # (B, K, S) rows of the beam that entered the step

    def finish(
        self, sentences: Tensor, slot: Tensor, score: Tensor, row: Tensor, original_row: Tensor, step: int
    ) -> None:
        """Hypotheses that end at this step: (B,) sentence numbers, and (B, n) slots (K: none), scores and beam rows."""
        index = (sentences.unsqueeze(1) * (self.beam + 1) + slot).flatten()
        self.score.view(-1).scatter_(0, index, score.flatten())
        self.row.view(-1).scatter_(0, index, row.flatten())
        self.original_row.view(-1).scatter_(0, index, original_row.flatten())
        self.length.view(-1).scatter_(0, index, step)

    def advance(self, sentences: Tensor, tokens: Tensor, parents: Tensor, attention: Tensor | None) -> None:
        """The next beam: (B,) sentence numbers, (B, K) tokens and the rows they continue, (B, K, S) attention."""
        self.steps.append((sentences, tokens, parents))
        if attention is not None:
            self.attention.append(attention)

    def hypotheses(self, real: Tensor) -> list[list[Hypothesis]]:
        """For each sentence its hypotheses, best first (among equals, the one that ended first).

        real: (N, S), True where the source is not padding.
        """
        score = self.score[:, :-1].cpu()
        length = self.length[:, :-1].cpu().numpy()
        ids, own_rows, original_rows = self._walk(length)
        attention, original = self._attention(own_rows), self._attention(original_rows)
        order = score.argsort(dim=1, descending=True, stable=True).tolist()
        results = []
        for n, columns in enumerate(real.cpu()):
            of_sentence = []
            for k in order[n]:
                count = int(length[n, k])
                if count:
                    hypothesis = Hypothesis(ids[n, k, :count].tolist(), float(score[n, k]))
                    if attention is not None and original is not None:
                        hypothesis.attention = attention[n, k, :count][:, columns]
                        hypothesis.original_attention = original[n, k, :count][:, columns]
                    of_sentence.append(hypothesis)
            results.append(of_sentence)
        return results

    def _walk(self, length: Ints) -> tuple[Ints, Ints, Ints]:
        """(N, K) lengths -> tokens, the beam row each was drawn from, the row the original takes; all (N, K, T)."""
        row, original = (x[:, :-1].cpu().numpy() for x in (self.row, self.original_row))
        longest = int(length.max(initial=0))
        ids = np.full((*length.shape, longest), EOS)
        own_rows, original_rows = np.zeros_like(ids), np.zeros_like(ids)
        for step in range(longest, 0, -1):
            tokens, parents = (self._full(step, part) for part in (1, 2))
            inner = step < length
            ids[..., step - 1] = np.where(inner, np.take_along_axis(tokens, row, 1), EOS)
            original_rows[..., step - 1] = np.where(inner, row, original)
            row = np.where(inner, np.take_along_axis(parents, row, 1), row)
            own_rows[..., step - 1] = row
        return ids, own_rows, original_rows

    def _full(self, step: int, part: int) -> Ints:
        """Tokens (1) or parents (2) of a step for all sentences, (N, K); zeros for those that had left."""
        full = np.zeros((self.sentences, self.beam), dtype=np.int64)
        full[self.steps[step - 1][0].cpu().numpy()] = self.steps[step - 1][part].cpu().numpy()
        return full

    def _attention(self, rows: Ints) -> Tensor | None:
        """(N, K, T) beam rows -> the attention that belongs to them, (N, K, T, S)."""
        if not self.attention:
            return None
        picked = []
        for (sentences, _, _), attention, row in zip(self.steps, self.attention, rows.transpose(2, 0, 1), strict=False):
            own = torch.from_numpy(row).to(sentences.device)[sentences]  # (B, K)
            full = attention.new_zeros(self.sentences, self.beam, attention.shape[2])
            full[sentences] = attention.gather(1, own.unsqueeze(2).expand_as(attention))
            picked.append(full.cpu())
        return torch.stack(picked, 2)
