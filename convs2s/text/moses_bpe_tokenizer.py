"""The paper's pieces: Moses words split by joint BPE, ``@@ `` between the pieces of a word (sacremoses, subword-nmt).

A vocabulary of pieces stands beside the BPE codes: what it lacks is ``<unk>``. Without codes the pieces are the words.
"""

from __future__ import annotations

import io
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import nullcontext, redirect_stderr
from pathlib import Path
from typing import Any

from convs2s.errors import UserError
from convs2s.text.moses import NEEDS_PAPER, Moses
from convs2s.text.vocabulary import EOS, PAD, SPECIALS, UNK
from convs2s.text.whitespace_tokenizer import remove_joiners

JOINER = "@@"
_HEAD = "#version: 0.2"
_LONGEST_WORD = 500  # characters; learning from longer ones takes very long and teaches nothing


class MosesBpeTokenizer:
    """Raw lines <-> ids.

    ``symbols``: the three specials, then the pieces; ``codes``: lines of a subword-nmt codes file, empty for whole
    words; ``moses``: the language's tokeniser.
    """

    kind = "moses_bpe"
    word_start = ""
    joiner = JOINER

    def __init__(self, pieces: Sequence[str], codes: Sequence[str], moses: Moses) -> None:
        self.symbols: list[str] = [*SPECIALS, *pieces]
        self.codes = list(codes)
        self.moses = moses
        self._ids = {piece: i for i, piece in enumerate(pieces, start=len(SPECIALS))}
        self._split = Splitter(self.codes)

    def spaced(self, lines: Sequence[str]) -> list[str]:
        """The Moses words of raw lines, single spaces between them; each word is split into pieces by itself."""
        return [self.moses.segment(line) for line in lines]

    def word_ids(self, words: Sequence[str]) -> list[list[int]]:
        """The pieces of each word."""
        return [[self._ids.get(piece, UNK) for piece in self._split(word)] for word in words]

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Ids of each line, without </s>; a blank line gives []."""
        return [[i for ids in self.word_ids(split_words(words)) for i in ids] for words in self.spaced(lines)]

    def pieces(self, line: str) -> list[str]:
        """The pieces of a line, known or not, with their joiners."""
        return [piece for word in split_words(self.moses.segment(line)) for piece in self._split(word)]

    def decode(self, ids: Sequence[int]) -> str:
        """Plain text, joined and detokenised; PAD and EOS are dropped, UNK reads "<unk>"."""
        text = " ".join([self.symbols[i] for i in ids if i not in (PAD, EOS)])
        return self.moses.join(remove_joiners(text, JOINER))

    def state(self) -> dict[str, Any]:
        """Plain types for a checkpoint."""
        return {
            "kind": self.kind,
            "pieces": self.symbols[len(SPECIALS) :],
            "codes": self.codes,
            "language": self.moses.language,
            "punctuation": self.moses.punctuation,
            "lowercase": self.moses.lowercase,
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> MosesBpeTokenizer:
        """The tokeniser that ``state`` was taken of."""
        return cls(state["pieces"], state["codes"], Moses(state["language"], state["punctuation"], state["lowercase"]))


class Splitter:
    """A word -> its BPE pieces, all but the last with a joiner."""

    def __init__(self, codes: Sequence[str]) -> None:
        self._bpe = None
        if codes:
            try:
                from subword_nmt.apply_bpe import BPE
            except ImportError:
                raise UserError(NEEDS_PAPER) from None
            self._bpe = BPE(io.StringIO("".join(f"{line}\n" for line in codes)), separator=JOINER)

    def __call__(self, word: str) -> list[str]:
        if self._bpe is None:
            return [word]
        self._bpe.cache.clear()  # whoever calls often keeps the words himself
        pieces: list[str] = self._bpe.segment_tokens([word])
        return pieces


def split_words(segmented: str) -> list[str]:
    """The words of a segmented line."""
    return segmented.split(" ") if segmented else []


def count_words(lines: Iterable[str]) -> Counter[str]:
    """How often each word occurs in segmented lines; what is too long for a word is left out."""
    counts: Counter[str] = Counter()
    for line in lines:
        counts.update(split_words(line))
    for word in [word for word in counts if len(word) > _LONGEST_WORD]:
        del counts[word]
    return counts


def count_pieces(words: Counter[str], codes: Sequence[str]) -> Counter[str]:
    """How often each piece occurs when these words are split."""
    split = Splitter(codes)
    counts: Counter[str] = Counter()
    for word, count in words.items():
        for piece in split(word):
            counts[piece] += count
    return counts


def learn_codes(words: Counter[str], merges: int) -> list[str]:
    """The lines of a codes file learnt from words and their counts, at most ``merges`` merges after its head.

    Raises UserError when subword-nmt is not installed.
    """
    try:
        from subword_nmt.learn_bpe import learn_bpe
    except ImportError:
        raise UserError(NEEDS_PAPER) from None
    if not any(len(word) > 1 for word in words):
        return [_HEAD]
    written = io.StringIO()
    dictionary = io.StringIO("".join(f"{word} {count}\n" for word, count in words.items()))
    quiet = nullcontext() if sys.stderr.isatty() else redirect_stderr(io.StringIO())
    with quiet:  # subword-nmt draws a progress bar
        learn_bpe(dictionary, written, merges, is_dict=True)
    return written.getvalue().splitlines()


def read_codes(path: str) -> list[str]:
    """The lines of a file of BPE codes. Raises UserError when it is none."""
    try:
        raw = Path(path).read_bytes()
        lines = raw.decode("utf-8").split("\n")
    except OSError as error:
        raise UserError(f"text.codes={path}: cannot be read ({error.strerror or error})") from None
    except UnicodeDecodeError as error:
        number, byte = raw.count(b"\n", 0, error.start) + 1, error.start - raw.rfind(b"\n", 0, error.start)
        raise UserError(
            f"text.codes={path}, line {number}, byte {byte}: not UTF-8; give a codes file of subword-nmt"
        ) from None
    codes = [(number, line.rstrip("\r ")) for number, line in enumerate(lines, start=1) if line.strip("\r ")]
    for place, (number, line) in enumerate(codes):
        if len(line.split(" ")) != 2 and not (place == 0 and line.startswith("#version:")):
            raise UserError(f"text.codes={path}, line {number}: not two symbols; give a codes file of subword-nmt")
    return [line for _, line in codes]
