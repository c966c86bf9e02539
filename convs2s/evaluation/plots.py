"""The charts of a comparison: learning curves, and the ablations as the paper shows them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import NamedTuple

from convs2s.evaluation.compare import Comparison, Line
from convs2s.evaluation.contrasts import CurveResult, setting
from convs2s.evaluation.measures import Group
from convs2s.evaluation.paper import METRICS, Table
from convs2s.evaluation.svg import Series, chart


class Plot(NamedTuple):
    """A chart; ``name``: of its file, without suffix."""

    name: str
    of: Table | CurveResult  # what it shows
    title: str
    svg: str
    ours: bool  # are figures of ours in it?


def plots(comparison: Comparison) -> list[Plot]:
    """Every chart there is something to draw for."""
    found = [curve_plot(result, i) for i, result in enumerate(comparison.curves)]
    tables = {line.table.name: line.table for line in comparison.lines if line.table.baseline is not None}
    for table in tables.values():
        lines = [line for line in comparison.lines if line.table is table]
        for metric in dict.fromkeys(line.metric for line in lines):
            found += ablation_plots(table, metric, [line for line in lines if line.metric == metric])
    return found


def curve_plot(result: CurveResult, number: int) -> Plot:
    """Perplexity by epoch, on a logarithmic axis: the means, and behind them the seeds."""
    curve, series = result.curve, []
    for values in curve.seeds if len(curve.seeds) > 1 else []:
        series.append(Series("", list(zip(curve.epochs, values, strict=True)), 0, thin=True))
    if result.group is not None:
        members = [member.run.perplexities() for member in result.group.members]
        series += [Series("", list(line.items()), 1, thin=True) for line in members if len(members) > 1]
    series.append(Series(f"{curve.system}, {seeds(len(curve.seeds))}", list(result.published.items()), 0, dashed=True))
    if result.group is not None:
        ours = [(epoch, interval.mean) for epoch, interval in result.ours.items()]
        series.append(Series(f"ours, {seeds(len(result.group.members))}", ours, 1))
    title = f"{curve.name}: validation perplexity by epoch"
    name = f"curve_{slug(curve.name)}" + (f"_{number}" if result.group is not None and number > 1 else "")
    return Plot(name, result, title, chart(title, "epoch", "perplexity", series, log=True), result.group is not None)


def ablation_plots(table: Table, metric: str, lines: Sequence[Line]) -> list[Plot]:
    """The published figures of an ablation, and beside them, in a chart and on an axis of their own, ours."""
    label = METRICS[metric].label
    place = f"{slug(table.name)}_{metric}"
    published = {line.row.system: line.published for line in lines}
    title = f"{capital(table.name)}: {label}, {lines[0].row.test}, published"
    found = [Plot(f"{place}_published", table, title, drawn(table, title, label, published), False)]
    settings: dict[str, list[tuple[str, Group]]] = {}
    for line in lines:
        if line.group is not None:
            key = json.dumps(setting(table, line.group), sort_keys=True)
            settings.setdefault(key, []).append((line.row.system, line.group))
    for number, groups in enumerate(settings.values(), start=1):
        first = groups[0][1].first
        own, test = METRICS[first.metric].label, first.test or first.facts["data"]
        title = f"{capital(table.name)}: {own}, {test}, ours"
        values = {system: group.interval.mean for system, group in groups}
        name = f"{place}_ours" + (f"_{number}" if number > 1 else "")
        found.append(Plot(name, table, title, drawn(table, title, own, values), True))
    return found


def drawn(table: Table, title: str, label: str, values: dict[str, float]) -> str:
    """Lines over the number of layers, one for each kernel (figure 2, tables 7 and 8), or a point for each row."""
    layers = {row.system: re.fullmatch(r"(?:(kernel \d+), )?(\d+) layers?", row.system) for row in table.rows}
    if all(layers.values()):
        lines: dict[str, list[tuple[float, float]]] = {}
        for system, value in values.items():
            match = layers[system]
            assert match is not None
            lines.setdefault(match[1] or "", []).append((float(match[2]), value))
        series = [Series(name, points, i) for i, (name, points) in enumerate(lines.items())]
        return chart(title, "layers", label, series)
    names = [row.system for row in table.rows]
    points = [(float(names.index(system)), value) for system, value in values.items()]
    return chart(title, table.title.lower(), label, [Series("", points, 0, joined=False)], names=names)


def seeds(count: int) -> str:
    return "one seed" if count == 1 else f"mean of {count} seeds"


def slug(text: str) -> str:
    return re.sub(r"\W+", "_", text).strip("_").lower()


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]
