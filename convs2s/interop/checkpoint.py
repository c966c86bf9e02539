"""What every converter ends with: a foreign model's parts as a checkpoint of ours, in a folder like a run's."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from convs2s.config import ConvertConfig, DataConfig, ModelConfig, TextConfig, TokenizerKind, TrainConfig, to_plain
from convs2s.data.storage import sha256
from convs2s.errors import UserError
from convs2s.files import make_folder
from convs2s.model import ConvS2S
from convs2s.text.moses_bpe_tokenizer import JOINER
from convs2s.text.tokenizer import Tokenizers
from convs2s.text.whitespace_tokenizer import WhitespaceTokenizer
from convs2s.training.checkpoint import load, save

Checkpoint = dict[str, Any]  # as convs2s.training.checkpoint saves it


def assemble(
    config: ConvertConfig, model: ModelConfig, state: dict[str, Tensor], words: tuple[list[str], list[str]]
) -> Checkpoint:
    """A foreign model as a checkpoint.

    model: the architecture; state: its weights under our names; words: source and target words from id 3 on.
    Raises UserError where these do not fit together.
    """
    joiner = config.joiner
    if joiner is None:
        joiner = JOINER if any(word.endswith(JOINER) for side in words for word in side) else ""
    tokenizers = Tokenizers(*(WhitespaceTokenizer(side, joiner) for side in words))
    sizes = len(tokenizers.source.symbols), len(tokenizers.target.symbols)
    check_fit(config.model_, model, state, sizes)
    train = TrainConfig(
        experiment=Path(config.output).resolve().name,
        run_dir=config.output,
        data=DataConfig(
            name=Path(config.output).resolve().name,
            source=language(config.source_dict, "source"),
            target=language(config.target_dict, "target"),
        ),
        text=TextConfig(kind=TokenizerKind.whitespace, joint=False, joiner=joiner),
        model=model,
    )
    files = [config.model_, config.source_dict, config.target_dict]
    return {
        "config": to_plain(train),
        "model": state,
        "source_vocabulary": sizes[0],
        "target_vocabulary": sizes[1],
        "tokenizers": tokenizers.state(),
        "origin": {
            "format": config.from_.value,
            "files": {Path(file).name: sha256(Path(file)) for file in files if file is not None},
        },
    }


def language(dictionary: str | None, side: str) -> str:
    """de for dict.de.th7 or mine.dict.de.bpe.txt; the side's name where the file does not tell."""
    found = re.search(r"(?:^|\.)dict\.([A-Za-z]+)\.", Path(dictionary or "").name)
    return found[1] if found else side


def check_fit(name: str, model: ModelConfig, state: dict[str, Tensor], sizes: tuple[int, int]) -> None:
    """Raise UserError unless ``state`` holds the weights of such a model, no more, no fewer, in its shapes."""
    with torch.device("meta"):
        wanted = {key: tensor.shape for key, tensor in ConvS2S(model, *sizes).state_dict().items()}
    found = {key: tensor.shape for key, tensor in state.items()}
    for key in sorted(wanted.keys() | found.keys()):
        if wanted.get(key) != found.get(key):
            shapes = (list(side[key]) if key in side else "nothing" for side in (found, wanted))
            raise UserError("{}: {} is {} where {} would fit; is it a fconv model?".format(name, key, *shapes))
    for key, tensor in state.items():
        if not bool(tensor.isfinite().all()):
            raise UserError(f"{name}: {key} holds values that are not numbers; its training diverged, or it is damaged")


def write(output: str, checkpoint: Checkpoint) -> str:
    """Save to OUTPUT/checkpoints/best.pt; returns a line that says so. Never over a checkpoint that training wrote."""
    path = Path(output) / "checkpoints" / "best.pt"
    make_folder(path.parent, "output")
    if path.exists() and "origin" not in load(path):
        raise UserError(f"output={output}: holds a checkpoint of a training; give another folder")
    save(path, checkpoint)
    count = sum(tensor.numel() for tensor in checkpoint["model"].values())
    sizes = f"{checkpoint['source_vocabulary']:,} source and {checkpoint['target_vocabulary']:,} target words"
    return f"{path}: {count:,} weights, {sizes}, from {checkpoint['origin']['format']}"
