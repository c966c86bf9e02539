"""The data benchmark prints and writes the figures that it should, at a size of no interest."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def benchmark(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "benchmark.py"), *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )


def test_data(tmp_path: Path) -> None:
    """Fault: a benchmark that no longer runs, or JSON under other keys."""
    for language in ("de", "en"):
        lines = (f"{language} Satz {i} und {i * i}\n" for i in range(200))
        (tmp_path / f"train.{language}").write_text("".join(lines))
    options = ["pairs=3000", "ranks=4", "lines=[300,900]", "vocabulary_size=100", f"root={tmp_path}", "output=b.json"]
    done = benchmark(tmp_path, "data", *options)
    assert (done.returncode, done.stderr) == (0, "")
    assert "3,000 pairs, rank 1 of 4" in done.stdout
    assert "900 lines of Multi30k" in done.stdout
    found = json.loads((tmp_path / "b.json").read_text())
    assert set(found["batching_36m"]) == {"first_epoch_seconds", "second_epoch_seconds", "peak_gib"}
    assert set(found["encoding"]) == {"lines_per_second", "peak_gib_small", "peak_gib_large"}
    assert all(value > 0 for figures in (found["batching_36m"], found["encoding"]) for value in figures.values())


def test_a_wrong_verb(tmp_path: Path) -> None:
    """Fault: a traceback, or a message that does not say what there is."""
    done = benchmark(tmp_path, "date")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "data" in done.stderr
