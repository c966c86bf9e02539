"""ConvS2S, the whole model: ids in, log-probabilities out.

B sentences · S source length · T target length · K beam · V vocabulary.  Ids: <unk> 0, <pad> 1, </s> 2.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from convs2s.config import ModelConfig
from convs2s.model.decoder import Decoded, Decoder, DecoderState
from convs2s.model.encoder import Encoded, Encoder
from convs2s.model.layers import WeightNorm
from convs2s.model.loss import LinearCrossEntropy
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

    @property
    def max_length(self) -> int:
        """Tokens a sentence may have, </s> included: the rows of the position table less those of <unk> and <pad>."""
        return self.config.max_positions - 2

    def forward(self, source: Tensor, target_input: Tensor) -> Tensor:
        """source (B, S), target_input (B, T), </s> first -> log-probabilities of the next word, (B, T, V)."""
        return self.logits(source, target_input).log_softmax(-1)

    def logits(self, source: Tensor, target_input: Tensor) -> Tensor:
        """As ``forward``, unnormalised."""
        return self.decoder.logits(self.decode(self.encode(source), target_input).hidden)

    def loss(self, source: Tensor, target_input: Tensor, target: Tensor) -> Tensor:
        """Negative log-likelihood in nats, summed over the target tokens that are not padding."""
        hidden = self.decode(self.encode(source), target_input).hidden
        hidden = self.decoder.before_output(hidden).flatten(0, 1)  # (B T, C)
        weight, bias = self.decoder.output.weight_and_bias()
        return LinearCrossEntropy.apply(hidden, weight, bias, target.flatten(), PAD)  # type: ignore[no-any-return,no-untyped-call]

    def encode(self, source: Tensor) -> Encoded:
        """source (B, S) ids, padded on either side."""
        self._check_length(source)
        return self.encoder(source)  # type: ignore[no-any-return]

    def decode(self, encoded: Encoded, target_input: Tensor) -> Decoded:
        """Every target position at once; target_input (B, T) ids, </s> first, padded on the right."""
        self._check_length(target_input)
        return self.decoder(target_input, encoded)  # type: ignore[no-any-return]

    def start(self, encoded: Encoded, beam: int) -> DecoderState:
        """Begin to decode ``beam`` hypotheses for each of the B encoded sentences."""
        return self.decoder.start(encoded, beam)

    @torch.no_grad()
    def step(self, tokens: Tensor, state: DecoderState) -> tuple[Tensor, Tensor]:
        """The last token of each hypothesis, (B, K) -> log-probabilities of the next (B, K, V), attention (B, K, S).

        ``state`` moves on by one position.  Raises ValueError at the end of the position table.
        """
        if state.length >= self.max_length:
            raise ValueError(f"a sentence has at most {self.max_length} tokens (max_positions - 2), </s> included")
        logits, attention = self.decoder.step(tokens, state)
        return logits.log_softmax(-1), attention

    def fold(self) -> None:
        """Compute the effective weights once, for inference without gradients; ``train()`` or new weights undo it."""
        for module in self.modules():
            if isinstance(module, WeightNorm):
                module.folded = module.weight().detach()

    def _check_length(self, ids: Tensor) -> None:
        if ids.shape[1] > self.max_length:
            raise ValueError(
                f"a sentence of {ids.shape[1]} tokens is beyond the position table: "
                f"at most {self.max_length} (max_positions - 2), </s> included"
            )
