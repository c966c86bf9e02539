"""Every option once: the tree of dataclasses that is Hydra's schema and the library's only configuration.

Inside the library these are plain objects; ``convs2s.cli`` turns the composed configuration into them at the edge.
Each field carries its meaning, unit and source in ``option(..., help)``; ``--help`` prints exactly these texts.
"original" is the authors' Lua program (fairseq-lua), "paper" is Gehring et al. (2017), arXiv 1705.03122v3.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeVar

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from convs2s.errors import UserError

T = TypeVar("T")
MISSING: Any = "???"  # OmegaConf's mark for a value that must be given


def option(default: T, help: str) -> T:
    """A dataclass field with its help text; lists, dicts and dataclasses are copied for every instance."""
    if isinstance(default, (list, dict)):
        kind = type(default)
        return field(default_factory=lambda: kind(default), metadata={"help": help})
    return field(default=default, metadata={"help": help})


def group(kind: type[T]) -> T:
    """A nested dataclass as a field."""
    return field(default_factory=kind)


# --- text ---------------------------------------------------------------------------------------------------------


class TokenizerKind(str, Enum):
    sentencepiece = "sentencepiece"
    whitespace = "whitespace"


@dataclass
class TextConfig:
    kind: TokenizerKind = option(
        TokenizerKind.sentencepiece, "sentencepiece: BPE on raw text; whitespace: text that is already segmented"
    )
    vocabulary_size: int = option(10000, "sentencepiece: pieces, the three specials included (paper: joint BPE 40K)")
    joint: bool = option(True, "one vocabulary for both sides (paper, sec. 4.1), else one per side")
    character_coverage: float = option(1.0, "sentencepiece: share of the training text's characters that get a piece")
    normalization: str = option(
        "nmt_nfkc", "sentencepiece: normalisation rule (nmt_nfkc, nfkc, identity, ..._cf lower-cases)"
    )
    byte_fallback: bool = option(False, "sentencepiece: spell unknown characters as bytes instead of <unk>")
    training_lines: int = option(10_000_000, "sentencepiece: lines to train on, drawn at random when there are more")
    min_frequency: int = option(
        1, "whitespace: words seen less often in training are <unk> (original: -thresholdsrc/-tgt)"
    )
    max_words: int | None = option(None, "whitespace: keep at most this many words a side (original: -nwordssrc/-tgt)")
    joiner: str = option(
        "", "whitespace: mark of a word that continues in the next piece, removed on output (BPE: '@@')"
    )
    join_input: bool = option(
        False, "whitespace: remove the joiners before reading words, so that BPE text is read as words"
    )


# --- data ---------------------------------------------------------------------------------------------------------


@dataclass
class DataConfig:
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
    train: list[str] = option([], "training text: source file, target file; relative to data.root; .gz is tried too")
    valid: list[str] = option([], "validation text, likewise")
    test: dict[str, list[str]] = option(
        {}, "test splits by name: {test: [source, target], ...}; the first is scored after training"
    )
    url: str | None = option(None, "where missing raw files are fetched: url + file name")
    sha256: dict[str, str] = option({}, "SHA-256 of raw files by name; a file that differs is refused")
    seed: int = option(
        1,
        "seed of the quickstart corpus and of the lines SentencePiece learns from: runs share them",
    )
    generate: list[int] = option([], "quickstart: pairs to write for train, valid and test, instead of reading files")
    min_length: int = option(1, "drop training pairs with a side of fewer pieces (</s> not counted)")
    max_length: int = option(175, "drop training pairs with a side of more pieces (paper: 175 words; </s> not counted)")
    max_ratio: float = option(
        9.0,
        "drop training pairs whose longer side has more than this many times the other's pieces (paper: 1.5 words)",
    )


# --- model --------------------------------------------------------------------------------------------------------


class SourcePadding(str, Enum):
    masked = "masked"
    original = "original"


class AttentionOrder(str, Enum):
    original = "original"
    paper = "paper"


class EncoderGradient(str, Enum):
    original = "original"
    paper = "paper"
    unscaled = "unscaled"


@dataclass
class LayerConfig:
    channels: int = option(MISSING, "output channels of the block, after the GLU")
    kernel: int = option(MISSING, "kernel width in positions")
    repeat: int = option(1, "this many such layers in a row")


@dataclass
class EncoderConfig:
    layers: list[LayerConfig] = option(
        [LayerConfig(256, 3, 4)],
        "convolution stack, e.g. [{channels: 512, kernel: 3, repeat: 9}] (original: -fconv_nhids, -fconv_kwidths)",
    )
    positions: bool = option(True, "add position embeddings (paper, table 4)")


@dataclass
class DecoderConfig:
    layers: list[LayerConfig] = option(
        [LayerConfig(256, 3, 3)], "convolution stack (original: -fconv_nlmhids, -fconv_klmwidths)"
    )
    positions: bool = option(True, "add position embeddings (paper, table 4)")
    attention: list[int] | None = option(
        None, "decoder layers with attention, counted from 1; null: all (original: -attnlayers)"
    )

    def attending(self) -> list[bool]:
        """For each layer of the stack: does it attend?"""
        count = sum(layer.repeat for layer in self.layers)
        return [self.attention is None or number in self.attention for number in range(1, count + 1)]


@dataclass
class ModelConfig:
    embedding: int = option(256, "width of the token and position embeddings (original: -nembed)")
    output_embedding: int = option(256, "width of the layer before the output layer (original: -noutembed)")
    encoder: EncoderConfig = group(EncoderConfig)
    decoder: DecoderConfig = group(DecoderConfig)
    bottleneck: int = option(0, "divide the width inside each block by this; 0: plain blocks (original: -bfactor)")
    max_positions: int = option(
        1024, "rows of a position table; a sentence may have two fewer pieces, </s> included (original: 1024)"
    )
    dropout: float = option(0.1, "drop probability at each of the four places below, where they are null")
    dropout_source: float | None = option(None, "on the source embeddings (original: -dropout_src)")
    dropout_target: float | None = option(None, "on the target embeddings (original: -dropout_tgt)")
    dropout_hidden: float | None = option(None, "on the input of every convolution (original: -dropout_hid)")
    dropout_output: float | None = option(None, "on the input of the output layer (original: -dropout_out)")
    source_padding: SourcePadding = option(
        SourcePadding.masked,
        "masked: a sentence's result does not depend on its batch; original: padding on the left, unmasked",
    )
    attention_order: AttentionOrder = option(
        AttentionOrder.original,
        "attention acts on the GLU's output (original) or on the block's output after the residual sum (paper)",
    )
    encoder_gradient: EncoderGradient = option(
        EncoderGradient.original,
        "divide the gradients of the encoder's weights by 2 x (original) or 1 x (paper) the number of attention layers",
    )
    weight_norm_eps: float = option(1e-4, "w = g v / sqrt(|v|^2 + eps) (original: 1e-4; paper: 0)")

    def rate(self, place: str) -> float:
        """Drop probability at "source", "target", "hidden" or "output"."""
        own: float | None = getattr(self, f"dropout_{place}")
        return self.dropout if own is None else own

    def check(self) -> None:
        """Raise UserError for a model that cannot be built, naming the option."""
        for name, stack in (("encoder", self.encoder.layers), ("decoder", self.decoder.layers)):
            if not stack:
                raise UserError(
                    f"model.{name}.layers is empty: give at least one layer, e.g. [{{channels: 256, kernel: 3}}]"
                )
            for layer in stack:
                if min(layer.channels, layer.kernel, layer.repeat) < 1:
                    raise UserError(f"model.{name}.layers: channels, kernel and repeat must be at least 1, got {layer}")
                if self.bottleneck and layer.channels < self.bottleneck:
                    raise UserError(
                        f"model.bottleneck={self.bottleneck} leaves no channel of a {layer.channels}-channel layer"
                    )
        count = len(self.decoder.attending())
        for number in self.decoder.attention or []:
            if not 1 <= number <= count:
                raise UserError(
                    f"model.decoder.attention: there is no layer {number}, the decoder has layers 1 to {count}"
                )
        for place in ("source", "target", "hidden", "output"):
            if not 0.0 <= self.rate(place) < 1.0:
                raise UserError(f"model.dropout_{place} (or model.dropout) must be in [0, 1), got {self.rate(place)}")
        if self.max_positions < 4:
            raise UserError(f"model.max_positions={self.max_positions} leaves room for no word: give at least 4")
        for name in ("embedding", "output_embedding"):
            if getattr(self, name) < 1:
                raise UserError(f"model.{name} must be at least 1, got {getattr(self, name)}")


# --- training -----------------------------------------------------------------------------------------------------


class Normalize(str, Enum):
    tokens = "tokens"
    sentences = "sentences"
    none = "none"


class Annealing(str, Enum):
    fast = "fast"
    slow = "slow"
    none = "none"


@dataclass
class OptimizerConfig:
    lr: float = option(0.25, "learning rate of NAG (paper, sec. 4.2)")
    momentum: float = option(0.99, "Nesterov momentum (paper, sec. 4.2)")
    weight_decay: float = option(0.0, "l2 * weights is added to the gradient (original: never set)")
    clip: float = option(0.1, "gradient norm above which the gradient is scaled down to it (paper, sec. 4.2); 0: off")
    normalize: Normalize = option(
        Normalize.tokens,
        "divide the summed gradient by target tokens (paper; original: -timeavg) or sentences; "
        "none: no division, clip times sentences (original without -timeavg)",
    )
    rescale_velocity: bool = option(
        False, "scale the velocity with the learning rate when that changes (the PyTorch release; original: no)"
    )
    annealing: Annealing = option(
        Annealing.fast,
        "once the validation loss has not fallen, shrink lr after every epoch (fast) or after each such epoch (slow)",
    )
    shrink: float = option(10.0, "lr is divided by this at an annealing step (original: -lrshrink)")
    min_lr: float = option(1e-5, "training ends below this lr (original, NAG: 1e-5; paper: 1e-4)")
    min_epoch_to_anneal: int = option(0, "no annealing before this epoch (original: -minepochtoanneal)")
    anneal_after: int | None = option(None, "anneal after this epoch whatever the validation loss; null: never forced")


@dataclass
class TrainingConfig:
    batch_tokens: int | None = option(
        4000, "cut batches so that sentences x longest side <= this (original: -maxbatch); null: by sentences"
    )
    batch_sentences: int = option(64, "sentences a batch where batch_tokens is null (original: -batchsize)")
    accumulate: int = option(1, "batches whose gradients are summed before an update")
    max_epochs: int = option(100, "epochs at most (original: -maxepoch)")
    max_updates: int | None = option(None, "updates at most; null: no limit")
    log_every: int = option(100, "updates between progress lines")
    save_every: int | None = option(None, "updates between checkpoints inside an epoch; null: only at its end")
    keep: int | None = option(None, "also keep the checkpoint of every n-th epoch; null: last and best only")
    threads: int | None = option(None, "CPU threads; null: PyTorch's choice")
    device: str = option("auto", "auto, cpu, cuda or cuda:N")
    tensorboard: bool = option(True, "write TensorBoard scalars to the run directory")


@dataclass
class SearchConfig:
    beam: int = option(5, "hypotheses kept per sentence (paper: 5); 1: greedy")
    nbest: int = option(1, "hypotheses written per sentence, at most beam")
    lenpen: float = option(1.0, "score = log-probability / length ^ lenpen (paper: 1; en-de tuned)")
    unkpen: float = option(0.0, "subtracted from the log-probability of every <unk> (original: -unkpen)")
    covpen: float = option(
        0.0, "times sum over source positions of log min(1, total attention) is added to the score (original: -covpen)"
    )
    min_length: int = option(1, "pieces before </s>, at least (original: 1; paper, summaries: 14)")
    max_length: int = option(500, "pieces before </s>, at most; the position table may end earlier (original: 500)")
    batch_size: int = option(32, "sentences translated together")


@dataclass
class TrainConfig:
    """scripts/train.py and scripts/prepare.py."""

    experiment: str = option(MISSING, "name of the experiment; names the run directory")
    run_dir: str = option(
        "runs/${experiment}", "checkpoints, logs, translations and scores; the same command resumes what is there"
    )
    seed: int = option(1, "seed of initialisation, data order and dropout")
    data: DataConfig = group(DataConfig)
    text: TextConfig = group(TextConfig)
    model: ModelConfig = group(ModelConfig)
    optimizer: OptimizerConfig = group(OptimizerConfig)
    training: TrainingConfig = group(TrainingConfig)
    search: SearchConfig = group(SearchConfig)


@dataclass
class TranslateConfig:
    """scripts/translate.py."""

    checkpoint: str = option(MISSING, "file written by training, e.g. runs/quickstart/checkpoints/best.pt")
    input: str = option("-", "text file, plain or .gz, one sentence a line; -: standard input")
    output: str = option("-", "where the translations go; -: standard output")
    device: str = option("auto", "auto, cpu, cuda or cuda:N")
    search: SearchConfig = group(SearchConfig)


@dataclass
class EvaluateConfig:
    """scripts/evaluate.py."""

    checkpoint: str = option(MISSING, "file written by training")
    split: str = option("test", "valid, or a test split of the experiment's data")
    root: str | None = option(None, "folder of the raw files where it moved since training; null: as in training")
    source: str | None = option(None, "own source text instead of a split (with reference)")
    reference: str | None = option(None, "own reference text instead of a split (with source)")
    output: str | None = option(None, "folder for translations and scores; null: the checkpoint's run directory")
    device: str = option("auto", "auto, cpu, cuda or cuda:N")
    search: SearchConfig = group(SearchConfig)


C = TypeVar("C")


def to_plain(config: Any) -> dict[str, Any]:
    """A configuration as nested dicts, lists, strings and numbers, for YAML and checkpoints."""
    plain = OmegaConf.to_container(OmegaConf.structured(config), resolve=True, enum_to_str=True)
    assert isinstance(plain, dict)
    return plain  # type: ignore[return-value]


def from_plain(kind: type[C], plain: dict[str, Any]) -> C:
    """The inverse of ``to_plain``; options that are missing get their defaults, unknown ones raise UserError."""
    try:
        config = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(kind), plain))
    except OmegaConfBaseException as error:
        raise UserError(f"configuration: {str(error).splitlines()[0]}") from error
    assert isinstance(config, kind)
    return config
