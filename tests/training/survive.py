"""What training survives, counted: python tests/training/survive.py [KILLS] [FLIPS]

Kills: SIGKILL at random moments, again and again.  Faults: every file operation of a save in turn fails, or is the
last thing that the process does.  Flips: single bits of a checkpoint.  Every start must find a state it can read, lose
at most one save interval, and the run must end with the weights and metrics of an undisturbed one; every flipped bit
must be found.  Children are forked, so that PyTorch is imported once.
"""

from __future__ import annotations

import builtins
import contextlib
import errno
import os
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from tqdm import tqdm

sys.path.insert(0, str(Path(__file__).parent))

from runs import assert_same_state, metrics, tiny_config

from convs2s.config import TrainConfig
from convs2s.errors import UserError
from convs2s.training import checkpoint
from convs2s.training.loop import train
from convs2s.training.run import Run

SAVE_EVERY = 2
Act = Callable[[], None]


def forked(work: Act) -> int:
    """Do ``work`` in a forked process with its messages thrown away; returns its id."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    tqdm.set_lock(threading.RLock())  # its own is shared with the parent: a child that is killed would keep it
    try:
        with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
            work()
        status = 0
    finally:
        os._exit(status)


def last(config: TrainConfig) -> dict[str, Any]:
    return checkpoint.load(Path(config.run_dir) / "checkpoints" / "last.pt")


def updates(config: TrainConfig) -> int:
    """Updates in the last checkpoint, 0 where none was written yet; raises where it is not whole."""
    path = Path(config.run_dir) / "checkpoints" / "last.pt"
    return int(last(config)["progress"]["update"]) if path.exists() else 0


def logged(config: TrainConfig) -> int:
    """Updates that the run has logged; with log_every=1, all it has done."""
    path = Path(config.run_dir) / "metrics.jsonl"
    return path.read_text("utf-8").count('"kind": "train"') if path.exists() else 0


def ends_like(config: TrainConfig, whole: TrainConfig) -> bool:
    """Whether two runs ended alike to the bit."""
    expected, found = last(whole), last(config)
    try:
        for part in ("model", "optimizer", "schedule", "progress"):
            assert_same_state(expected[part], found[part], part)
    except AssertionError:
        return False
    return metrics(whole) == metrics(config)


def survive(folder: Path, kills: int, seed: int = 1) -> dict[str, int]:
    """Kill so many times; returns the counts."""
    torch.set_num_threads(1)
    draw = random.Random(seed)
    options = {"training__max_epochs": 12, "training__save_every": SAVE_EVERY, "training__log_every": 1}
    whole = tiny_config(folder, "whole", **options)
    start = time.perf_counter()
    train(whole)
    duration = time.perf_counter() - start
    counts = {"kills": 0, "starts": 0, "runs completed": 0, "wrong end states": 0, "updates lost at most": 0}
    while counts["kills"] < kills:
        config = tiny_config(folder, f"killed{counts['runs completed']}", **options)
        seen = 0
        while True:
            pid = forked(partial(train, config))
            counts["starts"] += 1
            deadline = time.perf_counter() + draw.uniform(0.0, 0.5 * duration)
            while counts["kills"] < kills and time.perf_counter() < deadline:
                time.sleep(0.001)
            before = logged(config)
            if counts["kills"] < kills:
                os.kill(pid, 9)
            _, status = os.waitpid(pid, 0)
            if os.WIFEXITED(status):
                assert os.WEXITSTATUS(status) == 0, "a start could not read what a killed one left"
                break
            counts["kills"] += 1
            now = updates(config)
            assert now >= seen, "a checkpoint went back"
            counts["updates lost at most"] = max(counts["updates lost at most"], before - now)
            seen = now
        counts["runs completed"] += 1
        counts["wrong end states"] += not ends_like(config, whole)
    return counts


class Watched:
    """A file that tells of every write when it is half done, and of every flush."""

    def __init__(self, file: Any, tell: Act) -> None:
        self.file, self.tell = file, tell

    def write(self, data: Any) -> int:
        half = len(data) // 2
        self.file.write(data[:half])
        self.file.flush()
        self.tell()
        return half + int(self.file.write(data[half:]))

    def flush(self) -> None:
        self.tell()
        self.file.flush()

    def __enter__(self) -> Watched:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)


@contextlib.contextmanager
def watched(tell: Act) -> Iterator[None]:
    """Tell of every file operation inside before it is done."""

    def telling(real: Callable[..., Any], wrap: bool = False) -> Callable[..., Any]:
        def call(*arguments: Any, **keywords: Any) -> Any:
            tell()
            result = real(*arguments, **keywords)
            return Watched(result, tell) if wrap else result

        return call

    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.object(builtins, "open", telling(open, wrap=True)))
        for name in ("fsync", "replace", "open"):
            stack.enter_context(mock.patch.object(os, name, telling(getattr(os, name))))
        yield


def at(place: int, act: Act) -> Act:
    """Act at the call number ``place``, from 0."""
    calls = 0

    def tell() -> None:
        nonlocal calls
        if calls == place:
            act()
        calls += 1

    return tell


def fail() -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def die() -> None:
    os._exit(9)


def operations(work: Act) -> int:
    """How many file operations there are in ``work``."""
    count = 0

    def tell() -> None:
        nonlocal count
        count += 1

    with watched(tell):
        work()
    return count


def with_broken_save(config: TrainConfig, tell: Act) -> None:
    """Train, and tell of the file operations of the first save."""
    save, told = Run.save, False

    def watching(self: Run, name: str) -> None:
        nonlocal told
        with contextlib.nullcontext() if told else watched(tell):
            told = True
            save(self, name)

    with mock.patch.object(Run, "save", watching):
        train(config)


def break_saves(folder: Path, ways: Sequence[str] = ("failures", "deaths")) -> dict[str, int]:
    """A run whose every start fails or dies in its first save, each at another file operation; returns the counts."""
    torch.set_num_threads(1)
    options = {"training__max_updates": 6, "training__save_every": 1, "training__log_every": 1}
    whole, count = tiny_config(folder, "whole saves", **options), 0

    def tell() -> None:
        nonlocal count
        count += 1

    with_broken_save(whole, tell)
    counts = {"operations": count, **dict.fromkeys(ways, 0), "updates lost at most": 0}
    config = tiny_config(folder, "broken saves", **options)
    for way in ways:
        act, status = {"failures": (fail, 1), "deaths": (die, 9)}[way]
        for place in range(count):
            pid = forked(partial(with_broken_save, config, at(place, act)))
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == status, "a start did not get to its save"
            counts[way] += 1
            counts["updates lost at most"] = max(counts["updates lost at most"], logged(config) - updates(config))
    pid = forked(partial(train, config))
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, "the next start did not go on"
    counts["wrong end states"] = int(not ends_like(config, whole))
    counts["half-written files left"] = len(list(Path(config.run_dir).rglob("*.tmp")))
    return counts


def flip(path: Path, bits: int, seed: int = 5) -> dict[str, int]:
    """Flip single bits of a checkpoint: so many at random, and all of its last 100 bytes; returns the counts."""
    content = path.read_bytes()
    draw = random.Random(seed)
    places = {draw.randrange(8 * len(content)) for _ in range(bits)}
    places |= set(range(8 * (len(content) - 100), 8 * len(content)))
    counts = {"flips": 0, "flips found": 0}
    for bit in sorted(places):
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        counts["flips"] += 1
        with contextlib.suppress(UserError):
            checkpoint.load(path)
            continue
        counts["flips found"] += 1
    path.write_bytes(content)
    return counts


def main(kills: int = 300, flips: int = 2000) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        killed = survive(folder, kills)
        broken = break_saves(folder)
        flipped = flip(folder / "whole" / "checkpoints" / "last.pt", flips)
        for counts in (killed, broken, flipped):
            print("\n".join(f"{count:6} {what}" for what, count in counts.items()), end="\n\n")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
