"""The ablations of the paper beside ours: all rows of a setting together, and whether the paper's claims hold in them.

Ours may be of another size and test set, so that no figure is subtracted from a published one; what is compared is
which row is better than which.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from convs2s.evaluation.facts import training_facts
from convs2s.evaluation.matching import PERPLEXITIES, fittest, is_of
from convs2s.evaluation.measures import VALIDATION, Group, Measured, grouped
from convs2s.evaluation.paper import OTHERS, Claim, Table

VARIED = {"encoder": ("layers", "positions"), "decoder": ("layers", "positions", "attention")}  # options of the model


class Verdict(NamedTuple):
    """Whether a claim of the paper holds in ours, by one metric."""

    claim: Claim
    metric: str
    holds: bool | None  # None: the rows that it is about were not run
    against: str = ""  # the first pair that goes the other way: "1 (38.20) is no better than 5 (38.40)"


@dataclass(frozen=True)
class Ablation:
    """A table of the paper and ours in one setting; no figures where nothing was run."""

    table: Table
    figures: dict[str, dict[str, Group]]  # metric of the table -> system -> ours

    @property
    def metrics(self) -> list[str]:
        """Of the table, and the validation perplexity, which every run has."""
        published = [metric for row in self.table.rows for metric in row.values]
        return sorted(dict.fromkeys([VALIDATION, *published]), key=lambda metric: metric not in PERPLEXITIES)

    @property
    def groups(self) -> list[Group]:
        return [group for systems in self.figures.values() for group in systems.values()]

    @property
    def seeds(self) -> int:
        """The fewest that a figure is the mean of; 0 where nothing was run."""
        return min((len(group.members) for group in self.groups), default=0)

    @property
    def run(self) -> list[str]:
        """The systems that were run, in the table's order."""
        there = {system for systems in self.figures.values() for system in systems}
        return [row.system for row in self.table.rows if row.system in there]

    def published(self, metric: str) -> dict[str, float]:
        return {row.system: row.values[metric] for row in self.table.rows if metric in row.values}

    def ours(self, metric: str) -> dict[str, float]:
        return {system: group.interval.mean for system, group in self.figures.get(metric, {}).items()}

    def verdicts(self) -> list[Verdict]:
        """Every claim, by each metric whose published figures bear it out, and by one that was not published."""
        return [
            verdict(claim, metric, self.ours(metric))
            for claim in self.table.claims
            for metric in self.metrics
            if not (published := self.published(metric)) or verdict(claim, metric, published).holds
        ]


def verdict(claim: Claim, metric: str, figures: dict[str, float]) -> Verdict:
    """The claim in figures by system; systems without a figure are passed over."""
    judged = False
    for better, worse in pairs(claim.order, list(figures)):
        judged = True
        one, other = figures[better], figures[worse]
        if not (one < other if metric in PERPLEXITIES else one > other):
            return Verdict(claim, metric, False, f"“{better}” ({one:.2f}) is no better than “{worse}” ({other:.2f})")
    return Verdict(claim, metric, True if judged else None)


def pairs(order: Sequence[str], systems: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The pairs of systems of which the first must be better."""
    there = [name for name in order if name == OTHERS or name in systems]
    others = [name for name in systems if name not in order]
    for better, worse in pairwise(there):
        for one in others if better == OTHERS else [better]:
            for other in others if worse == OTHERS else [worse]:
                yield one, other


def ablations(table: Table, measured: Sequence[Measured]) -> list[Ablation]:
    """The table beside our runs, those of one setting together (like data, sizes, training), the most rows first."""
    settings: dict[str, Ablation] = {}
    metrics = Ablation(table, {}).metrics
    for row in table.rows:
        mine = [one for one in measured if is_of(one, table, row)]
        for metric in metrics:
            for group in grouped(fittest(mine, metric, row)):
                place = settings.setdefault(setting(table, group), Ablation(table, {}))
                place.figures.setdefault(metric, {}).setdefault(row.system, group)
    return sorted(settings.values(), key=lambda one: -len(one.run)) or [Ablation(table, {})]


def setting(table: Table, group: Group) -> str:
    """The training of a figure's run, but for what its table varies and what follows from that."""
    facts = training_facts(group.first.run.config, 0)
    counts = json.loads(group.first.training)
    for side, options in VARIED.items():
        for option in options:
            del counts["model"][side][option]
    return json.dumps([counts, {name: facts[name] for name in facts.keys() - varied(table)}], sort_keys=True)


def varied(table: Table) -> set[str]:
    """The facts that differ between a table's rows."""
    names = {name for row in table.rows for name in row.select}
    for side in VARIED:
        if any(name.startswith(side) for name in names):
            names |= {side, f"{side} layers", f"{side} kernel"}
    if "decoder" in names:
        names.add("attention")  # by default in every layer
    if "attention" in names and "decoder" not in names:
        names.add("attention layers")
    return names
