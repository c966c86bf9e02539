"""Matrix products with weights that no longer change: what weight-normalised layers are folded into for inference."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from convs2s.config import SearchPrecision


class Product:
    """x (..., in) -> x weight^T + bias (..., out); weight (out, in), bias (out,)."""

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        self.weight, self.bias = weight, bias

    def __call__(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias)


class PackedProduct(Product):
    """The same in float32 on a CPU, for searches with few rows: oneDNN's product with weights in its own layout.

    With some rows only, the time goes into reading the weights; MKL, which ``F.linear`` calls, then needs up to four
    times as long for wide layers. These are the operators that torch.compile emits for frozen weights; where a release
    has them no longer, ``F.linear`` does the work.
    """

    ROWS = 64  # from here on MKL is as fast or faster

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        super().__init__(weight, bias)
        self.packed = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), 5)

    def __call__(self, x: Tensor) -> Tensor:
        if x.dim() != 2 or len(x) > self.ROWS:
            return super().__call__(x)
        return torch.ops.mkldnn._linear_pointwise(  # type: ignore[no-any-return]
            x.contiguous(), self.packed, self.bias, "none", [], ""
        )

    @staticmethod
    def works(weight: Tensor) -> bool:
        """Whether this product is there for such weights and gives the right numbers."""
        if weight.device.type != "cpu" or weight.dtype != torch.float32 or not torch._C._has_mkldnn:
            return False
        x, bias = torch.linspace(-1.0, 1.0, 12).view(2, 6), torch.tensor([1.0, -2.0])
        try:
            packed = PackedProduct(x.flip(1), bias)(x)
        except (AttributeError, RuntimeError):
            return False
        return torch.allclose(packed, F.linear(x, x.flip(1), bias), atol=1e-5)


class Int8Product(Product):
    """The same with weights of 8 bits, one scale per output unit, and inputs rounded to 8 bits when they arrive.

    The kernel has one scale for all rows, so that a row would depend on its batch. Here every row is divided by its
    largest entry first, and two entries without weights, 1 and -1, make the common scale that of [-1, 1].
    """

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        super().__init__(weight, bias)  # kept for whoever needs the exact ones
        self.quantised = quantise(F.pad(weight.float(), (0, 2)), torch.zeros(len(weight)))
        self.ends = torch.tensor([1.0, -1.0])

    def __call__(self, x: Tensor) -> Tensor:
        largest = x.abs().amax(-1, keepdim=True).clamp_min(1e-12)
        scaled = torch.cat([x / largest, self.ends.expand(*x.shape[:-1], 2)], -1)
        return torch.addcmul(self.bias, self.quantised(scaled), largest)


def quantise(weight: Tensor, bias: Tensor) -> Callable[[Tensor], Tensor]:
    """A linear layer with 8-bit weights and dynamically rounded inputs, on the CPU.

    By the kernels behind ``quantize_dynamic``, which keep the weights packed between calls. torchao 0.18, which
    PyTorch recommends instead, was tried with ``Int8DynamicActivationInt8WeightConfig``: without torch.compile its
    layers took 11 to 52 times as long (256 -> 1024 channels, 1 to 640 rows), at half the rounding error.
    """
    layer = nn.Linear(weight.shape[1], weight.shape[0])
    layer.weight, layer.bias = nn.Parameter(weight, requires_grad=False), nn.Parameter(bias, requires_grad=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its deprecation
        quantised = torch.ao.quantization.quantize_dynamic(  # type: ignore[no-untyped-call]
            nn.Sequential(layer), {nn.Linear: torch.ao.quantization.per_channel_dynamic_qconfig}, dtype=torch.qint8
        )
    return cast(Callable[[Tensor], Tensor], quantised[0])


def product(weight: Tensor, bias: Tensor, precision: SearchPrecision) -> Product:
    """The product in the given precision."""
    if precision == SearchPrecision.int8:
        return Int8Product(weight, bias)
    if precision == SearchPrecision.bf16:
        return Product(weight.bfloat16(), bias.bfloat16())
    return PackedProduct(weight, bias) if PackedProduct.works(weight) else Product(weight, bias)
