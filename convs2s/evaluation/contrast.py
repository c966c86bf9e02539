"""The recurrent contrast: ConvS2S beside an LSTM with attention, trained alike, in quality and in speed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from convs2s.evaluation.matching import BLEU, has
from convs2s.evaluation.measures import VALIDATION, Group, Measured, grouped

TRANSLATION = "sentences_per_second"


@dataclass(frozen=True)
class System:
    name: str
    experiment: str
    select: dict[str, str] = field(default_factory=dict)  # what a run of it must have

    @property
    def command(self) -> str:
        return f"python scripts/train.py experiment={self.experiment} data.root=DIR"


SYSTEMS = (
    System(
        "ConvS2S, 3 + 5 layers of (128, 3)",
        "multi30k_ablation",
        {
            "encoder": "3 × (128, 3)",
            "decoder": "5 × (128, 3)",
            "positions": "source and target",
            "attention layers": "all",
        },
    ),
    System("LSTM with attention, 1 + 1 layers of 256", "multi30k_lstm_attention"),
)


@dataclass(frozen=True)
class Contrast:
    """A system and its figures, means over seeds, by metric; none where it was not run."""

    system: System
    figures: dict[str, Group]

    @property
    def bleu(self) -> Group | None:
        """At beam 5, the paper's way of counting where there is that."""
        return next((self.figures[metric] for metric in BLEU if metric in self.figures), None)

    @property
    def parameters(self) -> int | None:
        return self.figures[VALIDATION].first.run.parameters if VALIDATION in self.figures else None


def contrast(measured: Sequence[Measured]) -> list[Contrast]:
    """Every system of SYSTEMS; several times where runs of it were not trained alike."""
    found = []
    for system in SYSTEMS:
        trainings: dict[str, dict[str, Group]] = {}
        for group in grouped(one for one in measured if counts(one, system)):
            trainings.setdefault(group.first.training, {}).setdefault(group.first.metric, group)
        found += [Contrast(system, figures) for figures in trainings.values()] or [Contrast(system, {})]
    return found


def counts(one: Measured, system: System) -> bool:
    """Is it a figure of the table: of the best checkpoint, on the first test split, at beam 5?"""
    run = one.run
    if run.config.experiment != system.experiment or not has(one.facts, {**system.select, "beam": "5"}):
        return False
    return one.report in ("", next(iter(run.config.data.test), "")) and one.metric in (VALIDATION, TRANSLATION, *BLEU)
