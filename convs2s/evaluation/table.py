"""A comparison as CSV: one line for each published figure and each group of runs beside it."""

from __future__ import annotations

import csv
from typing import IO, Any

from convs2s.evaluation.compare import Comparison, Line

COLUMNS = [
    "table",
    "title",
    "system",
    "version",
    "metric",
    "test_set",
    "published",
    "state",
    "ours",
    "std",
    "low",
    "high",
    "seeds",
    "difference",
    "our_metric",
    "our_test_set",
    "differs",
    "signature",
    "runs",
    "command",
]


def write_csv(comparison: Comparison, file: IO[Any]) -> None:
    """Numbers unrounded, empty where there is none; several values of a cell are parted by "; "."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(cells(line) for line in comparison.lines)


def cells(line: Line) -> list[object]:
    row, ours, group = line.row, line.ours, line.group
    published = [line.table.name, line.table.title, row.system, row.version, line.metric, row.test, line.published]
    if ours is None or group is None:
        return [*published, line.state, *[""] * 11, line.command]
    return [
        *published,
        "compared" if line.comparable else "not comparable",
        ours.mean,
        *("" if value is None else value for value in (ours.std, ours.low, ours.high)),
        "; ".join(str(member.run.config.seed) for member in group.members),
        "" if line.difference is None else line.difference,
        group.first.metric,
        group.first.test,
        "; ".join(line.differs),
        "; ".join(dict.fromkeys(member.signature for member in group.members)),
        "; ".join(member.run.name for member in group.members),
        line.command,
    ]
