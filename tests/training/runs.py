"""Tiny trainings: a made-up corpus of numbers and their mirror images, a model of a few hundred weights."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import torch

from convs2s.config import (
    DataConfig,
    DecoderConfig,
    EncoderConfig,
    LayerConfig,
    ModelConfig,
    OptimizerConfig,
    TextConfig,
    TokenizerKind,
    TrainConfig,
    TrainingConfig,
)
from convs2s.training import checkpoint
from convs2s.training.loop import train

WORDS = [f"w{i}" for i in range(12)]


def write_corpus(folder: Path, pairs: int = 50, seed: int = 0) -> None:
    """Sentences of 1 to 7 words; the target is the source read backwards."""
    draw = random.Random(seed)
    folder.mkdir(parents=True, exist_ok=True)
    for split, count in (("train", pairs), ("valid", 12), ("test", 5)):
        sources = [draw.choices(WORDS, k=draw.randint(1, 7)) for _ in range(count)]
        (folder / f"{split}.a").write_text("".join(f"{' '.join(words)}\n" for words in sources), "utf-8")
        (folder / f"{split}.b").write_text("".join(f"{' '.join(words[::-1])}\n" for words in sources), "utf-8")


def tiny_model(dropout: float) -> ModelConfig:
    """One layer a side."""
    return ModelConfig(
        embedding=6,
        output_embedding=5,
        encoder=EncoderConfig([LayerConfig(6, 3)]),
        decoder=DecoderConfig([LayerConfig(6, 3)]),
        max_positions=16,
        dropout=dropout,
    )


def tiny_config(folder: Path, run: str = "run", **options: Any) -> TrainConfig:
    """A run in FOLDER/RUN on the corpus in FOLDER/raw; ``options`` by dotted name with __ for dots."""
    if not (folder / "raw").exists():
        write_corpus(folder / "raw")
    config = TrainConfig(
        experiment="tiny",
        run_dir=str(folder / run),
        data=DataConfig(
            name="tiny",
            source="a",
            target="b",
            root=str(folder / "raw"),
            prepared_dir=str(folder / "prepared"),
            train=["train.a", "train.b"],
            valid=["valid.a", "valid.b"],
            test={"test": ["test.a", "test.b"]},
        ),
        text=TextConfig(kind=TokenizerKind.whitespace, joint=False),
        model=tiny_model(dropout=0.2),
        optimizer=OptimizerConfig(),
        training=TrainingConfig(batch_tokens=40, max_epochs=2, log_every=3, tensorboard=False, threads=1),
    )
    for name, value in options.items():
        *path, last = name.split("__")
        place: Any = config
        for part in path:
            place = getattr(place, part)
        assert hasattr(place, last), name
        setattr(place, last, value)
    return config


def trained(config: TrainConfig) -> dict[str, Any]:
    """Train, and return the last checkpoint."""
    train(config)
    return checkpoint.load(Path(config.run_dir) / "checkpoints" / "last.pt")


def metrics(config: TrainConfig) -> str:
    return (Path(config.run_dir) / "metrics.jsonl").read_text("utf-8")


def assert_same_state(one: Any, other: Any, where: str = "") -> None:
    """Equal to the bit, all the way down."""
    assert type(one) is type(other), where
    if isinstance(one, dict):
        assert one.keys() == other.keys(), where
        for key in one:
            assert_same_state(one[key], other[key], f"{where}.{key}")
    elif isinstance(one, (list, tuple)):
        assert len(one) == len(other), where
        for i, (a, b) in enumerate(zip(one, other, strict=True)):
            assert_same_state(a, b, f"{where}[{i}]")
    elif isinstance(one, torch.Tensor):
        assert torch.equal(one, other), where
    else:
        assert one == other, where
