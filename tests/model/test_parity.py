"""Outputs, attention, loss and gradients against the original's numbers, and against a slow model of our own."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from helpers import (
    PAD,
    FixedMask,
    build,
    golden_arrays,
    golden_config,
    golden_json,
    golden_parameters,
    gradients,
    load_parameters,
    ours,
    pad,
    random_sentences,
    replace_module,
    shift,
    small_config,
)
from reference_model import ReferenceModel
from torch import Tensor, nn
from torch.testing import assert_close

from convs2s.config import AttentionOrder, EncoderGradient, ModelConfig, SourcePadding
from convs2s.model import ConvS2S
from convs2s.training.nag import clip_gradients

FILES = ["fconv_tiny", "fconv_tiny_drop", "fconv_tiny_bfactor"]
TIGHT = {"rtol": 0.0, "atol": 1e-10}


def masks(arrays: dict[str, Tensor], sentences: int, steps: int) -> dict[str, Tensor]:
    """The dropout masks of a golden file by our places, (B, T, C) each."""
    found = {
        "encoder.dropout": arrays["dropout.encoder.embed"],
        "decoder.dropout": arrays["dropout.decoder.embed"],
        "decoder.dropout_output": arrays["dropout.decoder.out"].reshape(sentences, steps, -1),
    }
    for key, mask in arrays.items():
        side, _, number = key.removeprefix("dropout.").partition(".conv_in.")
        if key.startswith("dropout.") and number:  # the encoder's are T x B x C
            found[f"{side}.layers.{int(number) - 1}.dropout"] = mask.transpose(0, 1) if side == "encoder" else mask
    return found


class Golden:
    """A golden file: its numbers, its batch in our ids and the model with its parameters."""

    def __init__(self, name: str) -> None:
        self.arrays = golden_arrays(name)
        self.config = golden_config(golden_json(name)["config"])
        self.parameters = golden_parameters(self.arrays)
        self.source, self.target_input, self.target = (
            ours(self.arrays[f"batch.{key}_TxB"]).T.contiguous() for key in ("source", "input", "target")
        )
        self.masks = masks(self.arrays, *self.target.shape) if name == "fconv_tiny_drop" else {}
        vocabularies = [len(self.parameters[f"{side}.embed_tokens.weight"]) for side in ("encoder", "decoder")]
        self.model = ConvS2S(self.config, *vocabularies).double()
        load_parameters(self.model, self.parameters)

    def training_model(self) -> ConvS2S:
        """In training mode, with the file's masks in the place of dropout."""
        for place, mask in self.masks.items():
            replace_module(self.model, place, FixedMask(mask))
        return self.model.train()


@pytest.fixture(params=FILES)
def golden(request: pytest.FixtureRequest) -> Golden:
    return Golden(request.param)


def test_reference_reproduces_the_original(golden: Golden) -> None:
    """Fault: the slow model, which judges the fast one elsewhere, is itself not the original's."""
    reference = ReferenceModel(golden.parameters, golden.config)
    total = torch.zeros((), dtype=torch.float64)
    for b in range(len(golden.source)):
        reference.masks = {place: mask[b] for place, mask in golden.masks.items()}
        source, target_input = golden.source[b].tolist(), golden.target_input[b].tolist()
        keys, values = reference.encode(source)
        decoding = reference.decode(keys, values, target_input)
        assert_close(keys, golden.arrays["out.encoder_A"][b], **TIGHT)
        assert_close(values, golden.arrays["out.encoder_C"][b], **TIGHT)
        assert_close(decoding.hidden, golden.arrays["out.decoder_lm"][b], **TIGHT)
        for i, (attention, block) in enumerate(zip(decoding.attention, decoding.blocks, strict=True), start=1):
            assert_close(attention, golden.arrays[f"out.attn_scores.{i}"][b], **TIGHT)
            assert_close(block, golden.arrays[f"out.decoder_convblock.{i}"][b], **TIGHT)
        total = total + reference.loss(source, target_input, golden.target[b].tolist())
    assert_close(total, golden.arrays["out.loss_sum"][0], **TIGHT)
    expected = golden_parameters(golden.arrays, "grad.")
    for name, gradient in reference.gradients(total).items():
        assert_close(gradient, expected[name], **TIGHT, msg=name)


def test_encoder_output(golden: Golden) -> None:
    """Fault: keys or values differ: positions of left-padded sources, residuals, scalings, weight normalisation."""
    encoded = golden.training_model().encode(golden.source)
    assert_close(encoded.keys, golden.arrays["out.encoder_A"], **TIGHT)
    assert_close(encoded.values, golden.arrays["out.encoder_C"], **TIGHT)


def test_decoder_output(golden: Golden) -> None:
    """Fault: a layer's GLU output or attention differs: causal cut, query, softmax over padding, sqrt(S), order."""
    model = golden.training_model()
    decoded = model.decode(model.encode(golden.source), golden.target_input)
    layers = len(golden.config.decoder.layers)
    assert len(decoded.attention) == len(decoded.blocks) == layers
    for i in range(layers):
        assert_close(decoded.blocks[i], golden.arrays[f"out.decoder_convblock.{i + 1}"], **TIGHT)
        assert_close(decoded.attention[i], golden.arrays[f"out.attn_scores.{i + 1}"], **TIGHT)
    assert_close(decoded.hidden, golden.arrays["out.decoder_lm"], **TIGHT)


def test_logits_and_loss(golden: Golden) -> None:
    """Fault: the output layers differ, the softmax is wrong, or padding enters the loss (or the loss is averaged)."""
    model = golden.training_model()
    shape = (*golden.target.shape, -1)
    assert_close(model.logits(golden.source, golden.target_input), golden.arrays["out.logits"].reshape(shape), **TIGHT)
    assert_close(model(golden.source, golden.target_input), golden.arrays["out.logprobs"].reshape(shape), **TIGHT)
    loss = model.loss(golden.source, golden.target_input, golden.target)
    assert_close(loss, golden.arrays["out.loss_sum"][0], **TIGHT)
    assert int((golden.target != PAD).sum()) == int(golden.arrays["out.ntokens"])


def test_logits_without_dropout(golden: Golden) -> None:
    """Fault: evaluation mode still drops, or rescales."""
    logits = golden.model.eval().logits(golden.source, golden.target_input)
    assert_close(logits, golden.arrays["out.logits_eval"].reshape(logits.shape), **TIGHT)


def test_gradients(golden: Golden) -> None:
    """Fault: any parameter's gradient differs: encoder factor, eps in the norm's gradient, pad rows, dropout places."""
    model = golden.training_model()
    model.loss(golden.source, golden.target_input, golden.target).backward()
    expected, found = golden_parameters(golden.arrays, "grad."), gradients(model)
    assert set(found) == set(expected)
    for name, gradient in found.items():
        assert_close(gradient, expected[name], **TIGHT, msg=name)
    for side in ("encoder", "decoder"):
        for table in ("embed_tokens", "embed_positions"):
            assert not found[f"{side}.{table}.weight"][PAD].any()
    norm = clip_gradients(model.parameters(), 1e9)
    assert_close(torch.as_tensor(norm, dtype=torch.float64), golden.arrays["out.gradnorm_raw"][0], rtol=0.0, atol=1e-9)


def test_dropout_places() -> None:
    """Fault: a dropout too many or too few (on a residual, on an attention), or with another place's probability."""
    golden = Golden("fconv_tiny_drop")
    places = {name: module for name, module in golden.model.named_modules() if isinstance(module, nn.Dropout)}
    assert set(places) == set(golden.masks)

    golden.model.train()
    settings = golden_json("fconv_tiny_drop")["config"]
    for name, module in places.items():
        kind = {
            "encoder.dropout": "src",
            "decoder.dropout": "tgt",
            "decoder.dropout_output": "out",
        }.get(name, "hid")
        keep = 1 - settings[f"dropout_{kind}"]
        out = module(torch.ones(20, 50, 20, dtype=torch.float64))
        assert out.unique().tolist() == pytest.approx([0.0, 1 / keep]), name
        assert float((out > 0).double().mean()) == pytest.approx(keep, abs=0.02), name


@pytest.mark.parametrize("eps", [1e-4, 0.0])
def test_effective_weights(eps: float) -> None:
    """Fault: the norm runs over the wrong axis, or eps is outside the root or fixed."""
    config = small_config([(6, 3), (4, 1)], [(5, 2)], weight_norm_eps=eps)
    model = build(config)
    reference = ReferenceModel(dict(model.named_parameters()), config)
    names = [name.removesuffix(".v") for name in reference.parameters if name.endswith(".v")]
    assert len(names) == 5 + 6  # encoder: in, 2 layers, residual, out; decoder: in, layer, attention 2, out 2
    for name in names:
        layer: Any = model.get_submodule(name)
        assert_close(layer.weight(), reference.weight(name), **TIGHT, msg=name)


# --- configurations without golden numbers, judged by the slow model ------------------------------------------------


CASES: dict[str, ModelConfig] = {
    **{f"kernel {k}": small_config([(6, k), (4, k)], [(5, k), (5, k)]) for k in range(1, 8)},
    "mixed widths": small_config([(4, 1), (4, 6), (7, 3)], [(3, 5), (8, 2), (8, 7)]),
    "first layer only": small_config([(6, 3)], [(5, 3), (6, 3), (5, 1)], attention=[1]),
    "layers 1 and 3": small_config([(6, 3)], [(5, 3), (6, 3), (5, 1)], attention=[1, 3]),
    "last layer only": small_config([(6, 3)], [(5, 3), (6, 3), (5, 1)], attention=[3]),
    "bottleneck": small_config([(4, 3), (8, 2)], [(6, 3), (4, 2)], bottleneck=2, embedding=4),
    "paper attention": small_config(
        [(6, 3)], [(5, 3), (6, 3), (5, 1)], attention=[1, 2], attention_order=AttentionOrder.paper
    ),
    "paper": small_config(
        [(6, 3), (6, 3)],
        [(6, 3), (6, 3)],
        attention_order=AttentionOrder.paper,
        encoder_gradient=EncoderGradient.paper,
        weight_norm_eps=0.0,
    ),
    "unscaled": small_config([(6, 3), (7, 5)], [(6, 3), (6, 3)], encoder_gradient=EncoderGradient.unscaled),
    "no positions": small_config(
        [(6, 3)], [(6, 3), (6, 3)], encoder_positions=False, decoder_positions=False, weight_norm_eps=0.0
    ),
    "no source positions": small_config([(6, 4)], [(6, 3)], encoder_positions=False),
}


@pytest.mark.parametrize("padding", [SourcePadding.masked, SourcePadding.original])
@pytest.mark.parametrize("case", CASES)
def test_other_configurations(case: str, padding: SourcePadding) -> None:
    """Fault: an option is ignored or half done; with masked padding, a padded place touches a real one."""
    config = ModelConfig(**{**vars(CASES[case]), "source_padding": padding})
    model = build(config, seed=7).train()
    sources = random_sentences(1, [6, 2, 4], 13)
    targets = random_sentences(2, [3, 5, 1], 11)
    inputs = shift(targets)
    left = pad(sources, left=True)
    batch = (left, pad(inputs, left=False), pad(targets, left=False))

    encoded = model.encode(left)
    decoded = model.decode(encoded, batch[1])
    logits = model.logits(left, batch[1])
    loss = model.loss(*batch)
    loss.backward()

    reference = ReferenceModel(dict(model.named_parameters()), config)
    total = torch.zeros((), dtype=torch.float64)
    for b, source in enumerate(sources):
        seen = left[b].tolist() if padding == SourcePadding.original else source
        steps, places = len(inputs[b]), len(seen)
        keys, values = reference.encode(seen)
        expected = reference.decode(keys, values, inputs[b])
        assert_close(encoded.keys[b, -places:], keys, **TIGHT)
        assert_close(encoded.values[b, -places:], values, **TIGHT)
        for found, wanted in zip(decoded.attention, expected.attention, strict=True):
            assert_close(found[b, :steps, -places:], wanted, **TIGHT)
        for found, wanted in zip(decoded.blocks, expected.blocks, strict=True):
            assert_close(found[b, :steps], wanted, **TIGHT)
        assert_close(logits[b, :steps], expected.logits, **TIGHT)
        total = total + reference.loss(seen, inputs[b], targets[b])
    assert_close(loss, total, **TIGHT)
    expected_gradients, found_gradients = reference.gradients(total), gradients(model)
    assert set(found_gradients) == set(expected_gradients)
    for name, gradient in found_gradients.items():
        assert_close(gradient, expected_gradients[name], **TIGHT, msg=name)
