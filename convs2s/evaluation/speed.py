"""Speeds that scripts/benchmark.py measured beside those of other programs, per unit of yardstick.

The yardstick is the rate of float32 matrix products in the same run, in GFLOP/s, measured beside every speed; a file's
yardstick is their median, so that a moment's disturbance of it moves no row against another.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from convs2s.errors import UserError
from convs2s.evaluation.paper import Case, SpeedTable
from convs2s.evaluation.places import cleaned, command_of
from convs2s.files import matching

KEPT = Path("results/benchmarks")


@dataclass(frozen=True)
class Benchmark:
    """What scripts/benchmark.py generate or train wrote with output=FILE."""

    path: Path
    content: dict[str, Any]

    @property
    def name(self) -> str:
        return self.path.stem


@dataclass(frozen=True)
class Speed:
    """One measurement of ours."""

    absolute: float  # sentences or tokens a second
    yardstick: float
    relative: float  # absolute / yardstick
    benchmark: Benchmark
    conditions: str  # threads, and what is not as in the others' measurements
    command: str


@dataclass(frozen=True)
class SpeedResult:
    """A table of speeds, and ours for each of its cases, none where nothing was measured."""

    table: SpeedTable
    ours: list[list[Speed]]

    @property
    def cases(self) -> list[tuple[Case, list[Speed]]]:
        return list(zip(self.table.cases, self.ours, strict=True))


def find_benchmarks(patterns: Sequence[str] | None) -> list[Benchmark]:
    """The files that benchmarks= names, or where it is null those that are kept, read.

    A pattern (measured/*.json) stands for the files that it matches. Raises UserError for one that matches nothing, and
    for a file that is not there or holds no speeds.
    """
    if patterns is None:
        return [read_benchmark(path) for path in sorted(KEPT.glob("*.json"))]
    found = {path for pattern in patterns for path in matching(pattern, "benchmarks")}
    return [read_benchmark(path) for path in sorted(found)]


def read_benchmark(path: Path) -> Benchmark:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        for key in ("generate", "train"):
            for row in content.get(key, []):
                figures = [row[f"{'sentences' if key == 'generate' else 'tokens'}_per_second"], row["yardstick_gflops"]]
                if min(figures) <= 0:
                    raise ValueError("a speed of 0")
        if not content.keys() & {"generate", "train"}:
            raise ValueError("neither generate nor train")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(
            f"benchmarks: {path}: not what scripts/benchmark.py generate or train writes ({error!s:.60}); leave it out"
        ) from error
    return Benchmark(path, content)


def compare_speeds(table: SpeedTable, benchmarks: Sequence[Benchmark]) -> SpeedResult:
    """Ours for each case of a table, in the order of the files."""
    return SpeedResult(table, [[*speeds(table, case, benchmarks)] for case in table.cases])


def speeds(table: SpeedTable, case: Case, benchmarks: Sequence[Benchmark]) -> list[Speed]:
    found = []
    for benchmark in benchmarks:
        rows = benchmark.content.get(table.benchmark, [])
        yardstick = median(float(row["yardstick_gflops"]) for row in rows) if rows else 0.0
        for row in rows:
            if all(row.get(name) == value for name, value in case.select.items()):
                absolute = float(row[table.figure])
                found.append(
                    Speed(
                        absolute,
                        yardstick,
                        absolute / yardstick,
                        benchmark,
                        conditions(benchmark.content),
                        command_of(f"scripts/benchmark.py {table.benchmark}", benchmark.content.get("options")),
                    )
                )
    return found


def conditions(content: dict[str, Any]) -> str:
    """Threads or device, and what was measured in the place of what the others were measured on."""
    parts = [f"{content['threads']} threads" if content.get("device", "cpu") == "cpu" else str(content["device"])]
    if content.get("parameters") is not None:
        parts.append(f"{content['parameters']:,} parameters")
    if "generate" in content and content.get("checkpoint") is None:
        parts.append("a random model")
    if "generate" in content and content.get("input") is None:
        parts.append("random sentences")
    if content.get("sentences") is not None and "train" in content:
        parts.append(f"batches of {content['sentences']} sentences")
    return ", ".join(parts)


def kept(benchmark: Benchmark) -> dict[str, Any]:
    """The content without paths of the machine."""
    content = dict(benchmark.content)
    for name in ("checkpoint", "input"):
        if isinstance(content.get(name), str):
            content[name] = cleaned(content[name])
    if isinstance(content.get("options"), list):
        content["options"] = [cleaned(str(option)) for option in content["options"]]
    return content
