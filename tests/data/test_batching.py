"""Batches are cut as the original cuts them, and are a pure function of their arguments."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import numpy as np
import pytest
from helpers import golden_json
from hypothesis import given
from hypothesis import strategies as st

from convs2s.config import Bucketing
from convs2s.data.batching import bucket_batches, cut_batches, epoch_order, padding_share, rank_share

BATCHES: dict[str, Any] = golden_json("batches")
TRAIN, VALID = (
    tuple(np.array(side, dtype=np.int64) for side in BATCHES[f"{split}_lengths"]) for split in ("train", "valid")
)
RUNS: dict[str, Any] = {run["name"]: run for run in BATCHES["runs"]}
Lengths = tuple[np.ndarray, ...]


class Shape(NamedTuple):
    sentences: int
    source: int
    target: int
    source_padding: int
    target_padding: int
    tokens: int


def shape(indices: np.ndarray, lengths: Lengths) -> Shape:
    """The numbers that the original printed of a batch."""
    source, target = lengths[0][indices], lengths[1][indices]
    longest = int(source.max()), int(target.max())
    padding = [int((most - side).sum()) for most, side in zip(longest, (source, target), strict=True)]
    return Shape(len(indices), *longest, padding[0], padding[1], int(target.sum()))


def printed(batch: dict[str, Any]) -> Shape:
    return Shape(*(batch[key] for key in ("nsent", "src_len", "tgt_len", "src_pad", "tgt_pad", "ntokens")))


def members(indices: np.ndarray, lengths: Lengths) -> tuple[tuple[int, int], ...]:
    """The sentences of a batch up to the order among equals."""
    return tuple(sorted((int(lengths[0][i]), int(lengths[1][i])) for i in indices))


def options(run: str) -> dict[str, Any]:
    given = RUNS[run]["options"]
    return {"sentences": given["batchsize"], "tokens": given.get("maxbatch")}


# --- the original's batches -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [1, 2, None])
@pytest.mark.parametrize("run", ["batchsize16", "maxbatch100"])
def test_training_batches(run: str, seed: int | None) -> None:
    """Fault: another sort key, another cut, a cap on a sum of lengths or on one side, or shapes that vary by seed."""
    found = cut_batches(*TRAIN, **options(run), seed=seed)
    golden = RUNS[run]["train"]
    assert Counter(shape(batch, TRAIN) for batch in found) == Counter(map(printed, golden))
    wanted = Counter(members(np.array(batch["index"]) - 1, TRAIN) for batch in golden)
    assert Counter(members(batch, TRAIN) for batch in found) == wanted
    in_order = np.concatenate(found)
    keys = 4096 * TRAIN[0][in_order] + TRAIN[1][in_order]
    assert (np.diff(keys) >= 0).all()


@pytest.mark.parametrize("run", ["batchsize16", "maxbatch100"])
def test_validation_batches(run: str) -> None:
    """Fault: validation batches mix source lengths, are reordered, or are cut into other pieces when too big."""
    found = bucket_batches(*VALID, **options(run))
    golden = RUNS[run]["valid"]
    buckets: list[list[int]] = []  # a piece of a bucket that was cut still prints the whole bucket's index ...
    for batch, piece in zip(golden, found, strict=True):
        numbers = shape(piece, VALID)
        width = int(VALID[1][np.array(batch["index"]) - 1].max())  # ... and is as wide as the whole bucket
        padding = numbers.target_padding + numbers.sentences * (width - numbers.target)
        assert numbers._replace(target=width, target_padding=padding) == printed(batch)
        if not buckets or buckets[-1] != batch["index"]:
            buckets.append(batch["index"])
    assert (np.concatenate(found) + 1).tolist() == [i for bucket in buckets for i in bucket]


# --- every corpus -----------------------------------------------------------------------------------------------------


@st.composite
def corpora(draw: st.DrawFn) -> Lengths:
    count = draw(st.integers(1, 60))
    longest = draw(st.sampled_from([3, 12, 60]))
    sides = [draw(st.lists(st.integers(1, longest), min_size=count, max_size=count)) for _ in range(2)]
    return tuple(np.array(side, dtype=np.int64) for side in sides)


def expected_cut(lengths: Lengths, sentences: int, tokens: int | None) -> list[list[tuple[int, int]]]:
    """The cut, sentence by sentence: as many as fit."""
    pairs = sorted(zip(*(side.tolist() for side in lengths), strict=True))
    batches: list[list[tuple[int, int]]] = []
    for pair in pairs:
        grown = [*batches[-1], pair] if batches else []
        longest = max((length for member in grown for length in member), default=0)
        fits = len(grown) <= sentences if tokens is None else len(grown) * longest <= tokens
        if grown and fits:
            batches[-1] = grown
        else:
            batches.append([pair])
    return batches


@given(corpora(), st.integers(1, 9), st.none() | st.integers(1, 150), st.integers(0, 1000))
def test_cut(lengths: Lengths, sentences: int, tokens: int | None, seed: int) -> None:
    """Fault: a sentence is lost or doubled, a batch passes the cap, or is cut before it is full."""
    found = cut_batches(*lengths, sentences=sentences, tokens=tokens, seed=seed)
    assert sorted(np.concatenate(found).tolist()) == list(range(len(lengths[0])))
    for batch in found:
        numbers = shape(batch, lengths)
        if tokens is None:
            assert numbers.sentences <= sentences
        else:
            assert numbers.sentences == 1 or numbers.sentences * max(numbers.source, numbers.target) <= tokens
    wanted = [tuple(batch) for batch in expected_cut(lengths, sentences, tokens)]
    assert [members(batch, lengths) for batch in found] == wanted


@given(corpora(), st.integers(1, 9), st.none() | st.integers(1, 150))
def test_buckets(lengths: Lengths, sentences: int, tokens: int | None) -> None:
    """Fault: validation loses a sentence, pads a source, or passes the cap."""
    found = bucket_batches(*lengths, sentences=sentences, tokens=tokens)
    assert sorted(np.concatenate(found).tolist()) == list(range(len(lengths[0])))
    for batch in found:
        numbers = shape(batch, lengths)
        assert numbers.source_padding == 0
        assert numbers.sentences <= sentences
        if tokens is not None and numbers.sentences > 1:
            assert numbers.sentences * max(numbers.source, numbers.target) <= tokens
    assert [shape(batch, lengths).source for batch in found] == sorted(shape(batch, lengths).source for batch in found)


@given(corpora(), st.none() | st.integers(1, 150), st.integers(0, 1000))
def test_pure_function(lengths: Lengths, tokens: int | None, seed: int) -> None:
    """Fault: the cut depends on a global generator or on what was cut before, or changes its arguments."""
    copies = [side.copy() for side in lengths]
    first = cut_batches(*lengths, sentences=4, tokens=tokens, seed=seed)
    np.random.seed(0)
    second = cut_batches(*lengths, sentences=4, tokens=tokens, seed=seed)
    assert [batch.tolist() for batch in first] == [batch.tolist() for batch in second]
    assert all((copy == side).all() for copy, side in zip(copies, lengths, strict=True))


@given(st.integers(0, 1000))
def test_equals_are_shuffled(seed: int) -> None:
    """Fault: equal sentences always meet the same neighbours, or move although no seed is given."""
    lengths = np.full(64, 5), np.full(64, 6)
    members_by_seed = [
        [sorted(batch.tolist()) for batch in cut_batches(*lengths, sentences=8, tokens=None, seed=chosen)]
        for chosen in (seed, seed + 1)
    ]
    assert members_by_seed[0] != members_by_seed[1]
    unseeded = cut_batches(*lengths, sentences=8, tokens=None, seed=None)
    assert np.concatenate(unseeded).tolist() == list(range(64))


def test_shuffling_stays_among_equals() -> None:
    """Fault: the shuffle moves sentences of another length."""
    lengths = np.array([7, 5, 5, 7, 5]), np.array([3, 3, 4, 3, 3])
    for seed in range(10):
        order = np.concatenate(cut_batches(*lengths, sentences=2, tokens=None, seed=seed)).tolist()
        assert (set(order[:2]), order[2], set(order[3:])) == ({1, 4}, 2, {0, 3})


# --- padding ----------------------------------------------------------------------------------------------------------


@given(corpora(), st.none() | st.integers(1, 150), st.sampled_from(list(Bucketing)))
def test_the_share_of_padding(lengths: Lengths, tokens: int | None, bucketing: Bucketing) -> None:
    """Fault: padding of one side, or of the last batch, is not counted; sentences weigh alike whatever their batch."""
    batches = cut_batches(*lengths, sentences=4, tokens=tokens, seed=1, bucketing=bucketing)
    padded = real = 0
    for batch in batches:
        for side in lengths:
            padded += len(batch) * int(side[batch].max())
            real += int(side[batch].sum())
    assert padding_share(batches, *lengths) == pytest.approx(1 - real / padded)


@given(corpora(), st.integers(1, 150))
def test_tight_batches_keep_within_the_cap(lengths: Lengths, tokens: int) -> None:
    """Fault: the cut looks at one side only, or the order among equals does not depend on the seed alone."""
    one, other = (
        cut_batches(*lengths, sentences=1, tokens=tokens, seed=3, bucketing=Bucketing.tight) for _ in range(2)
    )
    assert [batch.tolist() for batch in one] == [batch.tolist() for batch in other]
    for batch in one:
        assert len(batch) == 1 or len(batch) * max(int(side[batch].max()) for side in lengths) <= tokens


def test_tight_batches_of_a_small_corpus_have_less_than_five_percent_padding() -> None:
    """Fault: neighbours in the order differ on one side (the original's order of such a corpus has 6 to 7 %)."""
    draw = np.random.default_rng(1)  # 29,000 pairs with the lengths of Multi30k's in 10,000 pieces
    source = np.clip(np.rint(draw.lognormal(2.6, 0.33, 29_000)), 3, 60).astype(np.int32)
    target = np.clip(np.rint(source * draw.lognormal(0.0, 0.2, 29_000)), 3, 60).astype(np.int32)
    shares = {
        bucketing: padding_share(
            cut_batches(source, target, sentences=1, tokens=4000, seed=1, bucketing=bucketing), source, target
        )
        for bucketing in Bucketing
    }
    assert shares[Bucketing.tight] < 0.04 < 0.05 < shares[Bucketing.original]


# --- the order of an epoch --------------------------------------------------------------------------------------------


@given(st.integers(1, 200), st.integers(0, 5000), st.integers(1, 40))
def test_epoch_order_is_a_permutation(count: int, seed: int, epoch: int) -> None:
    """Fault: a batch is left out or repeated, or the order is not repeatable."""
    order = [int(i) for i in epoch_order(count, seed, epoch)]
    assert sorted(order) == list(range(count))
    np.random.seed(epoch)
    assert order == [int(i) for i in epoch_order(count, seed, epoch)]


@given(st.integers(1, 200), st.integers(0, 50), st.integers(1, 8), st.integers(1, 4))
def test_ranks_share_an_epoch(count: int, seed: int, world_size: int, accumulate: int) -> None:
    """Fault: ranks see the same batch, leave one out, or one has more than its share of an update."""
    order, group = epoch_order(count, seed, 1), world_size * accumulate
    union = []
    for start in range(0, count, group):
        shares = [rank_share(order, start, group, rank, world_size).tolist() for rank in range(world_size)]
        assert max(map(len, shares)) - min(map(len, shares)) <= 1
        assert max(map(len, shares)) <= accumulate
        union += [number for share in shares for number in share]
    assert sorted(union) == list(range(count))


@given(
    corpora(),
    st.integers(1, 9),
    st.none() | st.integers(1, 150),
    st.integers(1, 3),
    st.integers(1, 9),
    st.sampled_from(list(Bucketing)),
)
def test_every_sentence_is_seen_once_an_epoch(
    lengths: Lengths, sentences: int, tokens: int | None, epoch: int, world_size: int, bucketing: Bucketing
) -> None:
    """Fault: over all ranks a sentence is dropped or seen twice."""
    batches = cut_batches(*lengths, sentences=sentences, tokens=tokens, seed=1, bucketing=bucketing)
    order = epoch_order(len(batches), 1, epoch)
    shares = [
        rank_share(order, start, world_size, rank, world_size)
        for start in range(0, len(order), world_size)
        for rank in range(world_size)
    ]
    seen = [i for share in shares for number in share for i in batches[number].tolist()]
    assert sorted(seen) == list(range(len(lengths[0])))


def test_batches_are_a_sequence() -> None:
    """Fault: an index or slice that means something else than in a list, or indices of a narrow type."""
    batches = cut_batches(np.arange(1, 8), np.arange(1, 8), sentences=3, tokens=None, seed=None)
    assert len(batches) == 3
    assert [batch.tolist() for batch in batches] == [[0, 1, 2], [3, 4, 5], [6]]
    assert [batch.tolist() for batch in batches[::-2]] == [[6], [0, 1, 2]]
    assert batches[-1].tolist() == [6]
    assert batches[0].dtype == np.int64
    with pytest.raises(IndexError):
        batches[3]
    none = np.zeros(0, np.int64)
    assert len(cut_batches(none, none, sentences=3, tokens=9, seed=1)) == 0


def test_lengths_beyond_sixteen_bits_sort_as_well() -> None:
    """Fault: a radix sort on lengths that were cut to 16 bits."""
    lengths = np.array([70_000, 3, 65_537, 2]), np.array([1, 70_000, 1, 70_001])
    order = np.concatenate(list(cut_batches(*lengths, sentences=9, tokens=None, seed=5))).tolist()
    assert order == [3, 1, 2, 0]


def test_epoch_order_changes() -> None:
    """Fault: every epoch, or every seed, has the same order; or seed and epoch are only added up."""
    orders = {tuple(map(int, epoch_order(50, seed, epoch))) for seed in range(5) for epoch in range(1, 9)}
    assert len(orders) == 40
