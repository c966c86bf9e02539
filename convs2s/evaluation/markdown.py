"""Sections as Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence

from convs2s.evaluation.document import Code, Section

READING = (
    "“Ours” is the mean over the seeds named (± their standard deviation), “difference” is ours minus the published "
    "figure, the interval is that of the mean (Student's t; a single seed has none). Where metric, test set or, for a "
    "perplexity, data or vocabulary are not the published figure's, nothing is subtracted and the line says so. What "
    "was not run is called so; – stands beside figures of others that no experiment of ours is about."
)


def markdown(sections: Sequence[Section], command: str, figures: str) -> str:
    """The document; ``command`` wrote it; ``figures``: folder of its charts, as a link from the document.

    Charts that hold no figure of ours are left out: the table beside them says the same.
    """
    lines = ["# Results", "", f"Written by `{command}`, not by hand.", "", READING]
    for section in sections:
        if section.runs:
            continue  # pictures of attention: in the HTML page
        lines += ["", f"{'#' * section.level} {escape(section.title)}"]
        for words in section.words:
            lines += ["", written(words)]
        if section.rows:
            lines += ["", row(section.headings), row(["---"] * len(section.headings))]
            lines += [row(cells) for cells in section.rows]
        for plot in section.plots:
            if plot.ours:
                lines += ["", f"![{escape(plot.title)}]({figures}/{plot.name}.svg)"]
    return "\n".join(lines) + "\n"


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
