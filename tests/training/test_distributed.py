"""Several processes train as one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from runs import assert_same_state, metrics, tiny_config, trained

from convs2s.training import checkpoint

WORKER = Path(__file__).parent / "worker.py"


def launch(folder: Path, run: str, processes: int, *flags: str, death: int | None = None, **options: Any) -> None:
    """Train in so many processes; an option of None is left out."""
    tiny_config(folder)  # writes the corpus
    arguments = [str(folder), run, json.dumps(options)] + ([] if death is None else [str(death)])
    torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}", *flags]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, *torchrun, str(WORKER), *arguments], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[:6000]


def last(folder: Path, run: str) -> dict[str, Any]:
    return checkpoint.load(folder / run / "checkpoints" / "last.pt")


@pytest.mark.timeout(240)
def test_ranks_equal_one_process(tmp_path: Path) -> None:
    """Fault: gradients are averaged over ranks, clipped before they are summed, or a rank without a batch hangs all.

    The epoch's 8 batches make groups of 6 and 2: in the second, ranks have one batch or none.
    """
    options = {"model__dropout": 0.0, "training__max_epochs": 3}
    torch.set_default_dtype(torch.float64)
    try:
        one = trained(tiny_config(tmp_path, "alone", training__accumulate=6, **options))
    finally:
        torch.set_default_dtype(torch.float32)
    for processes in (2, 3):
        launch(tmp_path, f"ranks{processes}", processes, training__accumulate=6 // processes, **options)
        other = last(tmp_path, f"ranks{processes}")
        assert other["progress"]["update"] == one["progress"]["update"] == 6
        for name, weight in one["model"].items():
            assert weight.dtype == torch.float64
            assert (weight - other["model"][name]).abs().max() < 1e-9, name
        assert abs(one["progress"]["best_loss"] - other["progress"]["best_loss"]) < 1e-9
        run = tmp_path / f"ranks{processes}"
        assert len(metrics(tiny_config(tmp_path, run.name)).splitlines()) == 5, "only one process writes"


@pytest.mark.timeout(240)
def test_a_killed_worker_comes_back(tmp_path: Path) -> None:
    """Fault: after a restart the ranks disagree on the data, or the lock of the dead process keeps the run."""
    options = {"training__save_every": 2}
    launch(tmp_path, "whole", 2, **options)
    launch(tmp_path, "killed", 2, "--max-restarts=2", death=5, **options)
    assert (tmp_path / "died").exists()
    whole, killed = last(tmp_path, "whole"), last(tmp_path, "killed")
    for part in ("model", "optimizer", "schedule", "progress"):
        assert_same_state(whole[part], killed[part], part)
    assert metrics(tiny_config(tmp_path, "whole")) == metrics(tiny_config(tmp_path, "killed"))
