"""The files that a comparison leaves: Markdown, CSV, a page, charts, and runs to commit."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from convs2s.config import CompareConfig
from convs2s.errors import UserError
from convs2s.evaluation.compare import compare
from convs2s.evaluation.document import in_short, sections
from convs2s.evaluation.keep import keep, keep_benchmark
from convs2s.evaluation.markdown import MARK, markdown, renewed
from convs2s.evaluation.page import page
from convs2s.evaluation.plots import Plot, plots
from convs2s.evaluation.run_record import find_runs, read_run
from convs2s.evaluation.section import Section
from convs2s.evaluation.speed import find_benchmarks
from convs2s.evaluation.table import write_csv
from convs2s.files import atomic, make_folder

FIGURES = "docs/figures"  # of document=, beside it


def report(config: CompareConfig) -> None:
    """What scripts/compare.py does. Nothing is written when a run or the document is damaged.

    Raises UserError for these, and for a folder that cannot be made.
    """
    runs = [read_run(directory) for directory in find_runs(config.runs)]
    benchmarks = find_benchmarks(config.benchmarks)
    comparison = compare(runs, benchmarks)
    drawn = plots(comparison)
    document = sections(comparison, drawn)
    command = own_command(config)
    html = page(document, command) if config.output is not None else ""
    text = None if config.document is None else written(Path(config.document), document, command)
    if config.keep is not None:
        make_folder(Path(config.keep), "keep")
        for run in runs:
            keep(run, Path(config.keep))
        for benchmark in benchmarks:
            keep_benchmark(benchmark, Path(config.keep))
    if config.output is not None:
        folder = Path(config.output)
        make_folder(folder / "figures", "output")
        write(folder / "results.md", markdown(document, command, "figures"))
        write_figures(folder / "figures", drawn)
        with atomic(folder / "results.csv") as file:
            write_csv(comparison, file)
        write(folder / "results.html", html)
    if config.document is not None and text is not None:
        path = Path(config.document)
        if not MARK.search(text):
            make_folder(path.parent / FIGURES, "document")
            write_figures(path.parent / FIGURES, drawn)
        write(path, text)
    print(in_short(comparison))  # last: its reader may turn away


def written(path: Path, document: Sequence[Section], command: str) -> str:
    """The document at ``path`` as it will be: its marked tables renewed, or, where it has no marks, all of it."""
    if path.exists() and not path.is_file():  # /dev/full has no end
        raise UserError(f"document={path}: no file; name one, such as document=RESULTS.md")
    try:
        before = path.read_text(encoding="utf-8") if path.exists() else ""
    except (OSError, ValueError) as error:
        raise UserError(f"document={path}: cannot be read ({error!s:.60}); give another file") from error
    if MARK.search(before):
        return renewed(before, document, command, str(path))
    return markdown(document, command, FIGURES)


def own_command(config: CompareConfig) -> str:
    """The command that writes the same again."""
    options = [f"runs=[{','.join(config.runs)}]"]
    if config.benchmarks is not None:
        options.append(f"benchmarks=[{','.join(config.benchmarks)}]")
    options += [f"output={config.output}"] * (config.output is not None)
    options += [f"document={config.document}"] * (config.document is not None)
    return shlex.join(["python", "scripts/compare.py", *options])


def write_figures(folder: Path, drawn: Sequence[Plot]) -> None:
    """The charts that hold figures of ours, those that the Markdown shows."""
    for plot in drawn:
        if plot.ours:
            write(folder / f"{plot.name}.svg", plot.svg)


def write(path: Path, content: str) -> None:
    with atomic(path) as file:
        file.write(content)
