"""How fast a model trains, per unit of what the machine can do.

B sentences · S source length · T target length, no padding. The yardstick: see ``convs2s.search.benchmark``.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch

from convs2s.config import OptimizerConfig, TrainingConfig
from convs2s.data.batching import Batch
from convs2s.model import Seq2Seq
from convs2s.search.benchmark import matrix_weights, peak_gib, yardstick
from convs2s.text.vocabulary import EOS, PAD, SPECIALS
from convs2s.training.distributed import World
from convs2s.training.nag import NAG
from convs2s.training.update import Updater, conv1d_is_faster


@dataclass
class Shape:
    """What is trained on: B sentences of S source and T target tokens, and the vocabularies."""

    sentences: int
    source: int
    target: int
    vocabularies: tuple[int, int]


@dataclass
class TrainingSpeed:
    """One measurement; tokens are target tokens, the share is of the yardstick."""

    model: str
    precision: str
    parameters: int
    tokens_per_second: float
    yardstick_gflops: float
    tokens_per_second_per_gflops: float
    gflops: float
    peak_share: float
    peak_gib: float
    padding_share: float  # of the batch's positions
    convolution: str  # conv1d or product


def operations(model: Seq2Seq, shape: Shape) -> float:
    """Floating-point operations of a forward and backward pass, from the shapes of all products."""
    positions = {"encoder": shape.sentences * shape.source, "decoder": shape.sentences * shape.target}
    forward = sum(2.0 * count * positions[side] for side, count in matrix_weights(model).items())
    attention = 4.0 * positions["decoder"] * shape.source * model.config.embedding  # scores and context
    forward += attention * sum(model.config.decoder.attending())
    return 3.0 * forward  # the backward pass has two products for every one of the forward pass


def measure(
    name: str,
    model: Seq2Seq,
    shape: Shape,
    training: TrainingConfig,
    device: torch.device,
    repeat: int,
) -> TrainingSpeed:
    """The median of ``repeat`` updates on one random batch, after two that do not count.

    training: its precision, convolution and compile count.
    """
    draw = torch.Generator().manual_seed(1)
    sides = []
    for length, vocabulary in zip((shape.source, shape.target), shape.vocabularies, strict=True):
        ids = torch.randint(len(SPECIALS), vocabulary, (shape.sentences, length), generator=draw)
        ids[:, -1] = EOS
        sides.append(ids)
    tokens = shape.sentences * shape.target
    indices = torch.arange(shape.sentences).numpy()
    batch = Batch(indices, sides[0], sides[1].roll(1, 1), sides[1], tokens)
    optimizer = NAG(model.parameters(), 0.25, 0.99)
    update = Updater(model, optimizer, training, OptimizerConfig(), 1, World(0, 1, device))
    rates, seconds = [yardstick(device)], []
    for number in range(repeat + 2):
        start = time.perf_counter()
        update([batch], number)
        seconds.append(time.perf_counter() - start)
    rates.append(yardstick(device))
    median = sorted(seconds[2:])[repeat // 2]
    gflops, rate = operations(model, shape) / median / 1e9, sum(rates) / 2
    return TrainingSpeed(
        name,
        training.precision.value,
        sum(parameter.numel() for parameter in model.parameters()),
        tokens / median,
        rate,
        tokens / median / rate,
        gflops,
        gflops / rate,
        peak_gib(device),
        float(torch.cat([side.flatten() == PAD for side in sides]).float().mean()),
        "conv1d" if conv1d_is_faster(device, training.precision, training.convolution) else "product",
    )
