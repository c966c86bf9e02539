"""Runs in the form in which results are committed: small, and without a word about the machine they ran on.

A kept run holds config.yaml, environment.json, the epoch lines of metrics.jsonl, speed.json, evaluation/*.json and the
pictures of attention/; no checkpoints, no translations. Benchmarks are kept beside the runs.
"""

from __future__ import annotations

import json
from pathlib import Path

import yaml

from convs2s.config import to_plain
from convs2s.errors import UserError
from convs2s.evaluation.places import Places, kept_name
from convs2s.evaluation.run_record import BENCHMARKS, RunRecord
from convs2s.evaluation.speed import Benchmark, kept
from convs2s.files import atomic, read_json, write_json


def keep(run: RunRecord, folder: Path) -> Path:
    """Write ``run`` into folder/NAME; returns that. Raises UserError where another run is there already."""
    own = kept_name(run.directory, run.config)
    target, places = folder / own, Places(run.directory, run.config)
    config = places.tree(to_plain(run.config)) | {"run_dir": f"runs/{own}"}
    path = target / "config.yaml"
    if path.exists() and yaml.safe_load(path.read_text(encoding="utf-8")) != config:
        raise UserError(f"keep: {target} holds another run; move it away, or rename {run.directory}")
    (target / "evaluation").mkdir(parents=True, exist_ok=True)
    with atomic(path) as file:
        yaml.safe_dump(config, file, sort_keys=False, allow_unicode=True)
    with atomic(target / "metrics.jsonl") as file:
        file.writelines(json.dumps(line) + "\n" for line in run.epochs)
    if (run.directory / "environment.json").exists():
        environment = read_json(run.directory / "environment.json", "leave this run out")
        data = {key: part for key, part in environment.pop("data", {}).items() if key not in ("files", "given")}
        write_json(target / "environment.json", {**places.tree(environment), "command": run.command, "data": data})
    if (speed := run.directory / "speed.json").exists():
        content = speed.read_text(encoding="utf-8")
        with atomic(target / "speed.json") as file:
            file.write(content)
    for name, report in run.reports.items():
        words = report.get("command")
        command = {"command": places.words(words)} if isinstance(words, list) else {}
        write_json(target / "evaluation" / f"{name}.json", places.tree(report) | command)
    for picture in run.pictures:
        (target / "attention").mkdir(exist_ok=True)
        pixels = picture.read_bytes()  # before it is opened again: a kept run may be kept anew
        with atomic(target / "attention" / picture.name, "wb") as file:
            file.write(pixels)
    return target


def keep_benchmark(benchmark: Benchmark, folder: Path) -> None:
    """Write ``benchmark`` into folder/benchmarks. Raises UserError where another of that name is there already."""
    content = kept(benchmark)
    path = folder / BENCHMARKS / benchmark.path.name
    if path.exists() and read_json(path, "take it out") != content:
        raise UserError(f"keep: {path} is another benchmark; move it away, or rename {benchmark.path}")
    path.parent.mkdir(exist_ok=True)
    write_json(path, content)
