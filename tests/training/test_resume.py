"""A stopped and resumed run is the uninterrupted run."""

from __future__ import annotations

import json
import os
import shutil
import signal
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from runs import assert_same_state, metrics, tiny_config, trained, write_corpus

from convs2s.config import LongLines, TokenizerKind
from convs2s.errors import UserError
from convs2s.training import checkpoint, loop
from convs2s.training.checks import as_started
from convs2s.training.run import Run
from convs2s.training.signals import Stopped

PARTS = ("model", "optimizer", "schedule", "progress")


def state(config: Any) -> dict[str, Any]:
    saved = checkpoint.load(Path(config.run_dir) / "checkpoints" / "last.pt")
    return {part: saved[part] for part in PARTS}


@pytest.mark.parametrize("accumulate", [1, 3])
def test_stopped_after_every_update(tmp_path: Path, accumulate: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault: dropout masks, data order, velocity, annealing, means or log lines depend on where the run stopped."""
    options = {"training__accumulate": accumulate, "training__max_updates": 40, "training__max_epochs": 100}
    options |= {"optimizer__min_lr": 0}  # annealed, but never to its end
    whole = tiny_config(tmp_path, "whole", **options)
    trained(whole)
    expected = state(whole)
    assert expected["progress"]["update"] == 40
    assert expected["progress"]["epoch"] > 2, "the run should cross the end of an epoch"

    end_update = Run.end_update

    def stop_after(self: Run, *arguments: Any) -> None:
        self.stop_signal.number = signal.SIGTERM
        end_update(self, *arguments)

    config = tiny_config(tmp_path, "stopped", **options)
    with monkeypatch.context() as patch:
        patch.setattr(Run, "end_update", stop_after)
        for _ in range(40):
            with pytest.raises(Stopped):
                loop.train(config)
    loop.train(config)
    assert_same_state(expected, state(config))
    assert metrics(whole) == metrics(config)


def test_stopped_in_validation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault: an epoch whose validation was interrupted is counted twice, or trained anew, or its speed is 0."""
    whole = tiny_config(tmp_path, "whole")
    trained(whole)
    config = tiny_config(tmp_path, "stopped")

    def die(run: Run) -> float:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(loop, "validate", die)
        with pytest.raises(KeyboardInterrupt):
            loop.train(config)
    assert state(config)["progress"]["update"] == state(whole)["progress"]["update"] // 2
    trained(config)
    assert_same_state(state(whole), state(config))
    assert metrics(whole) == metrics(config)
    speeds = json.loads((Path(config.run_dir) / "speed.json").read_text("utf-8"))
    assert all(one["tokens"] and one["seconds"] for one in speeds)


def test_stopped_in_the_last_validation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault: Ctrl-C in the validation that ends a run is forgotten, and the test split is translated nevertheless."""
    config = tiny_config(tmp_path, training__max_epochs=1)
    validate = loop.validate

    def signal_first(run: Run) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        return validate(run)

    monkeypatch.setattr(loop, "validate", signal_first)
    with pytest.raises(Stopped) as stopped:
        loop.train(config)
    assert stopped.value.exit_status == 130
    assert state(config)["progress"]["epoch"] == 2
    loop.train(config)  # nothing is left to train


def test_killed_between_checkpoints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault: log lines written after the last checkpoint appear twice once the run goes on from it."""
    whole = tiny_config(tmp_path, "whole")
    trained(whole)
    config = tiny_config(tmp_path, "killed", training__save_every=5)
    end_update = Run.end_update

    def die_at_8(self: Run, *arguments: Any) -> None:
        end_update(self, *arguments)
        if self.progress.update == 8:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Run, "end_update", die_at_8)
        with pytest.raises(KeyboardInterrupt):
            loop.train(config)
    assert state(config)["progress"]["update"] == 5
    trained(config)
    assert_same_state(state(whole), state(config))
    assert metrics(whole) == metrics(config)


def test_same_command_twice_is_bit_equal(tmp_path: Path) -> None:
    """Fault: something is not decided by the seed."""
    one, other = tiny_config(tmp_path, "one"), tiny_config(tmp_path, "other")
    trained(one), trained(other)
    assert_same_state(state(one), state(other))
    different = tiny_config(tmp_path, "different", seed=2)
    trained(different)
    assert metrics(different) != metrics(one)


def test_signal_saves_and_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault: SIGTERM loses the update it arrives in, or leaves our handler behind."""
    config = tiny_config(tmp_path)
    before = signal.getsignal(signal.SIGTERM)
    end_update = Run.end_update

    def signal_at_4(self: Run, *arguments: Any) -> None:
        if self.progress.update == 3:
            os.kill(os.getpid(), signal.SIGTERM)
        end_update(self, *arguments)

    monkeypatch.setattr(Run, "end_update", signal_at_4)
    with pytest.raises(Stopped) as stopped:
        loop.train(config)
    assert stopped.value.exit_status == 143
    assert state(config)["progress"]["update"] == 4
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize(("minutes", "saved"), [(None, [4]), (0.0, [1, 2, 3, 4]), (1000.0, [4])])
def test_saves_by_the_clock(
    minutes: float | None, saved: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fault: training.save_minutes is ignored, and a long epoch is lost with the machine; it counts in seconds."""
    updates, save = [], Run.save

    def noted(self: Run, name: str) -> None:
        updates.append(self.progress.update)
        save(self, name)

    monkeypatch.setattr(Run, "save", noted)
    trained(tiny_config(tmp_path, training__max_updates=4, training__save_minutes=minutes))
    assert sorted(set(updates)) == saved


@pytest.mark.parametrize("wanted", [True, False])
def test_deterministic_operations(wanted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault: training.deterministic is ignored, or still holds when training has ended."""
    found, end_update = [], Run.end_update

    def noted(self: Run, *arguments: Any) -> None:
        found.append(torch.are_deterministic_algorithms_enabled())
        end_update(self, *arguments)

    monkeypatch.setattr(Run, "end_update", noted)
    trained(tiny_config(tmp_path, training__max_updates=2, training__deterministic=wanted))
    assert found == [wanted, wanted]
    assert not torch.are_deterministic_algorithms_enabled()


def test_other_configuration_is_refused(tmp_path: Path) -> None:
    """Fault: a run goes on under options it was not started with, silently."""
    trained(tiny_config(tmp_path))
    with pytest.raises(UserError, match=r"optimizer\.lr=0\.25, this command says 0\.5"):
        loop.train(tiny_config(tmp_path, optimizer__lr=0.5))


def test_a_checkpoint_of_another_version_is_refused(tmp_path: Path) -> None:
    """Fault: a stack trace where this version's checkpoints hold more, or less, than an older one's."""
    saved = trained(tiny_config(tmp_path, training__max_updates=2))
    saved["progress"]["finished"] = None
    checkpoint.save(tmp_path / "run" / "checkpoints" / "last.pt", saved)
    with pytest.raises(UserError, match=r"last\.pt: saved by another version of this program; give another run_dir"):
        loop.train(tiny_config(tmp_path))


def test_another_vocabulary_is_not_gone_on_with(tmp_path: Path) -> None:
    """Fault: training text changes, as many words as before get other numbers, and old weights stand for new words."""
    trained(tiny_config(tmp_path, training__max_updates=2))
    for path in (tmp_path / "raw").iterdir():
        path.write_text(path.read_text("utf-8").replace("w1 ", "v1 "), "utf-8")
    with pytest.raises(UserError, match=r"last\.pt: its vocabulary is not what the training text gives now"):
        loop.train(tiny_config(tmp_path))


def test_options_count_without_their_record(tmp_path: Path) -> None:
    """Fault: with config.yaml lost, a run goes on under other options, and records what it was not trained with."""
    config = tiny_config(tmp_path, training__max_updates=2)
    trained(config)
    (Path(config.run_dir) / "config.yaml").unlink()
    with pytest.raises(UserError, match=r"holds a run with optimizer\.lr=0\.25, this command says 0\.5"):
        loop.train(tiny_config(tmp_path, optimizer__lr=0.5))
    trained(config)
    assert (Path(config.run_dir) / "config.yaml").exists()


def test_a_log_whose_checkpoints_are_gone_is_kept(tmp_path: Path) -> None:
    """Fault: with the checkpoints removed, the same command begins anew and cuts the run's history to nothing."""
    config = tiny_config(tmp_path)
    trained(config)
    before = metrics(config)
    for path in (tmp_path / "run" / "checkpoints").glob("*.pt"):
        path.unlink()
    with pytest.raises(UserError, match="holds the log of a run whose checkpoints are gone: restore them"):
        loop.train(config)
    assert metrics(config) == before


@pytest.mark.parametrize("content", ["[]", "{", '{"data": 5}', "[" * 100_000])
def test_a_damaged_environment_is_written_anew(tmp_path: Path, content: str) -> None:
    """Fault: a stack trace for a record that nothing depends on."""
    config = tiny_config(tmp_path, training__max_updates=2)
    trained(config)
    path = tmp_path / "run" / "environment.json"
    path.write_text(content, "utf-8")
    trained(config)
    assert json.loads(path.read_text("utf-8"))["data"]["name"] == "tiny"


def test_a_disk_without_room_for_checkpoints_is_found_out_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fault: an epoch trained, and lost when it is to be saved."""
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10**9, 10**9, 20_000))
    with pytest.raises(UserError, match=r"checkpoints take 0 MB more, 0 MB are free there; make room"):
        loop.train(tiny_config(tmp_path))
    assert not (tmp_path / "run" / "metrics.jsonl").exists()


def test_nohup_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault: SIGHUP, which nohup had ignored, ends a training when its terminal closes; or without nohup loses it."""
    config = tiny_config(tmp_path, training__max_updates=3)
    end_update = Run.end_update

    def hang_up(self: Run, *arguments: Any) -> None:
        os.kill(os.getpid(), signal.SIGHUP)
        end_update(self, *arguments)

    monkeypatch.setattr(Run, "end_update", hang_up)
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert trained(config)["progress"]["update"] == 3
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        with pytest.raises(Stopped, match="stopped by SIGHUP; the same command goes on from here"):
            loop.train(tiny_config(tmp_path, "other"))
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_DFL
    finally:
        signal.signal(signal.SIGHUP, before)


def test_long_test_lines_are_refused_or_cut(tmp_path: Path) -> None:
    """Fault: a test line beyond the model's table found out after training, or refused though it will be cut."""
    tiny_config(tmp_path)
    for side in ("a", "b"):
        with (tmp_path / "raw" / f"test.{side}").open("a") as file:
            file.write("w1 " * 9 + ". " + "w2 " * 9 + "\n")
    with pytest.raises(UserError, match=r"test\.a, line 6: 20 pieces, </s> included, but the model takes at most 14"):
        loop.train(tiny_config(tmp_path))
    trained(tiny_config(tmp_path, search__long_lines=LongLines.cut, training__max_updates=1))


def test_raised_limit_goes_on(tmp_path: Path) -> None:
    """Fault: a finished run ignores a raised max_epochs, or goes on when none was raised."""
    assert trained(tiny_config(tmp_path))["progress"]["epoch"] == 3
    assert trained(tiny_config(tmp_path))["progress"]["epoch"] == 3
    more = tiny_config(tmp_path, training__max_epochs=3)
    assert trained(more)["progress"]["epoch"] == 4
    whole = tiny_config(tmp_path, "whole", training__max_epochs=3)
    trained(whole)
    assert_same_state(state(whole), state(more))


def test_lowered_limit_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault: a run beyond a lowered max_epochs trains one epoch more."""
    trained(tiny_config(tmp_path, training__max_epochs=2))
    longer, train_epoch = tiny_config(tmp_path, training__max_epochs=4), loop.train_epoch

    def stop_in_epoch_3(run: Run) -> bool:
        run.stop_signal.number = signal.SIGTERM
        return train_epoch(run)

    with monkeypatch.context() as patch:
        patch.setattr(loop, "train_epoch", stop_in_epoch_3)
        with pytest.raises(Stopped):
            loop.train(longer)
    before = state(longer)
    assert before["progress"]["epoch"] == 3
    loop.train(tiny_config(tmp_path, training__max_epochs=2))
    assert state(longer)["progress"]["update"] == before["progress"]["update"]


def test_the_limit_that_holds_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Fault: a finished run names the limit of an earlier command, or a run without updates leaves no checkpoint."""
    for limit, updates in ((0, 0), (3, 3), (2, 3), (4, 4)):
        saved = trained(tiny_config(tmp_path, training__max_updates=limit))
        assert saved["progress"]["update"] == updates
        said = f"training ended after {updates} updates: training.max_updates={limit} reached"
        assert said in capsys.readouterr().err


def test_second_process_is_refused(tmp_path: Path) -> None:
    """Fault: two processes write one run."""
    from convs2s.training.distributed import connected

    config = tiny_config(tmp_path)
    with (
        connected("cpu") as world,
        Run.open(config, world),
        pytest.raises(UserError, match="in use by another process"),
        Run.open(config, world),
    ):
        pass
    trained(config)


def test_the_speed_is_that_of_what_was_trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault: an epoch is there twice or not at all after a stop, or the tokens before it count without their time.

    And metrics.jsonl gets a time, so that equal runs differ.
    """
    config, end_update = tiny_config(tmp_path), Run.end_update
    whole = tiny_config(tmp_path, "whole")
    trained(whole)
    per_epoch = checkpoint.load(Path(whole.run_dir) / "checkpoints" / "last.pt")["progress"]["update"] // 2

    def stop_in_epoch_2(self: Run, *arguments: Any) -> None:
        if self.progress.update == per_epoch + 1:
            self.stop_signal.number = signal.SIGTERM
        end_update(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Run, "end_update", stop_in_epoch_2)
        with pytest.raises(Stopped):
            loop.train(config)
    loop.train(config)
    first, second = json.loads((Path(whole.run_dir) / "speed.json").read_text("utf-8"))
    assert first["tokens"] == second["tokens"] > 0
    stopped = json.loads((Path(config.run_dir) / "speed.json").read_text("utf-8"))
    assert [one["epoch"] for one in stopped] == [1, 2]
    assert stopped[0]["tokens"] == first["tokens"]
    assert 0 < stopped[1]["tokens"] < second["tokens"]
    assert min(one["seconds"] for one in [first, second, *stopped]) > 0
    assert metrics(whole) == metrics(config)
    environment = json.loads((Path(whole.run_dir) / "environment.json").read_text("utf-8"))
    model = checkpoint.load(Path(whole.run_dir) / "checkpoints" / "last.pt")["model"]
    assert environment["parameters"] == sum(tensor.numel() for tensor in model.values())


@pytest.mark.parametrize("harm", ["vanished", "full"])
def test_a_vanished_directory_and_a_full_disk_are_told(
    tmp_path: Path, harm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fault: a stack trace instead of a line that names the directory and the reason; or a checkpoint is lost."""
    config = tiny_config(tmp_path, training__save_every=2)
    end_update, directory = Run.end_update, tmp_path / "run"

    def harm_at_5(self: Run, *arguments: Any) -> None:
        if self.progress.update == 4:
            if harm == "vanished":
                directory.rename(tmp_path / "elsewhere")
            else:
                (directory / "metrics.jsonl").unlink()
                (directory / "metrics.jsonl").symlink_to("/dev/full")
        end_update(self, *arguments)

    reason = {"vanished": "No such file or directory", "full": "No space left on device"}[harm]
    with monkeypatch.context() as patch:
        patch.setattr(Run, "end_update", harm_at_5)
        with pytest.raises(UserError, match=rf"{directory}.*{reason}"):
            loop.train(config)
    kept = directory if harm == "full" else tmp_path / "elsewhere"
    assert checkpoint.load(kept / "checkpoints" / "last.pt")["progress"]["update"] >= 4


def test_batches_prepared_ahead_change_nothing(tmp_path: Path) -> None:
    """Fault: training.prefetch changes the order of the batches, or leaves its thread behind."""
    configs = [tiny_config(tmp_path, f"ahead{count}", training__prefetch=count) for count in (0, 3)]
    threads = threading.active_count()
    one, other = (trained(config) for config in configs)
    assert threading.active_count() == threads
    assert_same_state({part: one[part] for part in PARTS}, {part: other[part] for part in PARTS})
    assert metrics(configs[0]) == metrics(configs[1])


def test_fine_tuning_needs_no_file_of_codes(tmp_path: Path) -> None:
    """Fault: a model carries its BPE codes, and is not fine-tuned where their file has gone."""
    before = tiny_config(tmp_path, text__kind=TokenizerKind.moses_bpe, text__codes="gone")
    assert as_started(tiny_config(tmp_path), before).text == replace(before.text, codes=None)


def test_fine_tuning_starts_from_a_checkpoint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Fault: training.init_from is ignored, learns another vocabulary, takes the command's model for the file's, or
    drops what the command says of it without a word."""
    first = trained(tiny_config(tmp_path, "first"))
    write_corpus(tmp_path / "more", seed=9)
    options: dict[str, Any] = {
        "data__root": str(tmp_path / "more"),
        "data__prepared_dir": str(tmp_path / "more_prepared"),
        "training__init_from": str(tmp_path / "first" / "checkpoints" / "last.pt"),
        "model__embedding": 9,
        "text__min_frequency": 7,
    }
    start = trained(tiny_config(tmp_path, "start", training__max_updates=0, **options))
    assert_same_state(first["model"], start["model"])
    assert_same_state(first["tokenizers"], start["tokenizers"])
    unused = "text.min_frequency=7 (it has 1), model.embedding=9 (it has 6)"
    assert f"those of training.init_from, so not used: {unused}\n" in capsys.readouterr().err
    tuned = trained(tiny_config(tmp_path, "start", **options))
    fresh = trained(tiny_config(tmp_path, "fresh", **{**options, "training__init_from": None}))
    assert tuned["progress"]["best_loss"] < fresh["progress"]["best_loss"]
