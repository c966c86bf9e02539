"""What a step of the search computes for all hypotheses at once: limits, penalties, the best continuations.

B sentences · K beam, hypotheses a sentence · V vocabulary · S source length · n candidates.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from convs2s.config import SearchConfig
from convs2s.model.incremental import GROUP
from convs2s.search.selection import Selection
from convs2s.search.trace import Floats, Ints
from convs2s.text.vocabulary import UNK


def length_limits(config: SearchConfig, lengths: Ints, table: int) -> Ints:
    """Pieces that a translation of each source, of (N,) pieces with </s>, may have before its own </s>."""
    ratio = min(config.max_length_ratio, table)  # more is no more
    limits = np.floor(ratio * lengths + 1e-9).astype(np.int64) + config.max_length
    capped: Ints = np.minimum(limits, table - 1)
    return capped


def word_penalties(
    config: SearchConfig, continuations: Tensor | None, selection: Selection | None, device: torch.device
) -> Tensor | None:
    """What is subtracted from each word's log-probability, (V,); None where that is nothing, or only for <unk>."""
    if not config.subwordpen:
        return None
    if continuations is None:
        raise ValueError("search.subwordpen needs to know which pieces are continued")
    penalties = continuations.double() * config.subwordpen
    penalties[UNK] += config.unkpen
    return (penalties if selection is None else penalties[selection.ids]).to(device)


def candidates(scores: Tensor, log_probs: Tensor) -> tuple[Tensor, Tensor]:
    """The best 2 K continuations of each sentence: scores and k * V + word, (B, n) each, best first.

    scores: (B, K, 1) of the hypotheses; log_probs: (B, K, V). 2 K are enough to find K that do not end. Impossible ones
    (score -inf) come last; with a beam beyond the vocabulary they fill rows that no hypothesis has.

    The n best words stand in the n groups of words with the best maxima: only those are sorted.
    """
    batch, beam, vocabulary = log_probs.shape
    groups = log_probs.view(batch, -1, GROUP)  # (B, K V / GROUP, GROUP)
    maxima = (groups.amax(2).view(batch, beam, -1) + scores).view(batch, -1)  # (B, K V / GROUP)
    count = min(2 * beam, maxima.shape[1])
    chosen = maxima.topk(count, dim=1, sorted=False).indices  # (B, count)
    of_rows = scores.view(batch, beam).gather(1, chosen // (vocabulary // GROUP)).unsqueeze(2)
    words = groups.gather(1, chosen.unsqueeze(2).expand(-1, -1, GROUP)) + of_rows  # (B, count, GROUP)
    values, index = words.view(batch, -1).topk(2 * beam, dim=1)
    return values, chosen.gather(1, index // GROUP) * GROUP + index % GROUP


def to_host(values: Tensor, index: Tensor) -> tuple[Floats, Ints]:
    """Both as arrays, in one transfer."""
    if values.device.type == "cpu":
        return values.numpy(), index.numpy()
    both = torch.stack([values.double(), index.double()]).cpu().numpy()
    return both[0].astype(np.float64 if values.dtype == torch.float64 else np.float32), both[1].astype(np.int64)


def coverage_penalty(total: Tensor, real: Tensor) -> Tensor:
    """Sum over source positions of log min(1, attention received): (B, n, S), real (B, S) -> (B, n)."""
    return total.clamp(0.0, 1.0).log().masked_fill(~real.unsqueeze(1), 0.0).sum(2)


def pick(x: Tensor, rows: Ints) -> Tensor:
    """Rows of each sentence: (B, K, S) and (B, n) indices -> (B, n, S)."""
    index = torch.from_numpy(np.ascontiguousarray(rows)).to(x.device)
    return x.gather(1, index.unsqueeze(2).expand(-1, -1, x.shape[2]))


def stack(one: Tensor, other: Tensor) -> Tensor:
    """Both, one above the other, the narrower filled with zeros on the right; (B, ..., S) each."""
    width = max(one.shape[-1], other.shape[-1])
    return torch.cat([F.pad(x, (0, width - x.shape[-1])) for x in (one, other)])
