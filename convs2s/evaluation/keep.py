"""Runs in the form in which results are committed: small, and without a word about the machine they ran on.

A kept run holds config.yaml, environment.json, the epoch lines of metrics.jsonl, evaluation/*.json and the pictures of
attention/; no checkpoints, no translations.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from convs2s.config import to_plain
from convs2s.errors import UserError
from convs2s.evaluation.places import Places, kept_name
from convs2s.evaluation.run_record import RunRecord, read_json
from convs2s.files import atomic


def keep(run: RunRecord, folder: Path) -> Path:
    """Write ``run`` into folder/NAME; returns that.  Raises UserError where another run is there already."""
    name = kept_name(run.directory, run.config)
    target, places = folder / name, Places(run.directory, run.config)
    config = places.tree(to_plain(run.config)) | {"run_dir": f"runs/{name}"}
    path = target / "config.yaml"
    if path.exists() and yaml.safe_load(path.read_text(encoding="utf-8")) != config:
        raise UserError(f"keep: {target} holds another run; move it away, or rename {run.directory}")
    (target / "evaluation").mkdir(parents=True, exist_ok=True)
    with atomic(path) as file:
        yaml.safe_dump(config, file, sort_keys=False, allow_unicode=True)
    with atomic(target / "metrics.jsonl") as file:
        file.writelines(json.dumps(line) + "\n" for line in run.epochs)
    if (run.directory / "environment.json").exists():
        environment = read_json(run.directory / "environment.json")
        data = {key: part for key, part in environment.pop("data", {}).items() if key not in ("files", "given")}
        write_json(target / "environment.json", {**places.tree(environment), "command": run.command, "data": data})
    for report, content in run.reports.items():
        words = content.get("command")
        command = {"command": places.words(words)} if isinstance(words, list) else {}
        write_json(target / "evaluation" / f"{report}.json", places.tree(content) | command)
    for picture in run.pictures:
        (target / "attention").mkdir(exist_ok=True)
        pixels = picture.read_bytes()  # before it is opened again: a kept run may be kept anew
        with atomic(target / "attention" / picture.name, "wb") as file:
            file.write(pixels)
    return target


def write_json(path: Path, content: dict[str, Any]) -> None:
    with atomic(path) as file:
        json.dump(content, file, indent=1, ensure_ascii=False)
        file.write("\n")
