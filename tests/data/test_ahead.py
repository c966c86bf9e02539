"""Work done ahead of time comes in order, fails where it would have failed, and ends when nobody wants it."""

from __future__ import annotations

import threading
import time
from contextlib import closing

import pytest

from convs2s.data.ahead import ahead


@pytest.mark.parametrize("count", [0, 1, 3, 20])
def test_everything_in_order(count: int) -> None:
    """Fault: a result is lost at the end, doubled, or given to another key."""
    assert list(ahead(lambda key: key * key, range(10), count)) == [(key, key * key) for key in range(10)]


@pytest.mark.parametrize("count", [1, 3])
def test_so_many_are_made_ahead(count: int) -> None:
    """Fault: nothing is made ahead, or a whole epoch fills the memory."""
    made: list[int] = []
    with closing(ahead(made.append, range(100), count)) as results:
        next(results)
        deadline = time.monotonic() + 30
        while len(made) <= count and time.monotonic() < deadline:
            time.sleep(0.001)
        assert made == list(range(count + 1))


@pytest.mark.parametrize("count", [0, 2])
def test_a_failure_comes_in_its_place(count: int) -> None:
    """Fault: an exception in the thread is lost, or costs the results before it."""
    results = ahead(lambda key: 1 // (3 - key), range(10), count)
    assert [next(results) for _ in range(3)] == [(0, 0), (1, 0), (2, 1)]
    with pytest.raises(ZeroDivisionError):
        next(results)


def test_the_thread_ends_with_its_user() -> None:
    """Fault: after an interrupt a thread goes on preparing."""

    def interrupted() -> None:
        with closing(ahead(lambda key: key, range(1000), 5)) as results:
            next(results)
            raise KeyboardInterrupt

    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert threading.active_count() == before
