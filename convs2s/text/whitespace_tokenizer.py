"""Words split at spaces, for text that is already segmented (original: text/tokenizer.lua, text/Dictionary.lua).

Only the ASCII space separates words: a no-break space, U+2028 or NUL is part of a word. Tabs are deleted, white space
at the ends is trimmed (so CRLF files read well) and runs of spaces count as one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from convs2s.text.vocabulary import EOS, PAD, SPECIALS, UNK, frequent_words

_TRIMMED = " \n\v\f\r"


def remove_joiners(text: str, joiner: str) -> str:
    """Join pieces to words: ``"bü@@ sche"`` -> ``"büsche"``. A joiner counts only before a space or at the end."""
    if not joiner or joiner not in text:
        return text
    joined = f"{text} ".replace(f"{joiner} ", "")
    return joined[:-1] if joined.endswith(" ") else joined


class _Ids(dict[str, int]):
    def __missing__(self, word: str) -> int:
        return UNK


class WhitespaceTokenizer:
    """Words <-> ids by a list of words.

    ``symbols``: the three specials, then the words; a word spelt like a special has an id of its own, or is unknown.
    ``joiner``: mark at the end of a piece that continues in the next one ('@@'); ``decode`` removes it. Empty: none.
    ``join_input``: remove the joiners before reading words, so that BPE text is read as the words it was made from.
    """

    kind = "whitespace"
    word_start = ""

    def __init__(self, words: Sequence[str], joiner: str = "", join_input: bool = False) -> None:
        self.symbols: list[str] = [*SPECIALS, *words]
        self.joiner = joiner
        self.join_input = join_input
        self._ids = _Ids({word: i for i, word in enumerate(words, start=len(SPECIALS))})

    @classmethod
    def train(
        cls,
        lines: Iterable[str],
        *,
        min_frequency: int,
        max_words: int | None,
        joiner: str = "",
        join_input: bool = False,
    ) -> WhitespaceTokenizer:
        """Count the words of ``lines`` and keep those that ``frequent_words`` keeps."""
        reader = cls([], joiner, join_input)
        counts: Counter[str] = Counter()
        for line in lines:
            counts.update(reader.pieces(line))
        return cls(frequent_words(counts, min_frequency, max_words), joiner, join_input)

    def pieces(self, line: str) -> list[str]:
        """The words of a line, known or not."""
        words = line.replace("\t", "").strip(_TRIMMED).split(" ")
        if "" in words:
            words = [word for word in words if word]
        if self.join_input and words:
            words = [word for word in remove_joiners(" ".join(words), self.joiner).split(" ") if word]
        return words

    def spaced(self, lines: Sequence[str]) -> list[str]:
        """The lines with single spaces between the words of ``pieces``."""
        return [" ".join(self.pieces(line)) for line in lines]

    def word_ids(self, words: Sequence[str]) -> list[list[int]]:
        """The id of each word."""
        return [[self._ids[word]] for word in words]

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Ids of each line, without </s>; a blank line gives []."""
        find = self._ids.__getitem__
        return [list(map(find, self.pieces(line))) for line in lines]

    def decode(self, ids: Sequence[int]) -> str:
        """Words joined by spaces and at joiners; PAD and EOS are dropped, UNK reads "<unk>"."""
        text = " ".join([self.symbols[i] for i in ids if i not in (PAD, EOS)])
        return remove_joiners(text, self.joiner)

    def state(self) -> dict[str, Any]:
        """Plain types for a checkpoint."""
        words = self.symbols[len(SPECIALS) :]
        return {"kind": self.kind, "words": words, "joiner": self.joiner, "join_input": self.join_input}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> WhitespaceTokenizer:
        """The tokeniser that ``state`` was taken of."""
        return cls(state["words"], state["joiner"], state["join_input"])
