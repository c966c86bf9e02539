"""What a run directory tells, read back: configuration, epochs, scores, command, pictures of attention."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from convs2s.config import TrainConfig, from_plain
from convs2s.errors import UserError
from convs2s.evaluation.places import Places, kept_name
from convs2s.files import matching, read_json

BENCHMARKS = "benchmarks"  # folder beside kept runs that holds none: speeds
PICTURES = (".svg", ".png", ".json")  # of scripts/plot_attention.py, a line each


@dataclass(frozen=True)
class RunRecord:
    """A run directory; ``name`` is how reports call it."""

    directory: Path
    name: str
    config: TrainConfig
    epochs: list[dict[str, Any]]  # the epoch lines of metrics.jsonl
    reports: dict[str, dict[str, Any]]  # the files of evaluation/, by name
    command: str  # that trained it, or "" where that was not written down
    pictures: list[Path]  # under attention/
    parameters: int | None = None  # of the model, where that was written down
    tokens_per_second: float | None = None  # target tokens in training, over all epochs, validation not counted

    def perplexities(self) -> dict[int, float]:
        """Validation perplexity by epoch, from 1."""
        return {line["epoch"]: line["valid_perplexity"] for line in self.epochs}


def find_runs(patterns: Sequence[str]) -> list[Path]:
    """The run directories that runs= names, sorted.

    A folder without config.yaml stands for the runs below it, a pattern (results/*) for the folders it matches, but
    not for that of kept benchmarks. Raises UserError for a folder that is not there, one that neither is a run nor
    holds any, a pattern that matches nothing.
    """
    found: set[Path] = set()
    for pattern in patterns:
        folders = matching(pattern, "runs")
        if folders != [Path(pattern)]:
            folders = [folder for folder in folders if folder.is_dir() and folder.name != BENCHMARKS]
        for folder in folders:
            if not folder.is_dir():
                raise UserError(f"runs: {folder}: there is no such folder; give run directories of scripts/train.py")
            inside = [folder] if (folder / "config.yaml").exists() else [p.parent for p in folder.rglob("config.yaml")]
            if not inside:
                raise UserError(
                    f"runs: {folder}: not a run directory (no config.yaml); give what scripts/train.py wrote"
                )
            found.update(inside)
    return sorted(found)


def read_run(directory: Path) -> RunRecord:
    """A run directory; UserError that names the file where something is missing or damaged."""
    path = directory / "config.yaml"
    try:
        config = from_plain(TrainConfig, yaml.safe_load(path.read_text(encoding="utf-8")))
    except UserError as error:
        raise UserError(f"{path}: {error}; not a run of this version of the program") from error
    except (OSError, ValueError, TypeError, AttributeError, RecursionError, yaml.YAMLError) as error:
        raise UserError(f"{path}: cannot be read ({str(error).splitlines()[0]:.80}); leave this run out") from error
    path = directory / "environment.json"
    environment = read_json(path, "leave this run out") if path.exists() else {}
    if not isinstance(environment.get("data", {}), dict):
        raise UserError(f"{path}: damaged (data is no object); mend it, or leave this run out")
    reports = sorted((directory / "evaluation").glob("*.json"))
    return RunRecord(
        directory,
        kept_name(directory, config),
        config,
        read_epochs(directory / "metrics.jsonl"),
        {path.stem: read_json(path, "score the run again, or leave it out") for path in reports},
        Places(directory, config).command(str(environment.get("command", ""))),
        sorted(path for path in (directory / "attention").glob("line*") if path.suffix in PICTURES),
        environment.get("parameters"),
        read_speed(directory / "speed.json"),
    )


def read_epochs(path: Path) -> list[dict[str, Any]]:
    """The epoch lines of a metrics.jsonl; none where no epoch has ended."""
    epochs = []
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: cannot be read ({error!s:.80}); a run has one, leave this out") from error
    for number, line in enumerate(lines, start=1):
        if not line:
            continue
        try:
            values = json.loads(line)
            if values["kind"] == "epoch":
                if not math.isfinite(values["valid_perplexity"]):
                    raise UserError(f"{path}, line {number}: validation without a finite figure; leave this run out")
                if not (isinstance(values["epoch"], int) and values["valid_perplexity"] >= 1):
                    raise ValueError("an epoch is a whole number, its perplexity one of at least 1")
                epochs.append(values)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise UserError(
                f"{path}, line {number}: damaged ({error!s:.60}); mend the line, or leave this run out"
            ) from error
    return epochs


def read_speed(path: Path) -> float | None:
    """Target tokens a second of a speed.json; None where there is none."""
    if not path.exists():
        return None
    try:
        epochs = json.loads(path.read_text(encoding="utf-8"))
        tokens, seconds = (sum(float(epoch[name]) for epoch in epochs) for name in ("tokens", "seconds"))
        return tokens / seconds
    except (OSError, ValueError, KeyError, TypeError, ZeroDivisionError, RecursionError) as error:
        raise UserError(f"{path}: damaged ({error!s:.60}); take it out, or leave this run out") from error
