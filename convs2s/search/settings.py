"""Search options that cannot work are refused before anything is translated."""

from __future__ import annotations

import math

from convs2s.config import SearchConfig, Stop
from convs2s.errors import UserError


def check_search(config: SearchConfig) -> None:
    """Refuse settings that cannot work, with a UserError that names the option."""
    for name in ("beam", "nbest", "batch_size", "batch_tokens", "max_length", "workers"):
        if name == "max_length" and config.max_length_ratio > 0 and config.max_length == 0:
            continue
        if getattr(config, name) < 1:
            raise UserError(f"search.{name}={getattr(config, name)}: must be at least 1")
    for name in ("lenpen", "unkpen", "subwordpen", "covpen", "max_length_ratio"):
        if not math.isfinite(getattr(config, name)):
            raise UserError(f"search.{name}={getattr(config, name)}: must be a finite number")
    if config.max_length_ratio < 0:
        raise UserError(f"search.max_length_ratio={config.max_length_ratio}: must not be negative")
    if config.nbest > config.beam:
        raise UserError(f"search.nbest={config.nbest}: a beam of {config.beam} holds fewer; raise search.beam")
    if config.min_length < 0 or (config.min_length > config.max_length and not config.max_length_ratio):
        raise UserError(
            f"search.min_length={config.min_length}: must be from 0 to search.max_length={config.max_length}"
        )
    config.selection.check("search.selection")
    if config.unknown.lexicon is not None and not config.unknown.replace:
        raise UserError("search.unknown.lexicon is for search.unknown.replace=true: give both, or neither")
    if config.stop == Stop.optimal:
        for name in ("unkpen", "subwordpen", "covpen"):
            if getattr(config, name) < 0:
                raise UserError(f"search.stop=optimal needs penalties, not rewards: search.{name} is negative")
