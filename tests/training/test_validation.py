"""What is measured after an epoch: BLEU, the best checkpoint, samples; and that measuring changes nothing."""

from __future__ import annotations

import math
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from runs import assert_same_state, metrics, tiny_config, trained

from convs2s.config import BestBy, SearchConfig
from convs2s.errors import UserError
from convs2s.evaluation.evaluate import evaluate_split
from convs2s.model.loss import perplexity
from convs2s.search.translate import Translation
from convs2s.training import checkpoint, loop, validation
from convs2s.training.distributed import World
from convs2s.training.picture import CELL, picture
from convs2s.training.run import Run
from convs2s.training.signals import Stopped
from convs2s.training.validation import Validation

SEARCH = SearchConfig(beam=2, min_length=4, max_length=8)  # so that an untrained model says something
BLEU: dict[str, Any] = {"training__validation_bleu": True, "search": SEARCH}


def test_bleu_is_that_of_the_evaluation(tmp_path: Path) -> None:
    """Fault: BLEU of other sentences, of pieces, in another order, with dropout on or with another search."""
    config = tiny_config(tmp_path, **BLEU)
    saved = trained(config)
    report = evaluate_split(tmp_path / "run" / "checkpoints" / "last.pt", "valid", SEARCH, output=tmp_path / "scores")
    found = [line for line in metrics(config).splitlines() if '"kind": "epoch"' in line]
    assert report["bleu"]["score"] > 0
    assert f'"valid_bleu": {report["bleu"]["score"]}' in found[-1]
    assert saved["progress"]["best_bleu"] >= report["bleu"]["score"]


@pytest.mark.parametrize("size", [1, 2, 3])
def test_every_process_translates_its_share(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault: a share is left out, or put in another's place."""
    texts = [(f"s{i} a b c d", f"t{i} a b c d") for i in range(7)]
    monkeypatch.setattr(
        validation, "translate", lambda run, sources, attention: [Translation("t" + line[1:]) for line in sources]
    )
    shares = [[reference for _, reference in texts[rank::size]] for rank in range(size)]

    class Rank(World):
        def gather(self, value: Any) -> Any:
            assert value == shares[self.rank]
            return shares

    for rank in range(size):
        run: Any = SimpleNamespace(world=Rank(rank, size, torch.device("cpu")), valid_texts=texts)
        assert validation.bleu(run) == pytest.approx(100.0)


def test_measuring_leaves_training_alone(tmp_path: Path) -> None:
    """Fault: the model is trained on in its folded form, in evaluation mode, or with the search's random numbers."""
    plain, measured = trained(tiny_config(tmp_path, "plain")), trained(tiny_config(tmp_path, "measured", **BLEU))
    assert_same_state(plain["model"], measured["model"])
    assert_same_state(plain["optimizer"], measured["optimizer"])


def test_perplexity_of_any_loss() -> None:
    """Fault: a loss beyond the largest float ends a run or an evaluation in a stack trace; NaN looks like infinity."""
    assert perplexity(math.log(7.0)) == pytest.approx(7.0)
    assert perplexity(1e9) == perplexity(math.inf) == math.inf
    assert math.isnan(perplexity(math.nan))


def test_stopped_runs_measure_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault: the best BLEU is forgotten at a stop, or depends on where the run stopped."""
    options = {**BLEU, "training__best_by": BestBy.bleu}
    whole, config = tiny_config(tmp_path, "whole", **options), tiny_config(tmp_path, "stopped", **options)
    expected = trained(whole)
    end_update = Run.end_update

    def stop_after(self: Run, *arguments: Any) -> None:
        self.stop_signal.number = signal.SIGTERM
        end_update(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Run, "end_update", stop_after)
        for _ in range(expected["progress"]["update"]):
            with pytest.raises(Stopped):
                loop.train(config)
    assert_same_state(expected["progress"], trained(config)["progress"])
    assert metrics(whole) == metrics(config)


@pytest.mark.parametrize(("best_by", "epoch"), [(BestBy.loss, 3), (BestBy.bleu, 2)])
def test_best_by(tmp_path: Path, best_by: BestBy, epoch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault: best.pt is chosen by the other figure, or an equal one replaces it; the epoch line has no BLEU."""
    figures = {1: (3.0, 10.0), 2: (2.0, 30.0), 3: (1.0, 30.0), 4: (1.0, 20.0)}
    monkeypatch.setattr(loop, "validate", lambda run: Validation(*figures[run.progress.epoch]))
    config = tiny_config(tmp_path, training__max_epochs=4, training__best_by=best_by, **BLEU)
    progress = trained(config)["progress"]
    assert (progress["best_epoch"], progress["best_loss"], progress["best_bleu"]) == (epoch, 1.0, 30.0)
    best = checkpoint.load(tmp_path / "run" / "checkpoints" / "best.pt")
    assert best["progress"]["epoch"] == epoch + 1


def test_best_by_bleu_needs_it(tmp_path: Path) -> None:
    """Fault: without validation_bleu no epoch is ever the best, and there is no best.pt at the end."""
    with pytest.raises(UserError, match=r"training\.best_by=bleu needs training\.validation_bleu=true"):
        loop.train(tiny_config(tmp_path, training__best_by=BestBy.bleu))


def test_tensorboard_shows_samples_attention_and_the_table_of_runs(tmp_path: Path) -> None:
    """Fault: no samples, pictures of other sentences than asked for, or a second folder of events for hparams."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    config = tiny_config(tmp_path, training__tensorboard=True, training__samples=2, **BLEU)
    update = trained(config)["progress"]["update"]
    folder = tmp_path / "run" / "tensorboard"
    assert all(path.is_file() for path in folder.iterdir())
    events = EventAccumulator(str(folder)).Reload()
    tags = events.Tags()
    assert tags["images"] == ["attention/1", "attention/2"]
    assert [event.step for event in events.Images("attention/1")] == [update // 2, update]
    assert sorted(tags["tensors"]) == ["samples/1/text_summary", "samples/2/text_summary"]
    source = (tmp_path / "raw" / "valid.a").read_text("utf-8").splitlines()[1]
    text = events.Tensors("samples/2/text_summary")[-1].tensor_proto.string_val[0].decode()
    assert f"**source:** {source}\n" in text
    assert {"train/lr", "gradient_norm/decoder.output", "epoch/valid_bleu", "best/valid_bleu"} <= set(tags["scalars"])
    options = events.summary_metadata["_hparams_/session_start_info"].plugin_data.content
    for name in (b"optimizer.lr", b"model.dropout", b"seed"):
        assert name in options


def test_a_picture_has_a_cell_for_every_pair_of_pieces() -> None:
    """Fault: rows and columns are exchanged, or labels are missing."""
    attention = np.zeros((3, 5))
    attention[1, 4] = 1.0
    drawn = picture(attention, ["\u2581a", "b", "c", "d", "</s>"], ["X", "YY", "</s>"])
    cells = drawn[-3 * CELL :, -5 * CELL :]
    assert (cells[CELL : 2 * CELL, 4 * CELL :] == 0).all()
    assert cells.sum() == 255 * (15 - 1) * CELL * CELL
    left, above = drawn[-3 * CELL :, : -5 * CELL], drawn[: -3 * CELL, -5 * CELL :]
    assert all((left[CELL * row : CELL * (row + 1)] < 128).any() for row in range(3))
    assert all((above[:, CELL * column : CELL * (column + 1)] < 128).any() for column in range(5))
