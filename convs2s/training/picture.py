"""Attention as a small picture for TensorBoard, drawn with what TensorBoard itself needs.

T target pieces · S source pieces, </s> included on both sides.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from convs2s.text.sentencepiece_tokenizer import WORD_START

CELL = 14  # pixels of a weight, and of a line of text
MARGIN = 3
LONGEST = 40  # characters of a piece that are shown


def picture(attention: NDArray[np.floating], source: Sequence[str], target: Sequence[str]) -> NDArray[np.uint8]:
    """(T, S) weights from 0 to 1 as grey cells, (height, width): white 0, black 1.

    Rows have the target's pieces on their left, columns the source's above them.
    """
    rows, columns = labels(target), labels(source).rotate(90, expand=True)
    grey = np.rint(255.0 * (1.0 - np.clip(attention, 0.0, 1.0))).astype(np.uint8)
    cells = Image.fromarray(grey.repeat(CELL, 0).repeat(CELL, 1))
    image = Image.new("L", (rows.width + cells.width, columns.height + cells.height), 255)
    image.paste(rows, (0, columns.height))
    image.paste(columns, (rows.width, 0))
    image.paste(cells, (rows.width, columns.height))
    return np.asarray(image)


@cache
def find_font() -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    """DejaVu Sans, the system's or matplotlib's own; else Pillow's, which has the letters of English only."""
    matplotlib = find_spec("matplotlib")
    folders = [] if matplotlib is None else list(matplotlib.submodule_search_locations or [])
    for name in ("DejaVuSans.ttf", *(f"{folder}/mpl-data/fonts/ttf/DejaVuSans.ttf" for folder in folders)):
        with suppress(OSError):
            return ImageFont.truetype(name, CELL - 3)
    return ImageFont.load_default(CELL - 3)


def labels(pieces: Sequence[str]) -> Image.Image:
    """A piece a line, (lines x CELL) pixels high and as wide as the longest."""
    font = find_font()
    shown = [piece[:LONGEST].replace(WORD_START, "_") for piece in pieces]  # which few fonts have
    width = int(max((font.getlength(piece) for piece in shown), default=0)) + 2 * MARGIN
    image = Image.new("L", (width, CELL * len(shown)), 255)
    for number, piece in enumerate(shown):
        ImageDraw.Draw(image).text((MARGIN, CELL * number), piece, fill=0, font=font)
    return image
