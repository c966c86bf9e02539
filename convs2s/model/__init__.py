"""The network: ids to log-probabilities; knows no files, no text and no training."""

from convs2s.model.convs2s import ConvS2S
from convs2s.model.decoder import Decoded
from convs2s.model.encoder import Encoded
from convs2s.model.incremental import DecoderState

__all__ = ["ConvS2S", "Decoded", "DecoderState", "Encoded"]
