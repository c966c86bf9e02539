"""A thread or several processes: results in order, faults passed on, and the same corpus as with one process."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

import convs2s.data.choice as choosing
from convs2s.config import DataConfig, TextConfig, TokenizerKind
from convs2s.data.parallel import ahead, ordered
from convs2s.data.prepare import prepare
from convs2s.errors import UserError
from convs2s.processes import worker_processes


def double(value: int) -> int:
    if value == 13:
        raise UserError("thirteen")
    return 2 * value


def test_results_come_in_order_and_faults_are_passed_on() -> None:
    """Fault: results in the order in which processes finish, all items read at once, a fault that hangs the pool."""
    drawn: list[int] = []

    def items() -> Iterator[tuple[str, int]]:
        for i in range(20):
            drawn.append(i)
            yield str(i), i

    results = ordered(double, items(), 2)
    assert next(results) == ("0", 0)
    assert len(drawn) <= 6
    found = [next(results) for _ in range(12)]
    assert found == [(str(i), 2 * i) for i in range(1, 13)]
    with pytest.raises(UserError, match="thirteen"):
        list(results)


def last_words(value: int) -> int:
    return value if value < 3 else os._exit(1)


def test_workers_leave_ctrl_c_to_their_parent_and_are_missed_when_they_die() -> None:
    """Fault: a stack trace from each worker at Ctrl-C, most of all while it starts; another where one lacks memory."""

    def items() -> Iterator[tuple[str, int]]:
        for i in range(4):
            yield str(i), i
            for worker in multiprocessing.active_children():
                assert worker.pid is not None
                os.kill(worker.pid, signal.SIGINT)

    results = ordered(last_words, items(), 1)
    assert [next(results) for _ in range(3)] == [("0", 0), ("1", 1), ("2", 2)]
    with pytest.raises(UserError, match=r"a worker process ended before .*: lower data\.workers"):
        next(results)


def test_ctrl_c_ends_work_in_progress() -> None:
    """Fault: after Ctrl-C the command waits for whatever its worker processes are in the middle of."""
    work = []

    def interrupted() -> None:
        with worker_processes(1, nothing, (), "") as submit:
            submit(nothing).result()  # it is there
            work.append(submit(time.sleep, 60))
            while not work[0].running():
                time.sleep(0.001)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    with pytest.raises(BrokenProcessPool):
        work[0].result()
    assert not multiprocessing.active_children()


def nothing() -> None:
    pass


@pytest.mark.parametrize("kind", ["sentencepiece", "moses_bpe"])
def test_the_same_corpus_with_any_number_of_processes(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fault: chunks written in another order, line numbers or counts of one worker only."""
    if kind == "moses_bpe":
        pytest.importorskip("sacremoses")
    monkeypatch.setattr(choosing, "CHUNK", 7)
    for name, count in (("train", 60), ("valid", 4)):
        for language in ("de", "en"):
            lines = (f"{language} satz {i}.\n" if i % 9 else "\n" for i in range(count))
            (tmp_path / f"{name}.{language}").write_text("".join(lines))
    data = DataConfig(
        source="de",
        target="en",
        root=str(tmp_path),
        train=["train.de", "train.en"],
        valid=["valid.de", "valid.en"],
    )
    text = TextConfig(kind=TokenizerKind(kind), vocabulary_size=30, merges=10)
    contents = []
    for workers in (0, 2):
        folder = tmp_path / f"prepared{workers}"
        prepare(replace(data, workers=workers, prepared_dir=str(folder)), text, lambda _: None)
        contents.append({path.name: path.read_bytes() for path in folder.iterdir()})
    assert contents[0] == contents[1]


@pytest.mark.parametrize("count", [0, 1, 3, 20])
def test_everything_in_order(count: int) -> None:
    """Fault: a result is lost at the end, doubled, or given to another key."""
    assert list(ahead(lambda key: key * key, range(10), count)) == [(key, key * key) for key in range(10)]


@pytest.mark.parametrize("count", [1, 3])
def test_so_many_are_made_ahead(count: int) -> None:
    """Fault: nothing is made ahead, or a whole epoch fills the memory."""
    made: list[int] = []
    with closing(ahead(made.append, range(100), count)) as results:
        next(results)
        deadline = time.monotonic() + 30
        while len(made) <= count and time.monotonic() < deadline:
            time.sleep(0.001)
        assert made == list(range(count + 1))


@pytest.mark.parametrize("count", [0, 2])
def test_a_failure_comes_in_its_place(count: int) -> None:
    """Fault: an exception in the thread is lost, or costs the results before it."""
    results = ahead(lambda key: 1 // (3 - key), range(10), count)
    assert [next(results) for _ in range(3)] == [(0, 0), (1, 0), (2, 1)]
    with pytest.raises(ZeroDivisionError):
        next(results)


def test_the_thread_ends_with_its_user() -> None:
    """Fault: after an interrupt a thread goes on preparing."""

    def interrupted() -> None:
        with closing(ahead(lambda key: key, range(1000), 5)) as results:
            next(results)
            raise KeyboardInterrupt

    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert threading.active_count() == before


ORPHANS = """
import time
from convs2s.processes import worker_processes
with worker_processes(2, print, ("begun",), "") as submit:
    waiting = [submit(time.sleep, 600) for _ in range(2)]
    waiting[0].result()
"""


def test_worker_processes_end_with_whoever_started_them() -> None:
    """Fault: after a SIGKILL of a program its workers keep their memory until somebody finds them."""
    command = [sys.executable, "-u", "-c", ORPHANS]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, "PYTHONUNBUFFERED": "1"})
    assert process.stdout is not None
    assert process.stdout.readline() == b"begun\n"
    process.kill()
    process.communicate(timeout=60)  # the pipe is closed when all who have inherited it have ended
