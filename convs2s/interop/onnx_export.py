"""A model as two ONNX graphs, the encoder and one step of the decoder, for programs without PyTorch.

B sentences · K beam · S source length · V vocabulary · E embedding · C channels · k kernel width; B, K and S are free.

    encoder.onnx        source (B, S) ids -> keys, values (B, S, E), mask (B, S), lengths (B,)
    decoder_step.onnx   tokens (B, K), the last of each hypothesis, position (), how many it had before, what the
                        encoder gave, and windows_i (B, K, k - 1, C) of every layer, zeros at the start
                        -> log_probabilities (B, K, V), attention (B, K, S), next_windows_i

``convs2s.interop.onnx_model`` decodes with them and onnxruntime alone.
"""

from __future__ import annotations

import copy
import logging
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor, nn

from convs2s.config import SourcePadding
from convs2s.errors import UserError
from convs2s.files import make_folder, write_json
from convs2s.interop.safetensors_io import CONFIG, TOKENIZERS, detach
from convs2s.model import ConvS2S, Encoded
from convs2s.model.decoder import DecoderLayer
from convs2s.model.layers import Conv, Linear
from convs2s.text.vocabulary import EOS, PAD, UNK
from convs2s.training.checkpoint import build_model

ENCODER, STEP = "encoder.onnx", "decoder_step.onnx"
ENCODED = ["keys", "values", "mask", "lengths"]
OPSET = 20
LARGE = 400_000_000  # weights; a single file ends at 2 GB, beyond it they go into one beside it


def write_onnx(output: str | Path, checkpoint: dict[str, Any]) -> str:
    """Write both graphs, config.json and the tokenisers; returns a line that says so.

    Raises UserError where the extra ``export`` is not installed or the folder cannot be written.
    """
    built = build_model(checkpoint)
    if not isinstance(built, ConvS2S):
        raise UserError(f"to=onnx knows ConvS2S only, this is a model.architecture={built.config.architecture.value}")
    model = for_export(built)
    folder = Path(output)
    make_folder(folder, "output")
    export(EncoderGraph(model), folder / ENCODER, ["source"], ENCODED)
    export(
        StepGraph(model),
        folder / STEP,
        ["tokens", "position", *ENCODED, *(f"windows_{i}" for i in range(len(model.decoder.layers)))],
        ["log_probabilities", "attention", *(f"next_windows_{i}" for i in range(len(model.decoder.layers)))],
    )
    description = {
        "model_type": "convs2s-onnx",
        "windows": [list(shape) for shape in window_shapes(model)],
        "ids": {"unk": UNK, "pad": PAD, "eos": EOS},
        "max_source_length": model.max_source_length,
        "max_target_length": model.max_target_length,
        "equal_lengths_only": model.config.source_padding == SourcePadding.original,
        "source_vocabulary": model.source_vocabulary,
        "target_vocabulary": model.target_vocabulary,
    }
    write_json(folder / CONFIG, description)
    write_json(folder / TOKENIZERS, detach(folder, checkpoint["tokenizers"]))
    return f"{folder}: {ENCODER}, {STEP}, {CONFIG} and {TOKENIZERS}"


def for_export(model: ConvS2S) -> ConvS2S:
    """A copy whose weight-normalised layers are ordinary ones with the effective weights."""
    model = copy.deepcopy(model).float().eval()
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, Conv):
                setattr(module, name, PlainConv(child))
            elif isinstance(child, Linear):
                setattr(module, name, plain_linear(child))
    return model.requires_grad_(False)


def plain_linear(layer: Linear) -> nn.Linear:
    """An ordinary linear layer with the effective weight."""
    weight = layer.weight().detach()
    plain = nn.Linear(weight.shape[1], weight.shape[0])
    plain.weight.data, plain.bias.data = weight, layer.bias.detach()
    return plain


class PlainConv(nn.Module):
    """The convolution of a gated block: (B, T + k - 1, in) -> (B, T, out)."""

    def __init__(self, layer: Conv) -> None:
        super().__init__()
        self.kernel = layer.kernel
        weight = layer.weight().detach()
        self.channels = weight.shape[1] // self.kernel
        self.conv = nn.Conv1d(self.channels, weight.shape[0], self.kernel)
        self.conv.weight.data = weight.view(-1, self.kernel, self.channels).transpose(1, 2).contiguous()
        self.conv.bias.data = layer.bias.detach()  # type: ignore[union-attr]

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x.transpose(1, 2)).transpose(1, 2)  # type: ignore[no-any-return]


def window_shapes(model: ConvS2S) -> list[tuple[int, int]]:
    """(k - 1, C) of each decoder layer's remembered inputs."""
    convs = [layer.conv for layer in model.decoder.layers]
    assert all(isinstance(conv, PlainConv) for conv in convs)
    return [(conv.kernel - 1, conv.channels) for conv in convs]  # type: ignore[union-attr, operator, misc]


class EncoderGraph(nn.Module):
    """The encoder, without a branch that depends on data."""

    def __init__(self, model: ConvS2S) -> None:
        super().__init__()
        self.encoder = model.encoder

    def example(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Inputs to trace with, and which of their dimensions are free."""
        source = torch.tensor([[3, 4, 3, 4, EOS], [3, 4, EOS, PAD, PAD], [EOS, PAD, PAD, PAD, PAD]])
        return (source,), ({0: "batch", 1: "source_length"},)

    def forward(self, source: Tensor) -> tuple[Tensor, ...]:
        real = source != PAD
        counts = real if self.encoder.mask_padding else torch.ones_like(real)
        encoded = self.encoder.encode(source, real, counts if self.encoder.mask_padding else None)
        return encoded.keys, encoded.values, counts, encoded.lengths


class StepGraph(nn.Module):
    """One step of the decoder. The K hypotheses of a sentence stand where ``Decoder.forward`` has T positions."""

    def __init__(self, model: ConvS2S) -> None:
        super().__init__()
        self.decoder = model.decoder
        self.width = model.config.embedding
        self.shapes = window_shapes(model)

    def example(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        batch, beam, length = 3, 4, 5
        encoded = [torch.randn(batch, length, self.width) for _ in range(2)]
        free = {0: "batch", 1: "source_length"}
        windows = tuple(torch.randn(batch, beam, *shape) for shape in self.shapes)
        inputs = (torch.full((batch, beam), EOS), torch.tensor(1), *encoded)
        inputs += (torch.ones(batch, length, dtype=torch.bool), torch.full((batch,), float(length)))
        dynamic: tuple[dict[int, str], ...] = ({0: "batch", 1: "beam"}, {}, free, free, free, {0: "batch"})
        return (*inputs, windows), (*dynamic, tuple({0: "batch", 1: "beam"} for _ in windows))

    def forward(
        self,
        tokens: Tensor,
        position: Tensor,
        keys: Tensor,
        values: Tensor,
        mask: Tensor,
        lengths: Tensor,
        windows: tuple[Tensor, ...],
    ) -> tuple[Tensor, ...]:
        encoded = Encoded(keys, values, mask, lengths)
        batch, beam = tokens.shape
        embedded = self.decoder.embed(tokens, (position + (PAD + 1)).view(1, 1))  # (B, K, E)
        states = [self.decoder.in_proj(embedded)]  # (B, K, C) each
        attention: list[Tensor] = []
        following = []
        for layer, before in zip(self.decoder.layers, windows, strict=True):
            assert isinstance(layer, DecoderLayer)
            window = torch.cat([before, layer.enter(states[-1]).unsqueeze(2)], 2)  # (B, K, k, C)
            following.append(window[:, :, 1:])
            y = layer.leave(layer.conv(window.flatten(0, 1)).view(batch, beam, -1))  # (B, K, C)
            self.decoder.attend(layer, y, states, attention, embedded, encoded)
        weights = torch.stack(attention).mean(0) if attention else 0.0 * (embedded[..., :1] + lengths[:, None, None])
        return self.decoder.logits(states[-1]).log_softmax(-1), weights, *following


def export(graph: EncoderGraph | StepGraph, path: Path, inputs: list[str], outputs: list[str]) -> None:
    """Trace a graph and write it."""
    try:
        import onnx  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError:
        raise UserError("to=onnx needs onnx and onnxscript: pip install -e '.[export]'") from None
    example, dynamic = graph.example()
    noisy = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir")]
    levels = [logger.level for logger in noisy]
    try:
        for logger in noisy:
            logger.setLevel(logging.ERROR)
        with warnings.catch_warnings(), TemporaryDirectory(dir=path.parent, prefix=".onnx") as new:
            warnings.simplefilter("ignore")
            torch.onnx.export(
                graph.eval(),
                example,
                str(Path(new) / path.name),
                input_names=inputs,
                output_names=outputs,
                dynamic_shapes=dynamic,
                opset_version=OPSET,
                dynamo=True,
                external_data=sum(p.numel() for p in graph.parameters()) > LARGE,
                verbose=False,
            )
            for file in Path(new).iterdir():  # whole now; large weights have a file of their own
                file.replace(path.with_name(file.name))
    except OSError as error:
        raise UserError(f"{path}: not written ({error.strerror})") from error
    finally:
        for logger, level in zip(noisy, levels, strict=True):
            logger.setLevel(level)
