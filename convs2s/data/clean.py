"""Which pairs are kept: rules that act on a pair as a whole, and how many pairs each rule dropped."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray


@dataclass
class Cleaner:
    """Rules on the two sides' lengths, in pieces (</s> not counted) or words.

    ``dropped`` counts, by the first rule that applied:

    ``empty``: a side has none; ``short``: a side has fewer than ``min_length``; ``long``: a side has more than
    ``max_length``; ``ratio``: the longer side has more than ``max_ratio`` times the other's. None switches a rule off.
    """

    min_length: int = 1
    max_length: int | None = None
    max_ratio: float | None = None
    dropped: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("empty", "short", "long", "ratio"), 0))

    def keep(self, source: NDArray[np.int64], target: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Lengths (N,) of both sides -> which pairs to keep (N,)."""
        shorter, longer = np.minimum(source, target), np.maximum(source, target)
        rules = {"empty": shorter == 0, "short": shorter < self.min_length}
        if self.max_length is not None:
            rules["long"] = longer > self.max_length
        if self.max_ratio is not None:
            rules["ratio"] = longer > self.max_ratio * shorter
        keep = np.ones(len(source), np.bool_)
        for name, hit in rules.items():
            self.dropped[name] += int((keep & hit).sum())
            keep &= ~hit
        return keep
