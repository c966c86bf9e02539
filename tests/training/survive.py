"""Kill a training with SIGKILL at random moments, again and again: python tests/training/survive.py [KILLS]

Every start must find a state it can read, lose at most one save interval, and the run must end with the weights and
metrics of an undisturbed one. Prints the counts. Children are forked, so that PyTorch is imported once.
"""

from __future__ import annotations

import contextlib
import os
import random
import sys
import tempfile
import time
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent))

from runs import assert_same_state, metrics, tiny_config, trained

from convs2s.config import TrainConfig
from convs2s.training import checkpoint
from convs2s.training.loop import train

SAVE_EVERY = 2


def child(config: TrainConfig) -> int:
    """Train in a forked process with its messages thrown away; returns its id."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
            train(config)
        status = 0
    finally:
        os._exit(status)


def updates(config: TrainConfig) -> int:
    """Updates in the last checkpoint, 0 where none was written yet."""
    path = Path(config.run_dir) / "checkpoints" / "last.pt"
    return int(checkpoint.load(path)["progress"]["update"]) if path.exists() else 0


def survive(folder: Path, kills: int, seed: int = 1) -> dict[str, int]:
    """Kill so many times; returns the counts."""
    torch.set_num_threads(1)
    draw = random.Random(seed)
    options = {"training__max_epochs": 12, "training__save_every": SAVE_EVERY, "training__log_every": 1}
    whole = tiny_config(folder, "whole", **options)
    start = time.perf_counter()
    expected = trained(whole)
    duration = time.perf_counter() - start
    counts = {"kills": 0, "starts": 0, "runs completed": 0, "wrong end states": 0, "updates lost at most": 0}
    while counts["kills"] < kills:
        config = tiny_config(folder, f"killed{counts['runs completed']}", **options)
        seen = 0
        while True:
            pid = child(config)
            counts["starts"] += 1
            deadline = time.perf_counter() + draw.uniform(0.0, 0.5 * duration)
            while counts["kills"] < kills and time.perf_counter() < deadline:
                time.sleep(0.001)
            before = metrics_updates(config)
            if counts["kills"] < kills:
                os.kill(pid, 9)
            _, status = os.waitpid(pid, 0)
            if os.WIFEXITED(status):
                assert os.WEXITSTATUS(status) == 0, "a start could not read what a killed one left"
                break
            counts["kills"] += 1
            now = updates(config)  # raises where the checkpoint is not whole
            assert now >= seen, "a checkpoint went back"
            counts["updates lost at most"] = max(counts["updates lost at most"], before - now)
            seen = now
        counts["runs completed"] += 1
        found = checkpoint.load(Path(config.run_dir) / "checkpoints" / "last.pt")
        try:
            for part in ("model", "optimizer", "schedule", "progress"):
                assert_same_state(expected[part], found[part], part)
            assert metrics(whole) == metrics(config)
        except AssertionError:
            counts["wrong end states"] += 1
    return counts


def metrics_updates(config: TrainConfig) -> int:
    """Updates that the run has logged; with log_every=1, all it has done."""
    path = Path(config.run_dir) / "metrics.jsonl"
    return path.read_text("utf-8").count('"kind": "train"') if path.exists() else 0


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        for what, count in survive(Path(name), int(sys.argv[1]) if len(sys.argv) > 1 else 300).items():
            print(f"{count:6} {what}")
