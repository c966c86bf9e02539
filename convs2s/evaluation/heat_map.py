"""Attention as SVG: a square for each pair of a source and a target token, the darker the larger its weight.

T target tokens, down · S source tokens, across.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from convs2s.evaluation.svg import INK, text

CELL, LETTER = 16, 6.6  # pixels of a square's side, and a letter's width


def heat_map(title: str, source: Sequence[str], target: Sequence[str], weights: Sequence[Sequence[float]]) -> str:
    """An <svg> element. weights: (T, S), from 0 to 1. Raises ValueError where sizes do not fit."""
    if len(weights) != len(target) or any(len(row) != len(source) for row in weights) or not target:
        raise ValueError(f"{len(weights)} rows for {len(target)} target and {len(source)} source tokens")
    left = 10 + LETTER * max(map(len, target))
    top = 30 + LETTER * max(map(len, source))
    width, height = max(left + CELL * len(source) + 10, 20 + 8 * len(title)), top + CELL * len(target) + 10
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}" role="img" aria-label="{escape(title)}" font-family="sans-serif" font-size="11" '
        f'fill="{INK}">',
        f"<title>{escape(title)}</title>",
        f"<desc>{escape(described(source, target, weights))}</desc>",
        f'<rect width="{width:.0f}" height="{height:.0f}" fill="#ffffff"/>',
        text(8, 16, title, weight="bold"),
    ]
    parts += [text(left + CELL * (i + 0.7), top - 4, token, turn=-90) for i, token in enumerate(source)]
    for j, (token, row) in enumerate(zip(target, weights, strict=True)):
        parts.append(text(left - 4, top + CELL * (j + 0.75), token, anchor="end"))
        parts += [
            f'<rect x="{left + CELL * i:.1f}" y="{top + CELL * j:.1f}" width="{CELL}" height="{CELL}" '
            f'fill="#0b2f6b" fill-opacity="{weight:.3g}" stroke="#eeeeee"/>'
            for i, weight in enumerate(row)
        ]
    return "\n".join([*parts, "</svg>"]) + "\n"


def described(source: Sequence[str], target: Sequence[str], weights: Sequence[Sequence[float]]) -> str:
    """For each target token the source token it looked at most, for who cannot see the map."""
    most = [max(range(len(row)), key=row.__getitem__) for row in weights]
    return "; ".join(f"{token}: {source[i]}" for token, i in zip(target, most, strict=True))
