"""Which sentences make a batch, in which order, and the padded tensors: pure functions of lengths and seeds.

B sentences · S source length · T target length, </s> included.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from convs2s.config import Bucketing
from convs2s.text.vocabulary import EOS, PAD

if TYPE_CHECKING:
    from convs2s.data.corpus import Corpus

Indices = NDArray[np.int64]


class Batches(Sequence[Indices]):
    """Runs of one array of indices: ``order[bounds[i] : bounds[i + 1]]`` is batch i. Small for the largest corpora."""

    def __init__(self, order: NDArray[np.integer], bounds: NDArray[np.int64]) -> None:
        self.order, self.bounds = order, bounds

    def __len__(self) -> int:
        return len(self.bounds) - 1

    @overload
    def __getitem__(self, number: int) -> Indices: ...
    @overload
    def __getitem__(self, number: slice) -> list[Indices]: ...
    def __getitem__(self, number: int | slice) -> Indices | list[Indices]:
        if isinstance(number, slice):
            return [self[i] for i in range(*number.indices(len(self)))]
        number = range(len(self))[number]
        return self.order[self.bounds[number] : self.bounds[number + 1]].astype(np.int64)


def cut_batches(
    source_lengths: NDArray[np.integer],
    target_lengths: NDArray[np.integer],
    *,
    sentences: int,
    tokens: int | None = None,
    seed: int | None = None,
    bucketing: Bucketing = Bucketing.original,
) -> Batches:
    """The training batches, shortest first (original: MaxBatchDataset.lua, torchnet/data.lua).

    Sentences are sorted by (source, target) length, shuffled among equals by ``seed`` (None: left in order), and cut
    into runs of ``sentences`` or, with ``tokens``, into runs as long as
    count x max(longest source, longest target) <= tokens; a longer sentence is a batch of its own.

    bucketing: tight sorts by the longer side, then by the difference of both, to and fro, so that neighbours are alike
    on both sides; the original's order has all target lengths beside each other for every source length.
    """
    count = len(source_lengths)
    keys = source_lengths, target_lengths
    if bucketing == Bucketing.tight:
        longer = np.maximum(source_lengths, target_lengths)
        difference = source_lengths.astype(np.int32) - target_lengths
        difference[longer % 2 == 1] *= -1
        keys = longer, difference - difference.min(initial=0)
    order = _sorted_by_length(*keys, seed)
    if tokens is None:
        return Batches(order, np.append(np.arange(0, count, sentences), count))
    longest = np.maximum(source_lengths, target_lengths)[order]
    bounds, start = [0], 0
    while start < count:
        window = np.maximum.accumulate(longest[start : start + max(1, tokens // int(longest[start]))].astype(np.int64))
        fits = window * np.arange(1, len(window) + 1) <= tokens
        start += max(1, len(window) if fits.all() else int(fits.argmin()))
        bounds.append(start)
    return Batches(order, np.array(bounds, np.int64))


def _sorted_by_length(
    source_lengths: NDArray[np.integer], target_lengths: NDArray[np.integer], seed: int | None
) -> NDArray[np.int32]:
    """Indices by (source length, target length), equals in an order drawn by ``seed``: one radix sort for each key."""
    count = len(source_lengths)
    order = np.arange(count, dtype=np.int32)
    if seed is not None:
        order[np.random.default_rng([seed, 0]).permutation(count)] = np.arange(count, dtype=np.int32)
    for lengths in (target_lengths, source_lengths):
        narrow = lengths.astype(np.uint16) if lengths.max(initial=0) < 1 << 16 else lengths
        order = order[np.argsort(narrow[order], kind="stable")]
    return order


def padding_share(batches: Batches, source_lengths: NDArray[np.integer], target_lengths: NDArray[np.integer]) -> float:
    """The share of padding among the positions of both sides' tensors, from 0 to 1."""
    if len(batches) == 0:
        return 0.0
    starts, counts = batches.bounds[:-1], np.diff(batches.bounds)
    real, positions = 0, 0
    for lengths in (source_lengths, target_lengths):
        positions += int((np.maximum.reduceat(lengths[batches.order], starts).astype(np.int64) * counts).sum())
        real += int(lengths.sum(dtype=np.int64))
    return 1.0 - real / positions


def bucket_batches(
    source_lengths: NDArray[np.integer],
    target_lengths: NDArray[np.integer],
    *,
    sentences: int,
    tokens: int | None = None,
) -> list[Indices]:
    """The original's validation batches: no source padding, since a batch holds sources of one length only.

    A run of ``sentences`` equal lengths that is over ``tokens`` is halved until it fits.
    """
    batches: list[Indices] = []
    for length in np.unique(source_lengths):
        bucket = np.flatnonzero(source_lengths == length).astype(np.int64)
        for start in range(0, len(bucket), sentences):
            run = bucket[start : start + sentences]
            size = len(run)
            if tokens is not None:
                longest = int(max(length, target_lengths[run].max()))
                while size > 1 and size * longest > tokens:
                    size //= 2
            batches += [run[piece : piece + size] for piece in range(0, len(run), size)]
    return batches


def epoch_order(count: int, seed: int, epoch: int) -> Indices:
    """The numbers of ``count`` batches in the order of an epoch."""
    return np.random.default_rng([seed, 1, epoch]).permutation(count).astype(np.int64)


def rank_share(order: Indices, start: int, group: int, rank: int, world_size: int) -> Indices:
    """The batches that ``rank`` reads for the update that begins with the epoch's batch number ``start``.

    group: batches of an update, over all ranks. Of an epoch's last update some ranks may have no batch.
    """
    return order[start : start + group][rank::world_size]


class Batch(NamedTuple):
    """Padded ids of some pairs, int64."""

    indices: Indices  # (B,) into the corpus
    source: Tensor  # (B, S)
    target_input: Tensor  # (B, T) </s> and the target but its last token
    target: Tensor  # (B, T)
    tokens: int  # target tokens, </s> included, padding not

    @property
    def sentences(self) -> int:
        return len(self.indices)

    def pinned(self) -> Batch:
        """The same in memory that a GPU reads by itself, while the program goes on."""
        source, target_input, target = (part.pin_memory() for part in self[1:4])
        return Batch(self.indices, source, target_input, target, self.tokens)

    def rows(self, start: int, stop: int) -> Batch:
        """The pairs from ``start`` to ``stop``, padded as they are here."""
        cut = slice(start, stop)
        target = self.target[cut]
        return Batch(self.indices[cut], self.source[cut], self.target_input[cut], target, int((target != PAD).sum()))


def pad(rows: Sequence[NDArray[np.integer] | Sequence[int]], left: bool = False) -> Tensor:
    """Rows of ids as one int64 tensor, (B, longest), filled with padding on the right or left."""
    lengths = np.array([len(row) for row in rows])
    padded = np.full((len(rows), lengths.max(initial=0)), PAD, np.int64)
    columns = np.arange(padded.shape[1])
    real = columns >= padded.shape[1] - lengths[:, None] if left else columns < lengths[:, None]
    padded[real] = np.concatenate(rows) if rows else []
    return torch.from_numpy(padded)


def collate(corpus: Corpus, indices: Indices, pad_left: bool = False, pad_target_left: bool = False) -> Batch:
    """The pairs at ``indices`` as tensors; ``pad_left``: source padding as in the original.

    pad_target_left: as in the first PyTorch release.
    """
    source = pad([corpus.source(int(i)) for i in indices], left=pad_left)
    target = pad([corpus.target(int(i)) for i in indices], left=pad_target_left)
    start = target.new_full((len(target), 1), EOS)
    # Shifted by one: a shorter row's input has its </s> fall off only where the target already is padding.
    target_input = torch.cat([start, target[:, :-1]], 1)
    target_input = target_input.masked_fill((target_input == PAD) & (target != PAD), EOS)  # behind padding on the left
    target_input = target_input.masked_fill(target == PAD, PAD)
    return Batch(indices, source, target_input, target, int((target != PAD).sum()))
