"""Options of text: a line and its pieces."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from convs2s.config.base import check_minimum, option, refuse_given
from convs2s.errors import UserError

NORMALIZATIONS = ("nmt_nfkc", "nmt_nfkc_cf", "nfkc", "nfkc_cf", "identity")  # SentencePiece's


class TokenizerKind(str, Enum):
    sentencepiece = "sentencepiece"
    moses_bpe = "moses_bpe"
    whitespace = "whitespace"


@dataclass
class TextConfig:
    """How a line is cut into pieces."""

    kind: TokenizerKind = option(
        TokenizerKind.sentencepiece,
        "sentencepiece: BPE on raw text; moses_bpe: the paper's Moses tokenisation and subword-nmt BPE (extra: paper); "
        "whitespace: text that is already segmented",
    )
    vocabulary_size: int = option(10000, "sentencepiece: pieces, the three specials included (paper: joint BPE 40K)")
    joint: bool = option(True, "one vocabulary for both sides (paper, sec. 4.1), else one per side")
    character_coverage: float = option(1.0, "sentencepiece: share of the training text's characters that get a piece")
    normalization: str = option(
        "nmt_nfkc", "sentencepiece: normalisation rule (nmt_nfkc, nfkc, identity, ..._cf lower-cases)"
    )
    byte_fallback: bool = option(False, "sentencepiece: spell unknown characters as bytes instead of <unk>")
    training_lines: int = option(10_000_000, "sentencepiece: lines to train on, drawn at random when there are more")
    merges: int = option(40000, "moses_bpe: merges that BPE learns (paper: 40K, joint); 0: whole words")
    codes: str | None = option(
        None, "moses_bpe: file of fixed BPE codes (subword-nmt); null: learnt from training text"
    )
    punctuation: bool = option(True, "moses_bpe: Moses punctuation normalisation before tokenisation")
    lowercase: bool = option(False, "moses_bpe: lower-case the text (IWSLT14)")
    min_frequency: int = option(
        1, "whitespace, moses_bpe: words seen less often in training are <unk> (original: -thresholdsrc/-tgt)"
    )
    max_words: int | None = option(
        None, "whitespace, moses_bpe: keep at most this many words or pieces a side (original: -nwordssrc/-tgt)"
    )
    max_target_words: int | None = option(None, "the same for the target side where it differs; null: max_words")
    joiner: str = option(
        "", "whitespace: mark of a word that continues in the next piece, removed on output (BPE: '@@')"
    )
    join_input: bool = option(
        False, "whitespace: remove the joiners before reading words, so that BPE text is read as words"
    )

    def check(self) -> None:
        """Raise UserError for a value that cannot work, naming the option."""
        if self.kind == TokenizerKind.sentencepiece:
            self.check_sentencepiece()
        else:
            check_minimum("text", self, {"min_frequency": 1, "max_words": 1, "max_target_words": 1})
            if self.joint and self.max_target_words is not None:
                raise UserError(
                    f"text.max_target_words={self.max_target_words} needs a vocabulary a side: give text.joint=false"
                )
        if self.kind == TokenizerKind.moses_bpe:
            check_minimum("text", self, {"merges": 0})
        elif self.lowercase or self.codes is not None:
            name = "lowercase" if self.lowercase else "codes"
            raise UserError(f"text.{name}={getattr(self, name)} is for text.kind=moses_bpe, not {self.kind.value}")
        if self.join_input and self.kind != TokenizerKind.whitespace:
            raise UserError(f"text.join_input=true is for text.kind=whitespace; {self.kind.value} reads plain text")
        if self.join_input and not self.joiner:
            raise UserError("text.join_input=true needs text.joiner, e.g. text.joiner='@@'")

    def check_sentencepiece(self) -> None:
        """Likewise, for what only SentencePiece reads."""
        if self.normalization not in NORMALIZATIONS:
            raise UserError(f"text.normalization={self.normalization} is none of {', '.join(NORMALIZATIONS)}")
        if not 0.98 <= self.character_coverage <= 1:  # sentencepiece's own limits
            raise UserError(f"text.character_coverage={self.character_coverage} must be at least 0.98 and at most 1")
        foreign = ("joiner", "min_frequency", "max_words", "max_target_words")
        refuse_given(self, foreign, "is for text.kind=whitespace or moses_bpe", "text")
        least = 3 + 1 + 256 * self.byte_fallback + 1  # specials, the mark of a word, bytes, and a character
        check_minimum("text", self, {"training_lines": 1, "vocabulary_size": least})
