"""A file translated by several processes side by side, its lines in order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import torch

from convs2s.data.parallel import ordered
from convs2s.search.translate import Block, Translation, Translator, Warner


class Worker:
    """Translates blocks of lines; the translator is made in the process that gets the first one."""

    def __init__(self, make: Callable[[], Translator], threads: int) -> None:
        self.make, self.threads = make, threads
        self.translator: Translator | None = None

    def __call__(self, block: tuple[list[str], int]) -> Block:
        """Lines, and the number of the first."""
        if self.translator is None:
            torch.set_num_threads(self.threads)
            self.translator = self.make()
        return self.translator.translate(*block)


def translate_in_workers(
    make: Callable[[], Translator], blocks: Iterable[Sequence[str]], workers: int, warner: Warner
) -> Iterator[list[Translation]]:
    """As ``translate_blocks``; ``make``, called once in each process, must be a function that can be pickled.

    Only about two blocks a process are read ahead. A worker's UserError is raised here; its end, too.
    """

    def numbered() -> Iterator[tuple[int, tuple[list[str], int]]]:
        first = 1
        for lines in blocks:
            yield first, (list(lines), first)
            first += len(lines)

    worker = Worker(make, max(1, torch.get_num_threads() // workers))
    for _, block in ordered(worker, numbered(), workers, "lower search.workers or search.batch_tokens"):
        warner.see(block)
        yield from block.translations
