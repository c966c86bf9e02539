"""Options of translation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

from convs2s.config.base import check_minimum, group, option
from convs2s.errors import UserError


@dataclass
class SelectionConfig:
    """Vocabulary selection: which target words a sentence is scored over."""

    lexicon: str | None = option(
        None, "file of aligned words (scripts/lexicon.py); null: the whole target vocabulary (original: -aligndictpath)"
    )
    common: int = option(1000, "the most common target words that are always there (original: -nmostcommon)")
    aligned: int = option(100, "words aligned with each source word that are added (original: -topnalign)")
    min_frequency: int = option(
        0, "those of them that were aligned with it at least so often (original: -freqthreshold)"
    )

    def check(self, name: str) -> None:
        """Raise UserError for a value that cannot work; ``name`` is this group's."""
        common = 0 if self.lexicon is None else 3  # the special symbols are the first of them
        check_minimum(name, self, {"common": common, "aligned": 0, "min_frequency": 0})


class SearchPrecision(str, Enum):
    fp32 = "fp32"
    bf16 = "bf16"
    int8 = "int8"


class Stop(str, Enum):
    original = "original"
    optimal = "optimal"


class Average(str, Enum):
    probabilities = "probabilities"
    log_probabilities = "log_probabilities"


class LongLines(str, Enum):
    refuse = "refuse"
    cut = "cut"


@dataclass
class UnknownWordsConfig:
    """What becomes of <unk> in a translation."""

    replace: bool = option(False, "replace <unk> by the word it attends to, translated by the lexicon or copied")
    lexicon: str | None = option(None, "file of aligned words (scripts/lexicon.py); null: always copy")


LARGEST_LENPEN = 10  # the longest table's length to this power is still a float32

NO_FIGURES = ("nbest", "batch_size", "batch_tokens", "workers")  # options that no score depends on


@dataclass
class SearchConfig:
    """How a sentence is translated."""

    beam: int = option(5, "hypotheses kept per sentence (paper: 5); 1: greedy")
    nbest: int = option(1, "hypotheses written per sentence, at most beam")
    lenpen: float = option(1.0, "score = log-probability / length ^ lenpen (paper: 1; en-de tuned)")
    unkpen: float = option(0.0, "subtracted from the log-probability of every <unk> (original: -unkpen)")
    subwordpen: float = option(
        0.0,
        "subtracted from that of every piece that goes on in the next (joiner; original: a final |, -subwordpen) or, "
        "in sentencepiece, goes on from the last",
    )
    covpen: float = option(
        0.0, "times sum over source positions of log min(1, total attention) is added to the score (original: -covpen)"
    )
    min_length: int = option(1, "pieces before </s>, at least (original: 1; paper, summaries: 14)")
    max_length: int = option(500, "pieces before </s>, at most; the position table may end earlier (original: 500)")
    max_length_ratio: float = option(
        0.0, "times the source's length, </s> included, is added to max_length (PyTorch release: 0, and max_length 200)"
    )
    stop: Stop = option(
        Stop.original,
        "a sentence ends when as many hypotheses as the beam holds have ended (original), or when nothing that goes on "
        "can still enter the n-best list (optimal; give a max_length that fits the text)",
    )
    average: Average = option(Average.probabilities, "what several checkpoints average (original: probabilities)")
    batch_size: int = option(128, "sentences translated together, at most")
    batch_tokens: int = option(6000, "sentences x longest source of a batch at most, padding included")
    precision: SearchPrecision = option(SearchPrecision.fp32, "type of the matrix products (int8: on the CPU only)")
    workers: int = option(1, "processes that translate a file side by side, on the CPU, each with its share of threads")
    long_lines: LongLines = option(
        LongLines.refuse, "lines longer than the model takes: refuse them by number, or cut them at sentence ends"
    )
    selection: SelectionConfig = group(SelectionConfig)
    unknown: UnknownWordsConfig = group(UnknownWordsConfig)

    def lexicons(self) -> dict[str, str | None]:
        """The files of aligned words, by option."""
        return {
            "search.selection.lexicon": self.selection.lexicon,
            "search.unknown.lexicon": self.unknown.lexicon,
        }

    def check(self) -> None:
        """Raise UserError for a value that cannot work, naming the option."""
        counts = dict.fromkeys(("beam", "nbest", "batch_size", "batch_tokens", "workers"), 1)
        lengths = {"min_length": 0, "max_length": 0 if self.max_length_ratio > 0 else 1, "max_length_ratio": 0}
        check_minimum("search", self, {**counts, **lengths})
        if self.min_length > self.max_length and not self.max_length_ratio:
            raise UserError(f"search.min_length={self.min_length} must be at most search.max_length={self.max_length}")
        if abs(self.lenpen) > LARGEST_LENPEN:
            raise UserError(
                f"search.lenpen={self.lenpen} must be at least -{LARGEST_LENPEN} and at most {LARGEST_LENPEN}"
            )
        for name in ("lenpen", "unkpen", "subwordpen", "covpen"):
            if not math.isfinite(getattr(self, name)):
                raise UserError(f"search.{name}={getattr(self, name)} must be a finite number")
        self.selection.check("search.selection")
        if self.unknown.lexicon is not None and not self.unknown.replace:
            raise UserError("search.unknown.lexicon is for search.unknown.replace=true: give both, or neither")
        if self.nbest > self.beam:
            raise UserError(f"search.nbest={self.nbest} must be at most search.beam={self.beam}")
        if self.stop == Stop.optimal:
            for name in ("unkpen", "subwordpen", "covpen"):
                if getattr(self, name) < 0:
                    raise UserError(f"search.stop=optimal needs penalties, not rewards: search.{name} is negative")
