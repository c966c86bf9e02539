"""Beam search against a slow one written from a description of the Lua program, and what must always hold."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from helpers import EOS, SEARCH_VOCABULARY, UNK, pad, random_sentences, search_model
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_search import Found, slow_search
from torch import Tensor

from convs2s.config import SearchConfig
from convs2s.model import ConvS2S
from convs2s.search.beam import beam_search
from convs2s.search.trace import Hypothesis


def everything(config: SearchConfig) -> SearchConfig:
    """The same search with every hypothesis returned."""
    return replace(config, nbest=config.beam)


def same(found: list[Hypothesis], expected: list[Found], attention: bool = True) -> None:
    assert [hypothesis.ids for hypothesis in found] == [hypothesis.ids for hypothesis in expected]
    for hypothesis, wanted in zip(found, expected, strict=True):
        assert hypothesis.score == pytest.approx(wanted.score, rel=1e-9, abs=1e-9)
        if attention:
            for ours, slow in (
                (hypothesis.attention, wanted.attention),
                (hypothesis.original_attention, wanted.stored),
            ):
                assert ours is not None
                torch.testing.assert_close(ours.double(), torch.tensor(slow, dtype=torch.float64), rtol=0, atol=1e-9)


def teacher_forced(model: ConvS2S, source: list[int], ids: list[int]) -> float:
    """Log-probability of a hypothesis by one full forward pass."""
    log_probabilities = model(torch.tensor([source]), torch.tensor([[EOS, *ids[:-1]]]))[0]
    return float(log_probabilities.gather(1, torch.tensor(ids)[:, None]).sum().detach())


SEEDS = st.integers(0, 10**6)
LENGTHS = st.lists(st.integers(1, 7), min_size=1, max_size=4)


@st.composite
def searches(draw: st.DrawFn) -> SearchConfig:
    return SearchConfig(
        beam=draw(st.integers(1, 6)),
        lenpen=draw(st.sampled_from([0.0, 0.5, 1.0, 1.7])),
        unkpen=draw(st.sampled_from([0.0, 0.8, -0.5])),
        min_length=draw(st.integers(0, 3)),
        max_length=draw(st.integers(3, 6)),
    )


# --- against the slow search ------------------------------------------------------------------------------------------


@given(SEEDS, LENGTHS, searches(), st.sampled_from([-1.0, 1.0, 2.5]), st.sampled_from([None, [1], [2]]))
@settings(max_examples=40)
def test_equals_the_slow_search(
    seed: int, lengths: list[int], config: SearchConfig, eos: float, attention: list[int] | None
) -> None:
    """Fault: candidates, the scan for </s>, finalising, penalties, limits, the sort or the attention differ."""
    model = search_model(seed, eos=eos, attention=attention)
    sources = random_sentences(seed, lengths, SEARCH_VOCABULARY)
    found = beam_search([model], pad(sources, left=True), everything(config), attention=True)
    for hypotheses, source in zip(found, sources, strict=True):
        same(hypotheses, slow_search([model], source, config))


@given(SEEDS, LENGTHS, searches(), st.sampled_from([0.3, 1.0, 5.0]))
@settings(max_examples=15)
def test_coverage_penalty(seed: int, lengths: list[int], config: SearchConfig, covpen: float) -> None:
    """Fault: covpen is ignored, has the wrong sign, is divided by the length, counts padding, or clamps each step."""
    model = search_model(seed, eos=1.0)
    config = replace(config, covpen=covpen)
    sources = random_sentences(seed, lengths, SEARCH_VOCABULARY)
    found = beam_search([model], pad(sources, left=True), everything(config), attention=True)
    for hypotheses, source in zip(found, sources, strict=True):
        same(hypotheses, slow_search([model], source, config))


@given(SEEDS, st.sampled_from([6, 7]), st.integers(7, 9), st.integers(0, 1))
@settings(max_examples=15)
def test_beam_larger_than_the_vocabulary(seed: int, target: int, beam: int, min_length: int) -> None:
    """Fault: top-k of more than there is, or rows without a candidate that come back as hypotheses."""
    model = search_model(seed, target=target, eos=1.0)
    config = SearchConfig(beam=beam, min_length=min_length, max_length=5)
    sources = random_sentences(seed, [3, 5], SEARCH_VOCABULARY)
    found = beam_search([model], pad(sources, left=True), everything(config), attention=True)
    for hypotheses, source in zip(found, sources, strict=True):
        assert len(hypotheses) == beam
        same(hypotheses, slow_search([model], source, config), attention=False)


@given(SEEDS, LENGTHS, searches())
@settings(max_examples=10)
def test_ensemble(seed: int, lengths: list[int], config: SearchConfig) -> None:
    """Fault: an ensemble averages log-probabilities, or only one model's state or attention is used."""
    models = [search_model(seed, eos=1.0), search_model(seed + 1, layers={"decoder": [(5, 3)]})]
    sources = random_sentences(seed, lengths, SEARCH_VOCABULARY)
    found = beam_search(models, pad(sources, left=True), everything(config), attention=True)
    for hypotheses, source in zip(found, sources, strict=True):
        same(hypotheses, slow_search(models, source, config))


def test_limits_matter_to_these_models() -> None:
    """Fault: the random models above never meet a limit or a penalty, so that the comparisons prove nothing."""
    plain = SearchConfig(beam=3, nbest=3, min_length=1, max_length=6)
    changed: dict[str, int] = {}
    for seed in range(12):
        model = search_model(seed, eos=1.0)
        source = torch.tensor(random_sentences(seed, [5], SEARCH_VOCABULARY))
        before = [hypothesis.ids for hypothesis in beam_search([model], source, plain)[0]]
        for name, value in {"lenpen": 0.0, "unkpen": 5.0, "covpen": 5.0, "min_length": 4, "max_length": 2}.items():
            after = [hypothesis.ids for hypothesis in beam_search([model], source, replace(plain, **{name: value}))[0]]
            changed[name] = changed.get(name, 0) + (before != after)
    assert all(changed.values()), changed


# --- what must hold ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("left", [True, False], ids=["left", "right"])
def test_batch_of_one_and_of_64(left: bool) -> None:
    """Fault: a hypothesis depends on its batch: by padding, by neighbours, or by sentences that finish and leave."""
    model = search_model(5, eos=1.0, layers={"encoder": [(6, 5), (7, 2)]})
    lengths = [1 + 7 * i % 17 for i in range(64)]
    sources = random_sentences(3, lengths, SEARCH_VOCABULARY)
    config = SearchConfig(beam=4, nbest=4, max_length=12)
    together = beam_search([model], pad(sources, left), config, attention=True)
    assert len(together) == 64
    for batched, source in zip(together, sources, strict=True):
        (alone,) = beam_search([model], torch.tensor([source]), config, attention=True)
        assert [hypothesis.ids for hypothesis in batched] == [hypothesis.ids for hypothesis in alone]
        for one, other in zip(batched, alone, strict=True):
            assert one.score == pytest.approx(other.score, abs=1e-10)
            assert one.attention is not None
            torch.testing.assert_close(one.attention, other.attention, rtol=0, atol=1e-10)


@given(SEEDS, st.integers(1, 6), st.integers(1, 3))
def test_beam_one_is_greedy(seed: int, length: int, min_length: int) -> None:
    """Fault: with beam 1 a </s> that is only second best ends the hypothesis, or a limit is off by one."""
    model, max_length = search_model(seed, eos=1.5), 7
    (source,) = random_sentences(seed, [length], SEARCH_VOCABULARY)
    ids: list[int] = []
    while not ids or ids[-1] != EOS:
        scores = model(torch.tensor([source]), torch.tensor([[EOS, *ids]]))[0, -1].clone()
        if len(ids) < min_length:
            scores[EOS] = -torch.inf
        ids.append(EOS if len(ids) == max_length else int(scores.argmax()))
    config = SearchConfig(beam=1, min_length=min_length, max_length=max_length)
    ((found,),) = beam_search([model], torch.tensor([source]), config)
    assert found.ids == ids
    assert found.score == pytest.approx(teacher_forced(model, source, ids) / len(ids), abs=1e-9)


@given(SEEDS, LENGTHS, st.integers(1, 6), st.sampled_from([0.0, 0.6, 1.0]))
def test_score_is_the_teacher_forced_log_probability(seed: int, lengths: list[int], beam: int, lenpen: float) -> None:
    """Fault: a back-pointer leads to another hypothesis than the one whose score is reported; </s> is not counted."""
    model = search_model(seed, eos=1.0)
    sources = random_sentences(seed, lengths, SEARCH_VOCABULARY)
    config = SearchConfig(beam=beam, nbest=beam, lenpen=lenpen, max_length=6)
    for hypotheses, source in zip(beam_search([model], pad(sources, left=True), config), sources, strict=True):
        assert len(hypotheses) == beam
        for hypothesis in hypotheses:
            assert hypothesis.ids.index(EOS) == len(hypothesis.ids) - 1
            expected = teacher_forced(model, source, hypothesis.ids) / len(hypothesis.ids) ** lenpen
            assert hypothesis.score == pytest.approx(expected, abs=1e-9)
        scores = [hypothesis.score for hypothesis in hypotheses]
        assert scores == sorted(scores, reverse=True)


def test_nbest_are_the_best() -> None:
    """Fault: n-best is a prefix of the order of finishing, not of the order of scores, or changes the search."""
    model = search_model(2, eos=1.0)
    source = torch.tensor(random_sentences(1, [6], SEARCH_VOCABULARY))
    whole = beam_search([model], source, SearchConfig(beam=6, nbest=6, max_length=8))[0]
    for nbest in (1, 2, 4):
        part = beam_search([model], source, SearchConfig(beam=6, nbest=nbest, max_length=8))[0]
        assert [hypothesis.ids for hypothesis in part[:nbest]] == [hypothesis.ids for hypothesis in whole[:nbest]]


def test_unknown_penalty_stays_in_the_score() -> None:
    """Fault: the penalty is used to rank but taken out of the score, or is applied once instead of at every <unk>."""
    model = search_model(0)
    with torch.no_grad():
        model.get_parameter("decoder.output.bias")[UNK] += 30
    (source,) = random_sentences(1, [4], SEARCH_VOCABULARY)
    ((found,),) = beam_search(
        [model], torch.tensor([source]), SearchConfig(beam=1, unkpen=0.25, min_length=3, max_length=3)
    )
    assert found.ids == [UNK, UNK, UNK, EOS]
    assert found.score == pytest.approx((teacher_forced(model, source, found.ids) - 3 * 0.25) / 4, abs=1e-9)


def test_position_table_ends_the_search() -> None:
    """Fault: a search that never meets </s> runs over the end of the position table."""
    model = search_model(1, eos=-30.0, max_positions=9)
    source = torch.tensor(random_sentences(1, [7], SEARCH_VOCABULARY))
    for hypothesis in beam_search([model], source, SearchConfig(beam=3, nbest=3, max_length=500))[0]:
        assert len(hypothesis.ids) == model.max_target_length == 7
        assert hypothesis.ids[-1] == EOS


def test_finished_sentences_leave() -> None:
    """Fault: sentences that are done are computed to the end of the longest."""
    model = search_model(5, eos=1.0)
    step, sizes = model.raw_step, []

    def recorded(tokens: Tensor, state: Any) -> Any:
        sizes.append(tokens.shape[0])
        return step(tokens, state)

    model.raw_step = recorded  # type: ignore[method-assign]
    sources = random_sentences(3, [1 + 7 * i % 17 for i in range(16)], SEARCH_VOCABULARY)
    found = beam_search([model], pad(sources, left=True), SearchConfig(beam=2, nbest=2, max_length=30))
    needed = [max(len(hypothesis.ids) for hypothesis in hypotheses) for hypotheses in found]
    assert len(set(needed)) > 2
    assert sizes == [sum(length > step for length in needed) for step in range(max(needed))]
