"""Converting files of the PyTorch release in tests, and its ids."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from convs2s.config import (
    ConvertConfig,
    Origin,
)
from convs2s.interop import fairseq_py
from convs2s.interop.checkpoint import write
from convs2s.training.checkpoint import load

THEIRS = [3, 1, 2, 0, *range(4, 200)]  # our id -> theirs
OURS = torch.tensor(THEIRS).argsort()  # their id -> ours


def convert(model: Path, source: Path, target: Path, output: Path) -> dict[str, Any]:
    """The checkpoint as it comes back from disk."""
    config = ConvertConfig(
        from_=Origin.fairseq_py, model_=str(model), source_dict=str(source), target_dict=str(target), output=str(output)
    )
    write(str(output), fairseq_py.read(config))
    return load(output / "checkpoints" / "best.pt")
