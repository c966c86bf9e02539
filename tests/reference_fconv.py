"""fairseq's fconv, slow and plain: from a state dictionary, under that program's names and ids, to logits.

Independent of convs2s.model: every form of weight normalisation and of residual is written out here once more.
T positions · B sentences · C channels; tensors are (B, T, C).
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

PAD = 1
State = dict[str, Tensor]
Layers = list[tuple[int, ...]]  # (channels, kernel) or (channels, kernel, residual)


def weight(state: State, name: str) -> Tensor:
    """The effective weight: plain, or g v / |v| with the norm over the axes along which g does not vary."""
    if f"{name}.weight" in state:
        return state[f"{name}.weight"]
    v, g = state[f"{name}.weight_v"], state[f"{name}.weight_g"]
    axes = [axis for axis, size in enumerate(g.shape) if size == 1]
    return g * v / v.pow(2).sum(axes, keepdim=True).sqrt()


def linear(state: State, name: str, x: Tensor) -> Tensor:
    return F.linear(x, weight(state, name), state[f"{name}.bias"])


def convolve(state: State, name: str, x: Tensor, left: int, right: int) -> Tensor:
    kernel = weight(state, name).permute(2, 1, 0)  # (k, in, out) -> (out, in, k)
    return F.conv1d(F.pad(x.transpose(1, 2), (left, right)), kernel, state[f"{name}.bias"]).transpose(1, 2)


def positions(tokens: Tensor) -> Tensor:
    table = torch.full_like(tokens, PAD)
    for row in range(tokens.shape[0]):
        number = PAD
        for column in range(tokens.shape[1]):
            if tokens[row, column] != PAD:
                number += 1
                table[row, column] = number
    return table


def embed(state: State, side: str, tokens: Tensor) -> Tensor:
    return state[f"{side}.embed_tokens.weight"][tokens] + state[f"{side}.embed_positions.weight"][positions(tokens)]


def add_residual(state: State, side: str, i: int, layer: tuple[int, ...], x: Tensor, states: list[Tensor]) -> Tensor:
    distance = layer[2] if len(layer) > 2 else 1
    if distance == 0:
        return x
    residual = states[-distance]
    if f"{side}.projections.{i}.bias" in state:
        residual = linear(state, f"{side}.projections.{i}", residual)
    return (x + residual) * math.sqrt(0.5)


def logits(
    state: State, encoder: Layers, decoder: Layers, source: Tensor, target_input: Tensor, masked: bool
) -> Tensor:
    """(B, S) and (B, T) ids, padded on any side -> (B, T, V)."""
    padding = (source == PAD)[..., None] if masked else torch.zeros_like(source, dtype=torch.bool)[..., None]
    embedded = embed(state, "encoder", source)
    states = [linear(state, "encoder.fc1", embedded)]
    for i, layer in enumerate(encoder):
        k = layer[1]
        x = convolve(state, f"encoder.convolutions.{i}", states[-1].masked_fill(padding, 0.0), (k - 1) // 2, k // 2)
        states.append(add_residual(state, "encoder", i, layer, F.glu(x, -1), states))
    keys = linear(state, "encoder.fc2", states[-1])
    values = (keys + embedded) * math.sqrt(0.5)
    lengths = (~padding).sum(1, keepdim=True)

    embedded = embed(state, "decoder", target_input)
    states = [linear(state, "decoder.fc1", embedded)]
    for i, layer in enumerate(decoder):
        x = F.glu(convolve(state, f"decoder.convolutions.{i}", states[-1], layer[1] - 1, 0), -1)
        if f"decoder.attention.{i}.in_projection.bias" in state:
            query = (linear(state, f"decoder.attention.{i}.in_projection", x) + embedded) * math.sqrt(0.5)
            scores = (query @ keys.transpose(1, 2)).masked_fill(padding.transpose(1, 2), -math.inf)
            context = scores.softmax(-1) @ values * lengths.sqrt()
            x = (linear(state, f"decoder.attention.{i}.out_projection", context) + x) * math.sqrt(0.5)
        states.append(add_residual(state, "decoder", i, layer, x, states))
    return linear(state, "decoder.fc3", linear(state, "decoder.fc2", states[-1]))


def random_state(
    encoder: Layers,
    decoder: Layers,
    attending: list[bool],
    *,
    rows: tuple[int, int] = (12, 11),
    shared: bool = False,
    first_release: bool = False,
    seed: int = 1,
) -> State:
    """Random weights of such a model, in float32, under that program's names."""
    generator = torch.Generator().manual_seed(seed)
    width = 6
    out = width if shared else 5
    state: State = {}

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator) * 0.5

    def add(name: str, shape: tuple[int, ...], norm_axis: int) -> None:
        state[f"{name}.bias"] = draw(shape[-1] if len(shape) == 3 else shape[0])
        g_shape = [size if axis == norm_axis else 1 for axis, size in enumerate(shape)]
        state[f"{name}.weight_g"], state[f"{name}.weight_v"] = draw(*g_shape).abs() + 0.5, draw(*shape)

    for side, layers in (("encoder", encoder), ("decoder", decoder)):
        state[f"{side}.embed_tokens.weight"] = draw(rows[side == "decoder"], width)
        state[f"{side}.embed_positions.weight"] = draw(20 if side == "encoder" else 18, width)
        add(f"{side}.fc1", (layers[0][0], width), 0)
        widths = [layers[0][0]]
        for i, layer in enumerate(layers):
            axis = 0 if first_release and side == "decoder" else 2
            add(f"{side}.convolutions.{i}", (layer[1], widths[-1], 2 * layer[0]), axis)
            distance = layer[2] if len(layer) > 2 else 1
            if distance and widths[-distance] != layer[0]:
                add(f"{side}.projections.{i}", (layer[0], widths[-distance]), 0)
            widths.append(layer[0])
            if side == "decoder" and attending[i]:
                add(f"decoder.attention.{i}.in_projection", (width, layer[0]), 0)
                add(f"decoder.attention.{i}.out_projection", (layer[0], width), 0)
        add(f"{side}.fc2", (width if side == "encoder" else out, widths[-1]), 0)
    if shared:
        state["decoder.fc3.weight"] = state["decoder.embed_tokens.weight"]
        state["decoder.fc3.bias"] = draw(rows[1])
    else:
        add("decoder.fc3", (rows[1], out), 0)
    state["decoder.fc3.bias"][PAD] = -30.0  # never predicted
    if not first_release:
        state["decoder.version"] = torch.tensor([2.0])
    return state


def double(state: State) -> State:
    return {name: tensor.double() for name, tensor in state.items()}


def checkpoint(state: State, settings: Any) -> dict[str, Any]:
    """What that program saved, apart from what only its training needs."""
    return {"args": settings, "model": state, "extra_state": {"epoch": 1}}
