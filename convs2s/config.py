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
    moses_bpe = "moses_bpe"
    whitespace = "whitespace"


@dataclass
class TextConfig:
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


# --- data ---------------------------------------------------------------------------------------------------------


class LengthUnit(str, Enum):
    pieces = "pieces"
    words = "words"


class Errors(str, Enum):
    strict = "strict"
    skip = "skip"


@dataclass
class ExtraConfig:
    files: list[str] = option(MISSING, "source file, target file, as data.train")
    weight: float = option(1.0, "copies of each pair in an epoch; a fraction is drawn with data.seed")


@dataclass
class HubConfig:
    name: str | None = option(None, "data set on the Hugging Face hub, e.g. wmt/wmt14 (extra: hub); null: none")
    config: str | None = option(None, "its configuration, e.g. fr-en")
    revision: str | None = option(None, "its branch or commit; null: the newest")
    splits: dict[str, str] = option({}, "which of its splits become which of ours, e.g. {train: train}")
    files: dict[str, str] = option({}, "its parquet files by its split, where it has no configurations")


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
    train: list[str] = option(
        [],
        "training text in data.root: source file, target file (plain, .gz, .xz, .zst, IWSLT's XML; several pairs of "
        "files are read one after another), or one file with both sides (.tsv, .parquet); ARCHIVE::MEMBER works too",
    )
    valid: list[str] = option([], "validation text, likewise; or empty, with valid_fraction or valid_every")
    valid_fraction: float = option(
        0.0, "hold this share of the training pairs out for validation, by hash of the pair (paper: 0.5-1 %)"
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
    url: str | None = option(None, "where missing raw files are fetched: url + file name")
    sha256: dict[str, str] = option({}, "SHA-256 of raw files by name; a file that differs is refused")
    hub: HubConfig = group(HubConfig)
    sacrebleu: dict[str, str] = option({}, "splits that sacrebleu fetches, e.g. {newstest2014: wmt14/full}")
    seed: int = option(
        1,
        "seed of the quickstart corpus and of the lines SentencePiece learns from: runs share them",
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
        Errors.strict, "lines that are not UTF-8: refuse the file (strict), or drop and count (skip)"
    )
    drop_duplicates: bool = option(False, "drop training pairs that occurred before, both sides equal")
    workers: int | None = option(None, "processes that encode; null: one a core for large corpora")


# --- model --------------------------------------------------------------------------------------------------------


class SourcePadding(str, Enum):
    masked = "masked"
    original = "original"


class AttentionOrder(str, Enum):
    original = "original"
    paper = "paper"


class TargetPadding(str, Enum):
    right = "right"
    left = "left"


class EncoderGradient(str, Enum):
    original = "original"
    paper = "paper"
    output = "output"
    unscaled = "unscaled"


@dataclass
class LayerConfig:
    channels: int = option(MISSING, "output channels of the block, after the GLU")
    kernel: int = option(MISSING, "kernel width in positions")
    repeat: int = option(1, "this many such layers in a row")


RESIDUALS = (
    "per layer, how many layers back the input lies that is added to its output (1: its own; 0: none); "
    "null: 1 everywhere (PyTorch release: third number of a layer)"
)


@dataclass
class EncoderConfig:
    layers: list[LayerConfig] = option(
        [LayerConfig(256, 3, 4)],
        "convolution stack, e.g. [{channels: 512, kernel: 3, repeat: 9}] (original: -fconv_nhids, -fconv_kwidths)",
    )
    positions: bool = option(True, "add position embeddings (paper, table 4)")
    residuals: list[int] | None = option(None, RESIDUALS)


@dataclass
class DecoderConfig:
    layers: list[LayerConfig] = option(
        [LayerConfig(256, 3, 3)], "convolution stack (original: -fconv_nlmhids, -fconv_klmwidths)"
    )
    positions: bool = option(True, "add position embeddings (paper, table 4)")
    attention: list[int] | None = option(
        None, "decoder layers with attention, counted from 1; null: all (original: -attnlayers)"
    )
    residuals: list[int] | None = option(None, RESIDUALS)

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
    max_target_positions: int | None = option(None, "rows of the target's position table; null: max_positions")
    share_output: bool = option(
        False, "the output layer's weights are the target embeddings (PyTorch release: --share-input-output-embed)"
    )
    lookup_output: bool = option(
        False,
        "the output layer is a table of rows drawn from N(0, 0.1^2), a weight and a bias each and not normalised, "
        "as the original has it where it selects vocabularies (original: -aligndictpath)",
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
    target_padding: TargetPadding = option(
        TargetPadding.right,
        "side on which shorter targets are padded in training; left: convolutions see it (first PyTorch release)",
    )
    attention_order: AttentionOrder = option(
        AttentionOrder.original,
        "attention acts on the GLU's output (original) or on the block's output after the residual sum (paper)",
    )
    encoder_gradient: EncoderGradient = option(
        EncoderGradient.original,
        "divide gradients of the encoder's weights by 2 x (original) or 1 x (paper) the number of attention layers, "
        "or (output) by 2 x at the encoder's output, embeddings included (PyTorch release)",
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
        for name, side in (("encoder", self.encoder), ("decoder", self.decoder)):
            count = sum(layer.repeat for layer in side.layers)
            distances = [1] * count if side.residuals is None else side.residuals
            if len(distances) != count or not all(0 <= back <= number for number, back in enumerate(distances, 1)):
                raise UserError(f"model.{name}.residuals: give {count} numbers, the n-th from 0 to n, got {distances}")
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
        if self.max_target_positions is not None and self.max_target_positions < 4:
            raise UserError(
                f"model.max_target_positions={self.max_target_positions} leaves room for no word: at least 4"
            )
        for name in ("embedding", "output_embedding"):
            if getattr(self, name) < 1:
                raise UserError(f"model.{name} must be at least 1, got {getattr(self, name)}")
        if self.share_output and self.lookup_output:
            raise UserError("model.share_output and model.lookup_output are two kinds of output layer: choose one")
        if self.share_output and self.embedding != self.output_embedding:
            raise UserError(
                f"model.share_output=true needs model.output_embedding={self.embedding}, the width of the embeddings"
            )


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

    def check(self) -> None:
        """Raise UserError for a value that cannot work, naming the option."""
        at_least = {"lr": 0.0, "momentum": 0.0, "weight_decay": 0.0, "clip": 0.0, "min_lr": 0.0}
        check_minimum("optimizer", self, at_least)
        if self.momentum >= 1.0 or self.shrink <= 1.0:
            raise UserError(f"optimizer.momentum={self.momentum} must be below 1, optimizer.shrink={self.shrink} above")


def check_minimum(group: str, config: Any, minimum: dict[str, float]) -> None:
    """Raise UserError for the first option below its minimum; null is always fine."""
    for name, least in minimum.items():
        value = getattr(config, name)
        if value is not None and value < least:
            raise UserError(f"{group}.{name}={value} must be at least {least}")


class Precision(str, Enum):
    fp32 = "fp32"
    bf16 = "bf16"
    fp16 = "fp16"


class Nonfinite(str, Enum):
    stop = "stop"
    skip = "skip"


@dataclass
class SelectionConfig:
    lexicon: str | None = option(
        None, "file of aligned words (scripts/lexicon.py); null: the whole target vocabulary (original: -aligndictpath)"
    )
    common: int = option(1000, "the most common target words that are always there (original: -nmostcommon)")
    aligned: int = option(100, "words aligned with each source word that are added (original: -topnalign)")
    min_frequency: int = option(
        0, "those of them that were aligned with it at least so often (original: -freqthreshold)"
    )


@dataclass
class TrainingConfig:
    batch_tokens: int | None = option(
        4000, "cut batches so that sentences x longest side <= this (original: -maxbatch); null: by sentences"
    )
    batch_sentences: int = option(64, "sentences a batch where batch_tokens is null (original: -batchsize)")
    accumulate: int = option(1, "batches per process whose gradients are summed before an update")
    split_tokens: int | None = option(
        None, "process a batch whose sentences x longest side exceeds this in parts (paper, sec. 4.2); null: never"
    )
    max_epochs: int = option(100, "epochs at most (original: -maxepoch)")
    max_updates: int | None = option(None, "updates at most; null: no limit")
    log_every: int = option(100, "updates between progress lines")
    save_every: int | None = option(None, "updates between checkpoints inside an epoch; null: only at its end")
    save_minutes: float | None = option(None, "minutes between checkpoints inside an epoch; null: only at its end")
    keep: int | None = option(None, "also keep the checkpoint of every n-th epoch; null: last and best only")
    init_from: str | None = option(
        None, "checkpoint that a new run starts from (fine-tuning): weights, tokenisers, text and model, dropout apart"
    )
    precision: Precision = option(
        Precision.fp32, "type of the matrix products; weights and updates are fp32 (bf16: CPU, GPU; fp16: GPU, scaled)"
    )
    nonfinite: Nonfinite = option(Nonfinite.stop, "on a loss or gradient that is not finite: stop, or skip the update")
    max_skips: int = option(10, "with nonfinite=skip: stop after this many skipped updates in a row")
    compile: bool = option(False, "compile the model with torch.compile (minutes at the start, for long GPU runs)")
    deterministic: bool = option(False, "refuse GPU operations whose result varies between runs (CPU: never varies)")
    threads: int | None = option(None, "CPU threads per process; null: PyTorch's choice")
    device: str = option("auto", "auto, cpu, cuda or cuda:N; under torchrun auto gives each process its own GPU")
    stop_signals: list[str] = option(
        ["SIGINT", "SIGTERM"], "signals that end training after the current update, saved (SLURM: add SIGUSR1)"
    )
    tensorboard: bool = option(True, "write TensorBoard events to the run directory")
    selection: SelectionConfig = group(SelectionConfig)

    def check(self) -> None:
        """Raise UserError for a value that cannot work, naming the option."""
        counts = [
            "batch_tokens",
            "batch_sentences",
            "accumulate",
            "split_tokens",
            "max_epochs",
            "log_every",
            "save_every",
            "keep",
            "threads",
        ]
        check_minimum("training", self, {**dict.fromkeys(counts, 1), "max_updates": 0, "max_skips": 0})


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
    replace: bool = option(False, "replace <unk> by the word it attends to, translated by the lexicon or copied")
    lexicon: str | None = option(None, "file of aligned words (scripts/lexicon.py); null: always copy")


@dataclass
class SearchConfig:
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

    checkpoint: Any = option(
        MISSING, "file written by training, e.g. runs/quickstart/checkpoints/best.pt; [FILE,FILE]: several that vote"
    )
    input: str = option("-", "text file, plain or .gz, one sentence a line; -: standard input")
    output: str = option("-", "where the translations go; -: standard output")
    scores: bool = option(False, "write a table of line number, rank, score and text; search.nbest above 1 does, too")
    attention: str | None = option(
        None,
        "also write the attention of the best translations: FILE.npz or FILE.jsonl matrices, any other name hard "
        "alignments (source-target, Pharaoh format)",
    )
    attention_layers: bool = option(False, "matrices of every decoder layer instead of their average")
    device: str = option("auto", "auto, cpu, cuda or cuda:N")
    search: SearchConfig = group(SearchConfig)


@dataclass
class ScoreConfig:
    """scripts/score.py."""

    checkpoint: Any = option(MISSING, "file written by training; [FILE,FILE]: several that vote")
    source: str = option(MISSING, "source text, plain or .gz")
    target: str = option(MISSING, "its translation, line by line")
    output: str = option("-", "where the table goes; -: standard output")
    device: str = option("auto", "auto, cpu, cuda or cuda:N")
    search: SearchConfig = group(SearchConfig)


@dataclass
class LexiconConfig:
    """scripts/lexicon.py."""

    source: str = option(MISSING, "source side of the training text, plain or .gz")
    target: str = option(MISSING, "its target side")
    alignment: str | None = option(None, "its word alignment in Pharaoh format; null: learnt here, by IBM model 1")
    checkpoint: str | None = option(None, "segment both sides as this model does; null: words between spaces")
    output: str = option(MISSING, "lexicon file to write")
    alignment_output: str | None = option(None, "also write the learnt alignment, in Pharaoh format")
    iterations: int = option(5, "of expectation-maximisation")
    max_pairs: int = option(200_000, "learn from the first so many pairs only: memory grows with them")


@dataclass
class BenchmarkDataConfig:
    """scripts/benchmark.py data."""

    pairs: int = option(36_000_000, "sentence pairs to cut into batches (WMT14 en-fr: 36 million)")
    ranks: int = option(8, "processes that share an epoch; the first one's batches are read")
    batch_tokens: int = option(4000, "as training.batch_tokens")
    lines: list[int] = option([100_000, 1_000_000], "lines to encode, of both sides together: a small and a large text")
    vocabulary_size: int = option(10_000, "SentencePiece pieces")
    root: str = option("data/multi30k", "folder of Multi30k's train.de and train.en; not there: the built-in corpus")
    seed: int = option(1, "seed of the lengths and the text")
    output: str | None = option(None, "JSON file for the figures; null: none")


@dataclass
class BenchmarkTrainConfig:
    """scripts/benchmark.py train."""

    models: list[str] = option(["iwslt"], "what to train: iwslt (4 + 3 layers of 256), en_de_paper, en_de_release")
    precisions: list[Precision] = option([Precision.fp32], "fp32, bf16, fp16")
    sentences: int | None = option(None, "sentences a batch; null: 128 for iwslt, 96 for the others")
    length: int = option(25, "tokens of every source and target, </s> included")
    repeat: int = option(7, "updates that count; their median is reported")
    threads: int | None = option(None, "CPU threads; null: PyTorch's choice")
    device: str = option("auto", "auto, cpu, cuda or cuda:N")
    output: str | None = option(None, "also write the figures as JSON")


@dataclass
class BenchmarkGenerateConfig:
    """scripts/benchmark.py generate."""

    checkpoint: str | None = option(None, "model to measure; null: a random one of 4 + 3 layers of 256 channels")
    input: str | None = option(None, "source text, plain or .gz; null: random sentences of 4 to 24 words")
    sentences: int = option(1000, "translate the first so many")
    single_sentences: int = option(200, "at batch 1, this many of them, evenly spread")
    batches: list[int] = option([1, 32, 128], "sentences translated together")
    beams: list[int] = option([1, 5], "beams")
    precisions: list[SearchPrecision] = option([SearchPrecision.fp32], "fp32, bf16, int8")
    repeat: int = option(3, "measure so often; the fastest counts")
    threads: int | None = option(None, "CPU threads; null: PyTorch's choice")
    device: str = option("auto", "auto, cpu, cuda or cuda:N")
    vocabulary: list[int] = option([7072, 5208], "of a random model: source and target")
    model: ModelConfig = group(ModelConfig)
    output: str | None = option(None, "also write the figures as JSON")


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


class Origin(str, Enum):
    checkpoint = "checkpoint"
    fairseq_lua = "fairseq_lua"
    fairseq_py = "fairseq_py"
    safetensors = "safetensors"


class Destination(str, Enum):
    checkpoint = "checkpoint"
    safetensors = "safetensors"
    huggingface = "huggingface"
    onnx = "onnx"


@dataclass
class ConvertConfig:
    """scripts/convert.py.  from and model are taken, as a word of Python and as a group: their fields end in "_"."""

    from_: Origin = option(
        Origin.checkpoint,
        "what model= is: one of our checkpoints, the authors' Lua (model.th7) or PyTorch release (model.pt), "
        "or what to=safetensors wrote",
    )
    to: Destination = option(
        Destination.checkpoint,
        "what to write: checkpoint, one of ours; safetensors, weights, options and tokenisers; huggingface, the same "
        "with a model card from the run's records; onnx, encoder and decoder step",
    )
    model_: str = option(MISSING, "the file to convert")
    source_dict: str | None = option(None, "the release's source dictionary (dict.xx.th7, dict.xx.txt)")
    target_dict: str | None = option(None, "the release's target dictionary")
    codes: str | None = option(
        None,
        "from=fairseq_py: the release's BPE codes (subword-nmt); the model then reads and writes raw text, by Moses "
        "tokenisation (extra: paper); null: text that is already segmented",
    )
    joiner: str | None = option(
        None, "mark of a word that continues in the next piece, removed on output; null: '@@' where words end in it"
    )
    output: str = option(MISSING, "folder to write; to=checkpoint writes checkpoints/best.pt in it")


class PictureFormat(str, Enum):
    png = "png"
    svg = "svg"
    pdf = "pdf"


@dataclass
class PlotAttentionConfig:
    """scripts/plot_attention.py."""

    checkpoint: str = option(MISSING, "file written by training or conversion")
    input: str = option("-", "source sentences, one a line, plain or .gz; -: standard input")
    output: str = option(MISSING, "folder for the pictures, line1.png and so on")
    format: PictureFormat = option(PictureFormat.png, "file format of the pictures")
    device: str = option("auto", "auto, cpu, cuda or cuda:N")
    search: SearchConfig = group(SearchConfig)


@dataclass
class AverageConfig:
    """scripts/average.py."""

    checkpoints: list[str] = option(
        MISSING, "checkpoints of one run to average, e.g. '[runs/a/checkpoints/epoch8.pt,...]'"
    )
    output: str = option(MISSING, "where the averaged checkpoint goes, e.g. runs/a/checkpoints/average.pt")


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
