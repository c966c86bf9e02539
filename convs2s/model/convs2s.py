"""ConvS2S, the whole model: ids in, log-probabilities out.

B sentences · S source length · T target length · K beam · V vocabulary.  Ids: <unk> 0, <pad> 1, </s> 2.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from convs2s.config import ModelConfig, SearchPrecision
from convs2s.model.decoder import Decoded, Decoder
from convs2s.model.encoder import Encoded, Encoder
from convs2s.model.incremental import DecoderState, FoldedDecoder, mean
from convs2s.model.layers import WeightNorm
from convs2s.model.loss import LinearCrossEntropy
from convs2s.model.products import product
from convs2s.text.vocabulary import PAD


class ConvS2S(nn.Module):
    """Convolutional sequence to sequence model (paper, sec. 3; original: models/fconv_model.lua).

    source_vocabulary, target_vocabulary: number of ids.  Weights are drawn from torch's global generator.
    """

    def __init__(self, config: ModelConfig, source_vocabulary: int, target_vocabulary: int) -> None:
        super().__init__()
        config.check()
        self.config = config
        self.source_vocabulary = source_vocabulary
        self.target_vocabulary = target_vocabulary
        self.encoder = Encoder(config, source_vocabulary, sum(config.decoder.attending()))
        self.decoder = Decoder(config, target_vocabulary)
        self.folded: FoldedDecoder | None = None  # set by fold
        self.register_load_state_dict_pre_hook(lambda module, *_: module.train(module.training))  # type: ignore[no-untyped-call]

    @property
    def max_source_length(self) -> int:
        """Tokens a source may have, </s> included: the rows of its position table less those of <unk> and <pad>."""
        return self.config.max_positions - 2

    @property
    def max_target_length(self) -> int:
        """Likewise of a target."""
        return (self.config.max_target_positions or self.config.max_positions) - 2

    @property
    def max_length(self) -> int:
        """Tokens that either side may have."""
        return min(self.max_source_length, self.max_target_length)

    def forward(self, source: Tensor, target_input: Tensor) -> Tensor:
        """source (B, S), target_input (B, T), </s> first -> log-probabilities of the next word, (B, T, V)."""
        return self.logits(source, target_input).log_softmax(-1)

    def logits(self, source: Tensor, target_input: Tensor) -> Tensor:
        """As ``forward``, unnormalised."""
        return self.decoder.logits(self.decode(self.encode(source), target_input).hidden)

    def loss(self, source: Tensor, target_input: Tensor, target: Tensor, vocabulary: Tensor | None = None) -> Tensor:
        """Negative log-likelihood in nats, summed over the target tokens that are not padding.

        vocabulary: (V',) ids, <unk>, <pad> and </s> first, that the words are chosen from; ``target`` then holds
        places in it (original: data.lua getTargetVocabFromAlignment).
        """
        hidden = self.decode(self.encode(source), target_input).hidden
        hidden = self.decoder.before_output(hidden).flatten(0, 1)  # (B T, C)
        weight, bias = self.decoder.output.weight_and_bias()
        if vocabulary is not None:
            weight, bias = weight[vocabulary], bias[vocabulary]
        return LinearCrossEntropy.apply(hidden, weight, bias, target.flatten(), PAD)  # type: ignore[no-any-return,no-untyped-call]

    def encode(self, source: Tensor) -> Encoded:
        """source (B, S) ids, padded on either side."""
        self._check_length(source, self.max_source_length)
        return self.encoder(source)  # type: ignore[no-any-return]

    def decode(self, encoded: Encoded, target_input: Tensor) -> Decoded:
        """Every target position at once; target_input (B, T) ids, </s> first, padded on the right."""
        self._check_length(target_input, self.max_target_length)
        return self.decoder(target_input, encoded)  # type: ignore[no-any-return]

    @torch.no_grad()
    def start(self, encoded: Encoded, beam: int, vocabulary: Tensor | None = None) -> DecoderState:
        """Begin to decode ``beam`` hypotheses for each of the B encoded sentences.

        vocabulary: (V',) ids; only these are then scored, and the n-th score of a step belongs to vocabulary[n].
        """
        decoder = self.folded or FoldedDecoder(self.decoder)
        return decoder.start(encoded, beam, vocabulary)

    @torch.no_grad()
    def step(self, tokens: Tensor, state: DecoderState) -> tuple[Tensor, Tensor]:
        """The last token of each hypothesis, (B, K) -> log-probabilities of the next (B, K, V), attention (B, K, S).

        ``state`` moves on by one position.  Raises ValueError at the end of the position table.
        """
        logits, attention = self.raw_step(tokens, state)
        log_probs = logits[:, : state.vocabulary].view(*tokens.shape, -1).log_softmax(-1)
        return log_probs, mean(attention, tokens, state)

    def raw_step(self, tokens: Tensor, state: DecoderState) -> tuple[Tensor, list[Tensor]]:
        """As ``step``, for searches: logits (B K, V) with -inf behind them, attention (B, K, S) of each layer."""
        if state.length >= self.max_target_length:
            raise ValueError(f"a target has at most {self.max_target_length} tokens (max_positions - 2), </s> included")
        return state.decoder.step(tokens, state)

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
        self.folded = FoldedDecoder(self.decoder)

    def train(self, mode: bool = True) -> ConvS2S:
        self.folded = None
        return super().train(mode)

    def _check_length(self, ids: Tensor, limit: int) -> None:
        if ids.shape[1] > limit:
            raise ValueError(
                f"a sentence of {ids.shape[1]} tokens is beyond the position table: "
                f"at most {limit} (max_positions - 2), </s> included"
            )
