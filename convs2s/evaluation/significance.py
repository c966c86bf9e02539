"""Whether a difference means anything: several seeds of one system, and several systems on one test set."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from statistics import fmean, stdev
from typing import NamedTuple

from sacrebleu.metrics.base import Metric
from sacrebleu.significance import PairedTest, Result


class Interval(NamedTuple):
    """Figures of several seeds in one: their mean and where the mean of many more would lie."""

    mean: float
    std: float | None  # of the sample (n - 1); None for a single value, as low and high
    low: float | None
    high: float | None
    count: int  # type: ignore[assignment]  # hides tuple.count, which nobody needs here


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


class Method(str, Enum):
    """sacrebleu's names of its tests."""

    bootstrap = "bs"  # paired bootstrap resampling (Koehn 2004)
    randomisation = "ar"  # paired approximate randomisation (Riezler and Maxwell 2005)


class Outcome(NamedTuple):
    """One system beside the baseline."""

    score: float
    p_value: float | None  # that chance alone makes so large a difference; None for the baseline
    mean: float | None = None  # of the resamples; bootstrap only
    margin: float | None = None  # 95 % of the resamples lie within mean +- margin; bootstrap only


def paired_test(
    systems: Sequence[Sequence[str]],
    references: Sequence[Sequence[str]],
    metric: Metric,
    method: Method,
    samples: int,
    seed: int,
) -> tuple[list[Outcome], str]:
    """Each system against the first by sacrebleu's implementation, and its signature; the same for the same seed.

    A difference of exactly 0 has p = 1: sacrebleu counts only larger ones, and would call a system significantly
    different from itself. Raises ValueError for a seed below 1, which sacrebleu takes for none.
    """
    if seed < 1:
        raise ValueError(f"a seed of {seed} is below 1")
    named = [(str(number), lines) for number, lines in enumerate(systems)]
    with seeded(seed):
        signatures, scores = PairedTest(named, {"metric": metric}, references, method.value, samples)()
    ((name, signature),) = signatures.items()
    results = [result for result in scores[name] if isinstance(result, Result)]
    outcomes = []
    for i, result in enumerate(results):
        p_value = 1.0 if i and result.score == results[0].score else result.p_value
        outcomes.append(Outcome(float(result.score), *map(plain, (p_value, result.mean, result.ci))))
    return outcomes, str(signature)


def plain(figure: float | None) -> float | None:
    """A float where sacrebleu has numpy's."""
    return None if figure is None else float(figure)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """sacrebleu reads its seed from the environment."""
    before = os.environ.get("SACREBLEU_SEED")
    os.environ["SACREBLEU_SEED"] = str(seed)
    try:
        yield
    finally:
        del os.environ["SACREBLEU_SEED"]
        if before is not None:
            os.environ["SACREBLEU_SEED"] = before
