"""Byte-pair pieces of raw text with SentencePiece: normalises, segments and gives plain text back.

The specials are spelt with a space inside the SentencePiece model. SentencePiece turns a text's spaces into U+2581, so
no text can contain them, and a literal ``<unk>``, ``<pad>`` or ``</s>`` is text like any other. (Under their usual
names SentencePiece would leave every training line out that contains one.)
"""

from __future__ import annotations

import io
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import sentencepiece
import torch

from convs2s.errors import UserError
from convs2s.messages import Log, say
from convs2s.text.vocabulary import EOS, PAD, SPECIALS, UNK

WORD_START = "\u2581"  # what SentencePiece makes of a space
_SPELLINGS = ("< unk >", "< pad >", "< eos >")
_UNREADABLE = str.maketrans({"\0": " ", "\t": " ", "\r": " ", "\u2585": " "})  # SentencePiece skips lines with these


class SentencePieceTokenizer:
    """Pieces <-> ids by a serialised SentencePiece model (``model``: the bytes of its .model file)."""

    kind = "sentencepiece"
    word_start = WORD_START
    joiner = ""

    def __init__(self, model: bytes) -> None:
        self.model = model
        self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        pieces = [self._processor.id_to_piece(i) for i in range(self._processor.get_piece_size())]
        self.symbols: list[str] = [*SPECIALS, *pieces[len(SPECIALS) :]]

    @classmethod
    def train(
        cls,
        lines: Iterable[str],
        *,
        vocabulary_size: int,
        character_coverage: float = 1.0,
        normalization: str = "nmt_nfkc",
        byte_fallback: bool = False,
        log: Log = say,
    ) -> SentencePieceTokenizer:
        """BPE on ``lines``, the same for the same lines. ``vocabulary_size`` counts the three specials.

        A text that does not yield so many pieces gives a smaller vocabulary and a message.
        Raises UserError when the text is blank or its characters alone exceed ``vocabulary_size``.
        """
        caught: list[BaseException] = []
        written = io.BytesIO()
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=_readable(lines, caught),
                model_writer=written,
                model_type="bpe",
                vocab_size=vocabulary_size,
                hard_vocab_limit=False,
                character_coverage=character_coverage,
                normalization_rule_name=normalization,
                byte_fallback=byte_fallback,
                unk_id=UNK,
                pad_id=PAD,
                eos_id=EOS,
                bos_id=-1,
                unk_piece=_SPELLINGS[UNK],
                pad_piece=_SPELLINGS[PAD],
                eos_piece=_SPELLINGS[EOS],
                unk_surface=SPECIALS[UNK],
                max_sentence_length=2**30,  # bytes; longer lines would be left out without a word
                num_threads=8,
                minloglevel=2,
            )
        except RuntimeError as error:
            if caught:  # what the lines' own reader raised, e.g. a UserError with file and line
                raise caught[0] from None
            raise UserError(_explain(str(error), vocabulary_size)) from None
        tokenizer = cls(written.getvalue())
        if len(tokenizer.symbols) < vocabulary_size:
            log(
                f"the training text yields {len(tokenizer.symbols):,} SentencePiece pieces, fewer than"
                f" text.vocabulary_size={vocabulary_size}: going on with those"
            )
        return tokenizer

    def spaced(self, lines: Sequence[str]) -> Sequence[str]:
        """The lines as they are: SentencePiece cuts at spaces itself."""
        if lines and lines[0].endswith("\r"):  # a CRLF file; without this each line would be encoded as a whole
            return [line.rstrip("\r\n") for line in lines]
        return lines

    def word_ids(self, words: Sequence[str]) -> list[list[int] | None]:
        """The ids of each word by itself: no piece crosses a space. None for a word with characters that
        normalisation may turn into a space, drop, or join with what stands before it."""
        ids: list[list[int]] = self._processor.encode(list(words))
        return [found if separable(word) else None for word, found in zip(words, ids, strict=True)]

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Ids of each line, without </s>; a blank line gives []."""
        ids: list[list[int]] = self._processor.encode([line.rstrip("\r\n") for line in lines])
        return ids

    def pieces(self, line: str) -> list[str]:
        """The pieces of a line; unknown ones, and runs of them, by their own characters."""
        pieces: list[str] = self._processor.encode(line.rstrip("\r\n"), out_type=str)
        return pieces

    def decode(self, ids: Sequence[int]) -> str:
        """Plain text, always one line; PAD and EOS are dropped, UNK reads "<unk>"."""
        text: str = self._processor.decode([int(i) for i in ids if i not in (PAD, EOS)])
        return text.replace("\n", " ")  # byte_fallback could spell a line end

    def state(self) -> dict[str, Any]:
        """Plain types for a checkpoint; the model's bytes as a uint8 tensor, which ``weights_only`` loading allows."""
        return {"kind": self.kind, "model": torch.from_numpy(np.frombuffer(self.model, np.uint8).copy())}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> SentencePieceTokenizer:
        """The tokeniser that ``state`` was taken of."""
        return cls(state["model"].cpu().numpy().tobytes())


def separable(word: str) -> bool:
    """Whether a word holds no marks, separators or controls, neither written nor after NFKC."""
    return all(map(_SAFE.__getitem__, word))


class _Safe(dict[str, bool]):
    """Whether a character keeps to its word: remembered for each that was met."""

    def __missing__(self, character: str) -> bool:
        folded = character + unicodedata.normalize("NFKC", character)
        safe = character != WORD_START and all(unicodedata.category(c)[0] not in "MZC" for c in folded)
        self[character] = safe
        return safe


_SAFE = _Safe()


def _readable(lines: Iterable[str], caught: list[BaseException]) -> Iterator[str]:
    """Lines without the characters for which SentencePiece's trainer leaves a line out; keeps what ``lines`` raises."""
    try:
        for line in lines:
            yield line.translate(_UNREADABLE)
    except BaseException as error:  # Ctrl-C too
        caught.append(error)
        raise


def _explain(message: str, vocabulary_size: int) -> str:
    if "Vocabulary size is smaller than required_chars" in message:
        needed = message.partition(" vs ")[2].split(".")[0]
        return (
            f"text.vocabulary_size={vocabulary_size} is too small: the specials and the characters of the training"
            f" text take {needed}; raise it or lower text.character_coverage"
        )
    if "sentences_.empty()" in message or "all_chars_count" in message:
        return "the training text holds no characters to learn pieces from (data.train)"
    return f"SentencePiece cannot learn pieces from the training text: {' '.join(message.split())}"
