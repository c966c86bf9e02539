"""Disk space for a preparation: how much it takes, found out before it begins."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from convs2s.config import DataConfig, TextConfig, TokenizerKind
from convs2s.data.opening import SUFFIXES
from convs2s.data.sources import Sides
from convs2s.errors import UserError

_COMPRESSED = 4  # bytes of text in a byte of a compressed or parquet file
_LONG_PAIR = 1000  # bytes


def needed(data: DataConfig, text: TextConfig, texts: Sequence[tuple[Sides, float]]) -> int:
    """About how many bytes a preparation writes.

    A byte of training text becomes about one of ids and offsets, as often as its pair counts in an epoch; moses_bpe
    also writes the words that it cuts the text into. ``texts``: data.train, then each of data.extra, with weights.
    """
    total = 0.0
    for sides, weight in texts:
        copies = weight * data.fraction + (text.kind == TokenizerKind.moses_bpe)
        total += copies * text_size(sides)
    return int(total if data.max_pairs is None else min(total, data.max_pairs * _LONG_PAIR))


def check(folder: Path, needed: int) -> str:
    """A line that says what a preparation takes. Raises UserError where the disk of ``folder`` has less."""
    there = next(path for path in (folder, *folder.parents) if path.exists())
    free = shutil.disk_usage(there).free
    if needed > free:
        raise UserError(
            f"data.prepared_dir={folder}: preparing writes about {needed / 1e6:,.1f} MB there, but {free / 1e6:,.1f} MB"
            " are free; make room, or name a folder on another disk"
        )
    return f"preparing {folder}: about {needed / 1e6:,.1f} MB of the {free / 1e6:,.1f} MB that are free there"


def text_size(sides: Sides) -> int:
    """About how many bytes of text two sides hold; an archive, which may hold more than them, counts as it is."""
    paths = {part.path for side in sides for part in side.parts}
    return sum(path.stat().st_size * (_COMPRESSED if path.suffix in (*SUFFIXES, ".parquet") else 1) for path in paths)
