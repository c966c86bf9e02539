"""The original's own searches with a trained toy model, hypothesis by hypothesis.

The attention is compared as the original stores it, its fault included (see reference_search.py).
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from helpers import golden_arrays, golden_config, golden_json, golden_parameters, load_parameters, ours, pad
from torch.testing import assert_close

from convs2s.config import SearchConfig, SourcePadding
from convs2s.model import ConvS2S
from convs2s.search.beam import beam_search
from convs2s.search.trace import Hypothesis

SEARCH: dict[str, Any] = golden_json("search")
RUNS: dict[str, Any] = {run["name"]: run for run in SEARCH["runs"]}
SOURCES: list[list[int]] = [ours(source).tolist() for source in SEARCH["sources"]]


@pytest.fixture(scope="module", params=["float32", "float32 folded", "float64"])
def model(request: pytest.FixtureRequest) -> ConvS2S:
    """toy_a, with masked padding: a sentence in a batch is the same as alone."""
    dtype = torch.float64 if request.param == "float64" else torch.float32
    settings = golden_json("toy_a")
    parameters = golden_parameters(golden_arrays("toy_a"))
    toy = ConvS2S(
        golden_config(settings["config"], SourcePadding.masked),
        len(settings["src_symbols"]),
        len(settings["tgt_symbols"]),
    )
    load_parameters(toy.to(dtype), parameters)
    toy.eval()
    if "folded" in request.param:
        toy.fold()
    return toy


def config(run: str) -> SearchConfig:
    names = {"beam": "beam", "lenpen": "lenpen", "unkpen": "unkpen", "minlen": "min_length", "maxlen": "max_length"}
    given = RUNS[run]["options"]
    assert set(given) <= {*names, "greedy", "fast", "attn"}
    return SearchConfig(nbest=given["beam"], **{names[name]: given[name] for name in names if name in given})


def check(found: list[Hypothesis], golden: list[dict[str, Any]], source: list[int]) -> None:
    assert len(found) == len(golden)
    for hypothesis, wanted in zip(found, golden, strict=True):
        assert [token + 1 for token in hypothesis.ids] == wanted["ids"]
        scores = torch.tensor([hypothesis.score, wanted["score"]], dtype=torch.float64)
        assert_close(scores[0], scores[1], rtol=0.0, atol=1e-5)
        attention = hypothesis.original_attention
        assert attention is not None
        assert attention.shape == (len(hypothesis.ids), len(source))
        assert (attention.argmax(1) + 1).tolist() == wanted["attn_argmax"]
        if "attn" in wanted:
            printed = torch.tensor(wanted["attn"], dtype=torch.float64)
            assert_close(attention.double(), printed, rtol=0, atol=1e-5)


def test_every_search_is_there() -> None:
    """Fault: the golden file lost a search, so that an option is not compared."""
    assert set(RUNS) == {
        *("beam1", "greedy", "beam5", "beam5_fconvfast"),
        *("beam5_lenpen0.5", "beam5_unkpen1", "beam5_minlen6", "beam5_maxlen2"),
    }
    assert all([result["source_index"] for result in run["results"]] == list(range(8)) for run in RUNS.values())


@pytest.mark.parametrize("run", RUNS)
def test_each_source_alone(run: str, model: ConvS2S) -> None:
    """Fault: any difference in candidates, finalising, stopping, scores, penalties, limits or back-pointers."""
    for result in RUNS[run]["results"]:
        source = SOURCES[result["source_index"]]
        (found,) = beam_search([model], torch.tensor([source]), config(run), attention=True)
        check(found, result["hypos"], source)


@pytest.mark.parametrize("left", [True, False], ids=["left", "right"])
@pytest.mark.parametrize("run", RUNS)
def test_all_sources_in_a_batch(run: str, left: bool, model: ConvS2S) -> None:
    """Fault: sentences get mixed when rows are reordered or finished ones leave; attention counts padding."""
    found = beam_search([model], pad(SOURCES, left), config(run), attention=True)
    assert len(found) == len(SOURCES)
    for result in RUNS[run]["results"]:
        index = result["source_index"]
        check(found[index], result["hypos"], SOURCES[index])
