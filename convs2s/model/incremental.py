"""Decoding word by word: what is computed once, what is remembered, and the step from one word to the next.

B sentences · K beam, so B K rows · S source length · E embedding · C channels · V vocabulary · k kernel width.

The same function as ``Decoder.forward``, arranged so that a step does as little as possible. Linear maps that follow
each other without a non-linearity between them are multiplied out once:

    scores = sqrt(.5) (y W^T + b + t) A^T   = y (sqrt(.5) A W)^T + t (sqrt(.5) A)^T + sqrt(.5) A b    once a sentence
    output = sqrt(S) (a C) W^T + b          = a (sqrt(S) C W^T + b), as the rows of a sum to one       once a sentence
    in_proj(token + position)               = a table of V rows plus one of the positions              once a model

so no attention projection is left in a step, and every sum's factor is part of a product.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from convs2s.model.base import State
from convs2s.model.decoder import Decoder, DecoderLayer, OutputLayer
from convs2s.model.encoder import Encoded
from convs2s.model.layers import SQRT_HALF, WeightNorm
from convs2s.model.products import Product
from convs2s.text.vocabulary import PAD

GROUP = 64  # the output layer's rows are filled up to a multiple of this, so that a search can look at whole groups
SLACK = 12  # positions that a window can be appended to before its last k - 1 move to its front


class Windows:
    """The inputs of the convolutions of n layers of equal width and kernel, appended to and read as strided views."""

    def __init__(self, rows: int, layers: int, kernel: int, channels: int, like: Tensor) -> None:
        self.history = kernel - 1
        self.end = self.history  # zeros stand to the left of the first position
        self.buffer = like.new_zeros(rows, layers, self.history + SLACK, channels)

    def append(self, layer: int, x: Tensor) -> Tensor:
        """The next input of a layer, (B K, C) -> it and the k - 1 before it, (B K, k C)."""
        rows, layers, capacity, channels = self.buffer.shape
        self.buffer[:, layer, self.end] = x
        offset = (layer * capacity + self.end - self.history) * channels
        return self.buffer.as_strided((rows, (self.history + 1) * channels), (layers * capacity * channels, 1), offset)

    def advance(self) -> None:
        """Every layer has its input: on to the next position."""
        self.end += 1
        if self.end == self.buffer.shape[2]:
            self.buffer[:, :, : self.history] = self._past().clone()
            self.end = self.history

    def reorder(self, target: Tensor, source: Tensor) -> None:
        """Rows ``target`` go on from what rows ``source`` were."""
        past = self._past()
        past.index_copy_(0, target, past.index_select(0, source))

    def keep(self, rows: Tensor) -> None:
        self._begin(self._past().index_select(0, rows), 0)

    def add(self, rows: int) -> None:
        """So many rows more, which have read nothing yet."""
        self._begin(self._past(), rows)

    def _begin(self, past: Tensor, fresh: int) -> None:
        """A new buffer of rows that go on from their past, (rows, layers, k - 1, C), and of fresh ones."""
        self.buffer = past.new_empty(len(past) + fresh, *self.buffer.shape[1:])
        self.buffer[: len(past), :, : self.history] = past
        self.buffer[len(past) :, :, : self.history] = 0.0
        self.end = self.history

    def _past(self) -> Tensor:
        return self.buffer[:, :, self.end - self.history : self.end]


@dataclass
class Source:
    """What attention reads, once per sentence; padding has -inf in ``bias``."""

    embedded_keys: Tensor  # (B, S, E), for the target embedding
    bias: Tensor  # (layers that attend, B, 1, S)
    keys: list[Tensor]  # (B, S, C) of each layer that attends
    values: list[Tensor]  # (B, S, C)

    @property
    def width(self) -> int:
        return self.bias.shape[3]

    def select(self, sentences: Tensor, width: int) -> Source:
        """The given sentences only, without the positions from ``width`` on."""
        embedded, *others = (
            x[:, :width].index_select(0, sentences) for x in (self.embedded_keys, *self.keys, *self.values)
        )
        layers = len(self.keys)
        bias = self.bias[..., :width].index_select(1, sentences)
        return Source(embedded, bias, others[:layers], others[layers:])

    def join(self, other: Source) -> Source:
        """The sentences of both, the shorter ones padded on the right."""
        one, two = (side.widen(max(self.width, other.width)) for side in (self, other))
        return Source(
            torch.cat([one.embedded_keys, two.embedded_keys]),
            torch.cat([one.bias, two.bias], 1),
            [torch.cat(pair) for pair in zip(one.keys, two.keys, strict=True)],
            [torch.cat(pair) for pair in zip(one.values, two.values, strict=True)],
        )

    def widen(self, width: int) -> Source:
        """With padding up to ``width`` positions."""
        missing = width - self.width
        if not missing:
            return self
        embedded, *others = (F.pad(x, (0, 0, 0, missing)) for x in (self.embedded_keys, *self.keys, *self.values))
        layers = len(self.keys)
        bias = F.pad(self.bias, (0, missing), value=float("-inf"))
        return Source(embedded, bias, others[:layers], others[layers:])


class DecoderState:
    """A decoding in progress. B sentences of K hypotheses make B K rows, those of a sentence side by side.

    (original: the linearised convolution of -fconvfast)
    """

    def __init__(
        self, decoder: FoldedDecoder, source: Source | None, width: int, rows: int, beam: int, vocabulary: int
    ) -> None:
        self.decoder = decoder
        self.source = source  # None where no layer attends
        self.width = width  # S
        self.vocabulary = vocabulary  # words that are scored
        self.output = decoder.output
        self.lengths = np.zeros(rows // beam, np.int64)  # (B,) target tokens read so far
        like = decoder.table
        self.windows = [Windows(rows, count, kernel, channels, like) for count, kernel, channels in decoder.shapes]
        self.identity = torch.arange(rows, device=like.device)

    def reorder(self, rows: Tensor) -> None:
        """Row r continues what row ``rows[r]`` was; ``rows``: (B·K,) indices. Only rows that change are touched."""
        target, source = self.identity, rows
        if rows.device.type == "cpu":  # elsewhere, to ask would mean to wait
            target = (rows != self.identity).nonzero().squeeze(1)
            if not len(target):
                return
            source = rows.index_select(0, target)
        for windows in self.windows:
            windows.reorder(target, source)

    def keep(self, sentences: Tensor, rows: Tensor, width: int) -> None:
        if self.source is not None:
            self.source = self.source.select(sentences, width)
        self.width = width
        self.lengths = self.lengths[sentences.cpu().numpy()]
        for windows in self.windows:
            windows.keep(rows)
        self.identity = self.identity[: len(rows)]

    def join(self, other: State) -> None:
        """Go on with the sentences of another state, too, which has read nothing yet; they come last."""
        assert isinstance(other, DecoderState)
        if self.source is not None and other.source is not None:
            self.source = self.source.join(other.source)
        self.width = max(self.width, other.width)
        self.lengths = np.concatenate([self.lengths, other.lengths])
        for windows in self.windows:
            windows.add(len(other.identity))
        self.identity = torch.arange(len(self.identity) + len(other.identity), device=self.identity.device)


class FoldedLayer:
    """A decoder layer ready for steps."""

    def __init__(self, layer: DecoderLayer, after_residual: bool) -> None:
        """after_residual: attention reads the sum with the residual branch, not the convolution's output alone."""
        self.conv = fold(layer.conv)
        self.kernel = layer.conv.kernel
        self.channels = layer.conv.v.shape[1] // self.kernel
        self.enter = None if layer.bottleneck_in is None else fold(layer.bottleneck_in)
        self.leave = None if layer.bottleneck_out is None else fold(layer.bottleneck_out)
        self.distance = layer.distance
        self.residual = None if layer.residual_proj is None else fold(layer.residual_proj)
        # After the context is added comes a factor, and after the residual sum, where that is the later one, another.
        self.scale = 0.5 if self.distance and not after_residual else SQRT_HALF
        self.attention = layer.attention
        self.windows, self.place = -1, 0  # which windows hold its inputs, and where among them; -1: none needed


class FoldedDecoder:
    """A decoder's weights, multiplied out for inference."""

    def __init__(self, decoder: Decoder) -> None:
        self.after_residual = decoder.attend_after_residual
        self.layers = []
        for layer in decoder.layers:
            assert isinstance(layer, DecoderLayer)
            self.layers.append(FoldedLayer(layer, self.after_residual))
        self.shapes: list[tuple[int, int, int]] = []  # (layers, kernel, channels) of each group of windows
        for folded in self.layers:
            if folded.kernel == 1:
                continue
            if not self.shapes or self.shapes[-1][1:] != (folded.kernel, folded.channels):
                self.shapes.append((0, folded.kernel, folded.channels))
            folded.windows, folded.place = len(self.shapes) - 1, self.shapes[-1][0]
            self.shapes[-1] = (folded.place + 1, folded.kernel, folded.channels)

        weight, bias = decoder.in_proj.weight_and_bias()
        table = decoder.embed_tokens.weight.detach()
        self.embedding = table.shape[1]
        self.table = torch.cat([table, F.linear(table, weight.to(table), bias.to(table))], 1)  # (V, E + C)
        self.positions: Tensor | None = None
        if decoder.embed_positions is not None:
            positions = decoder.embed_positions.weight.detach()
            self.positions = torch.cat([positions, F.linear(positions, weight.to(table))], 1)
        self.before_output = fold(decoder.out_embed_proj)
        self.output = fill_output(decoder.output, self.before_output, table)

    def start(self, encoded: Encoded, beam: int, vocabulary: Tensor | None = None) -> DecoderState:
        """Begin to decode ``beam`` hypotheses for each of the B encoded sentences.

        vocabulary: (V',) ids; the output layer then scores these only, and "token n" of its scores is vocabulary[n].
        """
        batch, width, _ = encoded.keys.shape
        count = len(self.table) if vocabulary is None else len(vocabulary)
        state = DecoderState(self, self.prepare(encoded), width, batch * beam, beam, count)
        if vocabulary is not None:
            state.output = select_output(self.output, vocabulary)
        return state

    def prepare(self, encoded: Encoded) -> Source | None:
        """The attention layers' projections applied to keys and values instead of to every hypothesis."""
        scaled = encoded.keys * SQRT_HALF  # (B, S, E)
        root = encoded.values * encoded.lengths.sqrt()[:, None, None]
        biases, keys, values = [], [], []
        for layer in self.layers:
            if layer.attention is None:
                continue
            weight, bias = (x.to(scaled) for x in layer.attention.in_proj.weight_and_bias())
            keys.append(F.linear(scaled, weight.t()))  # (B, S, C)
            biases.append(scaled @ bias)  # (B, S)
            weight, bias = (x.to(scaled) for x in layer.attention.out_proj.weight_and_bias())
            values.append(F.linear(root, weight * layer.scale, bias * layer.scale))  # (B, S, C)
        if not keys:
            return None
        bias = torch.stack(biases)  # (layers, B, S)
        if encoded.mask is not None:
            bias = bias.masked_fill(~encoded.mask, float("-inf"))
        return Source(scaled, bias.unsqueeze(2), keys, values)

    def step(self, tokens: Tensor, state: DecoderState) -> tuple[Tensor, list[Tensor]]:
        """tokens (B, K), the last of each hypothesis -> logits (B K, V), filled with -inf up to a multiple of GROUP,
        and the attention (B, K, S) of each layer that attends.

        The K hypotheses of a sentence take the place of the T positions: only the convolution tells them apart.
        """
        batch, beam = tokens.shape
        state.lengths += 1
        both = self.table.index_select(0, tokens.reshape(-1))  # (B K, E + C)
        if self.positions is not None:
            places = torch.from_numpy(PAD + state.lengths).to(tokens.device)
            both.view(batch, beam, -1).add_(self.positions.index_select(0, places).unsqueeze(1))
        states = [both[:, self.embedding :]]
        attention: list[Tensor] = []
        if state.source is not None:
            embedded = both[:, : self.embedding].view(batch, beam, -1)  # (B, K, E)
            scores = torch.bmm(embedded, state.source.embedded_keys.transpose(1, 2))  # (B, K, S)
            biased = (scores + state.source.bias).unbind(0)  # (B, K, S) each
        for layer in self.layers:
            x = states[-1]
            if layer.enter is not None:
                x = F.glu(layer.enter(x), -1)
            window = x if layer.windows < 0 else state.windows[layer.windows].append(layer.place, x)
            y = F.glu(layer.conv(window), -1)  # (B K, C)
            if layer.leave is not None:
                y = F.glu(layer.leave(y), -1)
            if self.after_residual and layer.distance:
                y = (y + residual(layer, states)) * SQRT_HALF
            if layer.attention is not None and state.source is not None:
                number = len(attention)
                y = y.view(batch, beam, -1)
                keys = state.source.keys[number].transpose(1, 2)  # (B, C, S)
                weights = torch.baddbmm(biased[number], y, keys).softmax(-1)  # (B, K, S)
                y = torch.baddbmm(y, weights, state.source.values[number], beta=layer.scale).flatten(0, 1)
                attention.append(weights)
                if not self.after_residual and layer.distance:
                    y = torch.add(y, residual(layer, states), alpha=SQRT_HALF)
            elif not self.after_residual and layer.distance:
                y = (y + residual(layer, states)) * SQRT_HALF
            states.append(y)
        for windows in state.windows:
            windows.advance()
        return state.output(self.before_output(states[-1])), attention


def residual(layer: FoldedLayer, states: list[Tensor]) -> Tensor:
    """The other branch of a layer's sum, (B K, C)."""
    x = states[-layer.distance]
    return x if layer.residual is None else layer.residual(x)


def fold(layer: WeightNorm) -> Product:
    """The layer's product: that of ``ConvS2S.fold``, or one for this decoding only."""
    if layer.folded is not None:
        return layer.folded
    weight, bias = layer.weight_and_bias()
    return Product(weight.detach(), bias.detach())


def fill_group(weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """Rows that score -inf, up to a multiple of GROUP; (V, C) and (V,)."""
    missing = -len(bias) % GROUP
    return F.pad(weight, (0, 0, 0, missing)), F.pad(bias, (0, missing), value=float("-inf"))


def fill_output(layer: OutputLayer, like: Product, table: Tensor) -> Product:
    """The output layer as a product of the kind of ``like`` and the type of ``table``, its rows filled up."""
    weight, bias = layer.weight_and_bias()
    return type(like)(*fill_group(weight.detach().to(table), bias.detach().to(table)))


def select_output(output: Product, vocabulary: Tensor) -> Product:
    """The rows of some words, (V',) ids, filled up."""
    return Product(*fill_group(output.weight[vocabulary], output.bias[vocabulary]))
