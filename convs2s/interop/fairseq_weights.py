"""The weights of a fairseq ``fconv`` checkpoint, layer by layer, in our layout whatever theirs.

k kernel width · in, out channels.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from convs2s.errors import UserError
from convs2s.interop.fairseq_settings import stored_weights
from convs2s.interop.torch_file import TorchFile


class Weights:
    """The tensors of a file by name, each taken once."""

    def __init__(self, file: TorchFile) -> None:
        stored = stored_weights(file)
        if "encoder.convolutions.0.bias" not in stored:
            raise UserError(f"{file.path}: no fconv model of fairseq: it has no encoder.convolutions")
        self.file = file
        # Newer versions of weight normalisation store g and v under other names.
        new = {".parametrizations.weight.original0": ".weight_g", ".parametrizations.weight.original1": ".weight_v"}
        self.stored = {rename(name, new): tensor for name, tensor in stored.items()}

    def __contains__(self, name: str) -> bool:
        return name in self.stored

    def take(self, name: str, dimensions: int) -> Tensor:
        """A tensor as float32."""
        if name not in self.stored:
            raise UserError(f"{self.file.path}: it has no {name}")
        tensor = self.file.tensor(self.stored.pop(name))
        if tensor.dim() != dimensions or not tensor.is_floating_point() or not tensor.numel():
            raise UserError(f"{self.file.path}: {name} has a form, {tuple(tensor.shape)}, that no fconv model has")
        return tensor.float()

    def count(self, prefix: str) -> int:
        """How many layers a list of layers has."""
        number = 0
        while f"{prefix}.{number}.bias" in self.stored:
            number += 1
        return number

    def layer(self, name: str, convolution: bool = False) -> Layer:
        """A linear layer, weight (out, in), or a convolution, (k, in, out); weight-normalised over any axis, or not."""
        bias = self.take(f"{name}.bias", 1)
        dimensions = 3 if convolution else 2
        if f"{name}.weight" in self:
            return Layer.plain(self.take(f"{name}.weight", dimensions), bias)
        v, stored = self.take(f"{name}.weight_v", dimensions), self.stored.get(f"{name}.weight_g")
        g = self.take(f"{name}.weight_g", len(getattr(stored, "size", ())))
        g = g.view(g.shape or (1,) * v.dim())
        if g.dim() != v.dim() or any(a not in (1, b) for a, b in zip(g.shape, v.shape, strict=True)):
            raise UserError(f"{self.file.path}: {name}.weight_g {tuple(g.shape)} does not fit {tuple(v.shape)}")
        if g.numel() == len(bias) and output_first(g).shape[0] == len(bias):
            return Layer(output_first(v), g.view(-1, 1), bias, kernel_width(v))
        # The first release normalised the decoder's convolutions over the kernel position: the same weights, with the
        # gains that they have when normalised per output unit.
        axes = [axis for axis in range(v.dim()) if g.shape[axis] == 1]
        weight = v.double() * (g.double() / v.double().square().sum(axes, keepdim=True).sqrt())
        return Layer.plain(weight, bias)

    def check_empty(self) -> None:
        """Everything has been used."""
        left = [name for name in self.stored if name.rpartition(".")[2] != "version"]
        if left:
            raise UserError(f"{self.file.path}: not supported: this model has {', '.join(sorted(left)[:3])}")


@dataclass
class Layer:
    """A weight-normalised layer in our layout: v (out, fan_in), g (out, 1), bias (out,)."""

    v: Tensor
    g: Tensor
    bias: Tensor
    kernel: int = 1

    @classmethod
    def plain(cls, weight: Tensor, bias: Tensor) -> Layer:
        """From the effective weight, (out, in) or (k, in, out): v = w, g = |w|."""
        v = output_first(weight).double()
        norm = v.norm(dim=1, keepdim=True)
        v = torch.where(norm > 0, v, 1.0)  # a row of zeros has no direction, and needs none
        return cls(v.float(), norm.float(), bias, kernel_width(weight))

    def rows(self, order: list[int]) -> Layer:
        """The layer with its outputs in another order."""
        return Layer(self.v[order], self.g[order], self.bias[order], self.kernel)

    def parameters(self, name: str) -> dict[str, Tensor]:
        return {f"{name}.v": self.v, f"{name}.g": self.g, f"{name}.bias": self.bias}


def output_first(weight: Tensor) -> Tensor:
    """(k, in, out) -> (out, k in); (out, in) as it is."""
    return weight.permute(2, 0, 1).flatten(1) if weight.dim() == 3 else weight


def kernel_width(weight: Tensor) -> int:
    """k of a convolution (k, in, out), 1 of a linear layer (out, in)."""
    return weight.shape[0] if weight.dim() == 3 else 1


def rename(name: str, endings: dict[str, str]) -> str:
    """A name whose ending is replaced by what ``endings`` has for it."""
    for ending, other in endings.items():
        if name.endswith(ending):
            return name.removesuffix(ending) + other
    return name
