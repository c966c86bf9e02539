"""Many lines -> flat arrays of ids, fast: each word is split once and then looked up.

Exact, not approximate: a tokeniser says which words have pieces that do not depend on their neighbours, and a line
with any other word is encoded as a whole.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

LIMIT = 200_000  # words remembered; about 40 MB. Then the memory starts afresh, so that it never grows with the corpus


class EncodedLines(NamedTuple):
    """Some lines as ids, without </s>."""

    ids: NDArray[np.int32]  # (all pieces,)
    lengths: NDArray[np.int64]  # (lines,) pieces
    words: NDArray[np.int64]  # (lines,) words between spaces


class WordTokenizer(Protocol):
    """What a tokeniser offers beyond ``encode`` so that its words can be remembered."""

    def spaced(self, lines: Sequence[str]) -> Sequence[str]:
        """The lines with a space between words and nowhere else but, perhaps, doubled or at the ends."""

    def word_ids(self, words: Sequence[str]) -> Sequence[list[int] | None]:
        """The ids of each word by itself; None where they depend on the rest of the line."""

    def encode(self, lines: Sequence[str]) -> list[list[int]]: ...


class WordCache:
    """Encodes chunks of lines with one tokeniser. ``spaced``: the lines come as its ``spaced`` makes them."""

    def __init__(self, tokenizer: WordTokenizer, spaced: bool = False) -> None:
        self._tokenizer = tokenizer
        self._spaced = spaced
        self._clear()

    def _clear(self) -> None:
        self._numbers = _Numbers()
        self._pieces, self._starts, self._lengths = array("i"), array("q"), array("q")

    def __call__(self, lines: Sequence[str]) -> EncodedLines:
        """The lines' ids."""
        if len(self._numbers) > LIMIT:
            self._clear()
        spaced = lines if self._spaced else self._tokenizer.spaced(lines)
        text = "\n".join(spaced)
        if text.count("\n") >= max(1, len(lines)):  # a line that was not read from a file
            text = "\n".join(line.replace("\n", " ") for line in spaced)
        units, counts = self._number(text, len(lines))
        unclear = np.flatnonzero(np.frombuffer(self._lengths, np.int64)[units] < 0)
        words = counts
        if len(unclear):
            at = np.unique(np.searchsorted(np.cumsum(counts), unclear, side="right")).tolist()
            units, counts = self._replace(units, counts, at, [lines[line] for line in at])
        return self._gather(units, counts, words)

    def _number(self, text: str, lines: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The numbers of the words of all lines, and how many each line has."""
        if not lines:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        tokens = text.replace("\n", " \n ").split(" ")
        numbers = np.fromiter(map(self._numbers.__getitem__, tokens), np.int64, len(tokens))
        numbers = numbers[numbers != _NOTHING]
        ends = np.flatnonzero(numbers == _LINE_END)
        bounds = np.concatenate([[-1], ends, [len(numbers)]])
        fresh = self._numbers.fresh
        self._remember(self._tokenizer.word_ids(fresh) if fresh else [])
        fresh.clear()
        return numbers[numbers != _LINE_END], np.diff(bounds) - 1

    def _remember(self, found: Sequence[list[int] | None]) -> None:
        """Keep the ids of the units that were numbered last."""
        while len(self._starts) < _FIRST:
            self._starts.append(0)
            self._lengths.append(0)
        for ids in found:
            self._starts.append(len(self._pieces))
            self._lengths.append(-1 if ids is None else len(ids))
            self._pieces.extend(ids or [])

    def _replace(
        self, units: NDArray[np.int64], counts: NDArray[np.int64], at: list[int], lines: list[str]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Make one unit of each of the lines ``at``, encoded as a whole."""
        numbers = [self._numbers[f"\n{text}"] for text in lines]  # a key that no word can be
        self._numbers.fresh.clear()
        known = len(self._starts)
        fresh = [line for line, number in zip(lines, numbers, strict=True) if number >= known]
        self._remember(self._tokenizer.encode(list(dict.fromkeys(fresh))))
        whole = np.zeros(len(counts), np.bool_)
        whole[at] = True
        kept = units[~np.repeat(whole, counts)]
        before = np.cumsum(np.where(whole, 0, counts))  # units that stay, up to each line's end
        return np.insert(kept, before[at], numbers), np.where(whole, 1, counts)

    def _gather(self, units: NDArray[np.int64], counts: NDArray[np.int64], words: NDArray[np.int64]) -> EncodedLines:
        """The pieces of numbered units in a row; ``counts`` of them to a line."""
        starts = np.frombuffer(self._starts, np.int64)[units]
        lengths = np.frombuffer(self._lengths, np.int64)[units]
        ends = np.cumsum(lengths)
        total = int(ends[-1]) if len(ends) else 0
        where = np.repeat(starts - (ends - lengths), lengths) + np.arange(total)
        ids = np.frombuffer(self._pieces, np.int32)[where] if total else np.zeros(0, np.int32)
        bounds = np.concatenate([[0], ends])[np.concatenate([[0], np.cumsum(counts)])]
        return EncodedLines(ids, np.diff(bounds), words)


_NOTHING, _LINE_END, _FIRST = 0, 1, 2  # the numbers of what is no word, and the first word's


class _Numbers(dict[str, int]):
    """A number for each unit, in the order in which they were met; ``fresh`` lists those not yet encoded."""

    def __init__(self) -> None:
        super().__init__({"": _NOTHING, "\n": _LINE_END})
        self.fresh: list[str] = []

    def __missing__(self, unit: str) -> int:
        number = self[unit] = len(self)
        self.fresh.append(unit)
        return number
