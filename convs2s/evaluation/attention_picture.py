"""Attention as in the paper's figure 3: a panel for each decoder layer that attends, and one for their average.

L layers that attend · T target pieces · S source pieces, </s> included on both sides.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convs2s.errors import UserError
from convs2s.files import atomic, make_folder

COLUMNS = 4  # panels beside each other
LONGEST = 40  # characters of a piece that are shown; with 200,000 matplotlib works for minutes


def figure_class() -> Any:
    """matplotlib's Figure; UserError where the package is missing."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise UserError("pictures need matplotlib: pip install -e '.[plot]'") from None
    return Figure


def shortened(piece: str) -> str:
    """What is shown of a piece."""
    return piece if len(piece) <= LONGEST else f"{piece[: LONGEST - 1]}…"


def room(pieces: Sequence[str]) -> float:
    """Inches that the longest of some labels takes beside a panel."""
    return max(1.2, 0.5 + 0.08 * max(map(len, pieces), default=0))


def draw(
    path: Path, source: Sequence[str], target: Sequence[str], weights: NDArray[np.floating], numbers: Sequence[int]
) -> None:
    """Write a picture of ``weights`` (L, T, S), rows the target's pieces; ``numbers``: the layers', from 1.

    The format follows from the path's suffix. Raises UserError where matplotlib is missing or the disk refuses.
    """
    source, target = ([shortened(piece) for piece in pieces] for pieces in (source, target))
    panels = [(f"layer {number}", layer) for number, layer in zip(numbers, weights, strict=True)]
    panels.append(("average", weights.mean(0)))
    columns = min(COLUMNS, len(panels))
    rows = math.ceil(len(panels) / columns)
    width, height = room(target) + 0.24 * len(source), room(source) + 0.24 * len(target)
    figure = figure_class()(figsize=(columns * width, rows * height), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False)
    for i, axes in enumerate(grid.flat):
        if i >= len(panels):
            axes.set_axis_off()
            continue
        title, matrix = panels[i]
        axes.imshow(matrix, cmap="Greys", vmin=0.0, vmax=1.0, aspect="auto")
        axes.set_title(title, fontsize=9)
        axes.set_xticks(range(len(source)), source, rotation=90, fontsize=7)
        axes.set_yticks(range(len(target)), target, fontsize=7)
    make_folder(path.parent, "output")
    with atomic(path, "wb") as file:
        figure.savefig(file, format=path.suffix[1:], dpi=150)
