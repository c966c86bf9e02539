"""Which training pairs are used, how often, and which are held out: one pass over the raw text, then arrays.

A pair counts under the first rule that drops it: not UTF-8, lengths in words, duplicates, held out, not drawn. Lengths
in pieces come last, when pairs are encoded. The memory is some bytes a pair.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from convs2s.config import DataConfig, Errors, LengthUnit
from convs2s.data.clean import Cleaner
from convs2s.data.lines import Part, Side, UndecodableError, read_all_pairs
from convs2s.data.parallel import ordered
from convs2s.data.sources import Sides
from convs2s.errors import UserError
from convs2s.text.moses import Moses

CHUNK = 20_000  # pairs in memory at a time
Pair = tuple[str | None, str | None]


@dataclass
class Choice:
    """What becomes of the N training pairs, in their order over all files."""

    raw: Sides
    texts: Sides  # what is to be encoded: the raw files, or their words in files of our own
    copies: NDArray[np.uint8]  # (N,) times in an epoch; 0: not used
    held: NDArray[np.bool_]  # (N,) for validation
    dropped: dict[str, int]

    def chosen(self, side: int) -> Iterator[str]:
        """The lines of one side that are trained on, once each."""
        for first, chunk in self.chunks():
            used = self.copies[first : first + len(chunk)]
            yield from (pair[side] or "" for pair, copies in zip(chunk, used, strict=True) if copies)

    def chunks(self) -> Iterator[tuple[int, list[Pair]]]:
        """(number of the first pair, pairs)."""
        return numbered(read_all_pairs(*self.texts, skip=True))


def choose(
    data: DataConfig,
    texts: Sequence[tuple[Sides, float]],
    segmenters: tuple[Moses, Moses] | None,
    folder: Path,
    workers: int,
) -> Choice:
    """Read all training text once and decide. ``texts``: data.train, then each of data.extra, with weights.

    ``segmenters``: moses_bpe's; the words of every pair are then written to ``folder``.
    ``workers``: processes that work on the lines; 0: this one.
    Raises UserError for faults of the files, and where no pair is left.
    """
    source, target = (Side(tuple(part for sides, _ in texts for part in sides[i].parts)) for i in (0, 1))
    own = Side((Part(folder / _SEGMENTED[0]),)), Side((Part(folder / _SEGMENTED[1]),))
    skip = data.errors == Errors.skip
    hashing = data.drop_duplicates or data.valid_fraction > 0
    words = data.length_unit == LengthUnit.words
    cleaner = Cleaner(data.min_length, data.max_length, data.max_ratio)
    counts, alive, hashes, undecodable = [], [], [], 0
    with ExitStack() as stack:
        files = [
            stack.enter_context((folder / name).open("w", encoding="utf-8", newline="\n"))
            for name in (_SEGMENTED if segmenters else ())
        ]
        for sides, _ in texts:
            counts.append(0)
            work = _Scan(segmenters, words, hashing)
            for _, scan in ordered(work, numbered(_read(sides, skip)), workers):
                keep = scan.readable
                undecodable += int((~keep).sum())
                if words:
                    keep = keep.copy()
                    keep[keep] = cleaner.keep(*(length[keep] for length in scan.lengths))
                for file, lines in zip(files, scan.segmented, strict=True):
                    file.writelines(lines)
                alive.append(keep)
                hashes.append(scan.hashes)
                counts[-1] += len(keep)
    choice = Choice(
        raw=(source, target),
        texts=own if segmenters else (source, target),
        copies=np.concatenate(alive).astype(np.uint8),
        held=np.zeros(sum(counts), np.bool_),
        dropped={"undecodable": undecodable, "duplicate": 0, **cleaner.dropped, "not drawn": 0},
    )
    del alive
    if hashing:
        _decide_by_hash(data, choice, np.concatenate(hashes), counts[0])
    if data.valid_every is not None:
        kept = np.flatnonzero(choice.copies[: counts[0]])
        _hold(choice, kept[data.valid_every - 1 :: data.valid_every])
    _draw(data, choice, counts, [weight for _, weight in texts])
    if not choice.copies.any():
        left = ", ".join(f"{name} {count:,}" for name, count in choice.dropped.items() if count)
        raise UserError(f"{source} and {target}: none of {sum(counts):,} pairs is left ({left})")
    return choice


def _read(sides: Sides, skip: bool) -> Iterator[Pair]:
    try:
        yield from read_all_pairs(*sides, skip)
    except UndecodableError as error:
        raise UserError(f"{error}, or give data.errors=skip") from None


_SEGMENTED = ("train.source.words", "train.target.words")


def numbered(pairs: Iterator[Pair]) -> Iterator[tuple[int, list[Pair]]]:
    """Chunks of pairs, each with the number of pairs before it."""
    first = 0
    while chunk := list(islice(pairs, CHUNK)):
        yield first, chunk
        first += len(chunk)


def _hold(choice: Choice, pairs: NDArray[np.int64]) -> None:
    choice.held[pairs] = True
    choice.copies[pairs] = 0


def _decide_by_hash(data: DataConfig, choice: Choice, hashes: NDArray[np.uint64], own: int) -> None:
    """Drop what occurred before; hold out a share of data.train's ``own`` pairs, with all that are equal to them."""
    alive = np.flatnonzero(choice.copies)
    if data.drop_duplicates:
        order = alive[np.argsort(hashes[alive], kind="stable")]
        again = order[1:][hashes[order[1:]] == hashes[order[:-1]]]
        choice.copies[again] = 0
        choice.dropped["duplicate"] = len(again)
        alive = np.flatnonzero(choice.copies)
    if data.valid_fraction > 0:
        chosen = alive[hashes[alive] < np.uint64(data.valid_fraction * 2**64)]
        _hold(choice, chosen[chosen < own])
        extra = chosen[chosen >= own]
        equal = extra[np.isin(hashes[extra], hashes[chosen[chosen < own]])]
        choice.copies[equal] = 0
        choice.dropped["duplicate"] += len(equal)


def _draw(data: DataConfig, choice: Choice, counts: list[int], weights: list[float]) -> None:
    """Apply data.fraction, data.max_pairs and the weights."""
    generator = np.random.default_rng([data.seed, 2])
    alive = np.flatnonzero(choice.copies)
    wanted = round(data.fraction * len(alive))
    if data.max_pairs is not None:
        wanted = min(wanted, data.max_pairs)
    if wanted < len(alive):
        out = generator.choice(alive, len(alive) - wanted, replace=False, shuffle=False)
        choice.copies[out] = 0
        choice.dropped["not drawn"] += len(out)
    start = 0
    for count, weight in zip(counts, weights, strict=True):
        part = choice.copies[start : start + count]
        whole, share = divmod(weight, 1.0)
        used = part > 0
        part[used] = int(whole)
        if share:
            part[used] += (generator.random(int(used.sum())) < share).astype(np.uint8)
        choice.dropped["not drawn"] += int((used & (part == 0)).sum())
        start += count


@dataclass
class _Scanned:
    readable: NDArray[np.bool_]
    lengths: list[NDArray[np.int64]]  # words of either side
    hashes: NDArray[np.uint64]
    segmented: list[list[str]]  # either side's lines of words, with line ends


class _Scan:
    """What a worker finds out about a chunk of pairs."""

    def __init__(self, segmenters: tuple[Moses, Moses] | None, words: bool, hashing: bool) -> None:
        self.segmenters, self.words, self.hashing = segmenters, words, hashing

    def __call__(self, pairs: list[Pair]) -> _Scanned:
        readable = np.array([None not in pair for pair in pairs], np.bool_)
        sides = [[line or "" for line in side] for side in zip(*pairs, strict=True)]
        hashes = [_hash(*pair) for pair in zip(*sides, strict=True)] if self.hashing else []
        if self.segmenters is not None:
            sides = [list(map(moses.segment, side)) for moses, side in zip(self.segmenters, sides, strict=True)]
        lengths = [np.array([len(line.split()) for line in side], np.int64) for side in sides] if self.words else []
        segmented = [[f"{line}\n" for line in side] for side in sides] if self.segmenters is not None else []
        return _Scanned(readable, lengths, np.array(hashes, np.uint64), segmented)


def _hash(source: str, target: str) -> int:
    """64 bits of a pair, the same on every machine."""
    return int.from_bytes(hashlib.blake2b(f"{source}\n{target}".encode(), digest_size=8).digest(), "big")
