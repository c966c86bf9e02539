"""Words: the original's splitting, thresholds and ids, joiners, and text that looks like a special symbol."""

from __future__ import annotations

import io
from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from convs2s.text.vocabulary import EOS, PAD, UNK, frequent_words
from convs2s.text.whitespace_tokenizer import WhitespaceTokenizer, remove_joiners

lines = st.lists(st.text(st.sampled_from("ab<unk>@é\u00a0\u2028\u0085\u200b\0\t\r\x0c "), max_size=30), max_size=8)


def trained(text: list[str], **options: object) -> WhitespaceTokenizer:
    return WhitespaceTokenizer.train(text, **{"min_frequency": 1, "max_words": None, **options})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("  a   b ", ["a", "b"]),
        ("a\tb", ["ab"]),  # the original deletes tabs
        ("a b\r", ["a", "b"]),  # CRLF file
        ("a\u00a0b c\u2028d e\0f", ["a\u00a0b", "c\u2028d", "e\0f"]),
        ("\u00a0 a", ["\u00a0", "a"]),
        ("", []),
        ("\t \r", []),
    ],
)
def test_splits_at_ascii_spaces_as_the_original(line: str, words: list[str]) -> None:
    """Would catch str.split(), which splits at no-break spaces and U+2028, and empty words from runs of spaces."""
    assert trained([line]).pieces(line) == words


def test_threshold_keeps_words_at_it_and_ties_are_settled_by_the_word() -> None:
    """Would catch > instead of >=, and ids that depend on the order in which words were met."""
    counts = Counter({"d": 1, "c": 2, "a": 2, "b": 3})
    assert frequent_words(counts, 2, None) == ["b", "a", "c"]
    assert frequent_words(counts, 2, 2) == ["b", "a"]
    assert trained(["c d b", "a b c", "b a"]).symbols == trained(["b a", "a b c", "c d b"]).symbols


def test_threshold_one_keeps_every_word() -> None:
    """Would catch the original's quirk: no word below the threshold leaves only the three specials."""
    assert trained(["a b"], min_frequency=1).symbols == ["<unk>", "<pad>", "</s>", "a", "b"]


def test_words_spelt_like_specials_are_words() -> None:
    """Would catch a lookup in which literal "</s>" ends the sentence and "<pad>" vanishes."""
    tokenizer = trained(["<unk> </s> <pad> a"])
    ids = tokenizer.encode(["<pad> a </s> <unk>"])[0]
    assert min(ids) > EOS
    assert len(set(ids)) == 4
    assert tokenizer.decode(ids) == "<pad> a </s> <unk>"
    assert trained(["a"]).encode(["</s> <pad> a"]) == [[UNK, UNK, 3]]


def test_decode_drops_padding_and_end_and_shows_unknowns() -> None:
    """Would catch "</s>" or "<pad>" in the output text."""
    assert trained(["a b"]).decode([PAD, 3, UNK, 4, EOS, PAD]) == "a <unk> b"


@pytest.mark.parametrize(
    ("text", "joined"),
    [
        ("bü@@ sche .", "büsche ."),
        ("a b@@", "a b"),
        ("x@@y @@", "x@@y"),
        ("", ""),
        ("a@@ b@@ c", "abc"),
        ("a b", "a b"),
    ],
)
def test_joiners_join_before_a_space_and_at_the_end(text: str, joined: str) -> None:
    """Would catch removing '@@' inside a word, and leaving one at the end of a cut hypothesis."""
    assert remove_joiners(text, "@@") == joined


def test_join_input_reads_pieces_as_words() -> None:
    """Would catch word models that train on pieces: the vocabulary must be that of the words."""
    pieces, words = "zwei bü@@ sche  a@@ b@@ c", "zwei büsche abc"
    tokenizer = trained([pieces], joiner="@@", join_input=True)
    assert tokenizer.symbols == trained([words]).symbols
    assert tokenizer.encode([pieces]) == trained([words]).encode([words])


def test_decode_with_joiner_gives_words() -> None:
    """Would catch scoring on pieces."""
    tokenizer = trained(["bü@@ sche ."], joiner="@@")
    assert len(tokenizer.encode(["bü@@ sche ."])[0]) == 3
    assert tokenizer.decode(tokenizer.encode(["bü@@ sche ."])[0]) == "büsche ."


@given(lines)
def test_known_words_come_back(text: list[str]) -> None:
    """Would catch any loss between words and ids, pieces out of step with ids, and specials from text."""
    tokenizer = trained(text)
    for line, ids in zip(text, tokenizer.encode(text), strict=True):
        words = tokenizer.pieces(line)
        assert len(words) == len(ids)
        assert all(i > EOS for i in ids)
        assert tokenizer.decode(ids) == " ".join(words)
        assert tokenizer.encode([tokenizer.decode(ids)]) == [ids]


@given(lines)
def test_state_survives_a_safe_load(text: list[str]) -> None:
    """Would catch state that torch refuses under weights_only=True, and options lost on the way."""
    tokenizer = trained(text, joiner="@@", join_input=True)
    file = io.BytesIO()
    torch.save(tokenizer.state(), file)
    file.seek(0)
    again = WhitespaceTokenizer.from_state(torch.load(file, weights_only=True))
    assert again.symbols == tokenizer.symbols
    assert again.encode(text) == tokenizer.encode(text)
    assert (again.joiner, again.join_input) == ("@@", True)
