"""Differences: figures of seeds against tables in print, systems against systems that are known to differ or not."""

from __future__ import annotations

import math

import pytest

from convs2s.evaluation.significance import mean_interval, t_quantile


@pytest.mark.parametrize(
    ("confidence", "freedom", "expected"),
    [
        (0.95, 1, 12.706),
        (0.95, 2, 4.303),
        (0.95, 3, 3.182),
        (0.95, 4, 2.776),
        (0.95, 9, 2.262),
        (0.95, 30, 2.042),
        (0.99, 2, 9.925),
        (0.99, 5, 4.032),
        (0.90, 7, 1.895),
        (0.95, 1000, 1.962),
    ],
)
def test_quantiles_of_t(confidence: float, freedom: int, expected: float) -> None:
    """Fault: intervals of a normal distribution, far too narrow for three seeds. Expected: any printed table."""
    assert t_quantile(confidence, freedom) == pytest.approx(expected, abs=5e-4)


def test_three_seeds() -> None:
    """Fault: the deviation of a population (n instead of n - 1), or of single runs instead of their mean."""
    found = mean_interval([21.5, 21.7, 21.9])
    assert (found.mean, found.std) == (pytest.approx(21.7), pytest.approx(0.2))
    margin = 4.302653 * 0.2 / math.sqrt(3)
    assert (found.low, found.high) == (pytest.approx(21.7 - margin), pytest.approx(21.7 + margin))
    assert found.count == 3
    assert mean_interval([21.5, 21.7, 21.9], 0.5).low > found.low  # type: ignore[operator]


def test_few_values() -> None:
    """Fault: an interval of width 0 around a single run looks like certainty."""
    assert mean_interval([34.1]) == (34.1, None, None, None, 1)
    assert mean_interval([3.0, 3.0]) == (3.0, 0.0, 3.0, 3.0, 2)
    with pytest.raises(ValueError, match="no values"):
        mean_interval([])
    with pytest.raises(ValueError, match="confidence"):
        mean_interval([1.0, 2.0], 95)
