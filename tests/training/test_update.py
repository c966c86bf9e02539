"""Accumulated, split, repeated and refused updates."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from runs import metrics, tiny_config, tiny_model, trained

from convs2s.config import Nonfinite, Normalize, OptimizerConfig, Precision, TrainingConfig
from convs2s.data.batching import Batch, pad
from convs2s.errors import UserError
from convs2s.model import ConvS2S
from convs2s.model.layers import WeightNorm
from convs2s.training import loop
from convs2s.training import update as module
from convs2s.training.distributed import World
from convs2s.training.nag import NAG
from convs2s.training.update import Updater, split

ALONE = World(0, 1, torch.device("cpu"))


def batch(sentences: int, seed: int = 0) -> Batch:
    draw = torch.Generator().manual_seed(seed)

    def side() -> list[Any]:
        lengths = torch.randint(1, 8, (sentences,), generator=draw).tolist()
        return [torch.randint(3, 15, (n,), generator=draw).numpy() for n in lengths]

    source, target = pad(side()), pad(side())
    return Batch(torch.arange(sentences).numpy(), source, target.roll(1, 1), target, int((target != 1).sum()))


def updater(training: TrainingConfig | None = None, **options: Any) -> Updater:
    torch.manual_seed(7)
    model = ConvS2S(tiny_model(dropout=0.0), 15, 15).double()
    optimizer = NAG(model.parameters(), 0.25, 0.99)
    return Updater(model, optimizer, training or TrainingConfig(), OptimizerConfig(**options), 1, ALONE)


def weights(update: Updater) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in update.parameters])


def test_compiled_updates_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault: training.compile is ignored, does not get through weight normalisation, is cut into pieces, or computes
    something else."""
    compile_, compiled = torch.compile, []

    def traced(function: Any, **options: Any) -> Any:  # the graph as PyTorch sees it; its C++ would take a minute
        compiled.append(function)
        return compile_(function, backend="aot_eager", fullgraph=True, **options)

    monkeypatch.setattr(torch, "compile", traced)
    plain, other = updater(), updater(TrainingConfig(compile=True))
    assert len(compiled) == 1
    for number in range(2):
        one, two = (update([batch(9, number)], number) for update in (plain, other))
        assert abs(one.loss - two.loss) < 1e-10
    assert (weights(plain) - weights(other)).abs().max() < 1e-10


@pytest.mark.parametrize("normalize", list(Normalize))
@pytest.mark.parametrize("tokens", [1, 17, 40, 1000])
def test_split_batch_equals_the_whole(tokens: int, normalize: Normalize) -> None:
    """Fault: a part is divided by its own tokens, or clipped by itself."""
    whole, parts = updater(normalize=normalize), updater(TrainingConfig(split_tokens=tokens), normalize=normalize)
    for number in range(3):
        one, other = whole([batch(9, number)], number), parts([batch(9, number)], number)
        assert abs(one.loss - other.loss) < 1e-10
        assert abs(one.norm - other.norm) < 1e-10
    assert (weights(whole) - weights(parts)).abs().max() < 1e-10


def test_split_covers_every_sentence_within_the_cap() -> None:
    """Fault: a sentence is lost or repeated where the parts are not of equal size."""
    for sentences in range(1, 12):
        made = batch(sentences)
        longest = max(made.source.shape[1], made.target.shape[1])
        for tokens in (1, 10, 25, 60):
            parts = list(split(made, tokens))
            assert [i for part in parts for i in part.indices] == list(range(sentences))
            assert sum(part.tokens for part in parts) == made.tokens
            assert all(len(part.indices) * longest <= max(tokens, longest) for part in parts)


def test_accumulated_batches_equal_one(tmp_path: Path) -> None:
    """Fault: gradients of accumulated batches are averaged over batches instead of over their tokens."""
    made = batch(9)
    one, several = updater(), updater()
    one([made], 0)
    several([made.rows(0, 2), made.rows(2, 7), made.rows(7, 9)], 0)
    assert (weights(one) - weights(several)).abs().max() < 1e-10


def test_weights_are_normalised_once_an_update(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault: every batch and every part pays for the weight normalisation, or gradients end before v and g."""
    normalised: list[WeightNorm] = []
    weight = WeightNorm.weight

    def counted(self: WeightNorm) -> torch.Tensor:
        normalised.append(self)
        return weight(self)

    several = updater(TrainingConfig(split_tokens=17), normalize=Normalize.none, clip=0.0)
    plain, batches = copy.deepcopy(several.model), [batch(9), batch(5, 1)]
    with monkeypatch.context() as patch:
        patch.setattr(WeightNorm, "weight", counted)
        several(batches, 0)
    assert normalised == [module for module in several.model.modules() if isinstance(module, WeightNorm)]
    for made in batches:
        plain.loss(*made[1:4]).backward()
    for name, parameter in plain.named_parameters():
        assert parameter.grad is not None
        found = several.model.get_parameter(name).grad
        torch.testing.assert_close(found, parameter.grad, rtol=1e-10, atol=1e-12, msg=name)


@pytest.mark.parametrize(("normalize", "divisor"), [(Normalize.tokens, "tokens"), (Normalize.sentences, "sentences")])
def test_normalisation(normalize: Normalize, divisor: str) -> None:
    """Fault: gradients are divided by the wrong count (original: -timeavg divides by tokens)."""
    made = batch(9)
    plain, divided = updater(normalize=Normalize.none, clip=0.0), updater(normalize=normalize, clip=0.0)
    ratio = plain([made], 0).norm / divided([made], 0).norm
    assert abs(ratio - getattr(made, divisor)) < 1e-8


def test_without_normalisation_the_clip_grows_with_the_batch() -> None:
    """Fault: the original's rule without -timeavg, clip times sentences, is forgotten."""
    small = updater(normalize=Normalize.none, clip=1e-6)
    small([batch(9)], 0)
    norm = torch.sqrt(sum((p.grad.square().sum() for p in small.parameters), torch.zeros(())))  # type: ignore[union-attr]
    assert abs(float(norm) - 9e-6) < 1e-12


def test_out_of_memory_is_retried_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault: a retry adds to the half-made gradients of the attempt that failed."""
    plain, short = updater(), updater()
    plain([batch(9)], 0)
    loss = short.loss

    def scarce(source: torch.Tensor, *rest: torch.Tensor) -> torch.Tensor:
        if len(source) > 3:
            raise torch.OutOfMemoryError("out of memory")
        return loss(source, *rest)

    monkeypatch.setattr(short, "loss", scarce)
    outcome = short([batch(9)], 0)
    assert outcome.parts == 4
    assert (weights(plain) - weights(short)).abs().max() < 1e-10


def test_out_of_memory_for_one_sentence_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault: the search for a size that fits never ends."""

    def never(*_: torch.Tensor) -> torch.Tensor:
        raise torch.OutOfMemoryError("out of memory")

    update = updater()
    monkeypatch.setattr(update, "loss", never)
    with pytest.raises(UserError, match="out of memory even for single sentences"):
        update([batch(9)], 0)


def test_every_process_retries_as_long_as_one_can(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault: a process without a batch, as at an epoch's end, gives up while another has sentences to part."""
    update = updater()
    calls = []

    class Others(World):
        """The other process: 9 sentences, which fit in 4 parts."""

        def sum(self, values: Sequence[float]) -> list[float]:
            calls.append(values)
            return [values[0] + 5.0, values[1] + 30, values[2] + 9, values[3] + (len(calls) < 3)]

        def sum_gradients(self, parameters: Iterable[torch.Tensor]) -> None:
            for parameter in parameters:
                parameter.grad = torch.zeros_like(parameter)

    monkeypatch.setattr(update, "world", Others(1, 2, torch.device("cpu")))
    assert update([], 0).parts == 4


def test_a_scale_beyond_fp16_is_no_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault: fp16 ends at its first update, because gradients scaled too high are taken for a diverged training.

    The scaler of a GPU, here on a CPU and on float32 gradients, so high that even they overflow.
    """
    start = Updater.__init__

    def scaled(self: Updater, *arguments: Any) -> None:
        start(self, *arguments)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**127)

    monkeypatch.setattr(Updater, "__init__", scaled)
    run = trained(tiny_config(tmp_path))
    assert run["scaler"]["scale"] < 2.0**127
    assert run["progress"]["tokens"] == 0
    assert run["progress"]["best_loss"] < 10.0
    assert not list((tmp_path / "run").glob("nonfinite*"))


def poison(monkeypatch: pytest.MonkeyPatch, updates: set[int]) -> None:
    backward = Updater.backward

    def bad(self: Updater, batches: Any, number: int, parts: int) -> tuple[float, int]:
        result = backward(self, batches, number, parts)
        return (float("nan"), 0) if number in updates else result

    monkeypatch.setattr(Updater, "backward", bad)


def test_nonfinite_loss_stops_before_the_update(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault: a NaN reaches the weights, or nobody learns which sentences made it."""
    poison(monkeypatch, {5})
    config = tiny_config(tmp_path, training__save_every=1)
    with pytest.raises(UserError, match="not finite"):
        loop.train(config)
    report = json.loads((tmp_path / "run" / "nonfinite-6.json").read_text("utf-8"))
    assert report["loss"] == "nan"
    assert report["lines"][0]
    assert all(1 <= line <= 50 for line in report["lines"][0])
    monkeypatch.undo()
    resumed = trained(tiny_config(tmp_path, training__nonfinite=Nonfinite.skip))  # what the message advises
    assert resumed["progress"]["epoch"] == 3  # both are done


def test_nonfinite_loss_is_skipped_within_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault: skipping counts the bad loss into the epoch's, or goes on for ever."""
    poison(monkeypatch, {2, 3})
    config = tiny_config(tmp_path, training__nonfinite=Nonfinite.skip, training__max_skips=2)
    trained(config)
    assert "NaN" not in metrics(config)
    poison(monkeypatch, set(range(100)))
    with pytest.raises(UserError, match="not finite"):
        loop.train(tiny_config(tmp_path, "endless", training__nonfinite=Nonfinite.skip, training__max_skips=2))


def test_fp16_without_a_batch_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault: a process whose first update after a start has no batch asks a scaler for what it has not set up yet."""
    monkeypatch.setattr(module, "check_precision", lambda *_: None)
    update = updater(TrainingConfig(precision=Precision.fp16))
    others = [torch.ones_like(parameter) for parameter in update.parameters]

    def from_others(self: World, parameters: Any) -> None:
        for parameter, gradient in zip(parameters, others, strict=True):
            parameter.grad = gradient.clone()

    monkeypatch.setattr(World, "sum_gradients", from_others)
    monkeypatch.setattr(World, "sum", lambda self, values: [3.0, 5, 2, 0])
    before = weights(update)
    assert update([], 0).applied
    assert not torch.equal(weights(update), before)


def test_fp16_on_cpu_is_refused() -> None:
    """Fault: fp16 on a CPU runs for days instead of saying that it cannot be fast."""
    with pytest.raises(UserError, match="fp16 needs a GPU"):
        updater(TrainingConfig(precision=Precision.fp16))


def test_bf16_stays_close_to_fp32(tmp_path: Path) -> None:
    """Fault: a custom gradient mixes types, or the option is ignored."""
    plain = tiny_config(tmp_path, "plain")
    half = tiny_config(tmp_path, "half", training__precision=Precision.bf16)
    one, other = trained(plain), trained(half)
    assert one["model"]["decoder.output.v"].dtype == other["model"]["decoder.output.v"].dtype == torch.float32
    gap = abs(one["progress"]["best_loss"] - other["progress"]["best_loss"])
    assert 0 < gap < 0.05
