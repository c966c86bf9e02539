"""The encoder: source ids -> a key and a value for every source position (paper, sec. 3.1-3.3).

B sentences · S source length · E embedding · C channels. Every tensor is (B, S, C).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from convs2s.config import EncoderGradient, ModelConfig, SourcePadding
from convs2s.model.layers import (
    SQRT_HALF,
    Dropout,
    GatedBlock,
    Linear,
    WeightNorm,
    embedding_table,
    expand,
    positions,
    scale_gradient,
)
from convs2s.text.vocabulary import PAD


class Encoded(NamedTuple):
    """What the decoder's attention reads."""

    keys: Tensor  # (B, S, E) the encoder's output
    values: Tensor  # (B, S, E) output plus source embedding
    mask: Tensor | None  # (B, S) True at real positions; None where every position counts
    lengths: Tensor  # (B,) number of positions that count, in the keys' type


class Encoder(nn.Module):
    """A stack of gated convolution blocks over the whole source sentence."""

    def __init__(self, config: ModelConfig, vocabulary: int, attention_layers: int) -> None:
        super().__init__()
        width, eps = config.embedding, config.weight_norm_eps
        source, hidden = config.rate("source"), config.rate("hidden")
        self.mask_padding = config.source_padding == SourcePadding.masked
        self.embed_tokens = embedding_table(vocabulary, width)
        self.embed_positions = embedding_table(config.max_positions, width) if config.encoder.positions else None
        self.dropout = Dropout(source)
        stack = expand(config.encoder.layers)
        self.in_proj = Linear(width, stack[0].channels, eps, source)
        widths = [stack[0].channels] + [layer.channels for layer in stack]
        distances = config.encoder.residuals or [1] * len(stack)
        self.reach = max(1, *distances)  # so many states are still needed
        self.layers = nn.ModuleList(
            GatedBlock(widths[: i + 1], layer, distances[i], eps, hidden, config.bottleneck)
            for i, layer in enumerate(stack)
        )
        self.out_proj = Linear(stack[-1].channels, width, eps)
        # The weights of the CNN, not the embeddings, see their gradients scaled, since every attention layer adds to
        # them (paper, sec. 3.5: divided by the number of attention layers; original: GradMultiply, by twice that).
        # The PyTorch release scales the gradient of the CNN's output instead, which reaches the embeddings too.
        divisor = {EncoderGradient.unscaled: 0, EncoderGradient.paper: 1}.get(config.encoder_gradient, 2)
        scale = 1.0 / (divisor * attention_layers) if divisor and attention_layers else 1.0
        self.output_gradient_scale = scale if config.encoder_gradient == EncoderGradient.output else 1.0
        for module in self.modules():
            if isinstance(module, WeightNorm) and config.encoder_gradient != EncoderGradient.output:
                module.gradient_scale = scale

    def forward(self, source: Tensor) -> Encoded:
        """source (B, S) ids, padded on either side -> keys and values (B, S, E)."""
        real = source != PAD  # (B, S)
        # Compiled, a look at the values would cut the graph in two: there the mask is always applied.
        whole = not self.mask_padding or (not torch.compiler.is_compiling() and bool(real.all()))
        return self.encode(source, real, None if whole else real)

    def encode(self, source: Tensor, real: Tensor, mask: Tensor | None) -> Encoded:
        """As ``forward``; real: (B, S), what is no padding; mask: the same, or None where nothing is to be masked."""
        embedded = self.embed_tokens(source)  # (B, S, E)
        if self.embed_positions is not None:
            embedded = embedded + self.embed_positions(positions(real))
        embedded = self.dropout(embedded)

        padding = None if mask is None else ~mask.unsqueeze(-1)  # (B, S, 1)
        states = [self.in_proj(embedded)]  # (B, S, C) each
        for layer in self.layers:
            assert isinstance(layer, GatedBlock)
            y = layer.enter(states[-1])
            if padding is not None:
                y = y.masked_fill(padding, 0.0)  # convolutions see zeros beyond the sentence, as at its ends
            kernel = layer.conv.kernel
            y = layer.leave(layer.conv(F.pad(y, (0, 0, (kernel - 1) // 2, kernel // 2))))
            states = [*states, layer.add_residual(y, states)][-self.reach :]
        keys = self.out_proj(states[-1])  # (B, S, E)
        if self.output_gradient_scale != 1.0:
            keys = scale_gradient(keys, self.output_gradient_scale)
        counted = real if self.mask_padding else torch.ones_like(real)
        return Encoded(keys, (keys + embedded) * SQRT_HALF, mask, counted.sum(1).to(keys.dtype))
