"""Word-by-word decoding: its caches, its folded weights and its products in other precisions."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from helpers import EOS, PAD, build, pad, random_sentences, small_config
from torch import Tensor
from torch.testing import assert_close

from convs2s.config import SearchConfig, SearchPrecision
from convs2s.model import incremental
from convs2s.model.incremental import GROUP, Windows, fill_group
from convs2s.model.products import Int8Product, PackedProduct, Product
from convs2s.search.beam import beam_search

LAYERS = {"encoder": [(6, 3)], "decoder": [(6, 3), (6, 3), (5, 1), (6, 4)]}


@pytest.mark.parametrize("slack", [1, 2, 5])
def test_windows_are_appended_to_and_start_again(slack: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault: at the end of its buffer a window loses inputs, or a row gets another's after a reordering."""
    monkeypatch.setattr(incremental, "SLACK", slack)
    generator = random.Random(slack)
    rows, layers, kernel = 4, 2, 3
    windows = Windows(rows, layers, kernel, 1, torch.zeros(1))
    histories = [[[0.0, 0.0] for _ in range(rows)] for _ in range(layers)]
    for step in range(1, 20):
        for layer in range(layers):
            x = torch.tensor([[100.0 * step + 10 * layer + row] for row in range(len(histories[layer]))])
            for row, history in enumerate(histories[layer]):
                history.append(float(x[row]))
            window = windows.append(layer, x)
            assert window.tolist() == [history[-kernel:] for history in histories[layer]]
        windows.advance()
        parents = [generator.randrange(len(histories[0])) for _ in histories[0]]
        changed = [row for row, parent in enumerate(parents) if row != parent]
        if changed:
            windows.reorder(torch.tensor(changed), torch.tensor([parents[row] for row in changed]))
        histories = [[list(of_layer[parent]) for parent in parents] for of_layer in histories]
        if step == 11:
            windows.keep(torch.tensor([0, 2]))
            histories = [[of_layer[0], of_layer[2]] for of_layer in histories]


def test_long_searches_do_not_depend_on_the_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault: hypotheses that outlive the buffer go on from wrong inputs; layers of one shape share their inputs."""
    model = build(small_config(**LAYERS, max_positions=60), seed=3)
    model.get_parameter("decoder.output.bias").data[PAD] = -500.0  # whose position a full pass counts differently
    source = pad(random_sentences(2, [5, 9, 3], 13), left=False)
    config = SearchConfig(beam=3, nbest=3, min_length=35, max_length=40)
    found = []
    for slack in (1, 12, 100):
        monkeypatch.setattr(incremental, "SLACK", slack)
        found.append([[(h.ids, h.score) for h in of_sentence] for of_sentence in beam_search(model, source, config)])
    assert found[0] == found[1] == found[2]
    for hypotheses, ids in zip(found[0], source, strict=True):
        sentence = ids[ids != PAD][None]
        for tokens, score in hypotheses:
            log_probs = model(sentence, torch.tensor([[EOS, *tokens[:-1]]]))[0]
            expected = log_probs.gather(1, torch.tensor(tokens)[:, None]).mean()
            assert score == pytest.approx(expected.item(), abs=1e-9)


def test_only_rows_that_change_are_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault: a beam that did not change is copied all the same."""
    model = build(small_config(**LAYERS))
    state = model.start(model.encode(torch.tensor([[4, 5, EOS], [6, 7, EOS]])), 3)
    copied: list[list[int]] = []

    def recorded(self: Windows, target: Tensor, source: Tensor) -> None:
        copied.append(target.tolist())

    monkeypatch.setattr(Windows, "reorder", recorded)
    state.reorder(torch.arange(6))
    assert copied == []
    state.reorder(torch.tensor([0, 1, 1, 3, 4, 5]))
    assert copied == [[2]] * len(state.windows)


def test_keys_and_values_are_kept_once_per_sentence() -> None:
    """Fault: the source's keys and values are copied for every hypothesis."""
    model = build(small_config(**LAYERS))
    state = model.start(model.encode(torch.tensor([[4, 5, EOS], [6, 7, EOS]])), 5)
    assert state.source is not None
    for tensor in (state.source.embedded_keys, *state.source.keys, *state.source.values):
        assert tensor.shape[0] == 2


@pytest.mark.parametrize("option", [{"lookup_output": True}, {"share_output": True, "output_embedding": 6}])
@torch.no_grad()
def test_other_output_layers(option: dict[str, Any]) -> None:
    """Fault: folding forgets a kind of output layer, or its bias."""
    model = build(small_config(**LAYERS, **option), seed=5)
    source, target = torch.tensor([[4, 5, EOS]]), torch.tensor([[EOS, 4, 6]])
    expected = model(source, target)
    for fold in (False, True):
        if fold:
            model.fold()
        state = model.start(model.encode(source), 1)
        for step in range(3):
            log_probs, _ = model.step(target[:, step : step + 1], state)
            assert_close(log_probs[:, 0], expected[:, step], rtol=0.0, atol=1e-10)


# --- products ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [1, 5, 64, 65])
def test_packed_products_are_products(rows: int) -> None:
    """Fault: packed weights give other numbers for some number of rows, or for rows that are not adjacent."""
    generator = torch.Generator().manual_seed(rows)
    weight, bias = torch.randn(70, 24, generator=generator), torch.randn(70, generator=generator)
    strided = torch.randn(rows, 40, generator=generator)[:, 3:27]
    if not PackedProduct.works(weight):
        pytest.skip("this PyTorch has no packed products")
    assert_close(PackedProduct(weight, bias)(strided), F.linear(strided, weight, bias), rtol=1e-5, atol=1e-5)
    assert not PackedProduct.works(weight.double())


def test_8_bit_products_round() -> None:
    """Fault: int8 is fp32 under another name, or one scale for all output units loses the small ones."""
    generator = torch.Generator().manual_seed(1)
    weight = torch.randn(30, 64, generator=generator) * torch.logspace(-3, 2, 30)[:, None]
    bias, x = torch.randn(30, generator=generator), torch.randn(9, 64, generator=generator)
    exact, rounded = Product(weight, bias)(x), Int8Product(weight, bias)(x)
    error = (exact - rounded).abs().amax(0) / exact.sub(bias).abs().amax(0)
    assert 1e-4 < float(error.max()) < 0.05
    filled = Int8Product(*fill_group(weight, bias))(x)
    assert filled.shape[1] == GROUP
    assert_close(filled[:, :30], rounded)
    assert bool((filled[:, 30:] == -torch.inf).all())


@torch.no_grad()
def test_precisions_of_a_model() -> None:
    """Fault: folding to a precision leaves the encoder or the decoder exact, or is not undone by new weights."""
    config = small_config([(16, 3)], [(16, 3)], embedding=16, output_embedding=16)
    source, target = torch.tensor([[4, 5, 6, EOS]]), torch.tensor([[EOS, 4, 6]])
    model = build(config, seed=2).float()
    exact, keys = model(source, target), model.encode(source).keys
    for precision in (SearchPrecision.int8, SearchPrecision.bf16):
        rounded = build(config, seed=2).float()
        rounded.fold(precision)
        assert 1e-6 < float((rounded.encode(source).keys.float() - keys).abs().max()) < 0.2
        assert 1e-6 < float((rounded(source, target).float() - exact).abs().max()) < 0.5
    rounded = build(config, seed=2).float()
    rounded.fold(SearchPrecision.int8)
    rounded.load_state_dict(model.state_dict())
    assert rounded.folded is None
    assert_close(rounded(source, target), exact)
