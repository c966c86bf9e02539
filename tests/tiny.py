"""A tiny random model with a word tokeniser, as objects and as a checkpoint file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from helpers import build, small_config

from convs2s.config import DataConfig, TextConfig, TokenizerKind, TrainConfig, to_plain
from convs2s.model import ConvS2S
from convs2s.text.tokenizer import Tokenizers
from convs2s.text.whitespace_tokenizer import WhitespaceTokenizer
from convs2s.training import checkpoint

SOURCE_WORDS = ["ein", "hund", "läuft", "rot", "haus", "im", "schnee@@", "."]
TARGET_WORDS = ["a", "dog", "runs", "red", "house", "in", "snow@@", "."]


def tokenizers(joiner: str = "") -> Tokenizers:
    return Tokenizers(WhitespaceTokenizer(SOURCE_WORDS, joiner), WhitespaceTokenizer(TARGET_WORDS, joiner))


def model(seed: int = 3, **options: Any) -> ConvS2S:
    """Weights large enough that sentences differ in their translations; <pad> and <unk> are improbable."""
    config = small_config(encoder=[(6, 3)], decoder=[(6, 3), (5, 2)], max_positions=14, **options)
    sizes = {"source": 3 + len(SOURCE_WORDS), "target": 3 + len(TARGET_WORDS)}
    made = build(config, seed=seed, spread=1.5, **sizes)
    made.get_parameter("decoder.output.bias").data[:2] = -30.0
    return made


def save_checkpoint(
    path: Path, data: DataConfig, kind: TokenizerKind = TokenizerKind.whitespace, joiner: str = ""
) -> ConvS2S:
    """Writes a checkpoint of ``model()`` as training does; returns the model in float32, as it will be loaded."""
    made = model().float()
    config = TrainConfig(experiment="tiny", data=data, text=TextConfig(kind=kind, joiner=joiner), model=made.config)
    path.parent.mkdir(parents=True, exist_ok=True)
    checkpoint.save(
        path,
        {
            "config": to_plain(config),
            "model": made.state_dict(),
            "source_vocabulary": made.source_vocabulary,
            "target_vocabulary": made.target_vocabulary,
            "tokenizers": tokenizers(joiner).state(),
        },
    )
    return made
