"""A function over many items, worked on by a thread or by processes: results in order, few of them in memory."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from convs2s.processes import worker_processes

T = TypeVar("T")
K = TypeVar("K")
R = TypeVar("R")

_work: Callable[[Any], Any] | None = None  # in a worker process: what it was started with


def ahead(make: Callable[[K], R], keys: Iterable[K], count: int) -> Generator[tuple[K, R], None, None]:
    """(key, make(key)) for each key in order, the next ``count`` of them already being made, by a thread; 0: by none.

    What ``make`` raises is raised where its result would have come. Closing the generator ends the thread.
    """
    if count < 1:
        yield from ((key, make(key)) for key in keys)
        return
    thread = ThreadPoolExecutor(1, "ahead")
    try:
        yield from _in_order(lambda key: thread.submit(make, key), ((key, key) for key in keys), count)
    finally:
        thread.shutdown(cancel_futures=True)


def ordered(
    work: Callable[[T], R], items: Iterable[tuple[K, T]], workers: int, remedy: str = "lower data.workers"
) -> Iterator[tuple[K, R]]:
    """(key, work(value)) for each (key, value), in their order. ``work`` is sent to each of ``workers`` processes once.

    No workers: everything happens in this process. Raises whatever ``work`` and ``items`` raise, and UserError with
    ``remedy`` where a process dies.
    """
    if workers == 0:
        for key, value in items:
            yield key, work(value)
        return
    with worker_processes(workers, _start, (work,), remedy) as submit:
        yield from _in_order(lambda value: submit(_run, value), items, 2 * workers)


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _in_order(
    submit: Callable[[T], Future[R]], items: Iterable[tuple[K, T]], waiting_at_most: int
) -> Generator[tuple[K, R], None, None]:
    waiting: deque[tuple[K, Future[R]]] = deque()
    for key, value in items:
        waiting.append((key, submit(value)))
        if len(waiting) > waiting_at_most:
            first, future = waiting.popleft()
            yield first, future.result()
    for first, future in waiting:
        yield first, future.result()


def _start(work: Callable[[Any], Any]) -> None:
    global _work
    _work = work


def _run(value: Any) -> Any:
    assert _work is not None
    return _work(value)
