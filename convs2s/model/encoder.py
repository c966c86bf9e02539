"""The encoder: source ids -> a key and a value for every source position (paper, sec. 3.1-3.3).

B sentences · S source length · E embedding · C channels.  Every tensor is (B, S, C).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from convs2s.config import EncoderGradient, ModelConfig, SourcePadding
from convs2s.model.layers import SQRT_HALF, Dropout, GatedBlock, Linear, WeightNorm, embedding_table, expand
from convs2s.text.vocabulary import PAD


class Encoded(NamedTuple):
    """What the decoder's attention reads."""

    keys: Tensor  # (B, S, E) the encoder's output
    values: Tensor  # (B, S, E) output plus source embedding
    mask: Tensor | None  # (B, S) True at real positions; None where every position counts
    lengths: Tensor  # (B,) number of positions that count, in the keys' type

    def select(self, sentences: Tensor) -> Encoded:
        """The given sentences only; ``sentences``: (B',) indices."""
        mask = None if self.mask is None else self.mask[sentences]
        return Encoded(self.keys[sentences], self.values[sentences], mask, self.lengths[sentences])


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
        inputs = [stack[0].channels] + [layer.channels for layer in stack]
        self.layers = nn.ModuleList(
            GatedBlock(channels, layer.channels, layer.kernel, eps, hidden, config.bottleneck)
            for channels, layer in zip(inputs, stack, strict=False)
        )
        self.out_proj = Linear(stack[-1].channels, width, eps)
        # The weights of the CNN, not the embeddings, see their gradients scaled, since every attention layer adds to
        # them (paper, sec. 3.5: divided by the number of attention layers; original: GradMultiply, by twice that).
        divisor = {EncoderGradient.original: 2, EncoderGradient.paper: 1, EncoderGradient.unscaled: 0}
        if divisor[config.encoder_gradient] and attention_layers:
            for module in self.modules():
                if isinstance(module, WeightNorm):
                    module.gradient_scale = 1.0 / (divisor[config.encoder_gradient] * attention_layers)

    def forward(self, source: Tensor) -> Encoded:
        """source (B, S) ids, padded on either side -> keys and values (B, S, E)."""
        real = source != PAD  # (B, S)
        embedded = self.embed_tokens(source)  # (B, S, E)
        if self.embed_positions is not None:
            embedded = embedded + self.embed_positions(real.cumsum(1) * real + PAD)
        embedded = self.dropout(embedded)

        mask = real if self.mask_padding and not bool(real.all()) else None
        padding = None if mask is None else ~mask.unsqueeze(-1)  # (B, S, 1)
        x = self.in_proj(embedded)  # (B, S, C)
        for layer in self.layers:
            assert isinstance(layer, GatedBlock)
            y = layer.enter(x)
            if padding is not None:
                y = y.masked_fill(padding, 0.0)  # convolutions see zeros beyond the sentence, as at its ends
            kernel = layer.conv.kernel
            y = layer.leave(layer.conv(F.pad(y, (0, 0, (kernel - 1) // 2, kernel // 2))))
            x = (y + layer.residual(x)) * SQRT_HALF
        keys = self.out_proj(x)  # (B, S, E)
        counted = real if self.mask_padding else torch.ones_like(real)
        return Encoded(keys, (keys + embedded) * SQRT_HALF, mask, counted.sum(1).to(keys.dtype))
