"""Runs laid beside the published figures: for each figure ours, the difference, and every condition that differs.

Figures of different metrics or test sets are never subtracted; where they stand in one line, the line says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from convs2s.evaluation.ablations import Ablation, ablations
from convs2s.evaluation.contrast import Contrast, contrast
from convs2s.evaluation.curves import CurveResult, compare_curves
from convs2s.evaluation.matching import PERPLEXITIES, fittest, is_of
from convs2s.evaluation.measures import VALIDATION, Group, Measured, grouped, measurements
from convs2s.evaluation.paper import METRICS, PAPER, PEERS, Row, Table, read
from convs2s.evaluation.run_record import RunRecord
from convs2s.evaluation.significance import Interval
from convs2s.evaluation.speed import Benchmark, SpeedResult, compare_speeds

NOT_RUN, NOT_SCORED, ELSEWHERE = "not run", "run, not scored", "–"


@dataclass(frozen=True)
class Line:
    """A published figure and what we have beside it."""

    table: Table
    row: Row
    metric: str
    state: str = ""  # NOT_RUN, NOT_SCORED, ELSEWHERE (another system's, nothing to run); empty: ``group`` is there
    group: Group | None = None
    differs: tuple[str, ...] = ()  # "batch: 4,000 tokens (published: 64 sentences)"
    comparable: bool = False  # same metric, same test set
    command: str = ""  # that made ours, or would

    @property
    def published(self) -> float:
        return self.row.values[self.metric]

    @property
    def ours(self) -> Interval | None:
        """Mean over seeds and its interval; the best seed's figure where the published one is that."""
        if self.group is None:
            return None
        if self.row.best:
            values = [member.value for member in self.group.members]
            return Interval(max(values), None, None, None, len(values))
        return self.group.interval

    @property
    def difference(self) -> float | None:
        return self.ours.mean - self.published if self.ours is not None and self.comparable else None


@dataclass(frozen=True)
class Comparison:
    lines: list[Line]  # peers first, then the paper, in the order of the files
    curves: list[CurveResult]
    ablations: list[Ablation]
    contrast: list[Contrast]
    speeds: list[SpeedResult]
    others: list[Group]  # figures of runs that no published figure is about
    runs: list[RunRecord]


def compare(runs: Sequence[RunRecord], benchmarks: Sequence[Benchmark] = ()) -> Comparison:
    """Lay runs, or none, beside every published figure. Raises UserError for two runs of the same seed."""
    peers, paper = read(PEERS), read(PAPER)
    measured = [one for run in runs for one in measurements(run)]
    lines = []
    for table in [*peers.tables, *paper.tables]:
        for row in table.rows:
            for metric in row.values:
                lines += compare_figure(table, row, metric, measured)
    contrasted = contrast(measured)
    groups = [line.group for line in lines if line.group is not None]
    groups += [group for system in contrasted for group in system.figures.values()]
    used = {id(member.run) for group in groups for member in group.members}
    rest = [one for one in measured if id(one.run) not in used and not METRICS[one.metric].is_speed]
    return Comparison(
        lines,
        [result for curve in [*peers.curves, *paper.curves] for result in compare_curves(curve, measured)],
        [result for table in paper.tables if table.claims for result in ablations(table, measured)],
        contrasted,
        [compare_speeds(speed, benchmarks) for speed in peers.speeds],
        grouped(rest),
        list(runs),
    )


def compare_figure(table: Table, row: Row, metric: str, measured: Sequence[Measured]) -> list[Line]:
    """The line of a published figure; several where runs of several conditions stand beside it."""
    if row.experiment is None:
        return [Line(table, row, metric, ELSEWHERE)]
    mine = [one for one in measured if is_of(one, table, row)]
    chosen = fittest(mine, metric, row)
    if not chosen:
        trained = any(one.metric == VALIDATION for one in mine)
        return [Line(table, row, metric, NOT_SCORED if trained else NOT_RUN, command=command(row))]
    lines = []
    for group in grouped(chosen):
        differs = differences(group, metric, row)
        lines.append(
            Line(
                table,
                row,
                metric,
                group=group,
                differs=tuple(differs),
                comparable=not any(difference.startswith(NEVER_SUBTRACTED[metric]) for difference in differs),
                command=group.first.run.command,
            )
        )
    return lines


# What a figure's difference must not begin with for it to be a difference of like and like.
NEVER_SUBTRACTED = {
    metric: ("metric:", "test set:", "data:", "vocabulary:") if metric in PERPLEXITIES else ("metric:", "test set:")
    for metric in METRICS
}


def differences(group: Group, metric: str, row: Row) -> list[str]:
    """Every condition of the published figure that ours does not meet."""
    ours, facts = group.first, group.facts | {"seeds": str(len(group.members))}
    found = []
    if ours.metric != metric:
        found.append(f"metric: {METRICS[ours.metric].label} (published: {METRICS[metric].label})")
    if ours.metric != VALIDATION and ours.test != row.test:
        found.append(f"test set: {ours.test} (published: {row.test})")
    return found + [
        f"{name}: {facts[name]} (published: {text})"
        for name, text in row.conditions.items()
        if name in facts and facts[name] != text
    ]


def command(row: Row) -> str:
    """What would make a row's figure, in a shell; a training scores its first test split with beam 5 by itself."""
    run, models, beam = f"runs/{row.experiment}", int(row.select.get("models", 1)), row.select.get("beam", "5")
    training = ["python scripts/train.py", f"experiment={row.experiment}", *filter(None, [row.options])]
    checkpoint = f"{run}/checkpoints/best.pt"
    if models > 1:
        seeds = ",".join(str(seed) for seed in range(1, models + 1))
        training += ["-m", f"'run_dir={run}_seed${{seed}}'", f"seed={seeds}"]
        checkpoint = f"\"[$(echo {run}_seed{{1..{models}}}/checkpoints/best.pt | tr ' ' ,)]\""
    scoring = ["python scripts/evaluate.py", f"checkpoint={checkpoint}"]
    scoring += [f"split={row.split}"] * bool(row.split) + [f"search.beam={beam}"] * (beam != "5")
    return " ".join(training if models == 1 and len(scoring) == 2 else [*training, "&&", *scoring])
