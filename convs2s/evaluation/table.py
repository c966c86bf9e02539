"""A comparison as CSV: a line for each published figure and each group of runs beside it, then ours that stand alone:
metrics of an ablation that were not published, the recurrent contrast, speeds.
"""

from __future__ import annotations

import csv
from typing import IO, Any

from convs2s.evaluation.ablations import Ablation
from convs2s.evaluation.compare import NOT_RUN, Comparison, Line
from convs2s.evaluation.contrast import Contrast
from convs2s.evaluation.measures import VALIDATION, Group
from convs2s.evaluation.significance import Interval
from convs2s.evaluation.speed import SpeedResult

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
    for ablation in comparison.ablations:
        writer.writerows(ablation_cells(ablation))
    for system in comparison.contrast:
        writer.writerows(contrast_cells(system))
    for result in comparison.speeds:
        writer.writerows(speed_cells(result))


def contrast_cells(one: Contrast) -> list[list[object]]:
    start: list[object] = ["contrast", "ConvS2S and an LSTM with attention", one.system.name, ""]
    if not one.figures:
        return [[*start, VALIDATION, "", "", NOT_RUN, *[""] * 11, one.system.command]]
    rows = [[*start, *alone(metric, group)] for metric, group in one.figures.items()]
    if one.parameters is not None:
        rows.append([*start, "parameters", "", "", "ours", one.parameters, *[""] * 10, rows[0][-1]])
    return rows


def ablation_cells(one: Ablation) -> list[list[object]]:
    """Ours by a metric that was not published; the others stand beside the published figures."""
    return [
        [one.table.name, one.table.title, system, "", *alone(metric, group)]
        for metric, groups in one.figures.items()
        if not one.published(metric)
        for system, group in groups.items()
    ]


def alone(metric: str, group: Group) -> list[object]:
    """Ours from the fifth column on, with nothing published beside it."""
    first, mean = group.first, ours(group, group.interval)
    own = [first.metric, first.test, "", *origin(group, first.run.command)]
    return [metric, first.test, "", "ours", *mean, "", *own]


def speed_cells(result: SpeedResult) -> list[list[object]]:
    """Speeds per unit of yardstick; those of others and the target as published figures."""
    table, found = result.table, []
    for case, measured in result.cases:
        start = [f"speed, {table.name}", table.title]
        metric = f"{table.figure}_per_gflops"
        test = ", ".join(f"{name}: {value}" for name, value in case.select.items())
        known = [(name, value / table.yardstick) for name, value in case.peers.items()]
        known += [("target", case.target)] if case.target is not None else []
        found += [[*start, name, "", metric, test, value, "–", *[""] * 12] for name, value in known]
        found += [
            [*start, "ours", "", metric, test, "", "ours", one.relative, *[""] * 7, one.conditions, "", "", one.command]
            for one in measured
        ]
    return found


def ours(group: Group, found: Interval) -> list[object]:
    """Mean, deviation, interval and seeds."""
    return [
        found.mean,
        *("" if value is None else value for value in (found.std, found.low, found.high)),
        "; ".join(group.seeds),
    ]


def origin(group: Group, command: str) -> list[str]:
    """Signatures, runs, command."""
    return [
        "; ".join(dict.fromkeys(member.signature for member in group.members)),
        "; ".join(member.run.name for member in group.members),
        command,
    ]


def cells(line: Line) -> list[object]:
    row, group = line.row, line.group
    published = [line.table.name, line.table.title, row.system, row.version, line.metric, row.test, line.published]
    if line.ours is None or group is None:
        return [*published, line.state, *[""] * 11, line.command]
    return [
        *published,
        "compared" if line.comparable else "not comparable",
        *ours(group, line.ours),
        "" if line.difference is None else line.difference,
        group.first.metric,
        group.first.test,
        "; ".join(line.differs),
        *origin(group, line.command),
    ]
