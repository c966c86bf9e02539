"""What every model can do: the part of it that training, search and checkpoints know.

B sentences · S source length · T target length · K beam · C channels · V vocabulary. Ids: <unk> 0, <pad> 1, </s> 2.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from convs2s.config import ModelConfig, SearchPrecision
from convs2s.model.decoder import Decoded, OutputLayer
from convs2s.model.encoder import Encoded
from convs2s.model.layers import WeightNorm
from convs2s.model.loss import LinearCrossEntropy
from convs2s.model.products import product
from convs2s.text.vocabulary import PAD


class State(Protocol):
    """A decoding in progress. B sentences of K hypotheses make B K rows, those of a sentence side by side."""

    @property
    def width(self) -> int:
        """S."""

    vocabulary: int  # words that are scored
    lengths: npt.NDArray[np.int64]  # (B,) target tokens read so far

    def reorder(self, rows: Tensor) -> None:
        """Row r continues what row ``rows[r]`` was; ``rows``: (B K,) indices."""

    def keep(self, sentences: Tensor, rows: Tensor, width: int) -> None:
        """Go on with these sentences only, (B',) indices, each with these rows, (B' K,).

        No source of theirs has anything from ``width`` on.
        """

    def join(self, other: State) -> None:
        """Go on with the sentences of another state, too, which has read nothing yet; they come last."""


class OutputDecoder(Protocol):
    """What turns a decoder's states into scores."""

    output: OutputLayer

    def before_output(self, hidden: Tensor) -> Tensor:
        """(B, T, C) -> the input of the output layer, (B, T, output_embedding)."""

    def logits(self, hidden: Tensor) -> Tensor:
        """(B, T, C) -> unnormalised scores of the vocabulary, (B, T, V)."""


class Seq2Seq(nn.Module, ABC):
    """A model from ids to log-probabilities; ``build`` makes the one that a configuration asks for.

    source_vocabulary, target_vocabulary: number of ids. Weights are drawn from torch's global generator.
    """

    encoder: nn.Module
    decoder: nn.Module

    def __init__(self, config: ModelConfig, source_vocabulary: int, target_vocabulary: int) -> None:
        super().__init__()
        config.check()
        self.config = config
        self.source_vocabulary = source_vocabulary
        self.target_vocabulary = target_vocabulary
        self.register_load_state_dict_pre_hook(lambda module, *_: module.train(module.training))  # type: ignore[no-untyped-call]

    @property
    def max_source_length(self) -> int:
        """Tokens a source may have, </s> included."""
        return self.config.max_source_length

    @property
    def max_target_length(self) -> int:
        """Likewise of a target."""
        return self.config.max_target_length

    @abstractmethod
    def output_decoder(self) -> OutputDecoder:
        """The decoder, as far as scores of words are concerned."""

    def encode(self, source: Tensor) -> Encoded:
        """source (B, S) ids, padded on either side. Raises ValueError beyond the position table."""
        self.check_length(source, self.max_source_length)
        return self.encoder(source)  # type: ignore[no-any-return]

    def decode(self, encoded: Encoded, target_input: Tensor) -> Decoded:
        """All target positions at once; target_input (B, T) ids, </s> first, padded on either side. Raises likewise."""
        self.check_length(target_input, self.max_target_length)
        return self.decoder(target_input, encoded)  # type: ignore[no-any-return]

    @abstractmethod
    def start(self, encoded: Encoded, beam: int, vocabulary: Tensor | None = None) -> State:
        """Begin to decode ``beam`` hypotheses for each of the B encoded sentences.

        vocabulary: (V',) ids; only these are then scored, and the n-th score of a step belongs to vocabulary[n].
        """

    @abstractmethod
    def advance(self, tokens: Tensor, state: State) -> tuple[Tensor, list[Tensor]]:
        """As ``raw_step``, where ``state`` is one of this model's and the length has been looked at."""

    def forward(self, source: Tensor, target_input: Tensor) -> Tensor:
        """source (B, S), target_input (B, T), </s> first -> log-probabilities of the next word, (B, T, V)."""
        return self.logits(source, target_input).log_softmax(-1)

    def logits(self, source: Tensor, target_input: Tensor) -> Tensor:
        """As ``forward``, unnormalised."""
        return self.output_decoder().logits(self.decode(self.encode(source), target_input).hidden)

    def loss(self, source: Tensor, target_input: Tensor, target: Tensor, vocabulary: Tensor | None = None) -> Tensor:
        """Negative log-likelihood in nats, summed over the target tokens that are not padding.

        vocabulary: (V',) ids, <unk>, <pad> and </s> first, that the words are chosen from; ``target`` then holds
        places in it (original: data.lua getTargetVocabFromAlignment).
        """
        decoder = self.output_decoder()
        hidden = self.decode(self.encode(source), target_input).hidden
        hidden = decoder.before_output(hidden).flatten(0, 1)  # (B T, C)
        weight, bias = decoder.output.weight_and_bias()
        if vocabulary is not None:
            weight, bias = weight[vocabulary], bias[vocabulary]
        return LinearCrossEntropy.apply(hidden, weight, bias, target.flatten(), PAD)  # type: ignore[no-any-return,no-untyped-call]

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, Tensor]:
        """The last token of each hypothesis, (B, K) -> log-probabilities of the next (B, K, V), attention (B, K, S).

        ``state`` moves on by one position. The attention is averaged over the layers that attend, zeros where none
        does. Raises ValueError at the end of the position table.
        """
        logits, attention = self.raw_step(tokens, state)
        log_probs = logits[:, : state.vocabulary].view(*tokens.shape, -1).log_softmax(-1)
        if not attention:
            return log_probs, logits.new_zeros(*tokens.shape, state.width)
        return log_probs, attention[0] if len(attention) == 1 else torch.stack(attention).mean(0)

    @torch.no_grad()
    def raw_step(self, tokens: Tensor, state: State) -> tuple[Tensor, list[Tensor]]:
        """As ``step``, for searches: logits (B K, V), filled with -inf up to a multiple of GROUP, and the attention
        (B, K, S) of each layer."""
        if state.lengths.max() >= self.max_target_length:
            raise ValueError(f"a target has at most {self.max_target_length} tokens (max_positions - 2), </s> included")
        return self.advance(tokens, state)

    @torch.no_grad()
    def fold(self, precision: SearchPrecision = SearchPrecision.fp32) -> None:
        """Make the model ready for inference without gradients: effective weights and products computed once.

        ``train()`` or new weights undo it. bf16 rounds the model's own parameters, too; int8 is for the CPU.
        """
        self.train(self.training)
        for module in self.modules():
            if isinstance(module, WeightNorm):
                module.folded = product(module.weight().detach(), module.bias.detach(), precision)
        if precision == SearchPrecision.bf16:
            self.bfloat16()

    def check_length(self, ids: Tensor, limit: int) -> None:
        """Raise ValueError for sentences (B, T) of more than ``limit`` tokens."""
        if ids.shape[1] > limit:
            raise ValueError(
                f"a sentence of {ids.shape[1]} tokens is beyond the position table: "
                f"at most {limit} (max_positions - 2), </s> included"
            )
