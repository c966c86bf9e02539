"""Pictures of attention."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tiny import save_checkpoint

from convs2s.config import DataConfig
from convs2s.evaluation.attention_picture import draw

ROOT = Path(__file__).resolve().parents[2]


def test_panels_and_tokens(tmp_path: Path) -> None:
    """Fault: a layer, the average or a token is missing from the picture."""
    pytest.importorskip("matplotlib")
    weights = np.random.default_rng(1).dirichlet(np.ones(3), size=(5, 2)).astype(np.float32)
    path = tmp_path / "new" / "picture.svg"
    draw(path, ["ein", "hund", "</s>"], ["a", "dog"], weights, [1, 2, 3, 5, 6])
    # Text is drawn as outlines; matplotlib keeps what they spell as comments.
    content = path.read_text("utf-8")
    for text in ("layer 1", "layer 5", "layer 6", "average"):
        assert content.count(f"<!-- {text} -->") == 1
    for token in ("ein", "hund", "&lt;/s&gt;", "a", "dog"):
        assert content.count(f"<!-- {token} -->") == 6, token


def test_a_word_without_end_is_shortened(tmp_path: Path) -> None:
    """Fault: minutes and gigabytes for a base64 attachment in the text."""
    pytest.importorskip("matplotlib")
    path = tmp_path / "picture.svg"
    draw(path, ["x" * 200_000], ["</s>"], np.ones((1, 1, 1), np.float32), [1])
    assert f"<!-- {'x' * 39}… -->" in path.read_text("utf-8")


def test_the_script(tmp_path: Path) -> None:
    """Fault: a blank line shifts the pictures' numbers, or the script cannot read a checkpoint."""
    pytest.importorskip("matplotlib")
    save_checkpoint(tmp_path / "best.pt", DataConfig())
    command = [sys.executable, str(ROOT / "scripts" / "plot_attention.py"), f"checkpoint={tmp_path}/best.pt"]
    command += [f"output={tmp_path}/pictures", "input=-", "formats=[png,json]"]
    done = subprocess.run(command, input="ein hund\n\nim schnee .\n", capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (tmp_path / "pictures").iterdir()) == [
        f"line{n}.{kind}" for n in (1, 3) for kind in ("json", "png")
    ]
