"""kill -9 at random moments; `python tests/training/survive.py 300` is the long form."""

from __future__ import annotations

from pathlib import Path

from survive import SAVE_EVERY, survive


def test_killed_at_random_moments(tmp_path: Path) -> None:
    """Fault: a kill leaves an unreadable state, loses more than one save interval, or changes how the run ends."""
    counts = survive(tmp_path, 8)
    assert counts["kills"] == 8
    assert counts["wrong end states"] == 0
    assert counts["updates lost at most"] <= SAVE_EVERY
