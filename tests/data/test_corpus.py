"""The encoded corpus gives back exactly what was written, in any chunks, and locates sentences in the raw files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convs2s.data.corpus import Corpus, CorpusWriter, check_lengths
from convs2s.errors import UserError
from convs2s.text.vocabulary import EOS
from convs2s.text.word_cache import EncodedLines

Pair = tuple[list[int], list[int]]


def encoded(sentences: list[list[int]]) -> EncodedLines:
    lengths = np.array([len(ids) for ids in sentences], np.int64)
    return EncodedLines(np.array([i for ids in sentences for i in ids], np.int32), lengths, lengths)


def write(folder: Path, chunks: list[list[Pair]], keep: list[list[bool]], vocabulary: tuple[int, int]) -> CorpusWriter:
    read = 0
    with CorpusWriter(folder, "train", *vocabulary) as writer:
        for pairs, kept in zip(chunks, keep, strict=True):
            lines = np.arange(read + 1, read + len(pairs) + 1)
            source, target = (encoded([pair[side] for pair in pairs]) for side in (0, 1))
            writer.add(source, target, lines, np.flatnonzero(np.array(kept, np.bool_)))
            read += len(pairs)
    return writer


@st.composite
def corpora(draw: st.DrawFn) -> tuple[list[list[Pair]], list[list[bool]], tuple[int, int]]:
    vocabulary = draw(st.tuples(*[st.sampled_from([4, 65536, 65537, 2**31 - 1])] * 2))
    ids = [st.lists(st.integers(0, size - 1) | st.just(size - 1), max_size=6) for size in vocabulary]
    chunks = draw(st.lists(st.lists(st.tuples(*ids), max_size=5), max_size=4).filter(any))
    keep = [draw(st.lists(st.booleans(), min_size=len(pairs), max_size=len(pairs))) for pairs in chunks]
    first = next(i for i, pairs in enumerate(chunks) if pairs)
    keep[first][0] = True
    return chunks, keep, vocabulary


@given(corpora())
def test_sentences_come_back(tmp_path: Path, drawn: tuple[list[list[Pair]], list[list[bool]], tuple[int, int]]) -> None:
    """Would catch ids cut to 16 bits, </s> in the wrong place, offsets that restart with a chunk, sides out of step."""
    chunks, keep, vocabulary = drawn
    writer = write(tmp_path, chunks, keep, vocabulary)
    corpus = Corpus.open(tmp_path, "train", writer.dtypes)
    pairs = [(number, pair) for number, pair in enumerate((p for c in chunks for p in c), start=1)]
    kept = [entry for entry, k in zip(pairs, (k for c in keep for k in c), strict=True) if k]
    assert len(corpus) == writer.pairs == len(kept)
    assert corpus.lines.tolist() == [number for number, _ in kept]
    for i, (_, (source, target)) in enumerate(kept):
        assert corpus.source(i).tolist() == [*source, EOS]
        assert corpus.target(i).tolist() == [*target, EOS]
    assert corpus.source_lengths.tolist() == [len(s) + 1 for _, (s, _) in kept]
    assert corpus.target_lengths.tolist() == [len(t) + 1 for _, (_, t) in kept]
    assert writer.tokens == {"source": corpus.source_lengths.sum(), "target": corpus.target_lengths.sum()}
    assert writer.longest == {"source": corpus.source_lengths.max(), "target": corpus.target_lengths.max()}
    assert writer.unknown["source"] == sum(s.count(0) for _, (s, _) in kept)


def test_tokens_are_mapped_and_take_two_bytes_where_the_vocabulary_allows(tmp_path: Path) -> None:
    """Would catch a corpus read into memory, or 4 or 8 bytes a token at WMT size."""
    writer = write(tmp_path, [[([3, 4], [5])]], [[True]], (65536, 65537))
    corpus = Corpus.open(tmp_path, "train", writer.dtypes)
    assert isinstance(corpus.source_tokens, np.memmap)
    assert isinstance(corpus.target_offsets, np.memmap)
    assert (corpus.source_tokens.dtype, corpus.target_tokens.dtype) == (np.uint16, np.int32)
    assert corpus.source_offsets.dtype == corpus.lines.dtype == np.int64
    assert not corpus.source_tokens.flags.writeable


def test_pairs_are_written_as_often_and_in_the_order_asked_for(tmp_path: Path) -> None:
    """Fault: a weighted pair written once, its line number or the next sentence's offset lost."""
    sides = encoded([[3], [], [4, 5]]), encoded([[6, 7], [8], []])
    with CorpusWriter(tmp_path, "train", 9, 9) as writer:
        writer.add(*sides, np.array([11, 12, 13]), np.array([2, 2, 0, 1]))
    corpus = Corpus.open(tmp_path, "train", writer.dtypes)
    assert [corpus.source(i).tolist() for i in range(4)] == [[4, 5, EOS], [4, 5, EOS], [3, EOS], [EOS]]
    assert [corpus.target(i).tolist() for i in range(4)] == [[EOS], [EOS], [6, 7, EOS], [8, EOS]]
    assert corpus.lines.tolist() == [13, 13, 11, 12]
    assert (writer.pairs, writer.words) == (4, {"source": 5, "target": 3})


def test_sentences_beyond_the_position_table_are_located_in_the_raw_file(tmp_path: Path) -> None:
    """Would catch an index error in the model, the line number of the cleaned corpus, and </s> not counted."""
    chunks: list[list[Pair]] = [[([], [3]), ([3] * 4, [3])], [([3], [3] * 5), ([3], [3] * 6)]]
    writer = write(tmp_path, chunks, [[False, True], [True, True]], (9, 9))
    corpus = Corpus.open(tmp_path, "train", writer.dtypes)
    check_lengths(corpus, 7, "a.de", "a.en")
    with pytest.raises(UserError, match=r"^a\.en, line 3: 6 pieces, </s> included, .* at most 5; shorten it and 1"):
        check_lengths(corpus, 5, "a.de", "a.en")
    with pytest.raises(UserError, match=r"^a\.de, line 2: 5 pieces"):
        check_lengths(corpus, 4, "a.de", "a.en")
