"""What must hold before the first update: options that work, a directory to write, sentences that fit."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from convs2s.config import LongLines, TrainConfig, flatten
from convs2s.data.corpus import check_lengths
from convs2s.data.prepare import Prepared, check_tests, split_paths
from convs2s.errors import UserError
from convs2s.messages import Log
from convs2s.search.lexicon import check_lexicon
from convs2s.text.tokenizer import Tokenizers
from convs2s.training.checkpoint import build_tokenizers
from convs2s.training.record import refuse_other_options


def check_lexicons(config: TrainConfig) -> None:
    """Refuse lexicons that are not there, those of the search after training, too."""
    lexicons = {"training.selection.lexicon": config.training.selection.lexicon, **config.search.lexicons()}
    for name, path in lexicons.items():
        if path is not None:
            check_lexicon(name, path)


def as_started(config: TrainConfig, before: TrainConfig) -> TrainConfig:
    """A fine-tuning's configuration: text and model are those of the checkpoint, but for this run's dropout."""
    dropout = {name: value for name, value in vars(config.model).items() if name.startswith("dropout")}
    text = replace(before.text, codes=None)  # they are in the checkpoint, and their file may be gone
    return replace(config, text=text, model=replace(before.model, **dropout))


def make_directory(directory: Path) -> None:
    """The run's directory, made and writable, or a UserError."""
    if directory == Path():
        raise UserError(
            "run_dir is the folder that the command runs in: give one of its own, such as run_dir=runs/NAME"
        )
    try:
        (directory / "checkpoints").mkdir(parents=True, exist_ok=True)
        (directory / ".lock").touch()
        (directory / "checkpoints" / ".lock").touch()
    except OSError as error:
        raise UserError(f"run_dir={directory}: {error.filename}: {error.strerror}; give another run_dir") from error
    for folder in (directory / name for name in ("translations", "evaluation")):  # for when training is over
        if folder.exists() and not folder.is_dir():
            raise UserError(f"{folder} is a file: remove it, or give another run_dir")


def check_room(directory: Path, parameters: int) -> None:
    """Refuse a disk without room for last.pt and best.pt, and a new one beside them: weights and velocity, fp32."""
    files = 1 + sum(not (directory / "checkpoints" / name).exists() for name in ("last.pt", "best.pt"))
    needed, free = files * 8 * parameters, shutil.disk_usage(directory).free
    if needed > free:
        raise UserError(
            f"run_dir={directory}: checkpoints take {needed / 1e6:,.0f} MB more, {free / 1e6:,.0f} MB are free there; "
            "make room, or give another run_dir"
        )


def check_nothing_lost(directory: Path) -> None:
    """Refuse to begin anew over the log of epochs whose checkpoints are gone."""
    path = directory / "metrics.jsonl"
    if path.exists() and b'"kind": "epoch"' in path.read_bytes():
        raise UserError(
            f"run_dir={directory} holds the log of a run whose checkpoints are gone: restore them, or give another "
            "run_dir"
        )


def check_same_start(
    directory: Path, path: Path, saved: dict[str, Any], config: TrainConfig, tokenizers: Tokenizers
) -> None:
    """Refuse to go on from the checkpoint ``saved`` at ``path`` with other options, or pieces that mean other words."""
    refuse_other_options(directory, flatten(saved["config"]), config)  # also where config.yaml is gone
    for before, now in zip(build_tokenizers(saved), tokenizers, strict=True):
        if before.symbols != now.symbols:
            raise UserError(
                f"{path}: its vocabulary is not what the training text gives now: restore the text, or give another "
                "run_dir"
            )


def check_data(data: Prepared, config: TrainConfig, log: Log) -> None:
    """Refuse, before the first update, sentences beyond the position tables, in any split."""
    limits = config.model.max_source_length, config.model.max_target_length
    for split, corpus in (("train", data.train), ("valid", data.valid)):
        check_lengths(corpus, limits[0], *split_paths(config.data, split, log), target_limit=limits[1])
    cut = config.search.long_lines == LongLines.cut
    check_tests(config.data, data.tokenizers, None if cut else limits[0], log)
