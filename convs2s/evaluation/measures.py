"""The figures of a run, each with what it measures, on what, and under which conditions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from convs2s.errors import UserError
from convs2s.evaluation.facts import report_facts, test_set, training_facts, what_counts
from convs2s.evaluation.paper import METRICS
from convs2s.evaluation.run_record import RunRecord
from convs2s.evaluation.significance import Interval, mean_interval

VALIDATION = "valid_perplexity"


@dataclass(frozen=True)
class Measured:
    """A figure of a run."""

    run: RunRecord
    metric: str
    value: float
    test: str  # test set and direction; "" for the validation perplexity, which belongs to the data
    report: str  # file of evaluation/ without its suffix; "" for metrics.jsonl
    facts: dict[str, str]  # conditions
    training: str  # equal for seeds of the same training
    signature: str = ""


@dataclass(frozen=True)
class Group:
    """A figure of several seeds that differ in nothing else."""

    members: list[Measured]

    @property
    def first(self) -> Measured:
        return self.members[0]

    @property
    def seeds(self) -> list[str]:
        return [str(member.run.config.seed) for member in self.members]

    @property
    def interval(self) -> Interval:
        return mean_interval([member.value for member in self.members])

    @property
    def facts(self) -> dict[str, str]:
        """The conditions; where seeds differ (number of epochs), all that there are."""
        return {
            name: " / ".join(dict.fromkeys(member.facts.get(name, "?") for member in self.members))
            for name in self.first.facts
        }


def measurements(run: RunRecord) -> list[Measured]:
    """Every figure of a run: best validation perplexity, speed, and the scores of its reports that METRICS knows."""
    facts = training_facts(run.config, len(run.epochs))
    training = json.dumps(what_counts(run.config), sort_keys=True)
    found = []
    if run.epochs:
        found.append(Measured(run, VALIDATION, min(run.perplexities().values()), "", "", facts, training))
    if run.tokens_per_second is not None:
        text = f"training text {run.config.data.source}-{run.config.data.target}"
        found.append(Measured(run, "target_words_per_second", run.tokens_per_second, text, "", facts, training))
    for name, report in run.reports.items():
        try:
            conditions = facts | report_facts(report)
        except (TypeError, ValueError) as error:
            path = run.directory / "evaluation" / f"{name}.json"
            raise UserError(f"{path}: damaged ({error!s:.80}); score the run again, or leave it out") from error
        for metric in METRICS:
            if (value := score(report.get(metric))) is not None:
                signature = report[metric].get("signature", "") if isinstance(report[metric], dict) else ""
                test = test_set(run.config, report)
                found.append(Measured(run, metric, value, test, name, conditions, training, str(signature)))
    return found


def score(entry: Any) -> float | None:
    """A report's figure: a number, or the score of {"score": ..., "signature": ...}."""
    value = entry.get("score") if isinstance(entry, Mapping) else entry
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def grouped(measured: Iterable[Measured]) -> list[Group]:
    """Figures of seeds of the same training, scored alike, together.

    Raises UserError where two runs are the same seed: they are no two samples of anything.
    """
    groups: dict[tuple[str, ...], list[Measured]] = {}
    for one in measured:
        groups.setdefault((one.training, one.report, one.metric, one.test), []).append(one)
    for members in groups.values():
        seeds: dict[int, RunRecord] = {}
        for member in members:
            other = seeds.setdefault(member.run.config.seed, member.run)
            if other is not member.run:
                raise UserError(
                    f"{other.directory} and {member.run.directory} are both seed {member.run.config.seed} of "
                    f"{member.run.config.experiment}, trained alike: give only one of them"
                )
    return [Group(members) for members in groups.values()]
