"""Kills, and failures in every place of a save; `python tests/training/survive.py 300` is the long form."""

from __future__ import annotations

from pathlib import Path

from survive import SAVE_EVERY, break_saves, survive


def test_killed_at_random_moments(tmp_path: Path) -> None:
    """Fault: a kill leaves an unreadable state, loses more than one save interval, or changes how the run ends."""
    counts = survive(tmp_path, 8)
    assert counts["kills"] == 8
    assert counts["wrong end states"] == 0
    assert counts["updates lost at most"] <= SAVE_EVERY


def test_dying_at_every_file_operation_of_a_save(tmp_path: Path) -> None:
    """Fault: a death, at whichever operation of a save, costs more than that save, leaves its half-written file for
    good, or keeps the next start from going on.

    The operations: open, two writes, flush, flush to disk, rename, and the folder's opening and flush.  Failures of
    each: see test_checkpoint.py.
    """
    counts = break_saves(tmp_path, ["deaths"])
    assert counts["operations"] == counts["deaths"] == 8
    assert counts["updates lost at most"] <= 1
    assert counts["wrong end states"] == counts["half-written files left"] == 0
