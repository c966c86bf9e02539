"""What several tests share: golden files, models with given or random parameters, padded batches.

Ids in golden files are 1-based; ``ours`` makes them 0-based.
Legend: B sentences, S source length, T target length, C channels, V vocabulary, K beam.
"""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from convs2s.config import (
    DecoderConfig,
    EncoderConfig,
    LayerConfig,
    ModelConfig,
    SourcePadding,
)
from convs2s.model import ConvS2S
from convs2s.search.lexicon import Lexicon, lexicon_lines

GOLDEN = Path(__file__).parent / "golden"
UNK, PAD, EOS = 0, 1, 2


# --- golden files -------------------------------------------------------------------------------------------------


def golden_json(name: str) -> Any:
    """The contents of golden/<name>.json."""
    return json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))


def golden_arrays(name: str) -> dict[str, Tensor]:
    """The arrays of golden/<name>.npz; floats as float64."""
    with np.load(GOLDEN / f"{name}.npz") as file:
        arrays = {key: torch.from_numpy(np.array(file[key])) for key in file.files}
    return {key: array.double() if array.is_floating_point() else array for key, array in arrays.items()}


def our_name(golden: str) -> str:
    """'decoder.attn_in_proj.2.v' -> 'decoder.layers.1.attention.in_proj.v'."""
    patterns = [
        (r"\.conv\.(\d+)\.(bottleneck_in|bottleneck_out)", r".layers.@\1.\2"),
        (r"\.conv\.(\d+)", r".layers.@\1.conv"),
        (r"\.residual_proj\.(\d+)", r".layers.@\1.residual_proj"),
        (r"\.attn_in_proj\.(\d+)", r".layers.@\1.attention.in_proj"),
        (r"\.attn_out_proj\.(\d+)", r".layers.@\1.attention.out_proj"),
    ]
    for pattern, replacement in patterns:
        golden, changed = re.subn(pattern, replacement, golden)
        if changed:
            break
    return re.sub(r"@(\d+)", lambda match: str(int(match[1]) - 1), golden)


def golden_parameters(arrays: dict[str, Tensor], prefix: str = "param.") -> dict[str, Tensor]:
    """Parameters (or gradients, prefix 'grad.') under our names; a convolution's as (out, kernel*in)."""
    parameters = {}
    for key, array in arrays.items():
        if key.startswith(prefix):
            shaped = array.reshape(array.shape[0], -1) if array.dim() == 3 else array
            parameters[our_name(key.removeprefix(prefix))] = shaped
    return parameters


def golden_config(config: dict[str, Any], padding: SourcePadding = SourcePadding.original) -> ModelConfig:
    """The ModelConfig of a golden file's 'config'."""

    def stack(channels: list[int], kernels: list[int]) -> list[LayerConfig]:
        return [LayerConfig(width, kernel) for width, kernel in zip(channels, kernels, strict=True)]

    return ModelConfig(
        embedding=config["nembed"],
        output_embedding=config["noutembed"],
        encoder=EncoderConfig(layers=stack(config["nhids"], config["kwidths"])),
        decoder=DecoderConfig(layers=stack(config["nlmhids"], config["klmwidths"])),
        bottleneck=config.get("bfactor", 0),
        max_positions=config.get("max_positions", 1024),
        dropout=0.0,
        dropout_source=float(config.get("dropout_src", 0)),
        dropout_target=float(config.get("dropout_tgt", 0)),
        dropout_hidden=float(config.get("dropout_hid", 0)),
        dropout_output=float(config.get("dropout_out", 0)),
        source_padding=padding,
    )


def ours(ids: Any) -> Tensor:
    """1-based golden ids as our ids."""
    return torch.as_tensor(ids, dtype=torch.int64) - 1


def rounding(values: Tensor) -> float:
    """What float32 carries the largest of some values to: its epsilon times the value."""
    return torch.finfo(torch.float32).eps * float(values.abs().max())


def write_lexicon(path: Path, lexicon: Lexicon) -> None:
    """A lexicon file."""
    path.write_text("".join(f"{line}\n" for line in lexicon_lines(lexicon)), encoding="utf-8")


# --- models -------------------------------------------------------------------------------------------------------


def load_parameters(model: ConvS2S, parameters: dict[str, Tensor]) -> None:
    """Copies parameters by name; every one must be given and every one given must exist."""
    own = dict(model.named_parameters())
    assert set(own) == set(parameters)
    with torch.no_grad():
        for name, parameter in own.items():
            assert parameter.shape == parameters[name].shape, name
            parameter.copy_(parameters[name])


def randomise(model: ConvS2S, seed: int, spread: float = 1.0) -> ConvS2S:
    """Random parameters that leave no factor at its special value (g = |v|, bias 0); float64."""
    model.double()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in sorted(model.named_parameters()):
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            if name.endswith(".g"):
                parameter.copy_(spread * (0.5 + torch.rand(parameter.shape, generator=generator, dtype=torch.float64)))
            elif name.endswith(".bias"):
                parameter.copy_(0.3 * noise)
            elif name.endswith("weight"):
                parameter.copy_(0.7 * noise)
            else:
                parameter.copy_(0.1 * noise)  # small v, so that the eps of weight normalisation shows
    return model


def small_config(
    encoder: list[tuple[int, int]],
    decoder: list[tuple[int, int]],
    *,
    attention: list[int] | None = None,
    **options: Any,
) -> ModelConfig:
    """A ModelConfig from (channels, kernel) lists."""
    defaults: dict[str, Any] = {"embedding": 6, "output_embedding": 5, "max_positions": 40, "dropout": 0.0}
    positions = {side: options.pop(f"{side}_positions", True) for side in ("encoder", "decoder")}
    return ModelConfig(
        encoder=EncoderConfig(
            layers=[LayerConfig(width, kernel) for width, kernel in encoder], positions=positions["encoder"]
        ),
        decoder=DecoderConfig(
            layers=[LayerConfig(width, kernel) for width, kernel in decoder],
            positions=positions["decoder"],
            attention=attention,
        ),
        **(defaults | options),
    )


def build(config: ModelConfig, seed: int = 1, source: int = 13, target: int = 11, spread: float = 1.0) -> ConvS2S:
    """A float64 model with random parameters, in evaluation mode."""
    return randomise(ConvS2S(config, source, target), seed, spread).eval()


def gradients(model: ConvS2S) -> dict[str, Tensor]:
    """Parameter gradients by name; none counts as zero."""
    return {
        name: torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.clone()
        for name, parameter in model.named_parameters()
    }


class FixedMask(nn.Module):
    """Stands in for a Dropout module: multiplies with a given mask (B, T, C)."""

    def __init__(self, mask: Tensor) -> None:
        super().__init__()
        self.mask = mask

    def forward(self, x: Tensor) -> Tensor:
        assert x.shape == self.mask.shape
        return x * self.mask


def replace_module(model: nn.Module, name: str, module: nn.Module) -> None:
    """Puts a module in the place of another."""
    parent, _, child = name.rpartition(".")
    owner = model.get_submodule(parent)
    assert isinstance(getattr(owner, child), nn.Module)
    setattr(owner, child, module)


# --- batches ------------------------------------------------------------------------------------------------------


def pad(sentences: list[list[int]], left: bool, length: int | None = None) -> Tensor:
    """Sentences as one (B, S) tensor, PAD on the left or on the right."""
    width = length or max(map(len, sentences))
    rows = []
    for ids in sentences:
        filler = [PAD] * (width - len(ids))
        rows.append(filler + ids if left else ids + filler)
    return torch.tensor(rows, dtype=torch.int64)


def random_sentences(seed: int, lengths: list[int], vocabulary: int) -> list[list[int]]:
    """Sentences of the given lengths (</s> included): words and <unk>, never <pad>, one </s> at the end."""
    generator = random.Random(seed)
    words = [UNK, *range(EOS + 1, vocabulary)]
    return [[generator.choice(words) for _ in range(length - 1)] + [EOS] for length in lengths]


def shift(targets: list[list[int]]) -> list[list[int]]:
    """Decoder inputs: </s>, then the target without its last token."""
    return [[EOS, *target[:-1]] for target in targets]


SEARCH_VOCABULARY = 13  # source ids of ``search_model``


def search_model(seed: int, target: int = 9, eos: float = 0.0, **options: Any) -> ConvS2S:
    """A random model to search with; ``eos`` is added to the logit of </s>; <pad> is as improbable as in a trained
    model."""
    layers = {"encoder": [(6, 3)], "decoder": [(6, 3), (5, 2)]} | options.pop("layers", {})
    model = build(small_config(**layers, **options), seed=seed, source=SEARCH_VOCABULARY, target=target, spread=1.5)
    with torch.no_grad():
        bias = model.get_parameter("decoder.output.bias")
        bias[PAD] = -500.0
        bias[EOS] += eos
    return model
