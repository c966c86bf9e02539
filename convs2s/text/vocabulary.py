"""The three special symbols, and word lists by frequency.

The original counts ids from 1 in the same order (text/Dictionary.lua): its ids minus one are ours.
"""

from __future__ import annotations

from collections import Counter

UNK, PAD, EOS = 0, 1, 2  # </s> is also the decoder's start symbol
SPECIALS = ("<unk>", "<pad>", "</s>")


def frequent_words(counts: Counter[str], min_frequency: int, max_words: int | None) -> list[str]:
    """Words seen at least ``min_frequency`` times, most frequent first, equally frequent ones by code point.

    At most ``max_words`` of them (None: no limit), the specials not counted. The order depends on nothing but the
    counts. Unlike the original's, a threshold under which no word falls keeps every word.
    """
    ranked = sorted((-n, word) for word, n in counts.items() if n >= min_frequency)
    return [word for _, word in ranked[:max_words]]
