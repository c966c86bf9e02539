"""Vocabulary selection against the original's numbers: the selected lists, and a model whose output is a table."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers import (
    golden_arrays,
    golden_config,
    golden_json,
    golden_parameters,
    gradients,
    load_parameters,
    ours,
    write_lexicon,
)
from torch.testing import assert_close

from convs2s.config import ModelConfig, OptimizerConfig, SelectionConfig, TrainingConfig
from convs2s.data.batching import Batch
from convs2s.errors import UserError
from convs2s.model import ConvS2S
from convs2s.search.selection import BatchSelector, batch_selector, select
from convs2s.text.tokenizer import Tokenizers
from convs2s.text.vocabulary import UNK
from convs2s.text.whitespace_tokenizer import WhitespaceTokenizer
from convs2s.training.distributed import World
from convs2s.training.update import Updater

GOLDEN: dict[str, Any] = golden_json("vocabulary_selection")
ALIGNED = {entry["src"] - 1: [(word - 1, count) for word, count in entry["tgt_freq"]] for entry in GOLDEN["candidates"]}
CPU = torch.device("cpu")
TIGHT = {"rtol": 0.0, "atol": 1e-10}


def test_there_are_18_lists() -> None:
    """Fault: the golden file lost its cases, so that nothing is compared."""
    assert len(GOLDEN["cases"]) == 18


@pytest.mark.parametrize("case", GOLDEN["cases"], ids=lambda case: f"{case['nmostcommon']}-{case['topnalign']}")
def test_the_original_selection(case: dict[str, Any]) -> None:
    """Fault: another order, a word twice, a threshold off by one, a cap ignored, or the batch's words left out."""
    options = SelectionConfig(
        common=case["nmostcommon"], aligned=case["topnalign"], min_frequency=case["freqthreshold"]
    )
    source, target = ours(case["source"]), ours(case["target"])
    words = target.flatten().tolist() if case["set"] == "train" else []
    chosen = select(source.flatten().tolist(), ALIGNED, options, words)
    assert [word + 1 for word in chosen] == case["target_vocab"]
    vocabulary = 1 + max(chosen)
    selector = BatchSelector(ALIGNED, options, vocabulary)
    remapped, ids = selector(source.T, target.T, training=case["set"] == "train")
    assert ids.tolist() == chosen
    assert (remapped.T + 1).tolist() == case["target_remapped"]


def test_a_word_that_was_not_selected_is_unknown() -> None:
    """Fault: outside training a missing word shifts to a neighbour, or leaks in from the target."""
    options = SelectionConfig(common=4, aligned=0)
    remapped, ids = BatchSelector({}, options, 9)(torch.tensor([[5, 2]]), torch.tensor([[3, 8, 2]]), training=False)
    assert ids.tolist() == [0, 1, 2, 3]
    assert remapped.tolist() == [[3, UNK, 2]]


@pytest.fixture
def model() -> ConvS2S:
    parameters = golden_parameters(golden_arrays("fconv_tiny_vocsel"))
    settings = golden_json("fconv_tiny_vocsel")["config"]
    config = replace(golden_config(settings), lookup_output=True)
    made = ConvS2S(config, settings["src_vocab"], settings["tgt_vocab"]).double()
    load_parameters(made, {name.replace("out_lookup", "output"): tensor for name, tensor in parameters.items()})
    return made


def batch(arrays: dict[str, torch.Tensor]) -> tuple[torch.Tensor, ...]:
    keys = ("source", "input", "target_remapped")
    return tuple(ours(arrays[f"batch.{key}_TxB"]).T.contiguous() for key in keys)


def test_loss_and_gradients(model: ConvS2S) -> None:
    """Fault: the table is normalised, its bias is another column, or words that were not selected get gradients."""
    arrays = golden_arrays("fconv_tiny_vocsel")
    vocabulary = ours(arrays["batch.targetVocab"])
    source, target_input, target = batch(arrays)
    loss = model.train().loss(source, target_input, target, vocabulary)
    assert_close(loss, arrays["out.loss_sum"][0], **TIGHT)
    loss.backward()
    expected = golden_parameters(arrays, "grad.")
    found = gradients(model)
    assert found.keys() == {name.replace("out_lookup", "output") for name in expected}
    for name, gradient in expected.items():
        assert_close(found[name.replace("out_lookup", "output")], gradient, **TIGHT, msg=name)
    norm = torch.stack([gradient.norm() for gradient in found.values()]).norm()
    assert_close(norm, arrays["out.gradnorm_raw"][0], **TIGHT)


def test_outputs(model: ConvS2S) -> None:
    """Fault: logits of other words than the selected, or an encoder or decoder that differs with this option."""
    arrays = golden_arrays("fconv_tiny_vocsel")
    vocabulary = ours(arrays["batch.targetVocab"])
    source, target_input, _ = batch(arrays)
    encoded = model.train().encode(source)
    assert_close(encoded.keys, arrays["out.encoder_A"], **TIGHT)
    assert_close(encoded.values, arrays["out.encoder_C"], **TIGHT)
    decoded = model.decode(encoded, target_input)
    assert_close(decoded.hidden, arrays["out.decoder_lm"], **TIGHT)
    for number, (attention, block) in enumerate(zip(decoded.attention, decoded.blocks, strict=True), 1):
        assert_close(attention, arrays[f"out.attn_scores.{number}"], **TIGHT)
        assert_close(block, arrays[f"out.decoder_convblock.{number}"], **TIGHT)
    logits = model.decoder.logits(decoded.hidden)[..., vocabulary].flatten(0, 1)
    assert_close(logits, arrays["out.logits"], **TIGHT)
    assert_close(logits.log_softmax(-1), arrays["out.logprobs"], **TIGHT)


def test_steps_score_the_selected_words(model: ConvS2S) -> None:
    """Fault: word by word, the n-th score belongs to another word than the n-th that was selected."""
    arrays = golden_arrays("fconv_tiny_vocsel")
    vocabulary = ours(arrays["batch.targetVocab"])
    source, target_input, _ = batch(arrays)
    model.eval()
    state = model.start(model.encode(source), 1, vocabulary)
    logprobs = arrays["out.logprobs"].reshape(*target_input.shape, -1)
    for step in range(3):
        scores, _ = model.step(target_input[:, step : step + 1], state)
        assert_close(scores[:, 0], logprobs[:, step], **TIGHT)


def test_initialisation() -> None:
    """Fault: rows drawn with another deviation than 0.1, or the bias column left at zero."""
    weight = ConvS2S(ModelConfig(lookup_output=True), 10, 2000).get_parameter("decoder.output.weight").detach()
    assert weight.shape == (2000, 257)
    assert float(weight.std()) == pytest.approx(0.1, rel=0.01)
    assert float(weight[:, -1].std()) == pytest.approx(0.1, rel=0.1)


def test_two_kinds_of_output_are_refused() -> None:
    """Fault: one of two contradicting options silently wins."""
    with pytest.raises(UserError, match="share_output"):
        ConvS2S(ModelConfig(lookup_output=True, share_output=True), 9, 9)


def test_training_uses_the_selection(model: ConvS2S, tmp_path: Path) -> None:
    """Fault: the option does not reach the updates, validation sees the target's words, or the lexicon is read by
    other symbols than the model's."""
    words = Tokenizers(WhitespaceTokenizer(["a", "b"]), WhitespaceTokenizer(["x", "y", "z"]))
    path = tmp_path / "lexicon.tsv"
    write_lexicon(path, {"b": [("z", 4), ("x", 1)], "unheard": [("y", 9)]})
    options = SelectionConfig(lexicon=str(path), common=3, aligned=1)
    assert batch_selector(SelectionConfig(), words) is None
    training = TrainingConfig()
    sgd, selector = torch.optim.SGD(model.parameters()), batch_selector(options, words)
    updater = Updater(model, sgd, training, OptimizerConfig(), 1, World(0, 1, CPU), selector)
    source, target = torch.tensor([[4, 2]]), torch.tensor([[3, 2]])
    batch = Batch(np.array([0]), source, torch.tensor([[2, 3]]), target, 2)
    _, target_input, chosen, vocabulary = updater.arguments(batch, training=True)
    assert target_input.tolist() == [[2, 3]]
    assert vocabulary.tolist() == [0, 1, 2, 3, 5]
    assert chosen.tolist() == [[3, 2]]
    _, _, chosen, vocabulary = updater.arguments(batch, training=False)
    assert vocabulary.tolist() == [0, 1, 2, 5]
    assert chosen.tolist() == [[UNK, 2]]
    before = model.get_parameter("decoder.output.weight").detach().clone()
    updater([batch], 0)
    changed = (model.get_parameter("decoder.output.weight") != before).any(1).nonzero().squeeze(1)
    assert changed.tolist() == [0, 1, 2, 3, 5]
