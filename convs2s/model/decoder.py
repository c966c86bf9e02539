"""The decoder: target prefix and encoded source -> scores of the next word (paper, sec. 3.2-3.3).

B sentences · S source length · T target length · K beam · E embedding · C channels · V vocabulary.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from convs2s.config import AttentionOrder, ModelConfig
from convs2s.model.encoder import Encoded
from convs2s.model.layers import SQRT_HALF, Dropout, GatedBlock, Linear, embedding_table, expand
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
        self, channels: int, out: int, kernel: int, eps: float, dropout: float, bottleneck: int, attend_width: int
    ) -> None:
        super().__init__(channels, out, kernel, eps, dropout, bottleneck)
        self.attention = Attention(out, attend_width, eps) if attend_width else None


class Decoded(NamedTuple):
    """The decoder's states for every target position."""

    hidden: Tensor  # (B, T, C) output of the last layer
    attention: list[Tensor]  # (B, T, S) of each layer that attends, in order
    blocks: list[Tensor]  # (B, T, C) output of each layer's gated linear unit


class DecoderState:
    """What a decoding in progress remembers: for each layer the last k - 1 inputs of its convolution.

    B sentences with K hypotheses each make B·K rows, those of a sentence side by side.  Keys and values of the source
    are kept once per sentence.  (original: the linearised convolution of -fconvfast)
    """

    def __init__(self, encoded: Encoded, beam: int, windows: list[Tensor]) -> None:
        self.encoded = encoded
        self.beam = beam
        self.length = 0  # target tokens read so far
        self.windows = windows  # per layer (B K, k - 1, C)

    def reorder(self, rows: Tensor) -> None:
        """Row r continues what row ``rows[r]`` was; ``rows``: (B·K,) indices."""
        self.windows = [window.index_select(0, rows) for window in self.windows]

    def keep(self, sentences: Tensor) -> None:
        """Go on with these sentences only; ``sentences``: (B',) indices."""
        self.encoded = self.encoded.select(sentences)
        self.windows = [
            window.view(len(window) // self.beam, self.beam, *window.shape[1:])[sentences].flatten(0, 1)
            for window in self.windows
        ]


class Decoder(nn.Module):
    """A stack of causal gated convolution blocks, some or all with attention, and the output layer."""

    def __init__(self, config: ModelConfig, vocabulary: int) -> None:
        super().__init__()
        width, eps = config.embedding, config.weight_norm_eps
        target, hidden = config.rate("target"), config.rate("hidden")
        self.attend_after_residual = config.attention_order == AttentionOrder.paper
        self.embed_tokens = embedding_table(vocabulary, width)
        self.embed_positions = embedding_table(config.max_positions, width) if config.decoder.positions else None
        self.dropout = Dropout(target)
        stack = expand(config.decoder.layers)
        attends = config.decoder.attending()
        self.in_proj = Linear(width, stack[0].channels, eps, target)
        inputs = [stack[0].channels] + [layer.channels for layer in stack]
        self.layers = nn.ModuleList(
            DecoderLayer(channels, layer.channels, layer.kernel, eps, hidden, config.bottleneck, width if attend else 0)
            for channels, layer, attend in zip(inputs, stack, attends, strict=False)
        )
        self.out_embed_proj = Linear(stack[-1].channels, config.output_embedding, eps)
        self.dropout_output = Dropout(config.rate("output"))
        self.output = Linear(config.output_embedding, vocabulary, eps, config.rate("output"))

    def forward(self, target_input: Tensor, encoded: Encoded) -> Decoded:
        """target_input (B, T) ids, </s> first, padded on the right."""
        real = target_input != PAD  # (B, T)
        embedded = self.embed(target_input, real.cumsum(1) * real + PAD)  # (B, T, E)
        x = self.in_proj(embedded)  # (B, T, C)
        attention, blocks = [], []
        for layer in self.layers:
            assert isinstance(layer, DecoderLayer)
            # k - 1 zeros on the left and none on the right: a position never sees its future.
            y = layer.leave(layer.conv(F.pad(layer.enter(x), (0, 0, layer.conv.kernel - 1, 0))))
            blocks.append(y)
            x, weights = self.attend(layer, x, y, embedded, encoded)
            if weights is not None:
                attention.append(weights)
        return Decoded(x, attention, blocks)

    def attend(
        self, layer: DecoderLayer, x: Tensor, y: Tensor, embedded: Tensor, encoded: Encoded
    ) -> tuple[Tensor, Tensor | None]:
        """A layer after its gate: its input x and gated y (B, T, C) -> its output (B, T, C), weights (B, T, S)."""
        weights = None
        if self.attend_after_residual:
            y = (y + layer.residual(x)) * SQRT_HALF
        if layer.attention is not None:
            y, weights = layer.attention(y, embedded, encoded)
        if not self.attend_after_residual:
            y = (y + layer.residual(x)) * SQRT_HALF
        return y, weights

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

    def start(self, encoded: Encoded, beam: int) -> DecoderState:
        """Nothing read yet: zeros to the left of the first position."""
        windows = []
        for layer in self.layers:
            assert isinstance(layer, DecoderLayer)
            kernel, channels = layer.conv.kernel, layer.conv.v.shape[1] // layer.conv.kernel
            windows.append(encoded.keys.new_zeros(len(encoded.keys) * beam, kernel - 1, channels))
        return DecoderState(encoded, beam, windows)

    def step(self, tokens: Tensor, state: DecoderState) -> tuple[Tensor, Tensor]:
        """tokens (B, K), the last of each hypothesis -> logits (B, K, V) and mean attention (B, K, S).

        The K hypotheses of a sentence take the place of the T positions: only the convolution tells them apart.
        """
        batch, beam = tokens.shape
        state.length += 1
        embedded = self.embed(tokens, tokens.new_tensor([[PAD + state.length]]))  # (B, K, E)
        x = self.in_proj(embedded)  # (B, K, C)
        attention = []
        for i, layer in enumerate(self.layers):
            assert isinstance(layer, DecoderLayer)
            window = torch.cat([state.windows[i], layer.enter(x).view(batch * beam, 1, -1)], 1)  # (B K, k, C)
            state.windows[i] = window[:, 1:]
            y = layer.leave(layer.conv(window).view(batch, beam, -1))  # (B, K, C)
            x, weights = self.attend(layer, x, y, embedded, state.encoded)
            if weights is not None:
                attention.append(weights)
        return self.logits(x), mean(attention, x, state.encoded)


def mean(attention: list[Tensor], x: Tensor, encoded: Encoded) -> Tensor:
    """Attention averaged over the layers that attend, (B, T, S); zeros where none does."""
    if not attention:
        return x.new_zeros(*x.shape[:2], encoded.keys.shape[1])
    return torch.stack(attention).mean(0)
