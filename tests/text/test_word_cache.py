"""Encoding by remembered words gives exactly what encoding line by line gives."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import convs2s.text.word_cache as module
from convs2s.text.sentencepiece_tokenizer import SentencePieceTokenizer
from convs2s.text.whitespace_tokenizer import WhitespaceTokenizer
from convs2s.text.word_cache import WordCache, WordTokenizer

TEXT = ["Ein Mann geht über die Straße.", "a man's dog, barking", "Büsche und Häuser", "ab ba abba"] * 3
# Words, and what could tear or join them: marks, odd spaces, controls, compatibility forms, SentencePiece's own space.
ODD = "\u0301\u0308\u00a8\u00a0\u200b\u2028\u0085\u2581\ufeff\t\0\r\x0b\x0cﬁ①½\u3000\u1100\u1161☃\u00ad"
lines = st.lists(st.text(st.sampled_from("ab ßüe.'  " + ODD), max_size=14), max_size=9)


@cache
def tokenizer(rule: str) -> WordTokenizer:
    if rule == "whitespace":
        return WhitespaceTokenizer.train(TEXT, min_frequency=1, max_words=None)
    return SentencePieceTokenizer.train(TEXT, vocabulary_size=60, normalization=rule, log=lambda _: None)


@pytest.mark.parametrize("rule", ["nmt_nfkc", "nmt_nfkc_cf", "identity", "whitespace"])
@given(chunks=st.lists(lines, max_size=3))
def test_equals_encoding_line_by_line(rule: str, chunks: list[list[str]]) -> None:
    """Fault: a piece lost or split otherwise at a space, mark or control; a line's pieces given to its neighbour."""
    remember = WordCache(tokenizer(rule))
    for chunk in chunks:
        encoded = remember(chunk)
        expected = tokenizer(rule).encode(chunk)
        assert encoded.lengths.tolist() == [len(ids) for ids in expected]
        assert encoded.ids.tolist() == [i for ids in expected for i in ids]
        assert encoded.ids.dtype == np.int32


def test_a_line_end_inside_a_line_shifts_nothing() -> None:
    """Fault: the lines after it given each other's pieces."""
    chunk = ["ein\nMann", "geht", ""]
    encoded = WordCache(tokenizer("nmt_nfkc"))(chunk)
    assert encoded.lengths.tolist() == [len(ids) for ids in tokenizer("nmt_nfkc").encode(chunk)]


def test_words_are_counted() -> None:
    """Fault: pieces a word computed from pieces, doubled spaces or blank lines counted as words."""
    for rule in ("nmt_nfkc", "whitespace"):
        assert WordCache(tokenizer(rule))(["ein  Mann ", "", "über"]).words.tolist() == [2, 0, 1]


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault: memory that grows with the corpus, or numbers mixed up when the memory starts afresh."""
    monkeypatch.setattr(module, "LIMIT", 3)
    remember = WordCache(tokenizer("nmt_nfkc"))
    for chunk in (["ein Mann geht"], ["über die"], ["Straße ein", "Mann"]):
        assert remember(chunk).ids.tolist() == [i for ids in tokenizer("nmt_nfkc").encode(chunk) for i in ids]
        assert len(remember._numbers) <= 2 + 3 + 3
