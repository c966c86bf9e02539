"""Folders are replaced whole or not at all, whatever happens in between, by one process at a time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from convs2s.data.storage import find_file, folder_lock, recover, replacing


def content(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "a corpus=1 ä"
    folder.mkdir()
    (folder / "file").write_text("old")
    return folder


def siblings(folder: Path) -> list[str]:
    return [path.name for path in folder.parent.iterdir() if path != folder]


def test_a_folder_is_replaced(folder: Path) -> None:
    """Would catch files of the old folder among the new ones, and leftovers beside it."""
    with replacing(folder) as new:
        (new / "other").write_text("new")
        assert content(folder) == {"file": "old"}
    assert content(folder) == {"other": "new"}
    assert siblings(folder) == []


@pytest.mark.parametrize("fault", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_the_old_folder_survives_a_fault(folder: Path, fault: BaseException) -> None:
    """Would catch deleting before writing, and half a folder left behind."""

    def write_half() -> None:
        with replacing(folder) as new:
            (new / "file").write_text("half")
            raise fault

    with pytest.raises(type(fault)):
        write_half()
    assert content(folder) == {"file": "old"}
    assert siblings(folder) == []


def test_the_old_folder_survives_a_failing_rename(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Would catch the old folder left aside when the new one cannot take its place."""
    rename = Path.rename

    def failing(self: Path, target: Path) -> Path:
        if self.name.endswith(".new"):
            raise OSError(5, "Input/output error")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(OSError, match="Input/output"), replacing(folder) as new:
        (new / "file").write_text("new")
    assert content(folder) == {"file": "old"}
    assert siblings(folder) == []


@pytest.mark.parametrize("moved", [False, True])
def test_what_a_killed_process_left_is_cleared_up(folder: Path, moved: bool) -> None:
    """Would catch a killed preparation that blocks the next one, or loses the old folder between the two renames."""
    (folder.parent / f".{folder.name}.new").mkdir()
    (folder.parent / f".{folder.name}.new" / "junk").write_text("half")
    old = folder.parent / f".{folder.name}.old"
    if moved:
        folder.rename(old)
        recover(folder)
        assert content(folder) == {"file": "old"}
    else:
        old.mkdir()
    with replacing(folder) as new:
        (new / "file").write_text("new")
    assert content(folder) == {"file": "new"}
    assert siblings(folder) == []


def test_a_writer_waits_for_others_and_readers_share(folder: Path) -> None:
    """Would catch two preparations in one folder at once, and readers that queue up behind each other."""
    said: list[str] = []
    order: list[str] = []
    started = threading.Event()

    def write() -> None:
        def waiting() -> None:
            said.append("waiting")
            started.set()

        with folder_lock(folder, shared=False, waiting=waiting):
            order.append("writer")

    def reader_waits() -> None:
        said.append("reader waits")

    thread = threading.Thread(target=write)
    with (
        folder_lock(folder, shared=True, waiting=reader_waits),
        folder_lock(folder, shared=True, waiting=reader_waits),
    ):
        thread.start()
        assert started.wait(10)
        order.append("readers")
    thread.join(10)
    assert order == ["readers", "writer"]
    assert said == ["waiting"]


def test_a_dead_process_holds_no_lock(folder: Path) -> None:
    """Would catch a lock that is a file's mere presence: after a kill every later run would wait for ever."""
    script = (
        "import sys, time; from pathlib import Path; from convs2s.data.storage import folder_lock\n"
        "with folder_lock(Path(sys.argv[1]), shared=False, waiting=lambda: None):\n"
        "    print('held', flush=True); time.sleep(60)"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    with subprocess.Popen(
        [sys.executable, "-c", script, str(folder)], stdout=subprocess.PIPE, env=environment
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        holder.send_signal(signal.SIGKILL)
        holder.wait(10)
    said: list[str] = []
    with folder_lock(folder, shared=False, waiting=lambda: said.append("waiting")):
        pass
    assert said == []


def test_plain_and_compressed_twins(tmp_path: Path) -> None:
    """Would catch a refusal of train.de where train.de.gz lies there, and the other way round."""
    (tmp_path / "a.de.gz").touch()
    (tmp_path / "b.de").touch()
    assert find_file(tmp_path / "a.de") == find_file(tmp_path / "a.de.gz") == tmp_path / "a.de.gz"
    assert find_file(tmp_path / "b.de.gz") == tmp_path / "b.de"
    assert find_file(tmp_path / "c.de") is None
