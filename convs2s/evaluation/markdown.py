"""Sections as Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches

from convs2s.errors import UserError
from convs2s.evaluation.section import Code, Section

MARK = re.compile(r"<!-- compare\.py: (.+?) -->")
END = "<!-- compare.py: end -->"
READING = (
    "“Ours” is the mean over the seeds named (± their standard deviation), “difference” is ours minus the published "
    "figure, the interval is that of the mean (Student's t; a single seed has none). Where metric, test set or, for a "
    "perplexity, data or vocabulary are not the published figure's, nothing is subtracted and the line says so. DIR in "
    "a command is a folder of one's own. What was not run is called so; – stands beside figures of others that no "
    "experiment of ours is about."
)


def markdown(sections: Sequence[Section], command: str, figures: str) -> str:
    """The document; ``command`` wrote it; ``figures``: folder of its charts, as a link from the document.

    Charts that hold no figure of ours are left out: the table beside them says the same.
    """
    lines = ["# Results", "", f"Written by `{command}`, not by hand.", "", READING]
    for section in sections:
        if section.runs:
            continue  # pictures of attention: in the HTML page
        lines += ["", f"{'#' * section.level} {escape(section.title)}", *body(section)]
        for plot in section.plots:
            if plot.ours:
                lines += ["", f"![{escape(plot.title)}]({figures}/{plot.name}.svg)"]
    return "\n".join(lines) + "\n"


def body(section: Section) -> list[str]:
    """Words and table, each after an empty line."""
    lines = []
    for words in section.words:
        lines += ["", written(words)]
    if section.rows:
        lines += ["", row(section.headings), row(["---"] * len(section.headings))]
        lines += [row(cells) for cells in section.rows]
    return lines


def renewed(text: str, sections: Sequence[Section], command: str, name: str) -> str:
    """A document ``name`` by other hands with words and table of the sections that it asks for, between its marks.

    Raises UserError for a mark without its end, and for a section that there is not.
    """
    known = {section.title: section for section in sections}
    parts, place = [], 0
    for mark in MARK.finditer(text):
        title, end = mark[1], text.find(END, mark.end())
        if title == "end":
            continue
        line = text.count("\n", 0, mark.start()) + 1
        if title not in known:
            near = get_close_matches(title, known, 1, 0)[0]
            raise UserError(f"document: {name}, line {line}: there is no section {title!r}; the nearest is {near!r}")
        if end < 0 or (after := MARK.search(text, mark.end())) is None or after[1] != "end":
            raise UserError(f"document: {name}, line {line}: no {END} follows before the next mark; write it")
        written_by = f"Written by `{command}`, not by hand."
        parts += [text[place : mark.end()], "\n".join(["", *body(known[title]), "", written_by, "", ""])]
        place = end
    return "".join([*parts, text[place:]])


def row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(map(written, cells))} |"


def written(cell: str) -> str:
    if isinstance(cell, Code):
        bars = cell.replace("|", "\\|")
        return f"`{bars}`" if cell else ""
    return cell if cell == "---" else escape(cell)


def escape(text: str) -> str:
    """Text that Markdown and the HTML in it leave as it is."""
    return re.sub(r"([\\`*|<>\[\]&]|(?<!\w)_|_(?!\w))", r"\\\1", " ".join(text.split()))
