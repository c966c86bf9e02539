"""The charts of a comparison: learning curves, and the ablations as the paper shows them."""

from __future__ import annotations

import re
from typing import NamedTuple

from convs2s.evaluation.ablations import Ablation
from convs2s.evaluation.compare import Comparison
from convs2s.evaluation.curves import CurveResult
from convs2s.evaluation.paper import METRICS, Table
from convs2s.evaluation.svg import Series, chart

GRID = re.compile(r"(kernel \d+), (\d+) layers?")  # rows of tables 7 and 8
LAYERS = re.compile(r"(?:(kernel \d+), )?(\d+) layers?")  # and of figure 2


class Plot(NamedTuple):
    """A chart; ``name``: of its file, without suffix."""

    name: str
    of: Table | CurveResult | Ablation  # what it shows
    title: str
    svg: str
    ours: bool  # are figures of ours in it?


def plots(comparison: Comparison) -> list[Plot]:
    """Every chart there is something to draw for."""
    found = [curve_plot(result, i) for i, result in enumerate(comparison.curves)]
    for table in dict.fromkeys(one.table.name for one in comparison.ablations):
        own = [one for one in comparison.ablations if one.table.name == table]
        found += published_plots(own[0])
        for number, one in enumerate(own, start=1):
            found += ablation_plots(one, number)
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


def published_plots(one: Ablation) -> list[Plot]:
    """The published figures of an ablation, a chart for each metric."""
    found, table = [], one.table
    for metric in one.metrics:
        if values := one.published(metric):
            label = METRICS[metric].label
            title = f"{capital(table.name)}: {label}, {table.rows[0].test}, published"
            name = f"{slug(table.name)}_{metric}_published"
            found.append(Plot(name, table, title, drawn(table, title, label, values), False))
    return found


def ablation_plots(one: Ablation, number: int) -> list[Plot]:
    """Ours, in charts and on axes of their own; ``number``: of the setting, from 1."""
    found, table = [], one.table
    for metric, groups in one.figures.items():
        first = next(iter(groups.values())).first
        label, test = METRICS[first.metric].label, first.test or first.facts["data"]
        title = f"{capital(table.name)}: {label}, {test}, ours"
        name = f"{slug(table.name)}_{metric}_ours" + (f"_{number}" if number > 1 else "")
        found.append(Plot(name, one, title, drawn(table, title, label, one.ours(metric)), True))
    return found


def drawn(table: Table, title: str, label: str, values: dict[str, float]) -> str:
    """Lines over the number of layers, one for each kernel (figure 2, tables 7 and 8), or a point for each row."""
    layers = {row.system: LAYERS.fullmatch(row.system) for row in table.rows}
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
