"""Which pieces of a vocabulary are continued, whatever its kind, and how pieces and foreign words make one text."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from convs2s.text.tokenizer import Tokenizer
from convs2s.text.vocabulary import EOS, PAD, SPECIALS, UNK

ORIGINAL_MARK = "|"  # the original's mark of a piece that goes on in the next (original: -subwordpen)


class Joints:
    """How the pieces of a tokeniser stick together.

    SentencePiece marks the pieces that begin a word (``word_start``); others mark, by a ``joiner`` at its end ("@@";
    without a joiner the original's "|"), a piece that goes on in the next.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.start, self.joiner = tokenizer.word_start, tokenizer.joiner
        end = self.joiner or ORIGINAL_MARK
        pieces = tokenizer.symbols[len(SPECIALS) :]
        continued = [not piece.startswith(self.start) if self.start else piece.endswith(end) for piece in pieces]
        self.continued = torch.tensor([False] * len(SPECIALS) + continued)  # (V,) what subwordpen is for

    def surface(self, piece: str) -> str:
        """A piece without its mark: the text that it stands for."""
        return piece.removeprefix(self.start).removesuffix(self.joiner)

    def words(self, pieces: Sequence[str]) -> list[range]:
        """Which of the pieces of a sentence make a word, for each word in order; special symbols stand alone."""
        found: list[range] = []
        goes_on = False
        for i, piece in enumerate(pieces):
            joined = not piece.startswith(self.start) if self.start else goes_on
            if found and joined and piece not in SPECIALS and pieces[i - 1] not in SPECIALS:
                found[-1] = range(found[-1].start, i + 1)
            else:
                found.append(range(i, i + 1))
            goes_on = bool(self.joiner) and piece.endswith(self.joiner)
        return found

    def text(self, ids: Sequence[int], words: Sequence[str | None]) -> str:
        """Plain text of ids in which <unk> number n reads words[n]; None: as the tokeniser writes it."""
        runs: list[list[int]] = [[]]  # what stands before, between and after the words put in
        put: list[str] = []
        given = iter(words)
        for token in ids:
            if token in (EOS, PAD):
                continue
            word = next(given) if token == UNK else None
            if word is None:
                runs[-1].append(token)
            else:
                put.append(word)
                runs.append([])
        result = self.tokenizer.decode(runs[0])
        for before, run, word in zip(runs, runs[1:], put, strict=False):
            left = bool(before) and bool(self.joiner) and bool(self.continued[before[-1]])
            right = bool(run) and bool(self.start) and bool(self.continued[run[0]])
            after = self.tokenizer.decode(run)
            result = result + word if left or not result else f"{result} {word}"
            result = result + after if right or not after else f"{result} {after}"
        return result
