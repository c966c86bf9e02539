"""What a run is made of, written down; and whether a command goes on with the run that is already there."""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import hydra
import numpy as np
import sentencepiece
import torch
import yaml

from convs2s.config import TrainConfig, flatten, to_plain
from convs2s.errors import UserError
from convs2s.files import atomic, read_json, write_json

# Options that may change between the starts of one run: they say how long and where, not what is trained.
CHANGEABLE = (
    "run_dir",
    "data.root",
    "data.prepared_dir",
    "data.test",
    "data.metrics",
    "data.workers",
    "data.url",
    "data.sha256",
    "optimizer.anneal_after",
    "optimizer.min_lr",
    "search",
    *(
        f"training.{name}"
        for name in (
            "split_tokens",
            "max_epochs",
            "max_updates",
            "log_every",
            "save_every",
            "save_minutes",
            "keep",
            "nonfinite",
            "max_skips",
            "threads",
            "device",
            "stop_signals",
            "tensorboard",
            "validation_bleu",
            "samples",
            "prefetch",
            "convolution",
        )
    ),
)


def check_same_run(directory: Path, config: TrainConfig) -> None:
    """Refuse to go on with a run under another configuration, naming the option."""
    path = directory / "config.yaml"
    if not any((directory / "checkpoints").glob("*.pt")) or not path.exists():
        return
    try:
        before = flatten(yaml.safe_load(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, AttributeError, RecursionError, yaml.YAMLError) as error:
        raise UserError(f"{path}: cannot be read ({error!s:.80}); restore it, or give another run_dir") from error
    refuse_other_options(directory, before, config)


def refuse_other_options(directory: Path, before: dict[str, Any], config: TrainConfig) -> None:
    """UserError for the first option that is not as in ``before``, flat and plain, and counts."""
    now = flatten(to_plain(config))
    for key in sorted(before.keys() & now.keys()):
        changeable = any(key == name or key.startswith(f"{name}.") for name in CHANGEABLE)
        if not changeable and before[key] != now[key]:
            raise UserError(
                f"run_dir={directory} holds a run with {key}={before[key]}, this command says {now[key]}: "
                "give another run_dir, or the option as it was"
            )


def write_record(directory: Path, config: TrainConfig, manifest: dict[str, Any], parameters: int) -> list[str]:
    """Write config.yaml and environment.json; returns what differs from the environment of the run's last start."""
    path = directory / "environment.json"
    now = {**environment(), "parameters": parameters, "data": manifest}
    changes = []
    if path.exists():
        try:
            before = read_json(path, "")
        except UserError:  # it is written anew
            before = {}
        changes = [
            f"{key} was {before[key]}, is {now[key]}"
            for key in now
            if key in before and key not in ("command", "data") and before[key] != now[key]
        ]
        data = before.get("data")
        if isinstance(data, dict) and data.get("inputs", manifest["inputs"]) != manifest["inputs"]:
            changes.append("the training data has other checksums")
    with atomic(directory / "config.yaml") as file:
        yaml.safe_dump(to_plain(config), file, sort_keys=False, allow_unicode=True)
    write_json(path, now)
    return changes


def environment() -> dict[str, Any]:
    """Command, git revision and versions of this process."""
    git = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--abbrev=40"]
    try:
        revision = subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        revision = "unknown"
    return {
        "command": shlex.join(sys.argv),
        "revision": revision,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "sentencepiece": sentencepiece.__version__,
        "hydra": hydra.__version__,
        "machine": platform.machine(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "processes": int(os.environ.get("WORLD_SIZE", "1")),
        "threads": torch.get_num_threads(),
    }


def unused_options(asked: TrainConfig, used: TrainConfig) -> str:
    """Options of a fine-tuning's command in whose place the checkpoint's stand: "model.embedding=512 (it has 256)"."""
    before, now = (flatten(to_plain(config)) for config in (asked, used))
    return ", ".join(f"{key}={before[key]} (it has {now[key]})" for key in before if before[key] != now[key])
