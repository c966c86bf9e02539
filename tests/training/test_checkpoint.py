"""Checkpoints: whole or not there, checked, plain."""

from __future__ import annotations

import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from runs import assert_same_state, tiny_config, trained
from survive import at, fail, flip, operations, watched

from convs2s.errors import UserError
from convs2s.files import atomic
from convs2s.training import checkpoint, loop
from convs2s.training.average import average
from convs2s.training.distributed import World

CONTENT: dict[str, Any] = {
    "model": {"w": torch.arange(12.0).view(3, 4), "b": torch.tensor([1, 2])},
    "config": {"a": [1, 2.5, None, "ü"]},
    "tokenizers": {},
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "last.pt"
    checkpoint.save(path, CONTENT)
    return path


def test_round_trip_keeps_content_and_size(file: Path) -> None:
    """Fault: a checkpoint grows with every save and load, or comes back changed."""
    size = file.stat().st_size
    for _ in range(5):
        loaded = checkpoint.load(file)
        assert_same_state(CONTENT, loaded)
        checkpoint.save(file, loaded)
        assert file.stat().st_size == size
    assert [path.name for path in file.parent.iterdir()] == ["last.pt"]


def test_any_program_reads_it(file: Path) -> None:
    """Fault: the digest makes the file unreadable to torch.load, or breaks the archive."""
    assert_same_state(CONTENT, torch.load(file, weights_only=True))
    with zipfile.ZipFile(file) as archive:
        assert archive.testzip() is None
        assert archive.comment.startswith(b"sha256:")


def test_every_flipped_bit_is_found(file: Path) -> None:
    """Fault: some byte is covered by no checksum (tried: 2,000 random bits, and every one of the last 100 bytes)."""
    counts = flip(file, 2000)
    assert counts["flips"] == counts["flips found"] > 2000


def test_every_truncation_is_found(file: Path) -> None:
    """Fault: a file cut short by a full disk loads, or ends in a stack trace."""
    content = file.read_bytes()
    for length in {0, 1, 22, 100, len(content) // 2, *range(len(content) - 150, len(content))}:
        file.write_bytes(content[:length])
        with pytest.raises(UserError):
            checkpoint.load(file)


class Malicious:
    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, ("owned",))


def test_a_pickle_that_runs_code_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault: a foreign checkpoint runs its code, with a digest or without."""
    monkeypatch.chdir(tmp_path)
    for name, content in (("plain", pickle.dumps(Malicious())), ("text", b"hello"), ("empty", b"")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(UserError, match="not written by this program"):
            checkpoint.load(tmp_path / name)
    torch.save(CONTENT, tmp_path / "foreign.pt")
    with pytest.raises(UserError, match="not written by this program"):
        checkpoint.load(tmp_path / "foreign.pt")
    checkpoint.save(tmp_path / "signed.pt", {**CONTENT, "more": Malicious()})
    with pytest.raises(UserError, match="not one of this program"):
        checkpoint.load(tmp_path / "signed.pt")
    assert not (tmp_path / "owned").exists()


@pytest.mark.parametrize("place", range(9))
def test_a_failing_file_operation_leaves_a_whole_checkpoint(file: Path, place: int) -> None:
    """Fault: a full disk, at whichever operation of a save it shows, costs the checkpoint that was there."""
    new = {**CONTENT, "config": {"new": True}}
    assert operations(lambda: checkpoint.save(file, CONTENT)) == 8
    if place == 8:
        checkpoint.save(file, new)
    else:
        with watched(at(place, fail)), pytest.raises(UserError, match="No space left on device"):
            checkpoint.save(file, new)
    expected = CONTENT if place < 6 else new  # the rename is the sixth
    assert_same_state(expected, checkpoint.load(file))
    assert [path.name for path in file.parent.iterdir()] == ["last.pt"]


def test_damaged_last_is_named_and_the_newest_whole_one_used(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Fault: a damaged last.pt ends the run, or an older checkpoint than necessary is taken."""
    config = tiny_config(tmp_path, training__keep=1)
    whole = trained(config)
    folder = tmp_path / "run" / "checkpoints"
    last = folder / "last.pt"
    last.write_bytes(last.read_bytes()[:-200])
    more = tiny_config(tmp_path, training__keep=1)
    assert_same_state(whole["model"], trained(more)["model"])
    errors = capfd.readouterr().err
    assert "last.pt: not written by this program, or cut short" in errors
    assert "epoch2.pt at epoch 3" in errors or "best.pt at epoch 3" in errors


def test_no_whole_checkpoint_is_a_refusal(tmp_path: Path) -> None:
    """Fault: with every checkpoint damaged a run silently starts from nothing, over the old one's remains."""
    trained(tiny_config(tmp_path))
    for path in (tmp_path / "run" / "checkpoints").iterdir():
        path.write_bytes(b"")
    with pytest.raises(UserError, match="no checkpoint is whole"):
        loop.train(tiny_config(tmp_path))


def test_machines_that_see_different_folders_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault: run_dir on each machine's own disk: after a restart one goes on from update 3, another from none."""
    config = tiny_config(tmp_path)
    monkeypatch.setattr(World, "gather", lambda self, value: [value, ("last.pt", 3)])
    with pytest.raises(UserError, match="the processes find different checkpoints there; give a folder that all"):
        loop.train(config)


def test_an_average_is_nothing_to_go_on_from(tmp_path: Path) -> None:
    """Fault: a last.pt without a training's state, copied there, ends in a KeyError, or a folder of such in a lie."""
    whole = trained(tiny_config(tmp_path))
    folder = tmp_path / "run" / "checkpoints"
    checkpoint.save(folder / "last.pt", average([str(folder / "best.pt")]))
    assert_same_state(whole["model"], trained(tiny_config(tmp_path))["model"])
    for name in ("best.pt", "last.pt"):  # the last as a converted folder keeps it
        checkpoint.save(folder / name, average([str(folder / "best.pt")]) | {"progress": whole["progress"]})
    with pytest.raises(UserError, match="holds a training's state"):
        loop.train(tiny_config(tmp_path))


def test_a_folder_is_no_file() -> None:
    """Fault: output=. ends in pathlib's words."""
    with pytest.raises(UserError, match="is a folder; give a file"), atomic(Path(".")):
        pass


def test_average(tmp_path: Path) -> None:
    """Fault: averaging depends on the order of its arguments, counts one twice, or mixes different models."""
    trained(tiny_config(tmp_path, training__keep=1))
    folder = tmp_path / "run" / "checkpoints"
    one, two = str(folder / "epoch1.pt"), str(folder / "epoch2.pt")
    mean = average([one, two])
    assert_same_state(mean, average([two, one, two]))
    twice = average([one, two, str(Path(two).parent / "." / ".." / "checkpoints" / Path(two).name)])
    assert_same_state(mean["model"], twice["model"])
    for name, weight in mean["model"].items():
        expected = (checkpoint.load(one)["model"][name] + checkpoint.load(two)["model"][name]) / 2
        assert torch.allclose(weight, expected)
    checkpoint.save(tmp_path / "mean.pt", mean)
    checkpoint.build_model(checkpoint.load(tmp_path / "mean.pt"))
    trained(tiny_config(tmp_path, "other", model__embedding=7))
    with pytest.raises(UserError, match="another model"):
        average([one, str(tmp_path / "other" / "checkpoints" / "last.pt")])
