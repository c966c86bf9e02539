"""Attention as HTML pages that stand alone: no script, no network, no picture file.

Each sentence has the map of its words, which source words every target word used, and a panel for each layer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from convs2s.evaluation.attention import Attention, Floats

PAGE = 100  # sentences on a page

STYLE = """
body { font: 14px system-ui, sans-serif; margin: 1.5em; color: #222; background: #fff }
h2 { font-size: 1em; margin: 2.5em 0 .5em }
.panels { display: flex; flex-wrap: wrap; gap: 1.5em }
.used { align-self: start }
.used caption { text-align: left; color: #666 }
.used th { font-weight: normal; text-align: right }
.used td { padding: 0 .4em }
small { color: #666 }
"""
MAP_STYLE = """
.map { border-collapse: collapse; font: 14px system-ui, sans-serif; color: #222; background: #fff }
.map caption { text-align: left; color: #666; background: #fff; padding-bottom: .3em }
.map th { font-weight: normal; text-align: right; padding: 0 .4em; white-space: nowrap; border: 0; background: none }
.map thead th { vertical-align: bottom; padding: .2em 0 }
.map thead span { writing-mode: vertical-rl; transform: rotate(180deg) }
.map td {
  width: 1.1em; min-width: 1.1em; height: 1.1em; padding: 0; border: 1px solid #eee;
  background: rgb(8 48 107 / var(--a));
}
"""


def page(sentences: Sequence[Attention], title: str, number: int, pages: int) -> str:
    """One page, ``number`` of ``pages`` (from 1), as HTML."""
    links = "".join(
        f" <b>{n}</b>" if n == number else f' <a href="{file_name(n)}">{n}</a>' for n in range(1, pages + 1)
    )
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8">',
        f"<title>{escape(title)}</title><style>{STYLE}{MAP_STYLE}</style></head><body>",
        f"<h1>{escape(title)}</h1>",
        "<p>Rows: target, columns: source; a row shows where the decoder looked before it wrote the word. "
        "White is 0, dark is 1.</p>",
    ]
    if pages > 1:
        parts.append(f"<p>Pages:{links}</p>")
    for attention in sentences:
        parts += sentence(attention)
    return "\n".join([*parts, "</body></html>", ""])


def file_name(number: int) -> str:
    """Of a page, from 1."""
    return "attention.html" if number == 1 else f"attention{number}.html"


def sentence(attention: Attention) -> Iterator[str]:
    """A sentence's panels."""
    source, target = attention.source, attention.target
    yield f'<h2 id="line{attention.line}">{attention.line}. {escape(attention.text)}</h2>'
    yield '<div class="panels">'
    yield panel("words, average of the layers", source.words, target.words, attention.by_words(attention.average))
    yield '<table class="used"><caption>source words used</caption><tbody>'
    for word, used in zip(target.words, attention.used(), strict=True):
        listed = ", ".join(f"{escape(name)} <small>{share:.2f}</small>" for name, share in used)
        yield f"<tr><th>{escape(word)}</th><td>{listed}</td></tr>"
    yield "</tbody></table>"
    for number, weights in zip(attention.layers, attention.weights, strict=True):
        yield panel(f"layer {number}", source.pieces, target.pieces, weights)
    if len(attention.layers) > 1:
        yield panel("average", source.pieces, target.pieces, attention.average)
    yield "</div>"


def panel(title: str, source: Sequence[str], target: Sequence[str], weights: Sequence[Sequence[float]] | Floats) -> str:
    """A table (style: MAP_STYLE) whose cells are as dark as ``weights`` (target, source) are large.

    Raises ValueError where sizes do not fit.
    """
    if len(weights) != len(target) or any(len(row) != len(source) for row in weights):
        raise ValueError(f"{len(weights)} rows for {len(target)} target and {len(source)} source tokens")
    head = "".join(f"<th><span>{escape(token)}</span></th>" for token in source)
    rows = [f'<table class="map"><caption>{escape(title)}</caption><thead><tr><th></th>{head}</tr></thead><tbody>']
    for token, row in zip(target, weights, strict=True):
        cells = "".join(f'<td style="--a:{weight:.2f}" title="{weight:.3f}"></td>' for weight in row)
        rows.append(f"<tr><th>{escape(token)}</th>{cells}</tr>")
    return "\n".join([*rows, "</tbody></table>"])
