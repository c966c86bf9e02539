"""What shows only between figures: learning curves epoch by epoch, and the direction of each ablation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from convs2s.evaluation.measures import VALIDATION, Group, Measured, grouped
from convs2s.evaluation.paper import Curve, Row, Table
from convs2s.evaluation.significance import Interval, mean_interval


@dataclass(frozen=True)
class CurveResult:
    """A published curve and ours; ``group`` is None where nothing was run."""

    curve: Curve
    group: Group | None

    @property
    def published(self) -> dict[int, float]:
        """Epoch -> mean over the seeds."""
        means = [fmean(values) for values in zip(*self.curve.seeds, strict=True)]
        return dict(zip(self.curve.epochs, means, strict=True))

    @property
    def ours(self) -> dict[int, Interval]:
        """Epoch -> mean over our seeds, for epochs that all of them have done."""
        lines = [] if self.group is None else [member.run.perplexities() for member in self.group.members]
        shared = sorted(set.intersection(*map(set, lines))) if lines else []
        return {epoch: mean_interval([line[epoch] for line in lines]) for epoch in shared}

    @property
    def relative(self) -> dict[int, float]:
        """Epoch -> (ours - published) / published, where there are both."""
        ours, published = self.ours, self.published
        return {epoch: ours[epoch].mean / published[epoch] - 1 for epoch in published if epoch in ours}

    @property
    def largest(self) -> float | None:
        """Largest relative difference, without its sign."""
        return max(map(abs, self.relative.values()), default=None)


def compare_curves(curve: Curve, measured: Iterable[Measured]) -> list[CurveResult]:
    """The curve beside each group of runs that it is about, or alone."""
    fit = [
        one
        for one in measured
        if one.metric == VALIDATION
        and one.run.config.experiment == curve.experiment
        and all(one.facts[name] == text for name, text in curve.select.items())
    ]
    return [CurveResult(curve, group) for group in grouped(fit)] or [CurveResult(curve, None)]


@dataclass(frozen=True)
class Direction:
    """What a change to the model did to a figure, published and ours, each against its own baseline."""

    table: Table
    row: Row
    metric: str
    published: float  # change against the table's baseline
    ours: float
    seeds: int  # the fewer of the two figures of ours
    test: str

    @property
    def agrees(self) -> bool | None:
        """Same sign; None where one of the two did not change."""
        return None if 0 in (self.published, self.ours) else (self.published > 0) == (self.ours > 0)


def directions(figures: Sequence[tuple[Table, Row, str, Group | None]]) -> list[Direction]:
    """Every figure of an ablation whose baseline was run in the same setting: like data, sizes, metric, test set."""
    found = []
    for table, row, metric, group in figures:
        if group is None or table.baseline in (None, row.system):
            continue
        for other_table, baseline, other_metric, base in figures:
            if other_table is not table or baseline.system != table.baseline or other_metric != metric or base is None:
                continue
            if setting(table, base) != setting(table, group):
                continue
            found.append(
                Direction(
                    table,
                    row,
                    metric,
                    row.values[metric] - baseline.values[metric],
                    group.interval.mean - base.interval.mean,
                    min(len(group.members), len(base.members)),
                    group.first.test,
                )
            )
    return found


def setting(table: Table, group: Group) -> dict[str, str]:
    """Metric, test set and the conditions of a figure, but for what its table varies and what follows from that."""
    varied = {name for row in table.rows for name in row.select} | {"epochs"}
    for side in ("encoder", "decoder"):
        if any(name.startswith(side) for name in varied):
            varied |= {side, f"{side} layers", f"{side} kernel"}
    if "decoder" in varied:
        varied.add("attention")  # by default in every layer
    if "attention" in varied and "decoder" not in varied:
        varied.add("attention layers")
    facts = {name: text for name, text in group.facts.items() if name not in varied}
    return facts | {"metric": group.first.metric, "test set": group.first.test}
