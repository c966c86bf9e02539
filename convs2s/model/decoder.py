"""The decoder: target prefix and encoded source -> scores of the next word (paper, sec. 3.2-3.3).

B sentences · S source length · T target length · K beam · E embedding · C channels · V vocabulary.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from convs2s.config import AttentionOrder, LayerConfig, ModelConfig
from convs2s.model.encoder import Encoded
from convs2s.model.layers import SQRT_HALF, Dropout, GatedBlock, Linear, embedding_table, expand, positions
from convs2s.text.vocabulary import PAD


class Attention(nn.Module):
    """Dot-product attention of one decoder layer over the encoded source (paper, sec. 3.3)."""

    def __init__(self, channels: int, width: int, eps: float) -> None:
        super().__init__()
        self.in_proj = Linear(channels, width, eps)
        self.out_proj = Linear(width, channels, eps)

    def forward(self, x: Tensor, embedded: Tensor, encoded: Encoded) -> tuple[Tensor, Tensor]:
        """x (B, T, C), target embedding (B, T, E) -> x with the context added (B, T, C), weights (B, T, S)."""
        query = (self.in_proj(x) + embedded) * SQRT_HALF  # (B, T, E)
        scores = query @ encoded.keys.transpose(1, 2)  # (B, T, S)
        if encoded.mask is not None:
            scores = scores.masked_fill(~encoded.mask.unsqueeze(1), float("-inf"))
        weights = scores.softmax(-1)
        # A mean over m positions has 1/m of their variance; m sqrt(1/m) restores it (paper, sec. 3.5).
        context = (weights @ encoded.values) * encoded.lengths.sqrt()[:, None, None]  # (B, T, E)
        return (self.out_proj(context) + x) * SQRT_HALF, weights


class DecoderLayer(GatedBlock):
    """A gated block and, in the layers that attend, its attention."""

    def __init__(
        self,
        widths: list[int],
        layer: LayerConfig,
        distance: int,
        eps: float,
        dropout: float,
        bottleneck: int,
        attend_width: int,
    ) -> None:
        super().__init__(widths, layer, distance, eps, dropout, bottleneck)
        self.attention = Attention(layer.channels, attend_width, eps) if attend_width else None


class SharedOutput(nn.Module):
    """An output layer whose weight is the target's embedding table, not normalised."""

    def __init__(self, table: nn.Embedding) -> None:
        super().__init__()
        self.weight = table.weight
        self.bias = nn.Parameter(torch.zeros(table.num_embeddings))

    def weight_and_bias(self) -> tuple[Tensor, Tensor]:
        """(V, E) and (V,), as of a Linear."""
        return self.weight, self.bias

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias)


class LookupOutput(nn.Module):
    """An output layer of rows [weight, bias], of which a batch uses some (original: -aligndictpath)."""

    def __init__(self, width: int, vocabulary: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocabulary, width + 1).normal_(0.0, 0.1))

    def weight_and_bias(self) -> tuple[Tensor, Tensor]:
        """(V, E) and (V,), as of a Linear."""
        return self.weight[:, :-1], self.weight[:, -1]

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, *self.weight_and_bias())


OutputLayer = SharedOutput | LookupOutput | Linear


def output_layer(config: ModelConfig, table: nn.Embedding) -> OutputLayer:
    """The output layer that ``config`` asks for, over the words of the target's embedding ``table``."""
    if config.share_output:
        return SharedOutput(table)
    if config.lookup_output:
        return LookupOutput(config.output_embedding, table.num_embeddings)
    return Linear(config.output_embedding, table.num_embeddings, config.weight_norm_eps, config.rate("output"))


class Decoded(NamedTuple):
    """The decoder's states for every target position."""

    hidden: Tensor  # (B, T, C) output of the last layer
    attention: list[Tensor]  # (B, T, S) of each layer that attends, in order
    blocks: list[Tensor]  # (B, T, C) output of each layer's gated linear unit, where there are such


class Decoder(nn.Module):
    """A stack of causal gated convolution blocks, some or all with attention, and the output layer."""

    def __init__(self, config: ModelConfig, vocabulary: int) -> None:
        super().__init__()
        width, eps = config.embedding, config.weight_norm_eps
        target, hidden = config.rate("target"), config.rate("hidden")
        self.attend_after_residual = config.attention_order == AttentionOrder.paper
        self.embed_tokens = embedding_table(vocabulary, width)
        rows = config.max_target_positions or config.max_positions
        self.embed_positions = embedding_table(rows, width) if config.decoder.positions else None
        self.dropout = Dropout(target)
        stack = expand(config.decoder.layers)
        attends = config.decoder.attending()
        self.in_proj = Linear(width, stack[0].channels, eps, target)
        widths = [stack[0].channels] + [layer.channels for layer in stack]
        distances = config.decoder.residuals or [1] * len(stack)
        self.reach = max(1, *distances)  # so many states are still needed
        self.layers = nn.ModuleList(
            DecoderLayer(
                widths[: i + 1], layer, distances[i], eps, hidden, config.bottleneck, width if attends[i] else 0
            )
            for i, layer in enumerate(stack)
        )
        self.out_embed_proj = Linear(stack[-1].channels, config.output_embedding, eps)
        self.dropout_output = Dropout(config.rate("output"))
        self.output = output_layer(config, self.embed_tokens)

    def forward(self, target_input: Tensor, encoded: Encoded) -> Decoded:
        """target_input (B, T) ids, </s> first, padded on either side."""
        embedded = self.embed(target_input, positions(target_input != PAD))  # (B, T, E)
        states = [self.in_proj(embedded)]  # (B, T, C) each
        attention: list[Tensor] = []
        blocks = []
        for layer in self.layers:
            assert isinstance(layer, DecoderLayer)
            # k - 1 zeros on the left and none on the right: a position never sees its future.
            y = layer.leave(layer.conv(F.pad(layer.enter(states[-1]), (0, 0, layer.conv.kernel - 1, 0))))
            blocks.append(y)
            self.attend(layer, y, states, attention, embedded, encoded)
        return Decoded(states[-1], attention, blocks)

    def attend(
        self,
        layer: DecoderLayer,
        y: Tensor,
        states: list[Tensor],
        attention: list[Tensor],
        embedded: Tensor,
        encoded: Encoded,
    ) -> None:
        """A layer after its gate, y (B, T, C): its output joins ``states`` and its weights (B, T, S) ``attention``."""
        if self.attend_after_residual:
            y = layer.add_residual(y, states)
        if layer.attention is not None:
            y, weights = layer.attention(y, embedded, encoded)
            attention.append(weights)
        states.append(y if self.attend_after_residual else layer.add_residual(y, states))
        del states[: -self.reach]

    def embed(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """Token plus position embedding, (B, T) and (B, T) or a broadcastable shape -> (B, T, E)."""
        embedded = self.embed_tokens(tokens)
        if self.embed_positions is not None:
            embedded = embedded + self.embed_positions(positions)
        return self.dropout(embedded)  # type: ignore[no-any-return]

    def before_output(self, hidden: Tensor) -> Tensor:
        """(B, T, C) -> the input of the output layer, (B, T, output_embedding)."""
        return self.dropout_output(self.out_embed_proj(hidden))  # type: ignore[no-any-return]

    def logits(self, hidden: Tensor) -> Tensor:
        """(B, T, C) -> unnormalised scores of the vocabulary, (B, T, V)."""
        return self.output(self.before_output(hidden))  # type: ignore[no-any-return]
