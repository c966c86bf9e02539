"""The parts of a document, whatever it is written as, and how figures are worded in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from convs2s.evaluation.plots import Plot
from convs2s.evaluation.run_record import RunRecord
from convs2s.evaluation.significance import Interval


class Code(str):
    """A cell that is written as code."""


@dataclass(frozen=True)
class Section:
    title: str
    level: int  # 2: a chapter, 3: one table of it
    words: list[str] = field(default_factory=list)  # paragraphs; Code: written as code
    headings: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    plots: list[Plot] = field(default_factory=list)
    runs: list[RunRecord] = field(default_factory=list)  # whose pictures of attention belong here


def trimmed(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> tuple[list[str], list[list[str]]]:
    """A table without the columns in which nothing stands."""
    kept = [i for i in range(len(headings)) if any(row[i] for row in rows)]
    return [headings[i] for i in kept], [[row[i] for i in kept] for row in rows]


def number(value: float, digits: int = 2, sign: str = "") -> str:
    return f"{value:{sign},.{digits}f}".replace("-", "−")


def spread(ours: Interval, digits: int = 2) -> str:
    """The mean, with the standard deviation of several seeds."""
    return number(ours.mean, digits) + (f" ± {number(ours.std, digits)}" if ours.std is not None else "")


def interval(ours: Interval, digits: int = 2) -> str:
    """The confidence interval of the mean; a single seed has none."""
    if ours.low is None or ours.high is None:
        return ""
    return f"{number(ours.low, digits)} to {number(ours.high, digits)}"


def once(words: Iterable[str]) -> list[str]:
    """Without repetitions and what is empty, in order."""
    return [word for word in dict.fromkeys(words) if word]
