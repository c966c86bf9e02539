"""An encoded split on disk: one token array and one offset array a side, memory-mapped, written in one streaming pass.

N pairs. Every sentence ends with </s>, which its length counts.
"""

from __future__ import annotations

from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from convs2s.data.lines import Side, Text
from convs2s.errors import UserError
from convs2s.text.vocabulary import EOS, UNK
from convs2s.text.word_cache import EncodedLines

_SIDES = ("source", "target")
# What a split's files are called, after its name.
FILES = ("lines", *(f"{side}.{part}" for side in _SIDES for part in ("tokens", "offsets")))


class Corpus:
    """One split. Sentence i of a side is ``tokens[offsets[i] : offsets[i + 1]]``.

    ``source_tokens``, ``target_tokens``: uint16 where the vocabulary allows it, else int32; ``source_offsets``,
    ``target_offsets``: int64 (N + 1,); ``lines``: int64 (N,), the pair's line in the raw files, counted from 1.
    """

    def __init__(
        self,
        source_tokens: NDArray[Any],
        source_offsets: NDArray[np.int64],
        target_tokens: NDArray[Any],
        target_offsets: NDArray[np.int64],
        lines: NDArray[np.int64],
    ) -> None:
        self.source_tokens, self.source_offsets = source_tokens, source_offsets
        self.target_tokens, self.target_offsets = target_tokens, target_offsets
        self.lines = lines

    @classmethod
    def open(cls, folder: Path, split: str, dtypes: dict[str, str]) -> Corpus:
        """Map the files that ``CorpusWriter`` wrote; ``dtypes`` is what its ``close`` returned."""

        def array(name: str, dtype: str) -> NDArray[Any]:
            return np.memmap(folder / f"{split}.{name}", dtype=dtype, mode="r")

        return cls(
            array("source.tokens", dtypes["source"]),
            array("source.offsets", "<i8"),
            array("target.tokens", dtypes["target"]),
            array("target.offsets", "<i8"),
            array("lines", "<i8"),
        )

    def __len__(self) -> int:
        return len(self.lines)

    @cached_property
    def source_lengths(self) -> NDArray[np.int32]:
        """(N,) tokens, </s> included."""
        return _lengths(self.source_offsets)

    @cached_property
    def target_lengths(self) -> NDArray[np.int32]:
        """(N,) tokens, </s> included."""
        return _lengths(self.target_offsets)

    def source(self, index: int) -> NDArray[Any]:
        """The source sentence of pair ``index``, a view."""
        return self.source_tokens[self.source_offsets[index] : self.source_offsets[index + 1]]

    def target(self, index: int) -> NDArray[Any]:
        """The target sentence of pair ``index``, a view."""
        return self.target_tokens[self.target_offsets[index] : self.target_offsets[index + 1]]


class CorpusWriter:
    """Writes a split chunk by chunk; memory does not grow with the corpus. Use as a context manager.

    Counts as it goes: ``pairs``, and by side ``tokens`` and ``longest`` (</s> included), ``unknown`` and ``words``.
    """

    def __init__(self, folder: Path, split: str, source_vocabulary: int, target_vocabulary: int) -> None:
        self.dtypes = {"source": _dtype(source_vocabulary), "target": _dtype(target_vocabulary)}
        self.pairs = 0
        self.tokens = dict.fromkeys(_SIDES, 0)
        self.unknown = dict.fromkeys(_SIDES, 0)
        self.words = dict.fromkeys(_SIDES, 0)
        self.longest = dict.fromkeys(_SIDES, 0)
        self._open = ExitStack()
        self._files: dict[str, BinaryIO] = {
            name: self._open.enter_context((folder / f"{split}.{name}").open("wb")) for name in FILES
        }
        for side in _SIDES:
            self._write(f"{side}.offsets", np.zeros(1, "<i8"))

    def add(
        self, source: EncodedLines, target: EncodedLines, lines: NDArray[np.int64], index: NDArray[np.int64]
    ) -> None:
        """Append the pairs at ``index`` (K,) of a chunk, in this order, repeated where it repeats them.

        ``lines`` (chunk,): raw line numbers.
        """
        for side, encoded in zip(_SIDES, (source, target), strict=True):
            tokens, ends = _terminated(encoded, index, self.dtypes[side])
            self._write(f"{side}.tokens", tokens)
            self._write(f"{side}.offsets", (ends + self.tokens[side]).astype("<i8"))
            self.tokens[side] += len(tokens)
            self.unknown[side] += int((tokens == UNK).sum())
            self.words[side] += int(encoded.words[index].sum())
            self.longest[side] = max(self.longest[side], int(encoded.lengths[index].max(initial=-1)) + 1)
        self._write("lines", lines[index].astype("<i8"))
        self.pairs += len(index)

    def _write(self, name: str, array: NDArray[Any]) -> None:
        self._files[name].write(array.tobytes())

    def close(self) -> None:
        """Close the files; what could not be written is an OSError here at the latest."""
        self._open.close()

    def __enter__(self) -> CorpusWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _lengths(offsets: NDArray[np.int64]) -> NDArray[np.int32]:
    """Differences of neighbours, without an int64 array of them all."""
    lengths = np.empty(len(offsets) - 1, np.int32)
    return np.subtract(offsets[1:], offsets[:-1], out=lengths, casting="unsafe")


def _terminated(encoded: EncodedLines, index: NDArray[np.int64], dtype: str) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The sentences at ``index``, each with </s>, in a row, and where each ends."""
    lengths = encoded.lengths[index]
    inner = np.cumsum(lengths)
    ends = inner + np.arange(1, len(index) + 1)
    tokens = np.full(int(ends[-1]) if len(index) else 0, EOS, dtype)
    inside = np.ones(len(tokens), np.bool_)
    inside[ends - 1] = False
    starts = (np.cumsum(encoded.lengths) - encoded.lengths)[index]
    where = np.repeat(starts - (inner - lengths), lengths) + np.arange(len(tokens) - len(index))
    tokens[inside] = encoded.ids[where]
    return tokens, ends


def _dtype(vocabulary: int) -> str:
    return "<u2" if vocabulary <= 1 << 16 else "<i4"


def check_lengths(corpus: Corpus, limit: int, source: Text, target: Text, target_limit: int | None = None) -> None:
    """Refuse a split with a sentence of more than ``limit`` tokens, </s> included (the position table's rows - 2).

    target_limit: of the targets, where their table has other rows.

    Raises UserError with the raw file, line and length of the first such sentence, and how many there are.
    """
    limits = limit, limit if target_limit is None else target_limit
    sides = (source, corpus.source_lengths), (target, corpus.target_lengths)
    for (path, lengths), limit in zip(sides, limits, strict=True):
        over = np.flatnonzero(lengths > limit)
        if len(over):
            raise over_long_line(path, int(corpus.lines[over[0]]), int(lengths[over[0]]), limit, len(over) - 1)


def over_long_line(text: Text, line: int, length: int, limit: int, more: int = 0) -> UserError:
    """As ``over_long``, for a line of raw text that is trained on or scored; ``more``: further such lines."""
    path, line = text.place(line) if isinstance(text, Side) else (str(text), line)
    others = f" and {more:,} more such lines" if more else ""
    return over_long(f"{path}, line {line}", length, limit, f"shorten it{others}, or raise model.max_positions")


def over_long(place: str, length: int, limit: int, remedy: str) -> UserError:
    """The error for a sentence of ``length`` pieces where ``limit`` is the most, </s> included in both."""
    return UserError(f"{place}: {length:,} pieces, </s> included, but the model takes at most {limit:,}; {remedy}")
