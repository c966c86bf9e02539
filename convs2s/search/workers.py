"""A file translated by several processes side by side, its lines in order."""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context

import torch

from convs2s.errors import UserError
from convs2s.search.translate import Block, Translation, Translator, Warner

_translator: Translator | None = None  # of a worker process


def translate_in_workers(
    make: Callable[[], Translator], blocks: Iterable[Sequence[str]], workers: int, warner: Warner
) -> Iterator[list[Translation]]:
    """As ``translate_blocks``; ``make``, called once in each process, must be a function that can be pickled.

    Only about two blocks a process are read ahead. A worker's UserError is raised here; its end, too.
    """
    threads = max(1, torch.get_num_threads() // workers)
    pool = ProcessPoolExecutor(workers, get_context("spawn"), begin, (make, threads))
    waiting: deque[Future[Block]] = deque()
    try:
        first = 1
        for lines in blocks:
            waiting.append(pool.submit(work, list(lines), first))
            first += len(lines)
            if len(waiting) > 2 * workers:
                yield from result(waiting, warner)
        while waiting:
            yield from result(waiting, warner)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def result(waiting: deque[Future[Block]], warner: Warner) -> list[list[Translation]]:
    """The oldest block's translations."""
    try:
        block = waiting.popleft().result()
    except BrokenProcessPool:
        raise UserError(
            "a worker process ended before its work was done, perhaps for lack of memory: lower search.workers or "
            "search.batch_tokens"
        ) from None
    warner.see(block)
    return block.translations


def begin(make: Callable[[], Translator], threads: int) -> None:
    """In a worker: load the models."""
    global _translator
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears it and ends its workers
    torch.set_num_threads(threads)
    _translator = make()


def work(lines: list[str], first: int) -> Block:
    assert _translator is not None
    return _translator.translate(lines, first)
