"""Cleaning acts on pairs, counts each dropped pair once, and drops nothing at its limits."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from convs2s.data.clean import Cleaner

lengths = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=30)


def sides(pairs: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    array = np.array(pairs, np.int64).reshape(-1, 2)
    return array[:, 0], array[:, 1]


def test_limits_are_inclusive_and_the_first_rule_counts() -> None:
    """Would catch < for <=, and a pair counted under two rules."""
    cleaner = Cleaner(min_length=2, max_length=8, max_ratio=2.0)
    pairs = [(2, 4), (8, 8), (0, 9), (3, 0), (1, 1), (1, 9), (9, 8), (8, 9), (2, 5), (7, 3)]
    assert cleaner.keep(*sides(pairs)).tolist() == [True, True] + [False] * 8
    assert cleaner.dropped == {"empty": 2, "short": 2, "long": 2, "ratio": 2}


def test_without_rules_only_empty_pairs_go() -> None:
    """Would catch validation text filtered by length or ratio."""
    cleaner = Cleaner()
    assert cleaner.keep(*sides([(1, 5000), (0, 1), (1, 0), (5000, 1)])).tolist() == [True, False, False, True]
    assert cleaner.dropped == {"empty": 2, "short": 0, "long": 0, "ratio": 0}


@given(lengths, lengths)
def test_every_pair_is_kept_or_counted_and_sides_are_alike(
    first: list[tuple[int, int]], second: list[tuple[int, int]]
) -> None:
    """Would catch counts that start afresh with every chunk, and a rule that looks at one side only."""
    cleaner, swapped = (Cleaner(min_length=1, max_length=9, max_ratio=3.0) for _ in range(2))
    kept = [cleaner.keep(*sides(pairs)) for pairs in (first, second)]
    assert sum(map(int, map(np.sum, kept))) + sum(cleaner.dropped.values()) == len(first) + len(second)
    assert [swapped.keep(*sides(pairs)[::-1]).tolist() for pairs in (first, second)] == [k.tolist() for k in kept]
    assert swapped.dropped == cleaner.dropped
