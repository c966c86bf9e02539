"""Options of data: files and what is taken from them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from convs2s.config.base import MISSING, check_minimum, group, option
from convs2s.errors import UserError


class LengthUnit(str, Enum):
    pieces = "pieces"
    words = "words"


class Errors(str, Enum):
    strict = "strict"
    skip = "skip"


class Metric(str, Enum):
    bleu = "bleu"
    chrf = "chrf"
    ter = "ter"
    rouge = "rouge"


@dataclass
class ExtraConfig:
    """More training text, beside data.train."""

    files: list[str] = option(MISSING, "source file, target file, as data.train")
    weight: float = option(1.0, "copies of each pair in an epoch; a fraction is drawn with data.seed")


@dataclass
class HubConfig:
    """Where the Hugging Face hub has the text."""

    name: str | None = option(None, "data set on the Hugging Face hub, e.g. wmt/wmt14 (extra: hub); null: none")
    config: str | None = option(None, "its configuration, e.g. fr-en")
    revision: str | None = option(None, "its branch or commit; null: the newest")
    splits: dict[str, str] = option({}, "which of its splits become which of ours, e.g. {train: train}")
    files: dict[str, str] = option({}, "its parquet files by its split, where it has no configurations")


@dataclass
class DataConfig:
    """Which text, and which of its pairs."""

    name: str = option(
        "quickstart", "the corpus; names the folder of prepared data; 'quickstart' is written by the program"
    )
    source: str = option("en", "source language")
    target: str = option("de", "target language")
    root: str = option("data/${data.name}", "folder of the raw files")
    prepared_dir: str = option(
        "data/prepared/${data.name}-${data.source}-${data.target}",
        "folder of the encoded corpus (rebuilt when settings change)",
    )
    train: list[str] = option(
        [],
        "training text in data.root: source file, target file (plain, .gz, .xz, .zst, IWSLT's XML; several pairs of "
        "files are read one after another), or one file with both sides (.tsv, .parquet); ARCHIVE::MEMBER works too",
    )
    valid: list[str] = option([], "validation text, likewise; or empty, with valid_fraction or valid_every")
    valid_fraction: float = option(
        0.0, "hold this share of data.train's pairs out for validation, by hash of the pair (paper: 0.5-1 %)"
    )
    valid_every: int | None = option(None, "hold every n-th training pair out for validation (IWSLT14: 23)")
    extra: list[ExtraConfig] = option(
        [], "more training text with weights, e.g. [{files: [bt.en, bt.ro], weight: 2}] for back-translations"
    )
    train_weight: float = option(1.0, "weight of data.train among data.extra: copies of each pair in an epoch")
    fraction: float = option(1.0, "share of the training pairs to use, drawn with data.seed")
    max_pairs: int | None = option(None, "use at most this many training pairs, drawn with data.seed")
    columns: list[str] = option(
        [], "columns of source and target in a .parquet file; empty: data.source and data.target, in translation or not"
    )
    test: dict[str, list[str]] = option(
        {}, "test splits by name: {test: [source, target], ...}; the first is scored after training"
    )
    metrics: list[Metric] = option(
        [Metric.bleu, Metric.chrf, Metric.ter],
        "what splits are scored by: bleu (also the paper's, over Moses words; extra: paper), chrf, ter, rouge "
        "(summaries; extra: rouge)",
    )
    url: str | None = option(None, "where missing raw files are fetched: url + file name")
    sha256: dict[str, str] = option({}, "SHA-256 of raw files by name; a file that differs is refused")
    hub: HubConfig = group(HubConfig)
    sacrebleu: dict[str, str] = option({}, "splits that sacrebleu fetches, e.g. {newstest2014: wmt14/full}")
    seed: int = option(
        1,
        "seed of the quickstart corpus, of the lines SentencePiece learns from and of the pairs that fraction, "
        "max_pairs and weights draw: runs share them",
    )
    generate: list[int] = option([], "quickstart: pairs to write for train, valid and test, instead of reading files")
    length_unit: LengthUnit = option(
        LengthUnit.pieces, "what the three rules below count: pieces, or words between spaces, before BPE (paper)"
    )
    min_length: int = option(1, "drop training pairs with a side of fewer pieces or words (</s> not counted)")
    max_length: int = option(
        175, "drop training pairs with a side of more pieces or words (paper: 175 words; </s> not counted)"
    )
    max_ratio: float = option(
        9.0,
        "drop training pairs whose longer side has more than this many times the other's length (paper: 1.5, words)",
    )
    max_pieces: int | None = option(
        1021, "with length_unit=words: also drop training pairs with a side of more pieces (the position table's limit)"
    )
    errors: Errors = option(
        Errors.strict,
        "training lines that are not UTF-8: refuse the file (strict), or drop and count (skip); validation and test "
        "text with such a line is always refused: its scores would not be comparable",
    )
    drop_duplicates: bool = option(False, "drop training pairs that occurred before, both sides equal")
    workers: int | None = option(None, "processes that encode; null: one a core for large corpora")

    def check(self) -> None:
        """Raise UserError for a value that cannot work, naming the option."""
        for name in ("name", "source", "target", "root", "prepared_dir"):
            if not getattr(self, name):
                raise UserError(f"data.{name} is empty: give a value, or leave it out")
        if self.source == self.target:
            raise UserError(f"data.source and data.target are both {self.source}: a corpus has two sides")
        languages = (self.source, self.target)
        written = {f"{split}.{language}" for split in ("train", "valid", "test") for language in languages}
        named = {*self.train, *self.valid}.union(*self.test.values())
        if self.generate and not named <= written:
            raise UserError(
                f"data.generate={self.generate} writes its own text, but data.train, valid or test names files: add "
                "data=files for the files, or data=quickstart for its own"
            )
        if not self.metrics:
            raise UserError(
                f"data.metrics=[] is empty: name one or more of {', '.join(metric.value for metric in Metric)}"
            )
        least = {"seed": 0, "min_length": 0, "max_length": 1, "max_ratio": 1, "max_pieces": 1}
        check_minimum("data", self, {**least, "valid_every": 2, "max_pairs": 1, "workers": 0})
        if len(self.columns) not in (0, 2):
            raise UserError(f"data.columns must name two columns, [source, target], not {list(self.columns)}")
        if self.min_length > self.max_length:
            raise UserError(f"data.min_length={self.min_length} must be at most data.max_length={self.max_length}")
        if not 0 <= self.valid_fraction < 1:
            raise UserError(f"data.valid_fraction={self.valid_fraction} must be at least 0 and below 1")
        if self.valid_fraction > 0 and self.valid_every is not None:
            raise UserError(
                "data.valid_fraction and data.valid_every are two ways to hold out validation pairs: give one"
            )
        if not 0 < self.fraction <= 1:
            raise UserError(f"data.fraction={self.fraction} must be above 0 and at most 1")
        weights = {"data.train_weight": self.train_weight}
        weights |= {f"data.extra[{i}].weight": more.weight for i, more in enumerate(self.extra)}
        for name, weight in weights.items():
            if not 0 <= weight <= 255:
                raise UserError(f"{name}={weight} must be at least 0 and at most 255")
