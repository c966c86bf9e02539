"""Options of updates, annealing and the loop."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from signal import Signals

from convs2s.config.base import check_minimum, group, option
from convs2s.config.search import SelectionConfig
from convs2s.errors import UserError

CATCHABLE = {one.name for one in Signals} - {"SIGKILL", "SIGSTOP"}


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
    """NAG, and when its rate shrinks."""

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
    anneal_after: int | None = option(
        None,
        "anneal after this epoch whatever the validation loss (not before min_epoch_to_anneal); null: never forced",
    )

    def check(self) -> None:
        """Raise UserError for a value that cannot work, naming the option."""
        check_minimum("optimizer", self, dict.fromkeys(("lr", "momentum", "weight_decay", "clip", "min_lr"), 0.0))
        if self.momentum >= 1.0:
            raise UserError(f"optimizer.momentum={self.momentum} must be below 1")
        if not self.shrink > 1.0:
            raise UserError(f"optimizer.shrink={self.shrink} must be above 1")
        if self.anneal_after is not None and self.annealing == Annealing.none:
            raise UserError("optimizer.anneal_after needs optimizer.annealing=fast or slow")


class Precision(str, Enum):
    fp32 = "fp32"
    bf16 = "bf16"
    fp16 = "fp16"


class Nonfinite(str, Enum):
    stop = "stop"
    skip = "skip"


class BestBy(str, Enum):
    loss = "loss"
    bleu = "bleu"


class Bucketing(str, Enum):
    original = "original"
    tight = "tight"


class ConvolutionForm(str, Enum):
    auto = "auto"
    conv1d = "conv1d"
    product = "product"


@dataclass
class TrainingConfig:
    """Batches, updates, checkpoints, and what is measured on the way."""

    batch_tokens: int | None = option(
        4000, "cut batches so that sentences x longest side <= this (original: -maxbatch); null: by sentences"
    )
    batch_sentences: int = option(64, "sentences a batch where batch_tokens is null (original: -batchsize)")
    bucketing: Bucketing = option(
        Bucketing.original,
        "sort sentences for batches by source, then target length (original), or by both alike (tight: less padding)",
    )
    prefetch: int = option(2, "updates whose batches a thread prepares ahead, in pinned memory for a GPU; 0: no thread")
    accumulate: int = option(1, "batches per process whose gradients are summed before an update")
    split_tokens: int | None = option(
        None, "process a batch whose sentences x longest side exceeds this in parts (paper, sec. 4.2); null: never"
    )
    max_epochs: int = option(100, "epochs at most (original: -maxepoch)")
    max_updates: int | None = option(None, "updates at most; null: no limit")
    log_every: int = option(100, "updates between progress lines")
    save_every: int | None = option(None, "updates between checkpoints inside an epoch; null: only at its end")
    save_minutes: float | None = option(None, "minutes between checkpoints inside an epoch; null: only at its end")
    validation_bleu: bool = option(
        False, "translate the validation set after every epoch, with the search options in fp32, and report its BLEU"
    )
    best_by: BestBy = option(
        BestBy.loss, "best.pt is the epoch of the lowest validation loss, or the highest BLEU (needs validation_bleu)"
    )
    samples: int = option(
        3, "validation sentences that TensorBoard shows translated after every epoch, with their attention; 0: none"
    )
    keep: int | None = option(None, "also keep the checkpoint of every n-th epoch; null: last and best only")
    init_from: str | None = option(
        None,
        "checkpoint that a new run starts from (fine-tuning): weights, tokenisers, text and model, dropout apart; "
        "it must stay where it is until the run ends",
    )
    precision: Precision = option(
        Precision.fp32, "type of the matrix products; weights and updates are fp32 (bf16: CPU, GPU; fp16: GPU, scaled)"
    )
    nonfinite: Nonfinite = option(Nonfinite.stop, "on a loss or gradient that is not finite: stop, or skip the update")
    max_skips: int = option(10, "with nonfinite=skip: stop after this many skipped updates in a row")
    convolution: ConvolutionForm = option(
        ConvolutionForm.auto,
        "conv1d, product (one matrix product over the kernel's positions), or auto: conv1d for fp32 on CPUs with "
        "AVX-512, where it was measured to be faster, else product; GPUs were not measured",
    )
    compile: bool = option(False, "compile the model with torch.compile (minutes at the start, for long GPU runs)")
    deterministic: bool = option(False, "refuse GPU operations whose result varies between runs (CPU: never varies)")
    threads: int | None = option(None, "CPU threads per process; null: PyTorch's choice")
    device: str = option("auto", "auto, cpu, cuda or cuda:N; under torchrun auto gives each process its own GPU")
    stop_signals: list[str] = option(
        ["SIGINT", "SIGTERM", "SIGHUP"],
        "signals that end training after the current update, saved (SLURM: add SIGUSR1; nohup's SIGHUP stays ignored)",
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
        least_zero = dict.fromkeys(("max_updates", "max_skips", "samples", "prefetch", "save_minutes"), 0)
        check_minimum("training", self, {**dict.fromkeys(counts, 1), **least_zero})
        self.selection.check("training.selection")
        if self.best_by == BestBy.bleu and not self.validation_bleu:
            raise UserError("training.best_by=bleu needs training.validation_bleu=true")
        for name in self.stop_signals:
            if name not in CATCHABLE:
                raise UserError(f"training.stop_signals: {name} is no signal that can be caught; try SIGTERM")
