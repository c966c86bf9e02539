"""Line and point charts as SVG text: small, the same on every machine, readable by a screen reader, no library needed.

Lengths are SVG's pixels; y grows downwards.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 560, 340
LEFT, RIGHT, TOP, BOTTOM = 62, 16, 34, 52  # margins around the plot
ROTATED = 96  # bottom margin for names under the axis
COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00"]  # told apart by colour-blind readers (Okabe and Ito)
INK, GRID = "#222222", "#dddddd"


@dataclass(frozen=True)
class Series:
    """Points of one colour; ``label`` empty: not in the legend."""

    label: str
    points: Sequence[tuple[float, float]]
    colour: int = 0
    thin: bool = False  # one seed, behind the mean
    dashed: bool = False
    joined: bool = True  # by a line


def chart(
    title: str,
    x_label: str,
    y_label: str,
    series: Sequence[Series],
    *,
    log: bool = False,
    names: Sequence[str] = (),
) -> str:
    """An <svg> element. log: of the y axis; names: of the x values 0, 1, ..., instead of numbers."""
    points = [point for one in series for point in one.points]
    if not points:
        raise ValueError(f"nothing to draw: {title}")
    xs, ys = [x for x, _ in points], [y for _, y in points]
    x_ticks = [float(i) for i in range(len(names))] if names else whole(nice(min(xs), max(xs)))
    y_ticks = decades(min(ys), max(ys)) if log else nice(min(ys), max(ys))
    low, high = min(*y_ticks, *ys), max(*y_ticks, *ys)
    first, last = min(*xs, *x_ticks), max(*xs, *x_ticks)
    pad = 0.3 if names else 0.0
    bottom = HEIGHT - (ROTATED if names else BOTTOM)

    def across(x: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (x - first + pad) / (last - first + 2 * pad or 1)

    def down(y: float) -> float:
        a, b, c = (math.log(y), math.log(low), math.log(high)) if log else (y, low, high)
        return bottom - (bottom - TOP) * (a - b) / (c - b or 1)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'role="img" aria-label="{escape(title)}" font-family="sans-serif" font-size="12" fill="{INK}">',
        f"<title>{escape(title)}</title>",
        f"<desc>{escape(described(series, names))}</desc>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        text(LEFT, 20, title, weight="bold"),
    ]
    for y in y_ticks:
        parts.append(line([(LEFT, down(y)), (WIDTH - RIGHT, down(y))], GRID))
        parts.append(text(LEFT - 6, down(y) + 4, f"{y:g}", anchor="end"))
    for i, x in enumerate(x_ticks):
        parts.append(line([(across(x), bottom), (across(x), bottom + 4)], INK))
        if names:
            parts.append(text(across(x), bottom + 14, names[i], anchor="end", turn=-35))
        else:
            parts.append(text(across(x), bottom + 18, f"{x:g}", anchor="middle"))
    parts.append(line([(LEFT, TOP), (LEFT, bottom), (WIDTH - RIGHT, bottom)], INK))
    parts.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, x_label, anchor="middle"))
    parts.append(text(16, (TOP + bottom) / 2, y_label, anchor="middle", turn=-90))
    for one in series:
        parts += drawn(one, [(across(x), down(y)) for x, y in one.points])
    for i, one in enumerate(one for one in series if one.label):
        y = TOP + 12 + 16 * i
        parts.append(line([(WIDTH - 200, y - 4), (WIDTH - 178, y - 4)], colour(one), 2, one.dashed))
        parts.append(text(WIDTH - 172, y, one.label))
    return "\n".join([*parts, "</svg>"]) + "\n"


def drawn(one: Series, points: Sequence[tuple[float, float]]) -> list[str]:
    """The elements of a series; coordinates are the picture's."""
    parts = []
    if one.joined and len(points) > 1:
        parts.append(line(points, colour(one), 1 if one.thin else 2, one.dashed, 0.45 if one.thin else 1.0))
    if not one.thin:
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour(one)}"/>' for x, y in points]
    return parts


def described(series: Sequence[Series], names: Sequence[str]) -> str:
    """The figures of a chart in words, for who cannot see it."""
    return "; ".join(
        f"{one.label}: " + ", ".join(f"{names[int(x)] if names else f'{x:g}'} {y:.4g}" for x, y in one.points)
        for one in series
        if one.label
    )


def colour(one: Series) -> str:
    return COLOURS[one.colour % len(COLOURS)]


def line(
    points: Sequence[tuple[float, float]], stroke: str, width: int = 1, dashed: bool = False, opacity: float = 1.0
) -> str:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    extra = (' stroke-dasharray="6 4"' if dashed else "") + (f' stroke-opacity="{opacity:g}"' if opacity < 1 else "")
    return f'<polyline points="{path}" fill="none" stroke="{stroke}" stroke-width="{width}"{extra}/>'


def text(x: float, y: float, words: str, *, anchor: str = "start", turn: int = 0, weight: str = "") -> str:
    extra = (f' transform="rotate({turn} {x:.1f} {y:.1f})"' if turn else "") + (
        f' font-weight="{weight}"' if weight else ""
    )
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{extra}>{escape(words)}</text>'


def nice(low: float, high: float) -> list[float]:
    """4 to 9 round numbers from just below ``low`` to just above ``high``."""
    if high <= low:
        low, high = low - 0.5, high + 0.5
    step = 10.0 ** math.floor(math.log10((high - low) / 4))
    step *= next(factor for factor in (1, 2, 5, 10) if (high - low) / (step * factor) <= 8)
    start = math.floor(low / step + 1e-9)
    ticks = [start * step]
    while ticks[-1] < high - 1e-9 * step:
        ticks.append(step * (start + len(ticks)))
    return [round(tick, 10) for tick in ticks]


def whole(ticks: Sequence[float]) -> list[float]:
    return [tick for tick in ticks if tick == int(tick)] or list(ticks)


def decades(low: float, high: float) -> list[float]:
    """1, 2, 5 times powers of ten, from just below ``low`` to just above ``high``."""
    exponents = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1)
    ticks = [factor * 10.0**exponent for exponent in exponents for factor in (1, 2, 5)]
    below = [tick for tick in ticks if tick <= low]
    above = [tick for tick in ticks if tick >= high]
    return [round(tick, 10) for tick in ticks if below[-1] <= tick <= above[0]]
