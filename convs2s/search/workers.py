"""A file translated by several processes side by side, its lines in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future

import torch

from convs2s.processes import worker_processes
from convs2s.search.translate import Block, Translation, Translator, Warner

_translator: Translator | None = None  # of a worker process


def translate_in_workers(
    make: Callable[[], Translator], blocks: Iterable[Sequence[str]], workers: int, warner: Warner
) -> Iterator[list[Translation]]:
    """As ``translate_blocks``; ``make``, called once in each process, must be a function that can be pickled.

    Only about two blocks a process are read ahead. A worker's UserError is raised here; its end, too.
    """
    threads = max(1, torch.get_num_threads() // workers)
    waiting: deque[Future[Block]] = deque()

    def oldest() -> list[list[Translation]]:
        block = waiting.popleft().result()
        warner.see(block)
        return block.translations

    remedy = "lower search.workers or search.batch_tokens"
    with worker_processes(workers, begin, (make, threads), remedy) as submit:
        first = 1
        for lines in blocks:
            waiting.append(submit(work, list(lines), first))
            first += len(lines)
            if len(waiting) > 2 * workers:
                yield from oldest()
        while waiting:
            yield from oldest()


def begin(make: Callable[[], Translator], threads: int) -> None:
    """In a worker: load the models."""
    global _translator
    torch.set_num_threads(threads)
    _translator = make()


def work(lines: list[str], first: int) -> Block:
    assert _translator is not None
    return _translator.translate(lines, first)
