"""The files that a comparison leaves: Markdown, CSV, a page, charts, and runs to commit."""

from __future__ import annotations

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
from convs2s.evaluation.speed import find_benchmarks
from convs2s.evaluation.table import write_csv
from convs2s.files import atomic

FIGURES = "docs/figures"  # of document=, beside it


def report(config: CompareConfig) -> None:
    """What scripts/compare.py does.  Nothing is written when a run is damaged or a folder cannot be made."""
    runs = [read_run(directory) for directory in find_runs(config.runs)]
    benchmarks = find_benchmarks(config.benchmarks)
    comparison = compare(runs, benchmarks)
    drawn = plots(comparison)
    document = sections(comparison, drawn)
    command = own_command(config)
    if config.output is not None:
        folder = made(Path(config.output) / "figures", "output").parent
        write(folder / "results.md", markdown(document, command, "figures"))
        write_figures(folder / "figures", drawn)
        with atomic(folder / "results.csv") as file:
            write_csv(comparison, file)
        write(folder / "results.html", page(document, command))
    if config.document is not None:
        path = Path(config.document)
        before = path.read_text(encoding="utf-8") if path.exists() else ""
        if MARK.search(before):
            write(path, renewed(before, document, command, str(path)))
        else:
            write_figures(made(path.parent / FIGURES, "document"), drawn)
            write(path, markdown(document, command, FIGURES))
    if config.keep is not None:
        folder = made(Path(config.keep), "keep")
        for run in runs:
            keep(run, folder)
        for benchmark in benchmarks:
            keep_benchmark(benchmark, folder)
    print(in_short(comparison))  # last: its reader may turn away


def own_command(config: CompareConfig) -> str:
    """The command that writes the same again."""
    runs = f"runs='[{','.join(config.runs)}]'"
    plain = config.benchmarks == CompareConfig().benchmarks
    benchmarks = "" if plain else f"benchmarks='[{','.join(config.benchmarks)}]'"
    output = f"output={config.output}" if config.output is not None else ""
    document = f"document={config.document}" if config.document is not None else ""
    return " ".join(filter(None, ["python scripts/compare.py", runs, benchmarks, output, document]))


def write_figures(folder: Path, drawn: Sequence[Plot]) -> None:
    """The charts that hold figures of ours, those that the Markdown shows."""
    for plot in drawn:
        if plot.ours:
            write(folder / f"{plot.name}.svg", plot.svg)


def write(path: Path, content: str) -> None:
    with atomic(path) as file:
        file.write(content)


def made(folder: Path, option: str) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{option}: {folder}: cannot be made ({error.strerror}); give another folder") from error
    return folder
