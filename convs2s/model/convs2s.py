"""ConvS2S, the whole model: ids in, log-probabilities out.

B sentences · S source length · T target length · K beam · V vocabulary. Ids: <unk> 0, <pad> 1, </s> 2.
"""

from __future__ import annotations

import torch
from torch import Tensor

from convs2s.config import ModelConfig, SearchPrecision
from convs2s.model.base import Seq2Seq, State
from convs2s.model.decoder import Decoder
from convs2s.model.encoder import Encoded, Encoder
from convs2s.model.incremental import DecoderState, FoldedDecoder


class ConvS2S(Seq2Seq):
    """Convolutional sequence to sequence model (paper, sec. 3; original: models/fconv_model.lua)."""

    encoder: Encoder
    decoder: Decoder

    def __init__(self, config: ModelConfig, source_vocabulary: int, target_vocabulary: int) -> None:
        super().__init__(config, source_vocabulary, target_vocabulary)
        self.encoder = Encoder(config, source_vocabulary, sum(config.decoder.attending()))
        self.decoder = Decoder(config, target_vocabulary)
        self.folded: FoldedDecoder | None = None  # set by fold

    def output_decoder(self) -> Decoder:
        return self.decoder

    @torch.no_grad()
    def start(self, encoded: Encoded, beam: int, vocabulary: Tensor | None = None) -> DecoderState:
        decoder = self.folded or FoldedDecoder(self.decoder)
        return decoder.start(encoded, beam, vocabulary)

    def advance(self, tokens: Tensor, state: State) -> tuple[Tensor, list[Tensor]]:
        assert isinstance(state, DecoderState)
        return state.decoder.step(tokens, state)

    @torch.no_grad()
    def fold(self, precision: SearchPrecision = SearchPrecision.fp32) -> None:
        super().fold(precision)
        self.folded = FoldedDecoder(self.decoder)

    def train(self, mode: bool = True) -> ConvS2S:
        self.folded = None
        return super().train(mode)
