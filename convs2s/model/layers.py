"""The building blocks: weight-normalised linear and convolution layers, the gated linear unit's block, dropout.

B sentences · T positions · C channels · k kernel width. Every tensor is (B, T, C).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from convs2s.config import LayerConfig
from convs2s.model.products import Product
from convs2s.text.vocabulary import PAD

SQRT_HALF = math.sqrt(0.5)  # a sum of two branches of equal variance keeps that variance (paper, sec. 3.5)


def expand(layers: list[LayerConfig]) -> list[LayerConfig]:
    """The stack with every repetition written out."""
    return [layer for layer in layers for _ in range(layer.repeat)]


def embedding_table(rows: int, width: int) -> nn.Embedding:
    """A lookup table drawn from N(0, 0.1^2).

    The padding row is drawn like the others, used, and never trained (original: LookupTable with paddingValue).
    """
    table = nn.Embedding(rows, width, padding_idx=PAD)
    nn.init.normal_(table.weight, 0.0, 0.1)
    return table


def positions(real: Tensor) -> Tensor:
    """(B, T), True at tokens -> the row of the position table for each: PAD + 1 for the first, PAD at padding."""
    return real.cumsum(1) * real + PAD


def autocast_type(x: Tensor) -> torch.dtype:
    """The type that torch.autocast asks of matrix products on x's device, or x's own."""
    device = x.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else x.dtype


class ScaleGradient(torch.autograd.Function):
    """The identity, whose gradient is multiplied by a constant (original: modules/GradMultiply.lua)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: float) -> Tensor:
        ctx.scale = scale
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return grad * ctx.scale, None


def scale_gradient(x: Tensor, scale: float) -> Tensor:
    """x itself; the gradient that flows back through it is multiplied by ``scale``."""
    return ScaleGradient.apply(x, scale)  # type: ignore[no-any-return,no-untyped-call]


class Dropout(nn.Dropout):
    """nn.Dropout, whose masks cost a tenth on a CPU: four of them share a random number of 64 bits.

    The probability is thereby a multiple of 2^-16.
    """

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or not self.p or x.device.type != "cpu" or torch.compiler.is_compiling():
            return super().forward(x)
        numbers = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None).view(torch.int16)
        first = min(round(self.p * 2**16), 2**16 - 1) - 2**15  # of the 2^16 numbers, that keeps its entry
        kept = torch.ge(numbers[: x.numel()].view(x.shape), first, out=torch.empty_like(x, requires_grad=False))
        return x * kept.mul_(1.0 / (1.0 - self.p))


class WeightNorm(nn.Module):
    """Weight, gain and bias of a weight-normalised layer (paper, sec. 3.5; original: nn/WeightNorm.lua).

    w = g v / sqrt(|v|^2 + eps), one norm per output unit. v: (out, fan_in), g: (out, 1), bias: (out,).
    Initialised with v ~ N(0, std^2), g = |v|, bias 0. ``gradient_scale`` multiplies the gradients of all three.
    """

    def __init__(self, fan_in: int, out: int, std: float, eps: float) -> None:
        super().__init__()
        self.v = nn.Parameter(torch.empty(out, fan_in).normal_(0.0, std))
        self.g = nn.Parameter(self.v.detach().norm(dim=1, keepdim=True))
        self.bias = nn.Parameter(torch.zeros(out))
        self.eps = eps
        self.gradient_scale = 1.0
        self.effective: Tensor | None = None  # the weight, while it is shared by ``normalised_once``
        self.folded: Product | None = None  # with the effective weight, kept for inference by Seq2Seq.fold

    def weight(self) -> Tensor:
        """The effective weight, (out, fan_in)."""
        return self.v * (self.g * (self.v.square().sum(1, keepdim=True) + self.eps).rsqrt())

    def train(self, mode: bool = True) -> WeightNorm:
        self.folded = None
        return super().train(mode)

    def weight_and_bias(self) -> tuple[Tensor, Tensor]:
        """Effective weight (out, fan_in) and bias (out,), through which gradients flow back scaled."""
        if self.folded is not None and not torch.is_grad_enabled():
            return self.folded.weight, self.folded.bias
        weight, bias = self.weight() if self.effective is None else self.effective, self.bias
        if self.gradient_scale != 1.0:
            return scale_gradient(weight, self.gradient_scale), scale_gradient(bias, self.gradient_scale)
        return weight, bias


@contextmanager
def normalised_once(model: nn.Module) -> Iterator[None]:
    """Compute each effective weight once for all forward and backward passes in the block.

    Their gradients are summed on it, and go on to v and g when the block ends.
    """
    layers = [module for module in model.modules() if isinstance(module, WeightNorm)]
    weights = [layer.weight() for layer in layers]
    shared = [weight.detach().requires_grad_() for weight in weights]
    try:
        for layer, weight in zip(layers, shared, strict=True):
            layer.effective = weight
        yield
        used = [(whole, part.grad) for whole, part in zip(weights, shared, strict=True) if part.grad is not None]
        if used:  # a process may have had no batch
            torch.autograd.backward([weight for weight, _ in used], [grad for _, grad in used])
    finally:
        for layer in layers:
            layer.effective = None


class Linear(WeightNorm):
    """(B, T, in) -> (B, T, out). Initialised with std sqrt((1 - dropout) / in), ``dropout`` that of its input."""

    def __init__(self, channels: int, out: int, eps: float, dropout: float = 0.0) -> None:
        super().__init__(channels, out, math.sqrt((1.0 - dropout) / channels), eps)

    def forward(self, x: Tensor) -> Tensor:
        if self.folded is not None and not torch.is_grad_enabled():
            return self.folded(x)
        return F.linear(x, *self.weight_and_bias())


class Convolution(torch.autograd.Function):
    """A one-dimensional convolution over (B, T, C) as one matrix product over its k neighbouring positions.

    The k taps of a position are adjacent in memory, so the product reads a strided view; only the padded input is
    kept for the backward pass, not its k copies.
    """

    @staticmethod
    def taps(padded: Tensor, kernel: int) -> Tensor:
        batch, length, channels = padded.shape
        shape, strides = (batch, length - kernel + 1, kernel * channels), (length * channels, channels, 1)
        return padded.as_strided(shape, strides).reshape(-1, kernel * channels)  # (B T, k C)

    @staticmethod
    def forward(ctx: Any, padded: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        padded = padded.contiguous()
        kernel = weight.shape[1] // padded.shape[2]
        ctx.save_for_backward(padded, weight)
        y = torch.addmm(bias, Convolution.taps(padded, kernel), weight.t())
        return y.view(padded.shape[0], -1, weight.shape[0])  # (B, T, out)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor, Tensor]:
        padded, weight = ctx.saved_tensors
        batch, length, channels = padded.shape
        kernel = weight.shape[1] // channels
        grad = grad.reshape(-1, weight.shape[0])  # (B T, out)
        grad_weight = grad.t() @ Convolution.taps(padded, kernel)
        grad_padded = None
        if ctx.needs_input_grad[0]:
            grad_taps = (grad @ weight).view(batch, length - kernel + 1, kernel, channels)
            grad_padded = padded.new_zeros(padded.shape)
            for tap in range(kernel):
                grad_padded[:, tap : length - kernel + 1 + tap] += grad_taps[:, :, tap]
        return grad_padded, grad_weight, grad.sum(0)


class Conv(WeightNorm):
    """A convolution over whatever stands around each position: (B, T + k - 1, in) -> (B, T, out).

    v is (out, k * in) with the kernel position outermost, as in the original. Initialised with std
    sqrt(4 (1 - dropout) / (k in)): its output feeds a gated linear unit (paper, sec. 3.5 and appendix).
    """

    def __init__(self, channels: int, out: int, kernel: int, eps: float, dropout: float) -> None:
        super().__init__(kernel * channels, out, math.sqrt(4.0 * (1.0 - dropout) / (kernel * channels)), eps)
        self.kernel = kernel
        self.conv1d = False  # which of two ways to compute the same; set by use_conv1d

    def forward(self, x: Tensor) -> Tensor:
        if self.folded is not None and not torch.is_grad_enabled():
            return self.folded(Convolution.taps(x.contiguous(), self.kernel)).view(x.shape[0], -1, len(self.bias))
        half = autocast_type(x)
        weight, bias = self.weight_and_bias()
        if self.conv1d:
            taps = weight.to(half).view(len(bias), self.kernel, -1).transpose(1, 2)  # (out, in, k)
            return F.conv1d(x.to(half).transpose(1, 2), taps, bias.to(half)).transpose(1, 2)
        return Convolution.apply(x.to(half), weight.to(half), bias.to(half))  # type: ignore[no-any-return,no-untyped-call]


def use_conv1d(model: nn.Module, yes: bool) -> None:
    """Whether the convolutions of a model are the library's; the results are equal to rounding, the speed is not."""
    for module in model.modules():
        if isinstance(module, Conv):
            module.conv1d = yes


class GatedBlock(nn.Module):
    """Dropout, convolution and gated linear unit (paper, sec. 3.2), and the projection that the residual needs.

    With a bottleneck the convolution runs between two narrow linear layers, each with its gate (original: -bfactor).

    widths: channels of the stack's input and of every block's output up to this one's input. distance: the residual
    is that many entries from their end (1: the block's own input; 0: there is none).
    """

    def __init__(
        self, widths: list[int], layer: LayerConfig, distance: int, eps: float, dropout: float, bottleneck: int
    ) -> None:
        super().__init__()
        channels, out, kernel = widths[-1], layer.channels, layer.kernel
        self.distance = distance
        self.dropout = Dropout(dropout)
        self.bottleneck_in: Linear | None = None
        self.bottleneck_out: Linear | None = None
        if bottleneck:
            width = channels // bottleneck
            self.bottleneck_in = Linear(channels, 2 * width, eps, dropout)
            self.conv = Conv(width, 2 * width, kernel, eps, dropout=0.0)
            self.bottleneck_out = Linear(width, 2 * out, eps)
        else:
            self.conv = Conv(channels, 2 * out, kernel, eps, dropout)
        before = widths[-distance] if distance else out
        self.residual_proj = Linear(before, out, eps, dropout) if before != out else None

    def enter(self, x: Tensor) -> Tensor:
        """(B, T, channels) -> the input of the convolution, (B, T, conv channels)."""
        x = self.dropout(x)
        return x if self.bottleneck_in is None else F.glu(self.bottleneck_in(x), -1)

    def leave(self, y: Tensor) -> Tensor:
        """The output of the convolution -> that of the block, (B, T, out)."""
        y = F.glu(y, -1)
        return y if self.bottleneck_out is None else F.glu(self.bottleneck_out(y), -1)

    def add_residual(self, y: Tensor, states: list[Tensor]) -> Tensor:
        """The block's sum: y (B, T, out) and, before dropout, an earlier state, projected where the width changes.

        states: the stack's input and every block's output up to this one's input, (B, T, C) each.
        """
        if not self.distance:
            return y
        x = states[-self.distance]
        return (y + (x if self.residual_proj is None else self.residual_proj(x))) * SQRT_HALF
