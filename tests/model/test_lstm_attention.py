"""The recurrent contrast: the same promises as ConvS2S, and the same loop, search and checkpoints."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers import EOS, PAD, gradients, pad, random_sentences, shift
from runs import assert_same_state, metrics, tiny_config, trained
from torch.testing import assert_close

from convs2s.config import (
    Annealing,
    Architecture,
    AttentionOrder,
    DecoderConfig,
    EncoderConfig,
    EncoderGradient,
    LayerConfig,
    ModelConfig,
    SearchConfig,
    SearchPrecision,
    SourcePadding,
    TargetPadding,
)
from convs2s.errors import UserError
from convs2s.evaluation.models import load_models
from convs2s.interop.onnx_export import write_onnx
from convs2s.model import LSTMAttention, Seq2Seq, build
from convs2s.search.beam import beam_search, search_sentences
from convs2s.search.scoring import score_lines
from convs2s.search.translate import translate_lines
from convs2s.training.checkpoint import build_model, load
from convs2s.training.loop import train

TIGHT = {"rtol": 0.0, "atol": 1e-10}


def recurrent(layers: int = 1, encoder: int = 8, decoder: int = 6, **options: Any) -> ModelConfig:
    """A tiny model's options."""
    defaults: dict[str, Any] = {"embedding": 6, "output_embedding": 5, "max_positions": 40, "dropout": 0.0}
    return ModelConfig(
        architecture=Architecture.lstm_attention,
        encoder=EncoderConfig([LayerConfig(encoder, 1, layers)], positions=False),
        decoder=DecoderConfig([LayerConfig(decoder, 1, layers)], positions=False, attention=[layers]),
        encoder_gradient=EncoderGradient.unscaled,
        **(defaults | options),
    )


def model(config: ModelConfig, seed: int = 1) -> Seq2Seq:
    """A float64 model whose sentences differ, in evaluation mode."""
    torch.manual_seed(seed)
    made = build(config, 13, 11).double().eval()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter += 0.4 * torch.randn_like(parameter)
    assert isinstance(made, LSTMAttention)
    return made


@pytest.mark.parametrize("left", [True, False], ids=["left", "right"])
def test_a_batch_changes_nothing(left: bool) -> None:
    """Fault: the backward direction reads padding first, attention sees it, or states end up at other words."""
    made = model(recurrent(layers=2))
    sources = random_sentences(1, [5, 12, 1, 7], 13)
    targets = random_sentences(2, [4, 1, 6, 3], 11)
    source, target_input = pad(sources, left), pad(shift(targets), left=False)
    decoded = made.decode(made.encode(source), target_input)
    log_probabilities = made(source, target_input)
    for b in range(4):
        real, steps = source[b] != PAD, len(targets[b])
        alone = torch.tensor([sources[b]]), torch.tensor(shift([targets[b]]))
        assert_close(made.encode(source).keys[b, real], made.encode(alone[0]).keys[0], **TIGHT)
        assert not decoded.attention[0][b][:, ~real].any()
        assert_close(log_probabilities[b, :steps], made(*alone)[0], **TIGHT)
    assert_close(decoded.attention[0].sum(2), torch.ones(target_input.shape, dtype=torch.float64), **TIGHT)


def test_gradient_of_a_batch_is_the_sum_of_its_sentences() -> None:
    """Fault: padded places get or give gradient."""
    made = model(recurrent())
    sources, targets = random_sentences(1, [2, 7, 4], 13), random_sentences(2, [5, 1, 3], 11)
    made.loss(pad(sources, True), pad(shift(targets), False), pad(targets, False)).backward()
    whole = gradients(made)
    made.zero_grad()
    for source, target in zip(sources, targets, strict=True):
        made.loss(torch.tensor([source]), torch.tensor(shift([target])), torch.tensor([target])).backward()
    for name, gradient in gradients(made).items():
        assert_close(gradient, whole[name], **TIGHT, msg=name)


@pytest.mark.parametrize("folded", [False, True])
@pytest.mark.parametrize("options", [{}, {"layers": 2, "lookup_output": True}, {"share_output": True, "embedding": 5}])
def test_step_is_the_full_forward(options: dict[str, Any], folded: bool) -> None:
    """Fault: a step forgets part of its state, or it is reordered or thinned wrongly."""
    made = model(recurrent(**options))
    if folded:
        made.fold()
    draw, beam = random.Random(1), 3
    source = pad(random_sentences(3, [4, 6, 2], 13), left=True)
    histories = [[[EOS] for _ in range(beam)] for _ in source]
    state = made.start(made.encode(source), beam)
    for step in range(6):
        tokens = torch.tensor([[history[-1] for history in rows] for rows in histories])
        log_probabilities, attention = made.step(tokens, state)
        prefixes = torch.tensor([history for rows in histories for history in rows])
        repeated = source.repeat_interleave(beam, 0)
        with torch.no_grad():
            expected = made(repeated, prefixes)[:, -1].view(len(source), beam, -1)
            weights = made.decode(made.encode(repeated), prefixes).attention[0][:, -1].view(len(source), beam, -1)
        assert_close(log_probabilities, expected, **TIGHT)
        assert_close(attention, weights, **TIGHT)
        parents = [[draw.randrange(beam) for _ in range(beam)] for _ in histories]
        histories = [
            [[*rows[parent], draw.choice([0, *range(3, 11)])] for parent in chosen]
            for rows, chosen in zip(histories, parents, strict=True)
        ]
        rows = torch.tensor([[b * beam + parent for parent in chosen] for b, chosen in enumerate(parents)])  # (B, K)
        if step != 2:
            state.reorder(rows.flatten())
        else:
            kept = torch.tensor([0, 2])
            state.keep(kept, rows[kept].flatten(), state.width)
            source, histories = source[kept], [histories[0], histories[2]]


def test_a_sentence_that_comes_in_later_is_translated_as_if_alone() -> None:
    """Fault: the state of a sentence that joins others is mixed with theirs, or its padding attended to."""
    made = model(recurrent(layers=2))
    sources = random_sentences(3, [7, 6, 2, 5, 1, 3], 13)
    config = SearchConfig(beam=3, nbest=3, max_length=8)
    alone = [beam_search(made, torch.tensor([source]), config)[0] for source in sources]
    together = search_sentences(made, sources, replace(config, batch_size=2))
    for found, expected in zip(together, alone, strict=True):
        assert [hypothesis.ids for hypothesis in found] == [hypothesis.ids for hypothesis in expected]
        assert [h.score for h in found] == pytest.approx([h.score for h in expected], rel=1e-9)


def test_a_target_s_length_ends_somewhere() -> None:
    """Fault: a model without a position table decodes without end, or takes what ConvS2S would refuse."""
    made = model(recurrent(max_positions=5))
    state = made.start(made.encode(torch.tensor([[4, EOS]])), 1)
    for _ in range(3):
        made.step(torch.tensor([[EOS]]), state)
    with pytest.raises(ValueError, match="at most 3 tokens"):
        made.step(torch.tensor([[EOS]]), state)
    with pytest.raises(ValueError, match="at most 3"):
        made.encode(torch.full((1, 4), EOS))


OTHERWISE: list[tuple[str, dict[str, Any]]] = [
    ("bottleneck=2", {"bottleneck": 2}),
    ("source_padding=original", {"source_padding": SourcePadding.original}),
    ("target_padding=left", {"target_padding": TargetPadding.left}),
    ("attention_order=paper", {"attention_order": AttentionOrder.paper}),
    ("encoder_gradient=paper", {"encoder_gradient": EncoderGradient.paper}),
    ("encoder.positions=true", {"encoder": EncoderConfig([LayerConfig(8, 1)])}),
    ("encoder.residuals=.1.", {"encoder": EncoderConfig([LayerConfig(8, 1)], positions=False, residuals=[1])}),
    ("kernel: 1", {"encoder": EncoderConfig([LayerConfig(8, 3)], positions=False)}),
    ("even number", {"encoder": EncoderConfig([LayerConfig(7, 1)], positions=False)}),
    ("equal channels", {"decoder": DecoderConfig([LayerConfig(8, 1), LayerConfig(6, 1)], positions=False)}),
    (r"attention=\[2\]", {"decoder": DecoderConfig([LayerConfig(8, 1, 2)], positions=False)}),
]


@pytest.mark.parametrize(("message", "options"), OTHERWISE)
def test_what_means_nothing_is_refused(message: str, options: dict[str, Any]) -> None:
    """Fault: an option is ignored in silence, so that two runs that seem to differ are the same."""
    config = recurrent()
    for name, value in options.items():
        setattr(config, name, value)
    with pytest.raises(UserError, match=message):
        config.check()


def test_it_learns_to_read_backwards(tmp_path: Path) -> None:
    """Fault: training, checkpoint, search or scoring works for one architecture only."""
    draw = random.Random(4)
    (tmp_path / "raw").mkdir()
    for split, count in (("train", 1280), ("valid", 12), ("test", 5)):
        sources = [draw.choices("abcd", k=draw.randint(1, 4)) for _ in range(count)]
        for side, step in (("a", 1), ("b", -1)):
            text = "".join(f"{' '.join(words[::step])}\n" for words in sources)
            (tmp_path / "raw" / f"{split}.{side}").write_text(text, "utf-8")
    config = tiny_config(
        tmp_path,
        model=recurrent(encoder=32, decoder=32, embedding=16, output_embedding=32, max_positions=16),
        training__max_epochs=18,
        training__batch_tokens=None,
        training__batch_sentences=128,
        optimizer__lr=0.5,
        optimizer__momentum=0.9,
        optimizer__clip=1.0,
        optimizer__annealing=Annealing.none,
    )
    saved = trained(config)
    assert saved["progress"]["best_loss"] < 0.5, saved["progress"]["best_loss"]
    (made,), tokenizers = load_models([f"{config.run_dir}/checkpoints/best.pt"], "cpu", SearchPrecision.fp32)
    assert isinstance(made, LSTMAttention)
    lines = (tmp_path / "raw" / "valid.a").read_text("utf-8").splitlines()
    wanted = (tmp_path / "raw" / "valid.b").read_text("utf-8").splitlines()
    results = translate_lines([made], tokenizers, lines, SearchConfig(beam=3), attention=True)
    found = [best for best, *_ in results]
    assert sum(best.text == target for best, target in zip(found, wanted, strict=True)) >= 9
    longest = max(found, key=lambda best: len(best.text))
    assert longest.hypothesis is not None
    assert longest.hypothesis.attention is not None
    # It shows in the attention: the first word comes from the end of the source, the last from its start.
    places = longest.hypothesis.attention.argmax(1).tolist()
    assert places[0] > places[-2]
    texts = [best.text for best in found]
    scores = score_lines([made], tokenizers, list(zip(lines, texts, strict=True)), SearchConfig())
    for score, best in zip(scores, found, strict=True):
        assert score.score == pytest.approx(best.score, abs=1e-4)


def test_stopped_and_resumed_is_the_same(tmp_path: Path) -> None:
    """Fault: the recurrent model's dropout or weights depend on where the run stopped."""
    options: dict[str, Any] = {"model": recurrent(layers=2, dropout=0.2)}
    whole = tiny_config(tmp_path, "whole", **options)
    expected = trained(whole)
    stopped = tiny_config(tmp_path, "stopped", training__max_updates=5, **options)
    trained(stopped)
    stopped.training.max_updates = None
    train(stopped)
    found = load(Path(stopped.run_dir) / "checkpoints" / "last.pt")
    for part in ("model", "optimizer", "schedule"):
        assert_same_state(expected[part], found[part])
    assert metrics(whole) == metrics(stopped)
    assert isinstance(build_model(found), LSTMAttention)
    with pytest.raises(UserError, match=r"to=onnx knows ConvS2S only, this is a model\.architecture=lstm_attention"):
        write_onnx(tmp_path / "onnx", found)


@pytest.mark.parametrize("precision", [SearchPrecision.bf16, SearchPrecision.int8])
def test_precisions(precision: SearchPrecision) -> None:
    """Fault: a precision breaks the recurrent layers, or changes nothing."""
    exact = model(recurrent()).float()
    rounded = model(recurrent()).float()
    rounded.fold(precision)
    source = pad(random_sentences(1, [5, 3], 13), left=False)
    config = SearchConfig(beam=2, max_length=6)
    scores = [[h[0].score for h in beam_search(made, source, config)] for made in (exact, rounded)]
    assert scores[0] != scores[1]
    assert scores[0] == pytest.approx(scores[1], abs=0.3)
