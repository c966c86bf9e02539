"""All kinds of sentences of the built-in English–German corpus, and how often each is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from convs2s.data.builtin import main_clauses as main
from convs2s.data.builtin import subordination as inner
from convs2s.data.builtin.author import Author, Combination
from convs2s.data.builtin.numbers import Pair

FEWEST_WORDS, MOST_WORDS = 4, 20  # of an English sentence


class Sentence(NamedTuple):
    """A finished pair and the combinations of words that occur in it."""

    pair: Pair
    combinations: frozenset[Combination]


WEIGHTS: dict[Callable[[Author], Pair | None], int] = {
    main.plain: 18, main.fronted: 18, main.yes_no: 8, main.wh: 6, main.who: 2, main.whom_or_what: 4, main.there_is: 4,
    main.polite_request: 5, main.linked: 5, main.state: 3, main.amount: 6, main.comparison: 6,
    inner.reason: 10, inner.meanwhile: 5, inner.condition: 5, inner.before: 5, inner.reported: 9, inner.purpose: 7,
    inner.relative_subject: 5, inner.relative_object: 4, inner.it_was: 5, inner.with_it: 5,
}  # fmt: skip
KINDS = tuple(kind for kind, weight in WEIGHTS.items() for _ in range(weight))


def write(author: Author) -> Sentence:
    """The next sentence of an author: a kind by weight, drawn anew as long as it does not come out well."""
    kind = author.pick(KINDS)
    while True:
        author.combinations.clear()
        pair = kind(author)
        if pair and FEWEST_WORDS <= pair.english.count(" ") + 1 <= MOST_WORDS:
            return Sentence(pair, frozenset(author.combinations))
