"""Run directories as training and evaluation leave them, without either."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from convs2s.config import SearchConfig, TrainConfig, to_plain

BPE = {
    "data.name": "multi30k_bpe",
    "data.source": "de",
    "data.target": "en",
    "data.train": ["train.de", "train.en"],
    "data.test": {"test": ["test.de", "test.en"]},
    "text.kind": "whitespace",
    "text.joint": False,
    "text.joiner": "@@",
    "model.dropout": 0.2,
}
FORCED = {**BPE, "optimizer.anneal_after": 14, "training.max_epochs": 17}


def report(split: str = "test", beam: int = 5, **figures: Any) -> dict[str, Any]:
    """A file of evaluation/: bleu=30.0 becomes a score with its signature."""
    scores = {
        name: {"score": value, "signature": f"nrefs:1|of:{name}"} if name.startswith(("bleu", "rouge")) else value
        for name, value in figures.items()
    }
    return {
        "split": split,
        **scores,
        "search": {**to_plain(SearchConfig()), "beam": beam},
        "device": "cpu",
        "threads": 2,
    }


def write_run(
    folder: Path,
    experiment: str,
    seed: int = 1,
    *,
    options: dict[str, Any] | None = None,
    perplexities: Sequence[float] = (),
    reports: dict[str, dict[str, Any]] | None = None,
    speed: float | None = None,
    parameters: int | None = None,
) -> Path:
    """A run of that experiment: the schema's defaults but for ``options``, a validation perplexity an epoch.

    speed: target tokens a second in training.
    """
    plain = to_plain(TrainConfig(experiment=experiment, seed=seed, run_dir=str(folder)))
    given = {"data.root": str(folder.parent / "raw"), **(options or {})}
    for name, value in given.items():
        *groups, last = name.split(".")
        place = plain
        for group in groups:
            place = place[group]
        place[last] = value
    (folder / "evaluation").mkdir(parents=True)
    (folder / "config.yaml").write_text(yaml.safe_dump(plain, sort_keys=False), "utf-8")
    lines: list[dict[str, Any]] = []
    for epoch, value in enumerate(perplexities, start=1):
        lines.append({"kind": "train", "epoch": epoch, "update": epoch, "loss": 1.0, "lr": 0.25})
        lines.append({"kind": "epoch", "epoch": epoch, "update": epoch, "lr": 0.25, "valid_perplexity": value})
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    command = f"/opt/program/scripts/train.py experiment={experiment} run_dir={folder} data.root={given['data.root']}"
    environment = {"command": f"{command} seed={seed}", "threads": 2, "data": {"inputs": {}, "files": {}}}
    if parameters is not None:
        environment["parameters"] = parameters
    if speed is not None:
        epochs = [{"epoch": epoch + 1, "tokens": 1000, "seconds": 1000 / speed} for epoch in range(len(perplexities))]
        (folder / "speed.json").write_text(json.dumps(epochs), "utf-8")
    (folder / "environment.json").write_text(json.dumps(environment), "utf-8")
    for name, content in (reports or {}).items():
        content = {
            **content,
            "source": f"{given['data.root']}/test.de",
            "checkpoint": {"path": f"{folder}/checkpoints/best.pt", "sha256": "0"},
            "command": ["scripts/train.py", f"experiment={experiment}", f"data.root={given['data.root']}"],
        }
        (folder / "evaluation" / f"{name}.json").write_text(json.dumps(content), "utf-8")
    return folder
