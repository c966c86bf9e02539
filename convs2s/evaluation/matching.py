"""Which figure of a run belongs beside a published one."""

from __future__ import annotations

from collections.abc import Sequence

from convs2s.evaluation.measures import VALIDATION, Measured
from convs2s.evaluation.paper import METRICS, Row, Table

BLEU = ("bleu_paper", "bleu_tokenized", "bleu_lowercased", "bleu")  # what stands in for another BLEU, the nearest first
PERPLEXITIES = (VALIDATION, "perplexity")


def is_of(one: Measured, table: Table, row: Row) -> bool:
    """Is the figure's run one of the row, at the paper's scale or at that of the table's smaller experiment?"""
    experiment = one.run.config.experiment
    if experiment == row.experiment:
        return has(one.facts, row.select)
    scaled = table.scaled
    return scaled is not None and experiment == scaled.experiment and has(one.facts, {**scaled.select, **row.select})


def has(facts: dict[str, str], select: dict[str, str]) -> bool:
    """Whether the conditions are those selected; what the figure does not depend on (beam, for a loss) is left out."""
    return all(facts.get(name, text) == text for name, text in select.items())


def fittest(measured: Sequence[Measured], metric: str, row: Row) -> list[Measured]:
    """Of each run the figure that fits a published one best; runs that have none are left out."""
    found: dict[int, Measured] = {}
    for one in measured:
        if usable(one, metric, row):
            best = found.setdefault(id(one.run), one)
            found[id(one.run)] = min(best, one, key=lambda other: preference(other, metric, row))
    return list(found.values())


def usable(one: Measured, metric: str, row: Row) -> bool:
    """May the figure stand beside the published one, if need be with a word on metric or test set?"""
    if one.metric == metric:
        return one.test == row.test or not METRICS[metric].is_speed
    return metric.startswith("bleu") and one.metric in BLEU


def preference(one: Measured, metric: str, row: Row) -> tuple[int, bool, int, int, str]:
    """Orders the figures of a run, the fittest first: metric, test set, conditions, the first of its test splits."""
    splits = list(one.run.config.data.test)
    split = one.run.reports.get(one.report, {}).get("split")
    kin = [metric, *(name for name in BLEU if name != metric)]
    unlike = sum(one.facts.get(name, text) != text for name, text in row.conditions.items())
    place = splits.index(split) if split in splits else len(splits)
    return kin.index(one.metric), one.test != row.test, unlike, place, one.report
