"""The options of each script: what its command line and its file under configs/ may say."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from convs2s.config.base import MISSING, group, option
from convs2s.config.data import DataConfig, Metric
from convs2s.config.model import ModelConfig
from convs2s.config.search import SearchConfig, SearchPrecision
from convs2s.config.text import TextConfig
from convs2s.config.training import ConvolutionForm, OptimizerConfig, Precision, TrainingConfig
from convs2s.errors import UserError

SEEDS = 1 << 31  # a generator's seed is below


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

    def check(self) -> None:
        """Raise UserError for a value that cannot work, naming the option."""
        if not 0 <= self.seed < SEEDS:
            raise UserError(f"seed={self.seed} must be at least 0 and below {SEEDS}")
        for part in (self.data, self.text, self.model, self.optimizer, self.training, self.search):
            part.check()


@dataclass
class TranslateConfig:
    """scripts/translate.py."""

    checkpoint: Any = option(
        MISSING, "file written by training, e.g. runs/quickstart/checkpoints/best.pt; [FILE,FILE]: several that vote"
    )
    input: str = option("-", "text file, plain or compressed, one sentence a line; -: standard input")
    output: str = option("-", "where the translations go; -: standard output")
    scores: bool = option(False, "write a table of line number, rank, score and text; search.nbest above 1 does, too")
    attention: str | None = option(
        None,
        "also write the attention of the best translations: FILE.npz or FILE.jsonl matrices, any other name hard "
        "alignments of the pieces (source-target, Pharaoh format)",
    )
    attention_layers: bool = option(False, "matrices of every decoder layer instead of their average")
    device: str = option("auto", "auto, cpu, cuda or cuda:N")
    search: SearchConfig = group(SearchConfig)


@dataclass
class ScoreConfig:
    """scripts/score.py."""

    checkpoint: Any = option(MISSING, "file written by training; [FILE,FILE]: several that vote")
    source: str = option(MISSING, "source text, plain or compressed (.gz, .xz, .zst)")
    target: str = option(MISSING, "its translation, line by line")
    output: str = option("-", "where the table goes; -: standard output")
    device: str = option("auto", "auto, cpu, cuda or cuda:N")
    search: SearchConfig = group(SearchConfig)


@dataclass
class LexiconConfig:
    """scripts/lexicon.py."""

    source: str = option(MISSING, "source side of the training text, plain or compressed")
    target: str = option(MISSING, "its target side")
    alignment: str | None = option(None, "its word alignment in Pharaoh format; null: learnt here, by IBM model 1")
    checkpoint: str | None = option(None, "segment both sides as this model does; null: words between spaces")
    output: str = option(MISSING, "lexicon file to write; -: standard output")
    alignment_output: str | None = option(None, "also write the learnt alignment, in Pharaoh format")
    iterations: int = option(5, "learning: rounds of expectation-maximisation")
    max_pairs: int = option(200_000, "learning: from the first so many pairs only; memory grows with them")


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

    models: list[str] = option(
        ["iwslt"],
        "what to train: iwslt (4 + 3 layers of 256), ablation_small and lstm_attention_small (the contrast), "
        "en_de_paper, en_de_release",
    )
    precisions: list[Precision] = option([Precision.fp32], "fp32, bf16, fp16")
    sentences: int | None = option(None, "sentences a batch; null: 128 for iwslt, 32 for the contrast, 96 for en-de")
    length: int = option(25, "tokens of every source and target, </s> included")
    repeat: int = option(7, "updates that count; their median is reported")
    convolution: ConvolutionForm = option(ConvolutionForm.auto, "as training.convolution")
    compile: bool = option(False, "as training.compile")
    threads: int | None = option(None, "CPU threads; null: PyTorch's choice")
    device: str = option("auto", "auto, cpu, cuda or cuda:N")
    output: str | None = option(None, "also write the figures as JSON")


@dataclass
class BenchmarkGenerateConfig:
    """scripts/benchmark.py generate."""

    checkpoint: str | None = option(None, "model to measure; null: a random one of 4 + 3 layers of 256 channels")
    input: str | None = option(None, "source text, plain or compressed; null: random sentences of 4 to 24 words")
    sentences: int = option(1000, "translate the first so many")
    single_sentences: int = option(200, "at batch 1, this many of them, evenly spread")
    batches: list[int] = option([1, 32, 128], "sentences translated together")
    beams: list[int] = option([1, 5], "beams")
    precisions: list[SearchPrecision] = option([SearchPrecision.fp32], "fp32, bf16, int8")
    max_length: int = option(200, "most pieces of a checkpoint's translations (translate.py: 500; the peers: 200)")
    repeat: int = option(3, "measure so often; the fastest counts")
    threads: int | None = option(None, "CPU threads; null: PyTorch's choice")
    device: str = option("auto", "auto, cpu, cuda or cuda:N")
    vocabulary: list[int] = option([7072, 5208], "of a random model: source and target")
    model: ModelConfig = group(ModelConfig)
    output: str | None = option(None, "also write the figures as JSON")


@dataclass
class EvaluateConfig:
    """scripts/evaluate.py."""

    checkpoint: Any = option(None, "model to score: file written by training; [FILE,FILE]: several that vote")
    hypotheses: str | None = option(None, "or: file of translations to score, one a line (with reference)")
    systems: Any = option(
        None,
        "or: several such files to compare with the first (with reference): [FILE,FILE]; of several seeds "
        "'{NAME: [FILE,FILE], NAME: [FILE,FILE]}'",
    )
    split: str = option("test", "valid, or a test split of the experiment's data")
    root: str | None = option(None, "folder of the raw files where it moved since training; null: as in training")
    source: str | None = option(
        None, "own source text instead of a split (with reference); of hypotheses: for scores by its length"
    )
    reference: Any = option(None, "own reference text, instead of a split with source; [FILE,FILE]: several")
    language: str | None = option(None, "target language of Moses' words for the paper's BLEU; null: the experiment's")
    segmented: bool = option(False, "hypotheses and systems, like their reference, are words between spaces already")
    metrics: list[Metric] | None = option(
        None, "bleu, chrf, ter, rouge; null: the experiment's (data.metrics), and all but rouge without a checkpoint"
    )
    samples: int = option(1000, "systems: resamples of the paired bootstrap")
    trials: int = option(10000, "systems: trials of the approximate randomisation")
    seed: int = option(12345, "systems: seed of both (sacrebleu: 12345), at least 1")
    output: str | None = option(
        None,
        "folder for translations and scores; null: the checkpoint's run directory, or the hypotheses' folder; scores "
        "of systems are then printed only",
    )
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
    """scripts/convert.py. from and model are taken, as a word of Python and as a group: their fields end in "_"."""

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
    model_: str = option(MISSING, "the file to convert; from=safetensors: the folder")
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
    html = "html"
    json = "json"
    tsv = "tsv"


@dataclass
class PlotAttentionConfig:
    """scripts/plot_attention.py."""

    checkpoint: str = option(MISSING, "file written by training or conversion")
    input: str = option("-", "source sentences, one a line, plain or compressed; -: standard input")
    target: str | None = option(
        None, "translations whose attention is drawn, line by line; null: those that the model finds"
    )
    alignment: str | None = option(
        None, "word alignment of input and target (Pharaoh format): also say how far the attention agrees with it"
    )
    output: str | None = option(None, "folder to write; null: attention/ in the checkpoint's run directory")
    formats: list[PictureFormat] = option(
        [PictureFormat.png],
        "png, svg, pdf: a picture a line; html: pages of 100 lines that need no network; json: the numbers, a file a "
        "line; tsv: which source words each target word used",
    )
    device: str = option("auto", "auto, cpu, cuda or cuda:N")
    search: SearchConfig = group(SearchConfig)


@dataclass
class AverageConfig:
    """scripts/average.py."""

    checkpoints: list[str] = option(
        MISSING, "checkpoints of one run to average, e.g. '[runs/a/checkpoints/epoch8.pt,...]'"
    )
    output: str = option(MISSING, "where the averaged checkpoint goes, e.g. runs/a/checkpoints/average.pt")


@dataclass
class CompareConfig:
    """scripts/compare.py."""

    runs: list[str] = option(
        [],
        "run directories, folders of them, or patterns ('results/*'), e.g. '[runs/a,runs/b]'; empty: the published "
        "figures alone",
    )
    benchmarks: list[str] | None = option(
        None,
        "what scripts/benchmark.py generate and train wrote with output=FILE, files or patterns: our speeds; null: "
        "what is kept in results/benchmarks",
    )
    output: str | None = option(None, "folder for results.md, results.csv and results.html; null: none")
    document: str | None = option(
        None,
        "write the Markdown to this file, its charts to docs/figures beside it; a file that asks for some sections by "
        "<!-- compare.py: TITLE --> ... <!-- compare.py: end --> gets those, between its marks",
    )
    keep: str | None = option(
        None,
        "copy runs and benchmarks into this folder as results to commit: no checkpoints, no paths of this machine",
    )
