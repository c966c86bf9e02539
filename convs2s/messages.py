"""What a program says to people while it works: lines on standard error, or nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable

from tqdm import tqdm

Log = Callable[[str], None]


def say(line: str) -> None:
    """A line on standard error that leaves a progress bar whole."""
    tqdm.write(line, file=sys.stderr)


def silent(line: str) -> None:
    """Nothing."""
