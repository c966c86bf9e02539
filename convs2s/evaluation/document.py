"""A comparison as sections of text, tables and charts, before it becomes Markdown, HTML, CSV or a terminal's lines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from unicodedata import east_asian_width

from convs2s.evaluation import chapters
from convs2s.evaluation.chapters import ablation_sections, contrast_section, speed_sections
from convs2s.evaluation.compare import ELSEWHERE, NOT_RUN, Comparison, Line
from convs2s.evaluation.curves import CurveResult
from convs2s.evaluation.measures import Group, score
from convs2s.evaluation.paper import METRICS
from convs2s.evaluation.plots import Plot, capital
from convs2s.evaluation.run_record import RunRecord
from convs2s.evaluation.section import Code, Section, interval, number, spread, trimmed

HEADINGS = ["system", "metric", "published", "ours", "seeds", "difference", "95 % interval", "what differs", "command"]


def sections(comparison: Comparison, plots: Sequence[Plot]) -> list[Section]:
    """The whole document, what was run first."""
    peers = [line for line in comparison.lines if not line.row.version]
    paper = [line for line in comparison.lines if line.row.version]
    found = [Section("Beside other programs and trainings", 2), *tables(peers)]
    found += [Section("Learning curves", 2), *(curve_section(result, plots) for result in comparison.curves)]
    found += ablation_sections(comparison.ablations, plots)
    found += [contrast_section(comparison.contrast), *speed_sections(comparison.speeds)]
    found += [Section("Beside the paper", 2, ["Gehring et al. (2017), arXiv 1705.03122v3."]), *tables(paper)]
    if comparison.others:
        found.append(others_section(comparison.others))
    if any(run.pictures for run in comparison.runs):
        found.append(Section("Attention", 2, runs=[run for run in comparison.runs if run.pictures]))
    if comparison.runs:
        found.append(runs_section(comparison.runs))
    return found


def tables(lines: Iterable[Line]) -> list[Section]:
    """One section for each published table."""
    by_table: dict[str, list[Line]] = {}
    for line in lines:
        by_table.setdefault(line.table.name, []).append(line)
    found = []
    for name, own in by_table.items():
        notes = [f"Test set: {own[0].row.test}."] + [f"{capital(own[0].row.note)}."] * bool(own[0].row.note)
        table = [cells(line) for line in own]
        words = [" ".join(notes), *conditions(own)]
        commands = {row[-1] for row in table if row[-1]}
        if len(commands) == 1:
            words.append(Code(commands.pop()))
            table = [[*row[:-1], ""] for row in table]
        headings, rows = trimmed(HEADINGS, table)
        found.append(Section(f"{capital(name)}: {own[0].table.title}", 3, words, headings, rows))
    return found


def conditions(lines: Sequence[Line]) -> list[str]:
    """Under which conditions the figures of a table that ours stand beside were published, where they agree."""
    own = [line.row.conditions for line in lines if line.state != ELSEWHERE]
    shared = (
        [f"{name}: {text}" for name, text in own[0].items() if all(c.get(name) == text for c in own)] if own else []
    )
    return [f"Published conditions: {'; '.join(shared)}."] if shared else []


def cells(line: Line) -> list[str]:
    """A line of HEADINGS."""
    metric, ours = METRICS[line.metric], line.ours
    system = line.row.system + (f" ({line.row.version})" if line.row.version == "v2" else "")
    start = [system, metric.label, number(line.published, metric.digits)]
    if line.group is None or ours is None:
        return [*start, line.state, "", "", "", "", Code(line.command)]
    seeds = ", ".join(line.group.seeds)
    shown = spread(ours, metric.digits)
    return [
        *start,
        shown if line.comparable else f"{shown} (not comparable)",
        seeds,
        "" if line.difference is None else number(line.difference, metric.digits, "+"),
        interval(ours, metric.digits),
        "; ".join(line.differs),
        Code(line.command),
    ]


def curve_section(result: CurveResult, plots: Sequence[Plot]) -> Section:
    curve, published, ours = result.curve, result.published, result.ours
    words = ["Validation perplexity after each epoch, means over the seeds."]
    if result.group is None or result.largest is None:
        words.append("Ours: not run.")
    else:
        bound = ""
        if curve.bound is not None:
            kept = "within" if result.largest <= curve.bound else "NOT within"
            bound = f", {kept} the bound of {100 * curve.bound:g} %"
        words.append(f"Largest relative difference of the means: {100 * result.largest:.1f} %{bound}.")
        seeds = ", ".join(result.group.seeds)
        words.append(f"Our seeds: {seeds}; theirs: {len(curve.seeds)}.")
    rows = []
    for epoch in published:
        row = [str(epoch), number(published[epoch]), "not run", "", ""]
        if epoch in ours:
            change = f"{100 * result.relative[epoch]:+.1f} %".replace("-", "−")
            row[2:] = [number(ours[epoch].mean), interval(ours[epoch]), change]
        rows.append(row)
    headings = ["epoch", curve.system, "ours", "95 % interval", "relative difference"]
    pictures = [plot for plot in plots if plot.of is result]
    return Section(f"{capital(curve.name)}: {curve.system}", 3, [" ".join(words)], headings, rows, pictures)


def others_section(groups: Sequence[Group]) -> Section:
    """Runs that no published figure is about, with what they reached."""
    rows = []
    for group in groups:
        ours, first = group.interval, group.first
        digits = METRICS[first.metric].digits
        rows.append(
            [
                first.run.config.experiment,
                ", ".join(group.seeds),
                METRICS[first.metric].label,
                first.test or group.facts["data"],
                number(ours.mean, digits),
                interval(ours, digits),
                "; ".join(f"{name}: {group.facts[name]}" for name in ("epochs", "beam") if name in group.facts),
                Code(first.run.command),
            ]
        )
    headings = ["experiment", "seeds", "metric", "test set", "ours", "95 % interval", "conditions", "command"]
    return Section("Other runs", 2, ["Runs that no published figure is about, or that have not ended."], headings, rows)


def runs_section(runs: Sequence[RunRecord]) -> Section:
    """Every run that went in, and how its figures were computed."""
    rows = []
    for run in runs:
        signatures = {
            f"{name}: {metric} {entry['signature']}"
            for name, report in run.reports.items()
            for metric, entry in report.items()
            if isinstance(entry, dict) and "signature" in entry
        }
        bleu = {name: score(report.get("bleu")) for name, report in run.reports.items()}
        scores = [f"{name}: {number(value)}" for name, value in bleu.items() if value is not None]
        start = [run.name, str(run.config.seed), str(len(run.epochs)), "; ".join(scores)]
        rows.append([*start, "; ".join(sorted(signatures)), Code(run.command)])
    return Section("Runs", 2, [], ["run", "seed", "epochs", METRICS["bleu"].label, "signatures", "command"], rows)


def in_short(comparison: Comparison) -> str:
    """What a terminal shows: the figures that were run, without conditions and commands; all where none was."""
    ours = [line for line in comparison.lines if line.state != ELSEWHERE]
    run = [line for line in ours if line.state != NOT_RUN]
    rows = [[capital(line.table.name), *cells(line)[:7]] for line in run or ours]
    rest = [f"{len(ours) - len(run)} further figures: not run"] if run and len(run) < len(ours) else []
    more = chapters.in_short(comparison.ablations, comparison.contrast)
    return "\n".join([aligned([["table", *HEADINGS[:7]], *rows]), *rest, *more])


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Columns of equal width, two blanks apart, for a terminal."""
    widths = [max(map(width, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell + " " * (wide - width(cell)) for cell, wide in zip(cells, widths, strict=True)).rstrip()
        for cells in rows
    )


def width(text: str) -> int:
    """Columns that a terminal gives to a text."""
    return sum(2 if east_asian_width(character) in "WF" else 1 for character in text)
