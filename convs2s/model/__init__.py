"""The network: ids to log-probabilities; knows no files, no text and no training."""

from convs2s.config import Architecture, ModelConfig
from convs2s.model.base import Seq2Seq, State
from convs2s.model.convs2s import ConvS2S
from convs2s.model.decoder import Decoded
from convs2s.model.encoder import Encoded
from convs2s.model.lstm_attention import LSTMAttention

__all__ = ["ConvS2S", "Decoded", "Encoded", "LSTMAttention", "Seq2Seq", "State", "build"]


def build(config: ModelConfig, source_vocabulary: int, target_vocabulary: int) -> Seq2Seq:
    """The model of ``config``, with random weights; the sizes are numbers of ids."""
    if config.architecture == Architecture.lstm_attention:
        return LSTMAttention(config, source_vocabulary, target_vocabulary)
    return ConvS2S(config, source_vocabulary, target_vocabulary)
