"""Work that is done before its result is asked for."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


def ahead(make: Callable[[K], V], keys: Iterable[K], count: int) -> Generator[tuple[K, V], None, None]:
    """(key, make(key)) for each key in order, the next ``count`` of them already being made, by a thread; 0: by none.

    What ``make`` raises is raised where its result would have come.  Closing the generator ends the thread.
    """
    if count < 1:
        yield from ((key, make(key)) for key in keys)
        return
    thread = ThreadPoolExecutor(1, "ahead")
    try:
        waiting: deque[tuple[K, Future[V]]] = deque()
        for key in keys:
            waiting.append((key, thread.submit(make, key)))
            if len(waiting) > count:
                first, future = waiting.popleft()
                yield first, future.result()
        for first, future in waiting:
            yield first, future.result()
    finally:
        thread.shutdown(cancel_futures=True)
