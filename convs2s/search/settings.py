"""Search options that cannot work are refused before anything is translated."""

from __future__ import annotations

from convs2s.config import SearchConfig


def check_search(config: SearchConfig) -> None:
    """As ``SearchConfig.check``."""
    config.check()
