"""An independent, slow model, written from a description of the Lua program (models/fconv_model.lua) alone.

One sentence at a time, loops over positions and kernel taps, no batch, no cache; float64. It judges ``convs2s.model``
on configurations for which no golden numbers exist, and is itself judged on the golden numbers first.

With unmasked ("original") padding, a sentence comes with its PADs on the left. With masked padding it comes without:
that is the meaning of masked.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from convs2s.config import AttentionOrder, EncoderGradient, ModelConfig

PAD = 1
HALF = math.sqrt(0.5)


class Decoding(NamedTuple):
    """All of the decoder's numbers for one sentence."""

    blocks: list[Tensor]  # GLU outputs, (T, C) each
    attention: list[Tensor]  # (T, S) of each layer that attends
    hidden: Tensor  # (T, C) after the last layer
    logits: Tensor  # (T, V)


def glu(x: Tensor) -> Tensor:
    """First half * sigmoid(second half)."""
    half = x.shape[-1] // 2
    return x[..., :half] / (1 + torch.exp(-x[..., half:]))


class ReferenceModel:
    """Parameters under the library's names; masks stand for dropout: place -> (T, C) of the sentence in hand."""

    def __init__(self, parameters: dict[str, Tensor], config: ModelConfig) -> None:
        self.parameters = {name: value.detach().double().requires_grad_() for name, value in parameters.items()}
        self.config = config
        self.masks: dict[str, Tensor] = {}

    # --- layers -----------------------------------------------------------------------------------------------

    def weight(self, name: str) -> Tensor:
        """w = g v / sqrt(|v|^2 + eps), a row per output unit."""
        v, g = self.parameters[f"{name}.v"], self.parameters[f"{name}.g"]
        return torch.stack(
            [g[o, 0] * v[o] / torch.sqrt((v[o] ** 2).sum() + self.config.weight_norm_eps) for o in range(len(v))]
        )

    def linear(self, name: str, x: Tensor) -> Tensor:
        return x @ self.weight(name).T + self.parameters[f"{name}.bias"]

    def convolution(self, name: str, x: Tensor, kernel: int, before: int) -> Tensor:
        """y[t] = bias + sum over k of W_k x[t - before + k], zero beyond the sentence; W_k = w[:, k*in:(k+1)*in]."""
        weight, bias = self.weight(name), self.parameters[f"{name}.bias"]
        width = x.shape[1]
        rows = []
        for t in range(len(x)):
            row = bias
            for k in range(kernel):
                if 0 <= t - before + k < len(x):
                    row = row + weight[:, k * width : (k + 1) * width] @ x[t - before + k]
            rows.append(row)
        return torch.stack(rows)

    def block(self, name: str, x: Tensor, kernel: int, before: int) -> Tensor:
        """The (bottleneck) convolution with its GLU."""
        x = self.drop(f"{name}.dropout", x)
        if self.config.bottleneck > 0:
            x = glu(self.linear(f"{name}.bottleneck_in", x))
            x = glu(self.convolution(f"{name}.conv", x, kernel, before))
            return glu(self.linear(f"{name}.bottleneck_out", x))
        return glu(self.convolution(f"{name}.conv", x, kernel, before))

    def residual(self, name: str, x: Tensor) -> Tensor:
        """x, or its projection where the width changes."""
        return self.linear(f"{name}.residual_proj", x) if f"{name}.residual_proj.v" in self.parameters else x

    def drop(self, place: str, x: Tensor) -> Tensor:
        return x * self.masks[place] if place in self.masks else x

    def embed(self, side: str, ids: list[int], positions: bool) -> Tensor:
        """Token plus position; the first real token has position PAD + 1, padding has position PAD."""
        rows, position = [], PAD
        for token in ids:
            place = PAD
            if token != PAD:
                position += 1
                place = position
            row = self.parameters[f"{side}.embed_tokens.weight"][token]
            if positions:
                row = row + self.parameters[f"{side}.embed_positions.weight"][place]
            rows.append(row)
        return self.drop(f"{side}.dropout", torch.stack(rows))

    # --- the two halves ---------------------------------------------------------------------------------------

    def encode(self, source: list[int]) -> tuple[Tensor, Tensor]:
        """Keys and values, (S, E) each."""
        e = self.embed("encoder", source, self.config.encoder.positions)
        x = self.linear("encoder.in_proj", e)
        kernels = [layer.kernel for layer in self.config.encoder.layers for _ in range(layer.repeat)]
        for i, kernel in enumerate(kernels):
            name = f"encoder.layers.{i}"
            x = (self.block(name, x, kernel, (kernel - 1) // 2) + self.residual(name, x)) * HALF
        keys = self.linear("encoder.out_proj", x)
        return keys, (keys + e) * HALF

    def decode(self, keys: Tensor, values: Tensor, target_input: list[int]) -> Decoding:
        """The decoder over a whole prefix."""
        t = self.embed("decoder", target_input, self.config.decoder.positions)
        x = self.linear("decoder.in_proj", t)
        kernels = [layer.kernel for layer in self.config.decoder.layers for _ in range(layer.repeat)]
        attends = self.config.decoder.attention
        blocks, attention = [], []

        def attend(name: str, y: Tensor) -> Tensor:
            query = (self.linear(f"{name}.attention.in_proj", y) + t) * HALF
            scores = torch.exp(query @ keys.T)
            weights = scores / scores.sum(1, keepdim=True)
            attention.append(weights)
            context = weights @ values * math.sqrt(len(keys))
            return (self.linear(f"{name}.attention.out_proj", context) + y) * HALF

        for i, kernel in enumerate(kernels):
            name = f"decoder.layers.{i}"
            has_attention = attends is None or i + 1 in attends
            residual = self.residual(name, x)
            y = self.block(name, x, kernel, kernel - 1)
            blocks.append(y)
            if self.config.attention_order == AttentionOrder.paper:
                x = (y + residual) * HALF
                x = attend(name, x) if has_attention else x
            else:
                y = attend(name, y) if has_attention else y
                x = (y + residual) * HALF
        out = self.drop("decoder.dropout_output", self.linear("decoder.out_embed_proj", x))
        return Decoding(blocks, attention, x, self.linear("decoder.output", out))

    def run(self, source: list[int], target_input: list[int]) -> Decoding:
        return self.decode(*self.encode(source), target_input)

    def loss(self, source: list[int], target_input: list[int], target: list[int]) -> Tensor:
        """Summed negative log-likelihood of the non-pad target tokens."""
        logits = self.run(source, target_input).logits
        log_probabilities = logits - torch.log(torch.exp(logits).sum(1, keepdim=True))
        return -sum(
            (log_probabilities[i, token] for i, token in enumerate(target) if token != PAD),
            torch.zeros((), dtype=torch.float64),
        )

    def gradients(self, loss: Tensor) -> dict[str, Tensor]:
        """Of every parameter; the encoder CNN's are divided, the rows of PAD get none."""
        names = list(self.parameters)
        found = torch.autograd.grad(loss, [self.parameters[name] for name in names], allow_unused=True)
        layers = sum(layer.repeat for layer in self.config.decoder.layers)
        attention_layers = layers if self.config.decoder.attention is None else len(self.config.decoder.attention)
        factor = {
            EncoderGradient.original: 1 / (2 * attention_layers),
            EncoderGradient.paper: 1 / attention_layers,
            EncoderGradient.unscaled: 1.0,
        }[self.config.encoder_gradient]
        result = {}
        for name, value in zip(names, found, strict=True):
            gradient = torch.zeros_like(self.parameters[name]) if value is None else value.clone()
            if "embed_tokens" in name or "embed_positions" in name:
                gradient[PAD] = 0
            elif name.startswith("encoder."):
                gradient = gradient * factor
            result[name] = gradient
        return result
