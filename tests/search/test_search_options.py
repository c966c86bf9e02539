"""Each search option against the slow search, or against what it promises; each fails when the option is ignored."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import helpers
import pytest
import torch
from helpers import EOS, SEARCH_VOCABULARY, UNK, pad, random_sentences
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_search import slow_search
from torch import Tensor

from convs2s.config import Average, SearchConfig, SearchPrecision, SelectionConfig, Stop
from convs2s.errors import UserError
from convs2s.model import ConvS2S
from convs2s.model.incremental import GROUP
from convs2s.search.beam import beam_search
from convs2s.search.candidates import candidates
from convs2s.search.selection import Selection, select, select_batch
from convs2s.search.trace import Hypothesis

TARGET_VOCABULARY = 11
CONTINUED = [token > EOS and token % 3 == 0 for token in range(TARGET_VOCABULARY)]
SEEDS = st.integers(0, 10**6)
search_model = partial(helpers.search_model, target=TARGET_VOCABULARY, eos=1.0)


def sentences(seed: int, lengths: list[int]) -> list[list[int]]:
    return random_sentences(seed, lengths, SEARCH_VOCABULARY)


def search(models: Any, sources: list[list[int]], config: SearchConfig, **options: Any) -> list[list[Hypothesis]]:
    return beam_search(models, pad(sources, left=False), config, **options)


def compare(models: list[ConvS2S], sources: list[list[int]], config: SearchConfig) -> None:
    found = search(models, sources, config, continuations=torch.tensor(CONTINUED))
    for hypotheses, source in zip(found, sources, strict=True):
        expected = slow_search(models, source, config, CONTINUED)[: config.nbest]
        assert [hypothesis.ids for hypothesis in hypotheses] == [wanted.ids for wanted in expected]
        scores = [hypothesis.score for hypothesis in hypotheses]
        assert scores == pytest.approx([wanted.score for wanted in expected], rel=1e-9, abs=1e-9)


def changes(config: SearchConfig, other: SearchConfig, **options: Any) -> int:
    """For how many of 10 models the two searches find something else."""
    count = 0
    for seed in range(10):
        model, sources = search_model(seed), sentences(seed, [5])
        first, second = (
            [(h.ids, round(h.score, 9)) for h in search(model, sources, c, **options)[0]] for c in (config, other)
        )
        count += first != second
    return count


# --- against the slow search ------------------------------------------------------------------------------------------


@given(SEEDS, st.sampled_from([0.7, -0.4]), st.sampled_from([0.0, 0.5]))
@settings(max_examples=15)
def test_subword_penalty(seed: int, subwordpen: float, unkpen: float) -> None:
    """Fault: pieces that go on in the next are not penalised, or once only, or <unk>'s own penalty is lost."""
    config = SearchConfig(beam=3, nbest=3, max_length=6, subwordpen=subwordpen, unkpen=unkpen)
    compare([search_model(seed)], sentences(seed, [4, 6, 2]), config)


def test_subword_penalty_counts() -> None:
    """Fault: the option is ignored."""
    config = SearchConfig(beam=3, nbest=3, max_length=6)
    assert changes(config, replace(config, subwordpen=2.0), continuations=torch.tensor(CONTINUED)) > 5


@given(SEEDS, st.sampled_from([0.5, 1.0, 1.4]), st.integers(0, 2), st.integers(0, 4))
@settings(max_examples=15)
def test_maximum_length_relative_to_the_source(seed: int, ratio: float, offset: int, min_length: int) -> None:
    """Fault: the longest sentence's limit holds for its batch, </s> is not counted, or the minimum goes before it."""
    if not offset and ratio < 1:
        offset = 1
    config = SearchConfig(beam=3, nbest=2, min_length=min_length, max_length=offset, max_length_ratio=ratio)
    models, sources = [search_model(seed, eos=-1.0)], sentences(seed, [3, 7, 5, 2])
    found = search(models, sources, config)
    for hypotheses, source in zip(found, sources, strict=True):
        limit = int(ratio * len(source)) + offset
        assert all(len(hypothesis.ids) <= limit + 1 for hypothesis in hypotheses)
        alone = slow_search(models, source, replace(config, min_length=min(min_length, limit)))
        assert [hypothesis.ids for hypothesis in hypotheses] == [wanted.ids for wanted in alone[:2]]


@given(SEEDS, st.sampled_from([0.0, 0.6, 1.0]), st.integers(1, 3))
@settings(max_examples=20)
def test_optimal_stop(seed: int, lenpen: float, nbest: int) -> None:
    """Fault: the search ends while something that goes on could still enter the n-best list."""
    config = SearchConfig(beam=3, nbest=nbest, max_length=7, lenpen=lenpen, stop=Stop.optimal)
    compare([search_model(seed, eos=0.5)], sentences(seed, [4, 6, 2]), config)


def test_optimal_stop_ends_sooner_or_finds_better() -> None:
    """Fault: the option is ignored."""
    steps: dict[Stop, int] = {}
    for stop in Stop:
        model = search_model(3, eos=3.0)
        raw_step = model.raw_step

        def counted(tokens: Tensor, state: Any, stop: Stop = stop, raw_step: Any = raw_step) -> Any:
            steps[stop] = steps.get(stop, 0) + 1
            return raw_step(tokens, state)

        model.raw_step = counted  # type: ignore[method-assign]
        search(model, sentences(1, [5]), SearchConfig(beam=5, lenpen=0.0, max_length=20, stop=stop))
    assert steps[Stop.optimal] < steps[Stop.original]
    config = SearchConfig(beam=1, lenpen=2.0, max_length=8)
    assert changes(config, replace(config, stop=Stop.optimal)) > 0


@given(SEEDS)
@settings(max_examples=10)
def test_ensemble_of_log_probabilities(seed: int) -> None:
    """Fault: the option is ignored, or the mean is not a distribution again."""
    models = [search_model(seed), search_model(seed + 1, layers={"decoder": [(5, 3)]}), search_model(seed + 2)]
    config = SearchConfig(beam=3, nbest=3, max_length=6, average=Average.log_probabilities)
    compare(models, sentences(seed, [4, 6]), config)


def test_the_two_averages_differ() -> None:
    """Fault: both options average the same."""
    models, sources = [search_model(1), search_model(2)], sentences(1, [5])
    scores = [search(models, sources, SearchConfig(beam=2, average=average))[0][0].score for average in Average]
    assert scores[0] != pytest.approx(scores[1], abs=1e-6)


def test_an_ensemble_of_one_model_twice_is_that_model() -> None:
    """Fault: an ensemble's scores are those of a sum, not of a mean."""
    model, sources = search_model(4), sentences(2, [5, 3])
    for average in Average:
        config = SearchConfig(beam=3, nbest=3, average=average)
        for one, two in zip(search(model, sources, config), search([model, model], sources, config), strict=True):
            assert [h.ids for h in one] == [h.ids for h in two]
            assert [h.score for h in one] == pytest.approx([h.score for h in two])


def test_different_vocabularies_are_refused() -> None:
    """Fault: probabilities of different words are averaged."""
    with pytest.raises(UserError, match="target vocabulary"):
        search([search_model(1), search_model(1, target=12)], sentences(1, [3]), SearchConfig())


# --- vocabulary selection ---------------------------------------------------------------------------------------------

ALIGNED = {word: [(3 + (word + shift) % 8, 5 - shift) for shift in range(5)] for word in range(3, SEARCH_VOCABULARY)}


class Restricted(torch.nn.Module):
    """A model whose other words have no probability, however it is asked."""

    def __init__(self, model: ConvS2S, words: list[int]) -> None:
        super().__init__()
        self.model, self.words = model, words

    def __call__(self, source: Tensor, target_input: Tensor) -> Tensor:
        logits = self.model.logits(source, target_input)
        mask = torch.full((logits.shape[-1],), -torch.inf, dtype=logits.dtype)
        mask[self.words] = 0.0
        return (logits + mask).log_softmax(-1)

    def __getattr__(self, name: str) -> Any:
        return super().__getattr__(name) if name in ("_modules", "model") else getattr(self.model, name)


@given(SEEDS, st.integers(3, 5), st.integers(0, 3))
@settings(max_examples=10)
def test_selection_is_each_sentence_s_own(seed: int, common: int, aligned: int) -> None:
    """Fault: words of the batch's other sentences compete, tokens are places instead of ids, or the softmax is over
    the whole vocabulary."""
    model, sources = search_model(seed, eos=0.0), sentences(seed, [4, 6, 2])
    options = SelectionConfig(common=common, aligned=aligned)
    config = SearchConfig(beam=2, nbest=2, max_length=5, min_length=0)
    found = search(model, sources, config, selection=select_batch(sources, ALIGNED, options, TARGET_VOCABULARY))
    for hypotheses, source in zip(found, sources, strict=True):
        words = select(source, ALIGNED, options)
        restricted: Any = Restricted(model, words)
        expected = slow_search([restricted], source, config)
        assert {token for hypothesis in hypotheses for token in hypothesis.ids} <= set(words)
        possible = [wanted for wanted in expected if wanted.score > -1e9][: len(hypotheses)]
        assert [hypothesis.ids for hypothesis in hypotheses] == [wanted.ids for wanted in possible]
        scores = [hypothesis.score for hypothesis in hypotheses]
        assert scores == pytest.approx([wanted.score for wanted in possible], abs=1e-9)


def test_selection_with_a_subword_penalty() -> None:
    """Fault: with selected words the penalty falls on others (as in the original)."""
    model, sources = search_model(5), sentences(3, [6])
    selection = Selection(torch.tensor([0, 1, 2, 4, 6, 9]), torch.ones(1, 6, dtype=torch.bool))
    config = SearchConfig(beam=2, nbest=2, max_length=4, subwordpen=50.0)
    for hypothesis in search(model, sources, config, selection=selection, continuations=torch.tensor(CONTINUED))[0]:
        assert not {6, 9} & set(hypothesis.ids)
        assert set(hypothesis.ids) <= {0, 2, 4}


# --- precision and batches --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("precision", [SearchPrecision.bf16, SearchPrecision.int8])
def test_lower_precision_is_close_and_different(precision: SearchPrecision) -> None:
    """Fault: the option is ignored, or the rounded model is another one; scores sum up in half precision."""
    layers = {"encoder": [(32, 3)], "decoder": [(32, 3), (32, 3)]}
    exact, rounded = (search_model(7, embedding=32, output_embedding=32, layers=layers).float() for _ in range(2))
    exact.fold()
    rounded.fold(precision)
    sources = sentences(5, [9, 4, 6])
    config = SearchConfig(beam=1, max_length=8)
    differences = []
    for one, two in zip(search(exact, sources, config), search(rounded, sources, config), strict=True):
        assert isinstance(two[0].score, float)
        assert one[0].ids == two[0].ids
        differences.append(abs(one[0].score - two[0].score))
    assert max(differences) > 1e-6
    assert max(differences) < 0.25


def test_half_precision_scores_are_sums_of_float32() -> None:
    """Fault: bf16 log-probabilities are added up in bf16, where 100.3 and 100.0 are the same."""
    model = search_model(7).float()
    model.fold(SearchPrecision.bf16)
    (found,) = search(model, sentences(5, [9]), SearchConfig(beam=3, nbest=3, max_length=30, min_length=30, lenpen=0.0))
    assert any(torch.tensor(hypothesis.score).bfloat16().item() != hypothesis.score for hypothesis in found)


@given(SEEDS, st.integers(1, 4), st.sampled_from([5, 64, 70, 200]))
@settings(max_examples=25)
def test_candidates_are_the_best_of_all(seed: int, beam: int, vocabulary: int) -> None:
    """Fault: looking at groups of words only loses a candidate, or names another word or row."""
    generator = torch.Generator().manual_seed(seed)
    filled = -(-vocabulary // GROUP) * GROUP
    log_probs = torch.full((2, beam, filled), -torch.inf, dtype=torch.float64)
    log_probs[..., :vocabulary] = torch.randn(2, beam, vocabulary, generator=generator, dtype=torch.float64)
    scores = torch.randn(2, beam, 1, generator=generator, dtype=torch.float64)
    values, index = candidates(scores, log_probs)
    expected = (scores + log_probs).view(2, -1).topk(2 * beam)
    assert torch.equal(values, expected.values)
    real = values > -torch.inf
    assert torch.equal(index[real], expected.indices[real])


def test_unknown_words_and_end_are_special_in_every_group() -> None:
    """Fault: the rows that fill up the output layer's last group are words."""
    model = search_model(3)
    assert -(-TARGET_VOCABULARY // GROUP) * GROUP != TARGET_VOCABULARY
    config = SearchConfig(beam=9, nbest=9, max_length=4)
    (found,) = search(model, sentences(1, [4]), config)
    assert all(UNK <= token < TARGET_VOCABULARY for hypothesis in found for token in hypothesis.ids)
