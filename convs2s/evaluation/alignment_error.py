"""How far attention agrees with a word alignment that was made otherwise: alignment error rate (Och and Ney 2003).

A: links that the attention says, one for each target word · S: links that are given, all of them taken as sure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from convs2s.errors import UserError
from convs2s.evaluation.attention import Attention
from convs2s.search.lexicon import Links


@dataclass
class Agreement:
    """Counts over a text."""

    found: int = 0  # |A|
    given: int = 0  # |S|
    both: int = 0  # |A and S|
    linked: int = 0  # target words that have a given link
    hit: int = 0  # those of them whose most attended source word is one of theirs

    def add(self, found: set[tuple[int, int]], given: set[tuple[int, int]]) -> None:
        self.found += len(found)
        self.given += len(given)
        self.both += len(found & given)
        linked = {target for _, target in given}
        self.linked += len(linked)
        self.hit += len({target for _, target in found & given})

    @property
    def error_rate(self) -> float:
        """1 - 2 |A and S| / (|A| + |S|)."""
        return 1.0 - 2.0 * self.both / max(1, self.found + self.given)

    @property
    def hits(self) -> float:
        """Share of the linked target words whose most attended source word is one that they are linked with."""
        return self.hit / max(1, self.linked)


@dataclass
class Comparison:
    """The agreement of each layer that attends, and of their average."""

    name: str  # of the alignment's file, for messages
    layers: dict[str, Agreement] = field(default_factory=dict)

    def add(self, attention: Attention, links: Links) -> None:
        """Count a sentence. UserError where a link leads out of it."""
        sizes = len(attention.source.words) - 1, len(attention.target.words) - 1
        for source, target in links:
            if not (0 <= source < sizes[0] and 0 <= target < sizes[1]):
                raise UserError(
                    f"{self.name}, line {attention.line}: {source}-{target} is beyond the {sizes[0]} and {sizes[1]} "
                    "words of the pair; was it made from this text, in these words?"
                )
        views = {f"layer {n}": layer for n, layer in zip(attention.layers, attention.weights, strict=True)}
        for name, weights in {**views, "average": attention.average}.items():
            self.layers.setdefault(name, Agreement()).add(attention.links(weights), set(links))

    def lines(self) -> Iterable[str]:
        """A table."""
        yield "attention   words hit   alignment error rate"
        for name, agreement in self.layers.items():
            yield f"{name:<9}   {agreement.hits:9.1%}   {agreement.error_rate:20.1%}"

    def as_json(self) -> dict[str, Any]:
        return {
            name: {**vars(agreement), "hits": round(agreement.hits, 6), "error_rate": round(agreement.error_rate, 6)}
            for name, agreement in self.layers.items()
        }
