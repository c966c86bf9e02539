"""Options of the network."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum
from functools import reduce

from convs2s.config.base import MISSING, check_minimum, group, option
from convs2s.errors import UserError


class Architecture(str, Enum):
    convs2s = "convs2s"
    lstm_attention = "lstm_attention"


class SourcePadding(str, Enum):
    masked = "masked"
    original = "original"


class AttentionOrder(str, Enum):
    original = "original"
    paper = "paper"


class TargetPadding(str, Enum):
    right = "right"
    left = "left"


class EncoderGradient(str, Enum):
    original = "original"
    paper = "paper"
    output = "output"
    unscaled = "unscaled"


@dataclass
class LayerConfig:
    """Some equal layers of a stack."""

    channels: int = option(MISSING, "output channels of the block, after the GLU")
    kernel: int = option(MISSING, "kernel width in positions")
    repeat: int = option(1, "this many such layers in a row")


RESIDUALS = (
    "per layer, how many layers back the input lies that is added to its output (1: its own; 0: none); "
    "null: 1 everywhere (PyTorch release: third number of a layer)"
)

RECURRENT = {  # what model.architecture=lstm_attention has no other form of
    "encoder.positions": "false",
    "decoder.positions": "false",
    "encoder.residuals": "null",
    "decoder.residuals": "null",
    "bottleneck": "0",
    "source_padding": "masked",
    "target_padding": "right",
    "attention_order": "original",
    "encoder_gradient": "unscaled",
}


@dataclass
class EncoderConfig:
    """What reads the source."""

    layers: list[LayerConfig] = option(
        [LayerConfig(256, 3, 4)],
        "convolution stack, e.g. [{channels: 512, kernel: 3, repeat: 9}] (original: -fconv_nhids, -fconv_kwidths)",
    )
    positions: bool = option(True, "add position embeddings (paper, table 4)")
    residuals: list[int] | None = option(None, RESIDUALS)


@dataclass
class DecoderConfig:
    """What writes the target."""

    layers: list[LayerConfig] = option(
        [LayerConfig(256, 3, 3)], "convolution stack (original: -fconv_nlmhids, -fconv_klmwidths)"
    )
    positions: bool = option(True, "add position embeddings (paper, table 4)")
    attention: list[int] | None = option(
        None, "decoder layers with attention, counted from 1; null: all (original: -attnlayers)"
    )
    residuals: list[int] | None = option(None, RESIDUALS)

    def attending(self) -> list[bool]:
        """For each layer of the stack: does it attend?"""
        count = sum(layer.repeat for layer in self.layers)
        return [self.attention is None or number in self.attention for number in range(1, count + 1)]


@dataclass
class ModelConfig:
    """The network."""

    architecture: Architecture = option(
        Architecture.convs2s,
        "convs2s, or, as a contrast, lstm_attention: an LSTM in both directions that reads, one with attention above "
        "its last layer and input feeding that writes; its layers have kernel 1, an encoder's channels are shared by "
        "the two directions",
    )
    embedding: int = option(256, "width of the token and position embeddings (original: -nembed)")
    output_embedding: int = option(256, "width of the layer before the output layer (original: -noutembed)")
    encoder: EncoderConfig = group(EncoderConfig)
    decoder: DecoderConfig = group(DecoderConfig)
    bottleneck: int = option(0, "divide the width inside each block by this; 0: plain blocks (original: -bfactor)")
    max_positions: int = option(
        1024, "rows of a position table; a sentence may have two fewer pieces, </s> included (original: 1024)"
    )
    max_target_positions: int | None = option(None, "rows of the target's position table; null: max_positions")
    share_output: bool = option(
        False, "the output layer's weights are the target embeddings (PyTorch release: --share-input-output-embed)"
    )
    lookup_output: bool = option(
        False,
        "the output layer is a table of rows drawn from N(0, 0.1^2), a weight and a bias each and not normalised, "
        "as the original has it where it selects vocabularies (original: -aligndictpath)",
    )
    dropout: float = option(0.1, "drop probability at each of the four places below, where they are null")
    dropout_source: float | None = option(None, "on the source embeddings (original: -dropout_src)")
    dropout_target: float | None = option(None, "on the target embeddings (original: -dropout_tgt)")
    dropout_hidden: float | None = option(
        None, "on the input of every convolution (original: -dropout_hid); lstm_attention: on every layer's output"
    )
    dropout_output: float | None = option(None, "on the input of the output layer (original: -dropout_out)")
    source_padding: SourcePadding = option(
        SourcePadding.masked,
        "masked: a sentence's result does not depend on its batch; original: padding on the left, unmasked",
    )
    target_padding: TargetPadding = option(
        TargetPadding.right,
        "side on which shorter targets are padded in training; left: convolutions see it (first PyTorch release)",
    )
    attention_order: AttentionOrder = option(
        AttentionOrder.original,
        "attention acts on the GLU's output (original) or on the block's output after the residual sum (paper)",
    )
    encoder_gradient: EncoderGradient = option(
        EncoderGradient.original,
        "divide gradients of the encoder's weights by 2 x (original) or 1 x (paper) the number of attention layers, "
        "or (output) by 2 x at the encoder's output, embeddings included (PyTorch release); unscaled: not at all",
    )
    weight_norm_eps: float = option(1e-4, "w = g v / sqrt(|v|^2 + eps) (original: 1e-4; paper: 0)")

    @property
    def max_source_length(self) -> int:
        """Tokens a source may have, </s> included: the rows of its position table less those of <unk> and <pad>."""
        return self.max_positions - 2

    @property
    def max_target_length(self) -> int:
        """Likewise of a target."""
        return (self.max_target_positions or self.max_positions) - 2

    def rate(self, place: str) -> float:
        """Drop probability at "source", "target", "hidden" or "output"."""
        own: float | None = getattr(self, f"dropout_{place}")
        return self.dropout if own is None else own

    def check(self) -> None:
        """Raise UserError for a model that cannot be built, naming the option."""
        least = {"embedding": 1, "output_embedding": 1, "bottleneck": 0, "weight_norm_eps": 0.0}
        least |= {"max_positions": 4, "max_target_positions": 4}  # rows: of <unk> and <pad>, a word and </s>
        check_minimum("model", self, least)
        for name, side in (("encoder", self.encoder), ("decoder", self.decoder)):
            if not side.layers:
                raise UserError(
                    f"model.{name}.layers is empty: give at least one layer, e.g. [{{channels: 256, kernel: 3}}]"
                )
            for layer in side.layers:
                if min(layer.channels, layer.kernel, layer.repeat) < 1:
                    raise UserError(f"model.{name}.layers: channels, kernel and repeat must be at least 1, not {layer}")
                if self.bottleneck and layer.channels < self.bottleneck:
                    raise UserError(
                        f"model.bottleneck={self.bottleneck} leaves no channel of a {layer.channels}-channel layer"
                    )
            count = sum(layer.repeat for layer in side.layers)
            distances = [1] * count if side.residuals is None else side.residuals
            if len(distances) != count or not all(0 <= back <= number for number, back in enumerate(distances, 1)):
                raise UserError(f"model.{name}.residuals: give {count} numbers, the n-th from 0 to n, not {distances}")
        count = len(self.decoder.attending())
        for number in self.decoder.attention or []:
            if not 1 <= number <= count:
                raise UserError(
                    f"model.decoder.attention: there is no layer {number}, the decoder has layers 1 to {count}"
                )
        for place in ("source", "target", "hidden", "output"):
            if not 0.0 <= self.rate(place) < 1.0:
                raise UserError(
                    f"model.dropout_{place} (or model.dropout)={self.rate(place)} must be at least 0 and below 1"
                )
        if self.share_output and self.lookup_output:
            raise UserError("model.share_output and model.lookup_output are two kinds of output layer: choose one")
        if self.share_output and self.embedding != self.output_embedding:
            raise UserError(
                f"model.share_output=true needs model.output_embedding={self.embedding}, the width of the embeddings"
            )
        if self.architecture == Architecture.lstm_attention:
            self.check_recurrent()

    def check_recurrent(self) -> None:
        """Raise UserError for options that have no meaning in a recurrent model."""
        for name, wanted in RECURRENT.items():
            value = json.dumps(reduce(getattr, name.split("."), self)).strip('"')
            if value != wanted:
                raise UserError(f"model.{name}={value} has no meaning for lstm_attention: give model.{name}={wanted}")
        for name, side in (("encoder", self.encoder), ("decoder", self.decoder)):
            if any(layer.kernel != 1 for layer in side.layers):
                raise UserError(f"model.{name}.layers: a recurrent layer reads one position a step: give kernel: 1")
            if len({layer.channels for layer in side.layers}) > 1:
                raise UserError(f"model.{name}.layers: the layers of an lstm_attention side have equal channels")
        if self.encoder.layers[0].channels % 2:
            raise UserError("model.encoder.layers: two directions share the channels: give an even number")
        attends = self.decoder.attending()
        if sum(attends) != 1 or not attends[-1]:
            raise UserError(
                "model.decoder.attention: lstm_attention attends above its last layer: "
                f"give model.decoder.attention=[{len(attends)}]"
            )
