"""One update: the gradients of some batches, summed over processes, normalised, clipped, applied.

B sentences · S source length · T target length.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor

from convs2s.config import ConvolutionForm, Normalize, OptimizerConfig, Precision, TrainingConfig
from convs2s.data.batching import Batch
from convs2s.errors import UserError
from convs2s.model import Seq2Seq
from convs2s.model.layers import normalised_once, use_conv1d
from convs2s.search.selection import BatchSelector
from convs2s.training.distributed import World
from convs2s.training.nag import clip_gradients

AUTOCAST = {Precision.bf16: torch.bfloat16, Precision.fp16: torch.float16}
Loss = Callable[..., Tensor]


@dataclass
class Outcome:
    """What an update did, over all processes."""

    loss: float  # summed over the target tokens, nats
    tokens: int
    sentences: int
    norm: float  # of the normalised gradient, before it is clipped
    applied: bool  # False where loss or gradient was not finite
    rescaled: bool = False  # not applied, for no other reason than a scale beyond fp16, which is now lower
    parts: int = 1  # into which every batch was split for lack of memory


class Updater:
    """Applies updates to a model; holds what they share."""

    def __init__(
        self,
        model: Seq2Seq,
        optimizer: torch.optim.Optimizer,
        training: TrainingConfig,
        options: OptimizerConfig,
        seed: int,
        world: World,
        selector: BatchSelector | None = None,
    ) -> None:
        """selector: of the words that a batch is scored over; None: all. Raises UserError for fp16 on a CPU."""
        check_precision(training.precision, world.device)
        self.model, self.optimizer, self.world = model, optimizer, world
        self.training, self.options, self.seed = training, options, seed
        self.parameters = list(model.parameters())
        use_conv1d(model, conv1d_is_faster(world.device, training.precision, training.convolution))
        self.selector = selector
        self.loss: Loss = torch.compile(model.loss, dynamic=True) if training.compile else model.loss
        # Small fp16 gradients would vanish: the loss is scaled up before they are taken (GPU only).
        self.scaler = torch.amp.GradScaler(world.device.type, enabled=training.precision == Precision.fp16)
        self.scaler.scale(torch.zeros((), device=world.device))  # sets it up: a process may have no batch at first

    def autocast(self) -> AbstractContextManager[object]:
        """Matrix products in the precision asked for."""
        dtype = AUTOCAST.get(self.training.precision)
        return nullcontext() if dtype is None else torch.autocast(self.world.device.type, dtype)

    def __call__(self, batches: Sequence[Batch], number: int) -> Outcome:
        """Update ``number`` (from 0) of the run, from this process' share of its batches, which may be none.

        A batch that does not fit into memory on some rank is split in two on all, and again, until it does. Raises
        UserError where single sentences do not fit.
        """
        self.model.train()
        parts = 1
        while True:
            self.optimizer.zero_grad()
            own_loss, failed = self.backward(batches, number, parts)
            counts = sum(batch.tokens for batch in batches), sum(batch.sentences for batch in batches)
            loss, tokens, sentences, failures = self.world.sum([own_loss, *counts, failed])
            if not failures:
                break
            parts *= 2
            if parts > 2 * sentences:  # of all processes: each gives up when all do
                raise UserError(
                    f"update {number + 1}: out of memory even for single sentences; start anew, in another run_dir, "
                    "with a lower data.max_length"
                )
        self.world.sum_gradients(self.parameters)
        self.scaler.unscale_(self.optimizer)  # before the norm is taken
        norm = normalize(self.parameters, int(tokens), int(sentences), self.options)
        applied = math.isfinite(loss) and math.isfinite(norm)
        if applied:
            self.scaler.step(self.optimizer)
        self.scaler.update()
        # The scale starts high and probes upwards: gradients that overflow it are how it finds its value.
        rescaled = self.scaler.is_enabled() and not applied and math.isfinite(loss) and self.scaler.get_scale() >= 1.0
        return Outcome(loss, int(tokens), int(sentences), norm, applied, rescaled, parts)

    def arguments(self, batch: Batch, training: bool) -> tuple[Tensor, ...]:
        """What ``Seq2Seq.loss`` takes, on the device."""
        arguments: tuple[Tensor, ...] = batch[1:4]
        if self.selector is not None:
            target, vocabulary = self.selector(batch.source, batch.target, training)
            arguments = batch.source, batch.target_input, target, vocabulary
        return tuple(x.to(self.world.device, non_blocking=True) for x in arguments)

    def backward(self, batches: Sequence[Batch], number: int, parts: int) -> tuple[float, int]:
        """Sum the gradients of this process' batches; returns the summed loss and whether memory ran out (0 or 1)."""
        # The dropout masks of an update are a function of (seed, update, rank): nothing to save, nothing to lose.
        torch.manual_seed((self.seed * 1_000_003 + number) * 4_099 + self.world.rank)
        total = 0.0
        pieces = [part for batch in batches for part in split(batch, self.training.split_tokens, parts)]
        try:
            with normalised_once(self.model):
                for piece in pieces:
                    with self.autocast():
                        loss = self.loss(*self.arguments(piece, training=True))
                    self.scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
                    total += loss.item()
        except RuntimeError as error:
            if not out_of_memory(error):
                raise
            return 0.0, 1
        return total, 0


def conv1d_is_faster(device: torch.device, precision: Precision, form: ConvolutionForm) -> bool:
    """Whether training convolves by conv1d: what ``form`` says, or what measures faster on such a device.

    On a CPU with AVX-512 conv1d was measured at 293 GFLOP/s in fp32, a matrix product over the taps at 200, and the
    product was faster in bf16; with AVX2 the product's backward pass was 1.6 times as fast as conv1d's. Nothing was
    measured on a GPU: the product, whose gradients are products too, stays.
    """
    if form != ConvolutionForm.auto:
        return form == ConvolutionForm.conv1d
    wide = device.type == "cpu" and torch.backends.cpu.get_cpu_capability().startswith("AVX512")
    return wide and precision == Precision.fp32


def check_precision(precision: Precision, device: torch.device) -> None:
    """Refuse fp16 where it cannot be fast."""
    if precision == Precision.fp16 and device.type == "cpu":
        raise UserError("training.precision=fp16 needs a GPU: CPUs have no fast fp16 products; use bf16 or fp32")


def out_of_memory(error: RuntimeError) -> bool:
    """Whether an allocation failed, on GPU or CPU."""
    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)


def split(batch: Batch, tokens: int | None, parts: int = 1) -> Iterable[Batch]:
    """A batch in at most ``parts`` pieces of about equal size; in more where B x max(S, T) would exceed ``tokens``."""
    longest = max(batch.source.shape[1], batch.target.shape[1])
    if tokens is not None:
        parts *= math.ceil(batch.sentences / max(1, tokens // longest))
    size = math.ceil(batch.sentences / parts)
    return [batch.rows(start, start + size) for start in range(0, batch.sentences, size)]


def normalize(parameters: Sequence[Tensor], tokens: int, sentences: int, config: OptimizerConfig) -> float:
    """Divide the summed gradients and renormalise them (original: ResumableDPOptimEngine); returns the norm between."""
    divisor = {Normalize.tokens: tokens, Normalize.sentences: sentences, Normalize.none: 1}[config.normalize]
    if divisor != 1:
        torch._foreach_mul_([p.grad for p in parameters if p.grad is not None], 1.0 / divisor)
    return clip_gradients(parameters, config.clip * (sentences if config.normalize == Normalize.none else 1))


def gradient_norms(model: Seq2Seq) -> Iterator[tuple[str, float]]:
    """The 2-norm of the gradient, as clipped, of each part of the model: encoder.layers.0, decoder.output, ..."""
    parts: dict[str, float] = {}
    for name, parameter in model.named_parameters():
        if parameter.grad is not None:
            part = ".".join(name.split(".")[: 3 if ".layers." in name else 2])
            parts[part] = parts.get(part, 0.0) + float(parameter.grad.square().sum())
    for part, square in parts.items():
        yield part, math.sqrt(square)


def shape(batches: Sequence[Batch]) -> str:
    """The shapes of some batches, for messages."""
    return ", ".join(f"{b.sentences} x {b.source.shape[1]} + {b.target.shape[1]}" for b in batches) or "none here"
