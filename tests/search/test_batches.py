"""Sentences that come into a batch while others are on their way: nobody's translation changes, and nobody waits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from helpers import SEARCH_VOCABULARY, build, pad, random_sentences, search_model, small_config
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from convs2s.config import SearchConfig, SearchPrecision, SelectionConfig, SourcePadding, Stop
from convs2s.model import ConvS2S
from convs2s.search.batches import FULL, Queue, length_batches
from convs2s.search.beam import beam_search, search_sentences
from convs2s.search.selection import select_batch
from convs2s.search.trace import Hypothesis

CONTINUED = torch.tensor([token > 2 and token % 3 == 0 for token in range(9)])


def assert_same(found: list[list[Hypothesis]], expected: list[list[Hypothesis]]) -> None:
    assert len(found) == len(expected)
    for hypotheses, wanted in zip(found, expected, strict=True):
        assert [hypothesis.ids for hypothesis in hypotheses] == [hypothesis.ids for hypothesis in wanted]
        for one, other in zip(hypotheses, wanted, strict=True):
            assert one.score == pytest.approx(other.score, rel=1e-9, abs=1e-9)
            for name in ("attention", "original_attention", "layers"):
                ours, theirs = getattr(one, name), getattr(other, name)
                assert (ours is None) == (theirs is None)
                if ours is not None:
                    assert_close(ours.double(), theirs.double(), rtol=0.0, atol=1e-6)


OPTIONS: dict[str, SearchConfig] = {
    "plain": SearchConfig(beam=3, nbest=3, max_length=9),
    "greedy": SearchConfig(beam=1, max_length=9),
    "coverage": SearchConfig(beam=3, nbest=2, max_length=9, covpen=0.3),
    "lengths": SearchConfig(beam=3, nbest=2, min_length=3, max_length=0, max_length_ratio=1.2),
    "penalties": SearchConfig(beam=3, nbest=3, max_length=9, unkpen=0.5, subwordpen=0.7, lenpen=0.6),
    "optimal": SearchConfig(beam=3, nbest=2, max_length=9, stop=Stop.optimal),
}


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("padding", SourcePadding)
def test_a_sentence_that_comes_in_later_is_translated_as_if_alone(name: str, padding: SourcePadding) -> None:
    """Fault: it takes over a position, a window, a limit, a coverage or a back-pointer of one that has left, or of the
    batch; its attention is read from another's row or columns."""
    config = OPTIONS[name]
    sources = random_sentences(4, [1 + 5 * i % 9 for i in range(23)], SEARCH_VOCABULARY)
    for models in (
        [search_model(1, eos=0.5, source_padding=padding)],
        [search_model(seed, eos=1.0, source_padding=padding, layers={"decoder": [(5, 3)]}) for seed in (2, 3)],
    ):
        models[0].fold()
        options: dict[str, Any] = {"attention": True, "layers": True, "continuations": CONTINUED}
        alone = [beam_search(models, torch.tensor([source]), config, **options)[0] for source in sources]
        for size in (1, 4, 7):
            assert_same(search_sentences(models, sources, replace(config, batch_size=size), **options), alone)


def test_rounded_inputs_are_those_of_the_row_alone() -> None:
    """Fault: in int8 the inputs of a batch share a scale, and a translation depends on who is beside it."""
    layers = {"encoder": [(16, 3)], "decoder": [(16, 3), (16, 3)]}
    model = search_model(3, eos=0.5, embedding=16, output_embedding=16, layers=layers).float()
    model.fold(SearchPrecision.int8)
    sources = random_sentences(4, [1 + 5 * i % 9 for i in range(23)], SEARCH_VOCABULARY)
    config = SearchConfig(beam=3, nbest=3, max_length=9)
    alone = [beam_search(model, torch.tensor([source]), config)[0] for source in sources]
    together = search_sentences(model, sources, replace(config, batch_size=23))
    for hypotheses, wanted in zip(together, alone, strict=True):
        assert [hypothesis.ids for hypothesis in hypotheses] == [hypothesis.ids for hypothesis in wanted]
        assert [one.score for one in hypotheses] == pytest.approx([one.score for one in wanted], abs=1e-5)


def test_without_attention_layers() -> None:
    """Fault: a model whose decoder never attends has no source to join, and fails."""
    model = build(small_config([(6, 3)], [(6, 3)], attention=[]), source=SEARCH_VOCABULARY, target=9)
    sources = random_sentences(1, [5, 3, 2, 4], SEARCH_VOCABULARY)
    config = SearchConfig(beam=2, max_length=6, batch_size=2)
    alone = [beam_search(model, torch.tensor([source]), config, attention=True)[0] for source in sources]
    assert_same(search_sentences(model, sources, config, attention=True), alone)


def test_selected_words_stay_with_their_batch() -> None:
    """Fault: a sentence that comes in is scored over the words that were selected for others."""
    model = search_model(3, eos=1.0)
    aligned = {word: [(3 + word % 6, 1)] for word in range(SEARCH_VOCABULARY)}
    settings_ = SelectionConfig(common=3, aligned=1)

    def choose(sources: Any) -> Any:
        return select_batch(sources, aligned, settings_, 9)

    sources = random_sentences(5, [1 + 3 * i % 7 for i in range(9)], SEARCH_VOCABULARY)
    config = SearchConfig(beam=3, nbest=3, max_length=7, batch_size=3)
    alone = [beam_search(model, torch.tensor([s]), config, selection=choose([s]))[0] for s in sources]
    assert_same(search_sentences(model, sources, config, select=choose), alone)


def run_sizes(model: ConvS2S, sources: list[list[int]], config: SearchConfig) -> list[int]:
    """Sentences in the batch at every step."""
    step, sizes = model.raw_step, []

    def recorded(tokens: Tensor, state: Any) -> Any:
        sizes.append(tokens.shape[0])
        return step(tokens, state)

    model.raw_step = recorded  # type: ignore[method-assign]
    search_sentences(model, sources, config)
    return sizes


def test_hypotheses_that_do_not_end_keep_nobody_waiting() -> None:
    """Fault: a batch is translated to the end of its slowest sentence before the next one begins."""
    sources = random_sentences(3, [1 + 7 * i % 17 for i in range(40)], SEARCH_VOCABULARY)
    config = SearchConfig(beam=2, max_length=30, batch_size=8)
    sizes = run_sizes(search_model(5, eos=1.0), sources, config)
    apart = sum(
        len(run_sizes(search_model(5, eos=1.0), [sources[i] for i in batch], config))
        for batch in length_batches(list(map(len, sources)), 8, 10**6, exact=False)
    )
    assert max(sizes) == 8
    assert len(sizes) < apart
    last = len(sizes) - sizes[::-1].index(8)  # until nobody waits any more
    assert min(sizes[:last]) > FULL * 8 - 1


def test_nothing_is_remembered_of_sentences_that_have_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault: a long file fills the memory with the steps of sentences that were done long ago."""
    from convs2s.search import trace

    longest, keep = [], trace.Trace.keep

    def counted(self: trace.Trace, count: int) -> None:
        keep(self, count)
        longest.append(len(self.steps))

    monkeypatch.setattr(trace.Trace, "keep", counted)
    sources = random_sentences(3, [1 + 7 * i % 17 for i in range(60)], SEARCH_VOCABULARY)
    sizes = run_sizes(search_model(5, eos=1.0), sources, SearchConfig(beam=2, max_length=9, batch_size=4))
    assert len(sizes) > 60
    assert max(longest) <= 10
    assert longest[-1] == 0


# --- the queue --------------------------------------------------------------------------------------------------------


@given(
    st.lists(st.integers(0, 9), max_size=40), st.integers(1, 7), st.integers(1, 40), st.booleans(), st.integers(0, 99)
)
@settings(max_examples=60)
def test_queue(lengths: list[int], sentences: int, tokens: int, exact: bool, seed: int) -> None:
    """Fault: a sentence twice or never, or blank; a batch beyond its caps; a wait that never ends."""
    queue, present, done = Queue(lengths, sentences, tokens, exact), [], []
    for round_ in range(10**4):
        width = max((lengths[i] for i in present), default=0)
        group = queue.take(len(present), width)
        present += group
        longest = max((lengths[i] for i in present), default=0)
        assert len(present) <= sentences
        assert len(present) == 1 or len(present) * longest <= tokens or not group
        if exact:
            assert len({lengths[i] for i in group}) <= 1
        if not present:
            break
        done.append(present.pop((seed + round_) % len(present)))
    assert sorted(done) == [i for i, length in enumerate(lengths) if length]


def test_few_free_places_stay_free() -> None:
    """Fault: every sentence that leaves is followed by an encoding of a single one."""
    queue = Queue([3] * 20, 8, 10**6, exact=False)
    assert len(queue.take()) == 8
    assert queue.take(7, 3) == []
    assert len(queue.take(6, 3)) == 2


def test_padding_is_the_caller_s() -> None:
    """Fault: sources that were padded on the left lose their first words when the batch becomes narrower."""
    model = search_model(5, eos=1.0)
    sources = random_sentences(0, [9, 2, 4, 1], SEARCH_VOCABULARY)
    config = SearchConfig(beam=3, nbest=3, max_length=12)
    left, right = (beam_search(model, pad(sources, side), config, attention=True) for side in (True, False))
    assert_same(left, right)
