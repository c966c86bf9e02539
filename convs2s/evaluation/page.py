"""Sections as one HTML page that needs nothing but itself: styles, charts, pictures and a few lines of script in it.

Without JavaScript everything is there but the sorting of tables.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from html import escape
from pathlib import Path

from convs2s.errors import UserError
from convs2s.evaluation.attention_page import MAP_STYLE, panel
from convs2s.evaluation.markdown import READING
from convs2s.evaluation.plots import slug
from convs2s.evaluation.section import Code, Section
from convs2s.files import read_json

NUMBER = ' class="number"'
HERE = Path(__file__).parent
PICTURE_TYPES = {".svg": "image/svg+xml", ".png": "image/png"}


def page(sections: Sequence[Section], command: str) -> str:
    """The whole page. Raises UserError for a picture of attention that cannot be read."""
    links = "\n".join(
        f'<li><a href="#{anchor(section)}">{escape(section.title)}</a></li>'
        for section in sections
        if section.level == 2
    )
    body = "\n".join(rendered(section) for section in sections)
    style, script = ((HERE / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>ConvS2S: results</title>
<link rel="icon" href="data:,">
<style>
{style}{MAP_STYLE}</style>
</head>
<body>
<header>
<h1>Results</h1>
<p>Written by <code>{escape(command)}</code>.</p>
<p>{escape(READING)} A click on a column's heading sorts by it.</p>
</header>
<nav aria-label="Chapters"><ul>
{links}
</ul></nav>
<main>
{body}
</main>
<script>
{script}</script>
</body>
</html>
"""


def rendered(section: Section) -> str:
    parts = [f'<h{section.level} id="{anchor(section)}">{escape(section.title)}</h{section.level}>']
    parts += [f"<p>{inline(words)}</p>" for words in section.words]
    if section.rows:
        parts.append(table(section))
    for plot in section.plots:
        parts.append(f"<figure>\n{in_page(plot.svg)}<figcaption>{escape(plot.title)}</figcaption></figure>")
    for run in section.runs:
        parts.append(f"<h3>{escape(run.name)}</h3>")
        parts += [picture(path, run.name) for path in run.pictures]
    return "\n".join(parts)


def table(section: Section) -> str:
    head = "".join(f'<th scope="col">{escape(heading)}</th>' for heading in section.headings)
    rows = "\n".join(f"<tr>{''.join(cell(text) for text in row)}</tr>" for row in section.rows)
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-labelledby="{anchor(section)}">'
        f'<table class="sortable" aria-labelledby="{anchor(section)}">\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody></table></div>"
    )


def cell(text: str) -> str:
    number = not isinstance(text, Code) and text.startswith(tuple("+−0123456789"))
    return f"<td{NUMBER if number else ''}>{inline(text)}</td>"


def inline(text: str) -> str:
    return f"<code>{escape(text)}</code>" if isinstance(text, Code) and text else escape(text)


def picture(path: Path, run: str) -> str:
    """A picture as a data URL: a browser fetches nothing, and runs no script that an SVG may hold; numbers as maps."""
    if path.suffix == ".json":
        return maps(path, run)
    try:
        content = b64encode(path.read_bytes()).decode("ascii")
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}); leave the run out") from error
    words = escape(f"attention of {run}, {path.stem}: a panel for each decoder layer, source across, target down")
    source = f"data:{PICTURE_TYPES[path.suffix]};base64,{content}"
    return f'<figure><img src="{source}" alt="{words}"><figcaption>{escape(path.name)}</figcaption></figure>'


def maps(path: Path, run: str) -> str:
    """The maps of a line that scripts/plot_attention.py wrote as numbers: average of the layers, and each layer."""
    content = read_json(path, "take it out")
    try:
        source, target = content["source"], content["target"]
        panels = [("average of the layers", content["average"])]
        panels += [(f"layer {n}", m) for n, m in zip(content["layers"], content["attention"], strict=True)]
        drawn = [panel(f"{path.stem}, {name}", source, target, weights) for name, weights in panels]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UserError(f"{path}: no attention of scripts/plot_attention.py ({error!s:.60}); take it out") from error
    figures = "".join(f"<figure>\n{table}</figure>" for table in drawn)
    return f'<p>{escape(str(content.get("text", "")))}</p>\n<div class="scroll">{figures}</div>'


def in_page(svg: str) -> str:
    """Inside HTML an SVG needs no name space."""
    return svg.replace(' xmlns="http://www.w3.org/2000/svg"', "", 1)


def anchor(section: Section) -> str:
    return slug(section.title)
