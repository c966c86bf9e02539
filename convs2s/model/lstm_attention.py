"""The contrast to ConvS2S: a recurrent encoder-decoder with attention (Bahdanau et al. 2015, Luong et al. 2015).

B sentences · S source length · T target length · K beam, so B K rows · E embedding · O output_embedding · V vocabulary
H channels of the encoder, both directions together · C channels of a decoder layer · L decoder layers.

Where ConvS2S attends in every layer and for all target positions at once, this model attends once, above its last
layer, and has to know a word before it can compute the next one's state:

    h_t = LSTM(h_{t-1}, [y_{t-1}, o_{t-1}])      o_{t-1}: what was output before (input feeding)
    a_t = softmax(keys W h_t)                    over the source positions
    o_t = tanh(W' [sum_s a_ts values_s, h_t])    from which the next word is scored
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from convs2s.config import ModelConfig, SearchPrecision
from convs2s.model.base import Seq2Seq, State
from convs2s.model.decoder import Decoded, output_layer
from convs2s.model.encoder import Encoded
from convs2s.model.incremental import fill_output, fold, select_output
from convs2s.model.layers import Dropout, Linear, embedding_table, expand
from convs2s.model.products import Product
from convs2s.text.vocabulary import PAD


class RecurrentEncoder(nn.Module):
    """LSTM layers that read the source in both directions; their states are keys and values alike."""

    def __init__(self, config: ModelConfig, vocabulary: int) -> None:
        super().__init__()
        stack = expand(config.encoder.layers)
        hidden = config.rate("hidden")
        self.embed_tokens = embedding_table(vocabulary, config.embedding)
        self.dropout = Dropout(config.rate("source"))
        self.lstm = nn.LSTM(
            config.embedding,
            stack[0].channels // 2,
            len(stack),
            batch_first=True,
            bidirectional=True,
            dropout=hidden if len(stack) > 1 else 0.0,
        )
        self.dropout_output = Dropout(hidden)

    def forward(self, source: Tensor) -> Encoded:
        """source (B, S) ids, padded on either side -> states (B, S, H)."""
        real = source != PAD  # (B, S)
        lengths = real.sum(1)
        x = self.dropout(self.embed_tokens(source))  # (B, S, E)
        mask = None if bool(real.all()) else real
        if mask is None:
            states = self.lstm(x)[0]
        else:
            # Words to the front, in order: a packed sequence has its padding behind it, and never reads it.
            order = real.logical_not().long().argsort(dim=1, stable=True)  # (B, S)
            packed = pack_padded_sequence(rows(x, order), lengths.cpu(), batch_first=True, enforce_sorted=False)
            states, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=source.shape[1])
            states = rows(states, order.argsort(1))
        states = self.dropout_output(states)  # (B, S, H)
        return Encoded(states, states, mask, lengths.to(states.dtype))


class Memory(NamedTuple):
    """What the decoder attends to, once a sentence."""

    keys: Tensor  # (B, S, C), projected, so that a state's product with them is its score
    values: Tensor  # (B, S, H)
    bias: Tensor  # (B, 1, S), -inf at padding

    def select(self, sentences: Tensor, width: int) -> Memory:
        """The given sentences only, (B',) indices, without the positions from ``width`` on."""
        return Memory(self.keys[sentences, :width], self.values[sentences, :width], self.bias[sentences, :, :width])

    def join(self, other: Memory) -> Memory:
        """The sentences of both, the shorter ones padded on the right."""
        one, two = (side.widen(max(self.keys.shape[1], other.keys.shape[1])) for side in (self, other))
        return Memory(*(torch.cat(pair) for pair in zip(one, two, strict=True)))

    def widen(self, width: int) -> Memory:
        """With padding up to ``width`` positions."""
        missing = width - self.keys.shape[1]
        keys, values = (F.pad(x, (0, 0, 0, missing)) for x in (self.keys, self.values))
        return Memory(keys, values, F.pad(self.bias, (0, missing), value=float("-inf")))


class Recurrent(NamedTuple):
    """What a step leaves for the next one, in every row."""

    hidden: tuple[Tensor, ...]  # (B K, C) of each layer
    cells: tuple[Tensor, ...]  # likewise
    fed: Tensor  # (B K, O) the last output

    def select(self, rows: Tensor) -> Recurrent:
        """Row r becomes what row ``rows[r]`` was."""
        hidden, cells = (tuple(x.index_select(0, rows) for x in side) for side in (self.hidden, self.cells))
        return Recurrent(hidden, cells, self.fed.index_select(0, rows))

    def join(self, other: Recurrent) -> Recurrent:
        """The rows of both."""
        hidden, cells = (
            tuple(torch.cat(pair) for pair in zip(one, two, strict=True))
            for one, two in ((self.hidden, other.hidden), (self.cells, other.cells))
        )
        return Recurrent(hidden, cells, torch.cat([self.fed, other.fed]))


class RecurrentDecoder(nn.Module):
    """LSTM layers, attention above the last one, and the output layer."""

    def __init__(self, config: ModelConfig, vocabulary: int) -> None:
        super().__init__()
        eps, states = config.weight_norm_eps, expand(config.encoder.layers)[-1].channels
        stack = expand(config.decoder.layers)
        channels, output = stack[0].channels, config.output_embedding
        self.embed_tokens = embedding_table(vocabulary, config.embedding)
        self.dropout = Dropout(config.rate("target"))
        self.start_proj = Linear(states, channels * len(stack), eps)
        self.cells = nn.ModuleList(
            nn.LSTMCell(config.embedding + output if i == 0 else channels, channels) for i in range(len(stack))
        )
        self.dropout_hidden = Dropout(config.rate("hidden"))
        self.attention_proj = Linear(channels, states, eps)
        self.combine = Linear(states + channels, output, eps)
        self.dropout_output = Dropout(config.rate("output"))
        self.output = output_layer(config, self.embed_tokens)

    def remember(self, encoded: Encoded) -> Memory:
        """Keys and values, ready for steps."""
        weight, bias = (x.to(encoded.keys) for x in self.attention_proj.weight_and_bias())
        # (s, W h + b) = (W^T s, h) + (b, s): the map is applied to each source position once, not to every state.
        scores = (encoded.keys @ bias).unsqueeze(1)  # (B, 1, S)
        if encoded.mask is not None:
            scores = scores.masked_fill(~encoded.mask.unsqueeze(1), float("-inf"))
        return Memory(encoded.keys @ weight, encoded.values, scores)

    def begin(self, encoded: Encoded, beam: int) -> Recurrent:
        """The state before the first word, in ``beam`` rows a sentence: from that of the source's first word, of which
        one half has read the whole sentence, backwards (Bahdanau et al. 2015, appendix A.2.2)."""
        batch = torch.arange(len(encoded.keys), device=encoded.keys.device)
        first = torch.zeros_like(batch) if encoded.mask is None else encoded.mask.long().argmax(1)
        start = self.start_proj(encoded.keys[batch, first]).tanh().repeat_interleave(beam, 0)  # (B K, L C)
        hidden = start.chunk(len(self.cells), -1)
        fed = start.new_zeros(len(start), self.combine.v.shape[0])
        return Recurrent(hidden, tuple(torch.zeros_like(layer) for layer in hidden), fed)

    def advance(self, embedded: Tensor, state: Recurrent, memory: Memory) -> tuple[Tensor, Recurrent]:
        """One word: embedded (B K, E) -> attention (B, K, S) and the state, whose ``fed`` scores the next word."""
        x = torch.cat([embedded, state.fed], -1)  # (B K, E + O)
        hidden, cells = [], []
        for cell, before, remembered in zip(self.cells, state.hidden, state.cells, strict=True):
            after, remembering = cell(x, (before, remembered))
            hidden.append(after)
            cells.append(remembering)
            x = self.dropout_hidden(after)  # (B K, C)
        weights = self.attend(x, memory)  # (B, K, S)
        context = torch.bmm(weights, memory.values).flatten(0, 1)  # (B K, H)
        fed = self.combine(torch.cat([context, x], -1)).tanh()  # (B K, O)
        return weights, Recurrent(tuple(hidden), tuple(cells), fed)

    def attend(self, x: Tensor, memory: Memory) -> Tensor:
        """States of the last layer, (B K, C) -> weights (B, K, S)."""
        x = x.view(len(memory.keys), -1, x.shape[-1])  # (B, K, C)
        return torch.baddbmm(memory.bias, x, memory.keys.transpose(1, 2)).softmax(-1)

    def forward(self, target_input: Tensor, encoded: Encoded) -> Decoded:
        """target_input (B, T) ids, </s> first, padded on the right; hidden is (B, T, O)."""
        embedded = self.dropout(self.embed_tokens(target_input))  # (B, T, E)
        memory, state = self.remember(encoded), self.begin(encoded, beam=1)
        outputs, attention = [], []
        for x in embedded.unbind(1):
            weights, state = self.advance(x, state, memory)
            outputs.append(state.fed)
            attention.append(weights)
        return Decoded(torch.stack(outputs, 1), [torch.cat(attention, 1)], [])

    def before_output(self, hidden: Tensor) -> Tensor:
        """(B, T, O) -> the same, in training with dropout."""
        return self.dropout_output(hidden)  # type: ignore[no-any-return]

    def logits(self, hidden: Tensor) -> Tensor:
        """(B, T, O) -> unnormalised scores of the vocabulary, (B, T, V)."""
        return self.output(self.before_output(hidden))  # type: ignore[no-any-return]


class RecurrentState:
    """A decoding in progress."""

    def __init__(self, memory: Memory, recurrent: Recurrent, output: Product, vocabulary: int) -> None:
        self.memory, self.recurrent = memory, recurrent
        self.output, self.vocabulary = output, vocabulary
        self.lengths = np.zeros(len(memory.keys), np.int64)  # (B,)

    @property
    def width(self) -> int:
        return self.memory.keys.shape[1]

    def reorder(self, rows: Tensor) -> None:
        self.recurrent = self.recurrent.select(rows)

    def keep(self, sentences: Tensor, rows: Tensor, width: int) -> None:
        self.recurrent = self.recurrent.select(rows)
        self.memory = self.memory.select(sentences, width)
        self.lengths = self.lengths[sentences.cpu().numpy()]

    def join(self, other: State) -> None:
        assert isinstance(other, RecurrentState)
        self.memory = self.memory.join(other.memory)
        self.recurrent = self.recurrent.join(other.recurrent)
        self.lengths = np.concatenate([self.lengths, other.lengths])


class LSTMAttention(Seq2Seq):
    """Recurrent encoder-decoder with attention and input feeding."""

    encoder: RecurrentEncoder
    decoder: RecurrentDecoder

    def __init__(self, config: ModelConfig, source_vocabulary: int, target_vocabulary: int) -> None:
        super().__init__(config, source_vocabulary, target_vocabulary)
        self.encoder = RecurrentEncoder(config, source_vocabulary)
        self.decoder = RecurrentDecoder(config, target_vocabulary)
        self.folded: Product | None = None  # the output layer, set by fold

    def output_decoder(self) -> RecurrentDecoder:
        return self.decoder

    @torch.no_grad()
    def start(self, encoded: Encoded, beam: int, vocabulary: Tensor | None = None) -> RecurrentState:
        output = self.folded or self.fold_output()
        if vocabulary is not None:
            output = select_output(output, vocabulary)
        words = self.target_vocabulary if vocabulary is None else len(vocabulary)
        return RecurrentState(self.decoder.remember(encoded), self.decoder.begin(encoded, beam), output, words)

    def advance(self, tokens: Tensor, state: State) -> tuple[Tensor, list[Tensor]]:
        assert isinstance(state, RecurrentState)
        state.lengths += 1
        embedded = self.decoder.embed_tokens(tokens.reshape(-1))  # (B K, E)
        weights, state.recurrent = self.decoder.advance(embedded, state.recurrent, state.memory)
        return state.output(state.recurrent.fed), [weights]

    def fold_output(self) -> Product:
        return fill_output(self.decoder.output, fold(self.decoder.combine), self.decoder.embed_tokens.weight.detach())

    @torch.no_grad()
    def fold(self, precision: SearchPrecision = SearchPrecision.fp32) -> None:
        super().fold(precision)
        self.folded = self.fold_output()

    def train(self, mode: bool = True) -> LSTMAttention:
        self.folded = None
        return super().train(mode)


def rows(x: Tensor, order: Tensor) -> Tensor:
    """x (B, S, C) with each sentence's positions in the given order, (B, S)."""
    return x.gather(1, order.unsqueeze(-1).expand(-1, -1, x.shape[-1]))
