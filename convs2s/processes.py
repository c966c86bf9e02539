"""Worker processes that start afresh, leave Ctrl-C to the process that started them, and are missed when they die."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import active_children, get_context, parent_process
from typing import Any

from convs2s.errors import UserError


@contextmanager
def worker_processes(
    count: int, begin: Callable[..., None], arguments: tuple[Any, ...], remedy: str
) -> Iterator[Callable[..., Future[Any]]]:
    """A function that hands work to ``count`` processes, each of which has called ``begin(*arguments)`` first.

    They are spawned: a fork would copy locks that other threads hold. Leaving the block ends them, at once where an
    error, Ctrl-C or a signal is the reason, and so does the end of this process, however it ends.
    Raises UserError with ``remedy`` where one of them died (waiting for its result raises BrokenProcessPool).
    """
    pool = ProcessPoolExecutor(count, get_context("spawn"), _begin, (begin, arguments))

    def submit(work: Callable[..., Any], *given: Any) -> Future[Any]:
        # A process that starts here inherits the mask: from its first moment it does not hear Ctrl-C.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            return pool.submit(work, *given)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    try:
        yield submit
    except BrokenProcessPool:
        raise UserError(
            f"a worker process ended before its work was done, perhaps for lack of memory: {remedy}"
        ) from None
    except BaseException:  # what they are doing is of no use any more
        for process in active_children():
            process.terminate()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _begin(begin: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    begin(*arguments)


def _end_with_parent() -> None:
    """Wait for the process that started this one, and end when it has ended."""
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
