"""Text -> corpus files: chunks are encoded in parallel, cleaned and written in order, in one pass."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convs2s.config import DataConfig, LengthUnit
from convs2s.data.choice import Choice, Pair, numbered
from convs2s.data.clean import Cleaner
from convs2s.data.corpus import CorpusWriter
from convs2s.data.lines import read_all_pairs
from convs2s.data.parallel import ordered
from convs2s.data.sources import Sides
from convs2s.errors import UserError
from convs2s.text.tokenizer import Tokenizers
from convs2s.text.word_cache import EncodedLines, WordCache


class Encode:
    """Encodes chunks of pairs; what it remembers of words stays with the process."""

    def __init__(self, tokenizers: Tokenizers, spaced: bool = False) -> None:
        self.tokenizers, self.spaced = tokenizers, spaced
        self._caches: list[WordCache] | None = None

    def __call__(self, pairs: list[Pair]) -> tuple[EncodedLines, EncodedLines]:
        if self._caches is None:
            self._caches = [WordCache(tokenizer, self.spaced) for tokenizer in self.tokenizers]
        source, target = (cache([pair[side] or "" for pair in pairs]) for side, cache in enumerate(self._caches))
        return source, target


def encode_texts(folder: Path, split: str, texts: Sides, tokenizers: Tokenizers) -> dict[str, Any]:
    """Write a split from its own files, all but pairs with an empty side; returns its part of the manifest."""
    writer, cleaner, read = _writer(folder, split, tokenizers), Cleaner(), 0
    with writer:
        encode = Encode(tokenizers)
        for first, chunk in numbered(read_all_pairs(*texts, skip=False)):
            source, target = encode(chunk)
            index = np.flatnonzero(cleaner.keep(source.lengths, target.lengths))
            writer.add(source, target, np.arange(first + 1, first + 1 + len(source.lengths)), index)
            read += len(source.lengths)
    return _summary(writer, read, cleaner.dropped, f"{texts[0]} and {texts[1]}")


def encode_choice(
    folder: Path, data: DataConfig, choice: Choice, tokenizers: Tokenizers, spaced: bool, workers: int
) -> dict[str, dict[str, Any]]:
    """Write the training split, and the validation split where it is held out; returns their parts of the manifest.

    ``spaced``: the text is already cut into words.
    """
    if data.length_unit == LengthUnit.words:
        cleaners = [Cleaner(1, data.max_pieces) for _ in range(2)]
    else:
        cleaners = [Cleaner(data.min_length, data.max_length, data.max_ratio) for _ in range(2)]
    train, valid = _writer(folder, "train", tokenizers), None
    held = 0  # held-out pairs so far: the lines of their own files
    with train:
        if choice.held.any():
            valid = _writer(folder, "valid", tokenizers)
        for (numbers, is_held), (source, target) in ordered(Encode(tokenizers, spaced), _wanted_pairs(choice), workers):
            for writer, cleaner, mine in ((train, cleaners[0], ~is_held), (valid, cleaners[1], is_held)):
                if writer is None or not mine.any():
                    continue
                index = np.flatnonzero(mine)
                index = index[cleaner.keep(source.lengths[index], target.lengths[index])]
                if writer is valid:
                    writer.add(source, target, held + np.cumsum(mine), index)
                    held += int(mine.sum())
                else:
                    writer.add(source, target, numbers + 1, np.repeat(index, choice.copies[numbers[index]]))
        if valid is not None:
            valid.close()
    names = f"{choice.raw[0]} and {choice.raw[1]}"
    dropped = {name: choice.dropped.get(name, 0) + cleaners[0].dropped.get(name, 0) for name in _RULES}
    found = {"train": _summary(train, len(choice.copies), {**dropped, "held out": int(choice.held.sum())}, names)}
    if valid is not None:
        found["valid"] = _summary(valid, held, cleaners[1].dropped, f"what was held out of {names}")
    return found


_RULES = ("undecodable", "duplicate", "empty", "short", "long", "ratio", "not drawn")


def _wanted_pairs(choice: Choice) -> Iterator[tuple[tuple[NDArray[np.int64], NDArray[np.bool_]], list[Pair]]]:
    """((their numbers, which are held out), pairs), chunk by chunk."""
    for first, chunk in choice.chunks():
        here = slice(first, first + len(chunk))
        index = np.flatnonzero((choice.copies[here] > 0) | choice.held[here])
        if len(index):
            yield (first + index, choice.held[here][index]), [chunk[i] for i in index.tolist()]


def _writer(folder: Path, split: str, tokenizers: Tokenizers) -> CorpusWriter:
    return CorpusWriter(folder, split, len(tokenizers.source.symbols), len(tokenizers.target.symbols))


def _summary(writer: CorpusWriter, read: int, dropped: dict[str, int], names: str) -> dict[str, Any]:
    """A split's part of the manifest. Raises UserError when no pair is left."""
    if writer.pairs == 0:
        reasons = ", ".join(f"{name} {count:,}" for name, count in dropped.items() if count)
        remedy = "; see data.max_length" if dropped["long"] else ""
        raise UserError(f"{names}: none of {read:,} pairs is left ({reasons}){remedy}")
    return {
        "pairs_read": read,
        "pairs": writer.pairs,
        "dropped": dropped,
        "tokens": writer.tokens,
        "words": writer.words,
        "unknown": writer.unknown,
        "longest": writer.longest,
        "dtypes": writer.dtypes,
    }
