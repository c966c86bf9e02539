"""A function over many chunks, in several processes, results in order, never more than a few chunks in memory."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from typing import Any, TypeVar

from convs2s.processes import worker_processes

T = TypeVar("T")
K = TypeVar("K")
R = TypeVar("R")

_work: Callable[[Any], Any] | None = None  # in a worker process: what it was started with


def ordered(work: Callable[[T], R], items: Iterable[tuple[K, T]], workers: int) -> Iterator[tuple[K, R]]:
    """(key, work(value)) for each (key, value), in their order. ``work`` is sent to each of ``workers`` processes once.

    No workers: everything happens in this process. Errors: whatever ``work`` and ``items`` raise;
    UserError where a process dies.
    """
    if workers == 0:
        for key, value in items:
            yield key, work(value)
        return
    pending: deque[tuple[K, Future[R]]] = deque()
    with worker_processes(workers, _start, (work,), "lower data.workers") as submit:
        for key, value in items:
            pending.append((key, submit(_run, value)))
            if len(pending) > 2 * workers:
                first, result = pending.popleft()
                yield first, result.result()
        for key, result in pending:
            yield key, result.result()


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _start(work: Callable[[Any], Any]) -> None:
    global _work
    _work = work


def _run(value: Any) -> Any:
    assert _work is not None
    return _work(value)
