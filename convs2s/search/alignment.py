"""Word alignment of a parallel text by IBM model 1 (Brown et al. 1993), for lexicons of small corpora.

N distinct pairs of words · M places where a pair of words could be linked, over all sentences.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from convs2s.search.lexicon import Links

LONGEST = 1000  # words
NULL = ""  # what a target word that has no source word is aligned with


def ibm_model_1(pairs: Sequence[tuple[Sequence[str], Sequence[str]]], iterations: int = 5) -> Iterator[Links]:
    """For each pair of sentences the likeliest source word of each target word, or none.

    Expectation-maximisation of t(target | source) from the uniform distribution, over every word of both sides at
    once: memory grows with the sum of the products of the sentences' lengths. Pairs with a side of more than LONGEST
    words, no sentences, get no links.
    """
    pairs = [pair if max(map(len, pair)) <= LONGEST else ([], []) for pair in pairs]
    if not any(target for _, target in pairs):
        yield from ([] for _ in pairs)
        return
    source_ids, target_ids = number([[NULL, *s] for s, _ in pairs]), number([t for _, t in pairs])
    sources = [np.array([source_ids[word] for word in [NULL, *s]]) for s, _ in pairs]
    targets = [np.array([target_ids[word] for word in t], dtype=np.int64) for _, t in pairs]
    places = [s[None, :] * len(target_ids) + t[:, None] for s, t in zip(sources, targets, strict=True)]  # (T, S + 1)
    flat = np.concatenate([place.ravel() for place in places])  # (M,)
    unique, which = np.unique(flat, return_inverse=True)  # (N,), (M,)
    of_source = unique // len(target_ids)  # (N,)
    # Each target word of each sentence shares one count among its S + 1 places, which are adjacent.
    widths = np.concatenate([np.full(len(t), len(s)) for s, t in zip(sources, targets, strict=True)])
    starts = np.concatenate([[0], widths.cumsum()[:-1]])
    table = np.ones(len(unique))
    for _ in range(iterations):
        weights = table[which]
        weights /= np.repeat(np.add.reduceat(weights, starts), widths)
        counts = np.bincount(which, weights, minlength=len(unique))
        table = counts / np.bincount(of_source, counts)[of_source]
    offset = 0
    for place in places:
        best = table[which[offset : offset + place.size]].reshape(place.shape).argmax(1)
        offset += place.size
        yield [(int(s) - 1, t) for t, s in enumerate(best) if s > 0]


def number(sentences: Sequence[Sequence[str]]) -> dict[str, int]:
    """Words -> numbers, in the order of their first use."""
    return {word: i for i, word in enumerate(dict.fromkeys(word for words in sentences for word in words))}
