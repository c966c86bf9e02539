"""A file translated by several processes side by side, its lines in order."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence

import torch

from convs2s.data.parallel import ordered
from convs2s.errors import UserError
from convs2s.search.translate import Block, Translation, Translator, Warner


class Worker:
    """Translates blocks of lines; the translator is made in the process that gets the first one."""

    def __init__(self, make: Callable[[], Translator], threads: int) -> None:
        self.make, self.threads = make, threads
        self.translator: Translator | None = None

    def __call__(self, block: tuple[list[str], int]) -> bytes:
        """Lines, and the number of the first -> a pickled Block: torch would pass a file descriptor for each tensor."""
        if self.translator is None:
            torch.set_num_threads(self.threads)
            self.translator = self.make()
        return pickle.dumps(self.translator.translate(*block))


def worker_device(device: str) -> str:
    """The device of worker processes. Raises UserError where a GPU is asked for, which they would only share."""
    if device not in ("auto", "cpu"):
        raise UserError(f"search.workers are for the CPU: give device=cpu, or search.workers=1 with device={device}")
    return "cpu"


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
    for _, pickled in ordered(worker, numbered(), workers, "lower search.workers or search.batch_tokens"):
        block: Block = pickle.loads(pickled)
        warner.see(block)
        yield from block.translations
