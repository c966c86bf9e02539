"""Whether a difference means anything: several seeds of one system, and several systems on one test set."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev
from typing import NamedTuple


class Interval(NamedTuple):
    """Figures of several seeds in one: their mean and where the mean of many more would lie."""

    mean: float
    std: float | None  # of the sample (n - 1); None for a single value, as low and high
    low: float | None
    high: float | None
    count: int


def mean_interval(values: Sequence[float], confidence: float = 0.95) -> Interval:
    """Mean, standard deviation and the confidence interval of the mean by Student's t, n - 1 degrees of freedom.

    Raises ValueError for no values and for a confidence that is not between 0 and 1.
    """
    if not 0 < confidence < 1:
        raise ValueError(f"a confidence of {confidence} is not between 0 and 1")
    if not values:
        raise ValueError("no values to average")
    mean = fmean(values)
    if len(values) == 1:
        return Interval(mean, None, None, None, 1)
    deviation = stdev(values)
    margin = t_quantile(confidence, len(values) - 1) * deviation / math.sqrt(len(values))
    return Interval(mean, deviation, mean - margin, mean + margin, len(values))


def t_quantile(confidence: float, freedom: int) -> float:
    """The t that a variable of Student's distribution stays within, on both sides of 0, with that probability."""
    low, high = 0.0, math.pi / 2  # of atan(t / sqrt(freedom))
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if probability_within(middle, freedom) < confidence else (low, middle)
    return math.sqrt(freedom) * math.tan(low)


def probability_within(angle: float, freedom: int) -> float:
    """P(|t| < sqrt(freedom) tan(angle)), a finite series (Abramowitz and Stegun 1964, 26.7.3 and 26.7.4)."""
    odd = freedom % 2
    term = math.cos(angle) if odd else 1.0
    total = 0.0
    for power in range(1 + odd, freedom, 2):
        total += term
        term *= math.cos(angle) ** 2 * power / (power + 1)
    total *= math.sin(angle)
    return 2 / math.pi * (angle + total) if odd else total
