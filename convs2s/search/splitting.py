"""Lines that are longer than a model takes, split where sentences, clauses or words end."""

from __future__ import annotations

import re
from collections.abc import Callable

# Where a line may be cut, the best places first: after a sentence, after a clause, between words.
_PLACES = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?<=[.!?…])[\"'”»)]*\s+|(?<=[。！？])",
        r"(?<=[;:,，；：、])\s*(?=\S)",
        r"\s+",
    )
)


def split_line(line: str, fits: Callable[[str], bool]) -> list[str]:
    """Parts of a line that all fit, in order; cut again and again at the best place next to the middle."""
    line = line.strip()
    if fits(line) or len(line) < 2:
        return [line]
    middle = len(line) / 2
    for place in _PLACES:
        cuts = [
            match.end() for match in place.finditer(line) if line[: match.end()].strip() and match.end() < len(line)
        ]
        # A cut near an end hardly shortens the line: it is left to the next kind of place.
        cuts = [cut for cut in cuts if 0.1 < cut / len(line) < 0.9]
        if cuts:
            cut = min(cuts, key=lambda cut: abs(cut - middle))
            break
    else:
        cut = len(line) // 2
    return split_line(line[:cut], fits) + split_line(line[cut:], fits)
