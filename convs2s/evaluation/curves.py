"""Learning curves, ours beside published ones, epoch by epoch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean

from convs2s.evaluation.matching import has
from convs2s.evaluation.measures import VALIDATION, Group, Measured, grouped
from convs2s.evaluation.paper import Curve
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
        if one.metric == VALIDATION and one.run.config.experiment == curve.experiment and has(one.facts, curve.select)
    ]
    return [CurveResult(curve, group) for group in grouped(fit)] or [CurveResult(curve, None)]
