"""Which sentences are translated together."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

FULL = 0.75  # of a batch's places; with more sentences than that in it, the free ones are not worth an encoding


class Queue:
    """Sentences that wait for a place in a batch, longest first; those of length 0 are left out."""

    def __init__(self, lengths: Sequence[int], sentences: int, tokens: int, exact: bool) -> None:
        """sentences, tokens: a batch has at most so many sentences, and at most so many tokens, padding included.

        exact: only sentences of the same length come in together, so that no source is padded (as the original
        evaluates).
        """
        self.lengths, self.sentences, self.tokens, self.exact = lengths, sentences, tokens, exact
        self.waiting = deque(sorted((i for i, length in enumerate(lengths) if length), key=lambda i: (-lengths[i], i)))

    def take(self, present: int = 0, width: int = 0) -> list[int]:
        """Indices of the sentences that join the ``present`` ones, of up to ``width`` tokens; none: not now."""
        if not self.waiting:
            return []
        longest = self.lengths[self.waiting[0]]
        places = max(1, min(self.sentences, self.tokens // max(width, longest)))
        if present > FULL * places:
            return []
        taken: list[int] = []
        while self.waiting and present + len(taken) < places:
            if self.exact and self.lengths[self.waiting[0]] != longest:
                break
            taken.append(self.waiting.popleft())
        return taken


def length_batches(lengths: Sequence[int], sentences: int, tokens: int, exact: bool) -> Iterator[list[int]]:
    """Indices of sentences of about equal length, one batch after another; arguments as ``Queue``."""
    queue = Queue(lengths, sentences, tokens, exact)
    while batch := queue.take():
        yield batch
