"""The exported graphs compute what the model computes, for any batch and length, and decode without PyTorch."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
import torch
from helpers import EOS, PAD, pad, random_sentences, randomise, small_config
from torch import Tensor

from convs2s.config import AttentionOrder, SearchConfig, SourcePadding, TrainConfig, to_plain
from convs2s.errors import UserError
from convs2s.model import ConvS2S
from convs2s.search.beam import beam_search

pytest.importorskip("onnx")
pytest.importorskip("onnxscript")
pytest.importorskip("onnxruntime")

from convs2s.interop.onnx_export import write_onnx
from convs2s.interop.onnx_model import OnnxModel

CONFIGS: dict[str, dict[str, Any]] = {
    "plain": {"encoder": [(6, 3), (4, 2)], "decoder": [(6, 3), (4, 1), (6, 2)]},
    # All that differs: no masks, another order of attention, bottlenecks, residuals of other layers, no attention in
    # the first layer, no positions, and the target's embeddings as output weights.
    "other": {
        "encoder": [(6, 3), (6, 3)],
        "decoder": [(6, 3), (6, 2)],
        "attention": [2],
        "attention_order": AttentionOrder.paper,
        "source_padding": SourcePadding.original,
        "bottleneck": 2,
        "share_output": True,
        "output_embedding": 6,
        "decoder_positions": False,
    },
}


@pytest.fixture(scope="module", params=CONFIGS)
def exported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[ConvS2S, OnnxModel]:
    """A model in float32 and its graphs."""
    torch.manual_seed(1)
    options = dict(CONFIGS[request.param])
    config = small_config(options.pop("encoder"), options.pop("decoder"), **options)
    if request.param == "other":
        config.decoder.residuals = [1, 2]
        config.encoder.residuals = [0, 1]
    tokenizers = tiny.tokenizers()
    model = randomise(ConvS2S(config, len(tokenizers.source.symbols), len(tokenizers.target.symbols)), 3).float().eval()
    model.get_parameter("decoder.output.bias").data[:2] = -30.0  # <unk> and <pad> are improbable
    folder = tmp_path_factory.mktemp("onnx")
    checkpoint = {
        "config": to_plain(TrainConfig(experiment="tiny", model=config)),
        "model": model.state_dict(),
        "source_vocabulary": model.source_vocabulary,
        "target_vocabulary": model.target_vocabulary,
        "tokenizers": tokenizers.state(),
    }
    write_onnx(folder, checkpoint)
    return model, OnnxModel(folder)


def sources(model: ConvS2S, seed: int, lengths: list[int]) -> list[list[int]]:
    return random_sentences(seed, lengths, model.source_vocabulary)


def lengths_of(model: ConvS2S, lengths: list[int]) -> list[int]:
    """Equal ones for a model that does not mask padding."""
    return lengths if model.config.source_padding is SourcePadding.masked else [lengths[0]] * len(lengths)


@pytest.mark.parametrize("lengths", [[1], [5], [38], [7, 2, 4], [3] * 9])
@torch.no_grad()
def test_encoder(exported: tuple[ConvS2S, OnnxModel], lengths: list[int]) -> None:
    """Fault: a batch or length other than the traced one, or padding, changes the result."""
    model, onnx = exported
    for left in (False, True):
        source = pad(sources(model, 1, lengths_of(model, lengths)), left=left)
        encoded, found = model.encode(source), onnx.encode(source.numpy())
        real = (source != PAD).numpy()
        np.testing.assert_allclose(found["keys"][real], encoded.keys.numpy()[real], atol=2e-6)
        np.testing.assert_allclose(found["values"][real], encoded.values.numpy()[real], atol=2e-6)
        np.testing.assert_array_equal(found["mask"], real)
        np.testing.assert_array_equal(found["lengths"], encoded.lengths.numpy())


@pytest.mark.parametrize(("lengths", "beam"), [([4], 1), ([1], 3), ([6, 2], 2), ([3, 9, 1, 1, 5], 4)])
@torch.no_grad()
def test_steps(exported: tuple[ConvS2S, OnnxModel], lengths: list[int], beam: int) -> None:
    """Fault: windows, positions or masks go wrong after the first step, or beams mix with sentences."""
    model, onnx = exported
    source = pad(sources(model, 2, lengths_of(model, lengths)), left=False)
    encoded, windows = onnx.encode(source.numpy()), onnx.start(len(source), beam)
    words = torch.randint(3, model.target_vocabulary, (len(source), beam, 7))
    words[:, :, 0] = EOS
    wanted, attention = teacher_forced(model, source, words)
    for step in range(words.shape[2]):
        scores, weights, windows = onnx.advance(words[:, :, step].numpy(), step, encoded, windows)
        np.testing.assert_allclose(scores, wanted[:, :, step].numpy(), atol=1e-5)
        np.testing.assert_allclose(weights, attention[:, :, step].numpy(), atol=2e-6)


def teacher_forced(model: ConvS2S, source: Tensor, words: Tensor) -> tuple[Tensor, Tensor]:
    """words (B, K, T) -> log-probabilities (B, K, T, V) and attention (B, K, T, S), all positions at once."""
    batch, beam, length = words.shape
    repeated = source.repeat_interleave(beam, 0)
    decoded = model.decode(model.encode(repeated), words.flatten(0, 1))
    scores = model.decoder.logits(decoded.hidden).log_softmax(-1)
    attention = torch.stack(decoded.attention).mean(0)
    return scores.view(batch, beam, length, -1), attention.view(batch, beam, length, -1)


def test_greedy_decoding_without_pytorch(exported: tuple[ConvS2S, OnnxModel]) -> None:
    """Fault: the graphs and the search's rules do not suffice to decode: start symbol, least and greatest length."""
    model, onnx = exported
    lines = sources(model, 3, lengths_of(model, [6, 1, 4, 9, 2, 7]))
    for limit in (1, 8, 500):
        wanted = beam_search([model], pad(lines, left=False), SearchConfig(beam=1, max_length=limit))
        assert onnx.greedy(lines, limit) == [hypotheses[0].ids for hypotheses in wanted]


def test_decoding_imports_no_pytorch() -> None:
    """Fault: the module for programs without PyTorch needs it after all."""
    code = "import sys, convs2s.interop.onnx_model; print('torch' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"


def test_the_folder_describes_itself(exported: tuple[ConvS2S, OnnxModel], tmp_path: Path) -> None:
    """Fault: a program without our code cannot know shapes, ids and limits; a wrong folder ends in a traceback."""
    model, onnx = exported
    shapes = [[layer.conv.kernel - 1, layer.conv.v.shape[1] // layer.conv.kernel] for layer in model.decoder.layers]
    assert onnx.config["windows"] == shapes
    assert onnx.config["ids"] == {"unk": 0, "pad": PAD, "eos": EOS}
    assert onnx.config["max_target_length"] == model.max_target_length
    assert onnx.config["equal_lengths_only"] is (model.config.source_padding is SourcePadding.original)
    for content in (None, "{", json.dumps([])):
        if content is not None:
            (tmp_path / "config.json").write_text(content)
        with pytest.raises(UserError):
            OnnxModel(tmp_path)
