"""Show where the decoder looks: python scripts/plot_attention.py checkpoint=FILE input=FILE 'formats=[png,html]'

Each line is translated (or target= given) and its attention written to output=, by default attention/ in the
checkpoint's run directory: a panel for each decoder layer that attends and one for their average, source across,
target down. Pictures need the extra "plot".

    lineN.png, .svg, .pdf     a picture of line N
    lineN.json                {"line": N, "text": the translation, "layers": [1, 2, ...],
                              "source": [S pieces], "target": [T pieces], both with </s>,
                              "attention": [layer][T][S], "average": [T][S],
                              "source_words": [S' words], "target_words": [T' words], "words": [T'][S'] of the average}
    attention.html, ...       pages of 100 lines, with the map of words and all panels
    words.tsv                 line, target word, the source words that it used with their shares
    alignment.json            with alignment=: {"layer 1": {"hits", "error_rate", ...}, ..., "average": {...}}
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from convs2s.cli import run
from convs2s.config import PictureFormat, PlotAttentionConfig, refuse_given
from convs2s.data.lines import read_lines
from convs2s.errors import UserError
from convs2s.evaluation.alignment_error import Comparison
from convs2s.evaluation.attention import Attention, Reader
from convs2s.evaluation.attention_page import PAGE, file_name, page
from convs2s.evaluation.attention_picture import draw, figure_class
from convs2s.evaluation.models import load_models
from convs2s.files import atomic, make_folder, write_json
from convs2s.search.lexicon import Links, read_links
from convs2s.search.streams import read_input
from convs2s.training.checkpoint import run_directory

T = TypeVar("T")
PICTURES = (PictureFormat.png, PictureFormat.svg, PictureFormat.pdf)


def main(config: PlotAttentionConfig) -> None:
    if config.alignment is not None and config.target is None:
        raise UserError("alignment= is that of a given translation: give target=, too")
    if not config.formats and config.alignment is None:
        raise UserError(f"formats=[] is empty: name one or more of {', '.join(kind.value for kind in PictureFormat)}")
    unused = {"workers", "nbest", "long_lines"} if config.target is None else {*vars(config.search)} - {"precision"}
    refuse_given(config.search, sorted(unused), "has no effect on what is drawn", "search")
    if set(PICTURES) & set(config.formats):
        figure_class()  # before anything is translated
    own = run_directory(Path(config.checkpoint)) / "attention"
    folder = own if config.output is None else Path(config.output)
    (model,), tokenizers = load_models([config.checkpoint], config.device, config.search.precision)
    lines = list(read_input(config.input))
    reader = Reader(model, tokenizers)
    if config.target is None:
        found = reader.found(lines, config.search, config.input)
    else:
        targets = same_length(list(read_lines(config.target)), lines, config.target)
        found = reader.given(lines, targets, config.input)
    links: list[Links] = []
    if config.alignment is not None:
        links = same_length(list(read_links(config.alignment)), lines, config.alignment)
    make_folder(folder, "output")

    comparison = Comparison(config.alignment or "")
    kept: list[Attention] = []
    drawn = 0
    for attention in shown(found):
        drawn += 1
        for kind in config.formats:
            path = folder / f"line{attention.line}.{kind.value}"
            if kind in PICTURES:
                draw(path, attention.source.pieces, attention.target.pieces, attention.weights, attention.layers)
            elif kind == PictureFormat.json:
                write_json(path, attention.as_json(), indent=None)
        if {PictureFormat.html, PictureFormat.tsv} & set(config.formats):
            kept.append(attention)
        if links:
            comparison.add(attention, links[attention.line - 1])
    if PictureFormat.html in config.formats:
        write_pages(folder, kept, f"Attention of {config.checkpoint}")
    if PictureFormat.tsv in config.formats:
        write_words(folder / "words.tsv", kept)
    if links:
        print("\n".join(comparison.lines()))
        write_json(folder / "alignment.json", comparison.as_json())
    print(f"{folder}: {', '.join(kind.value for kind in config.formats)} of {drawn} lines")


def shown(found: Iterator[Attention | None]) -> Iterator[Attention]:
    """Every line that has words, and its translation on the terminal."""
    for attention in found:
        if attention is not None:
            print(f"{attention.line}: {attention.text}")
            yield attention


def same_length(values: list[T], lines: list[str], name: str) -> list[T]:
    """The values, one for each line; UserError for more or fewer."""
    if len(values) != len(lines):
        raise UserError(f"{name} has {len(values):,} lines, input= has {len(lines):,}: give one for each")
    return values


def write_pages(folder: Path, kept: list[Attention], title: str) -> None:
    """HTML pages of PAGE lines."""
    pages = max(1, -(-len(kept) // PAGE))
    for number in range(1, pages + 1):
        with atomic(folder / file_name(number)) as file:
            file.write(page(kept[(number - 1) * PAGE : number * PAGE], title, number, pages))


def write_words(path: Path, kept: list[Attention]) -> None:
    """The table of source words that each target word used."""
    with atomic(path) as file:
        file.write("line\ttarget word\tsource words\n")
        for attention in kept:
            for word, used in zip(attention.target.words, attention.used(), strict=True):
                listed = ", ".join(f"{name} {share:.2f}" for name, share in used)
                file.write(f"{attention.line}\t{word}\t{listed}\n")


if __name__ == "__main__":
    run(main, PlotAttentionConfig, "plot_attention")
