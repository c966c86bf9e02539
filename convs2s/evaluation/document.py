"""A comparison as sections of text, tables and charts, before it becomes Markdown, HTML, CSV or a terminal's lines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from unicodedata import east_asian_width

from convs2s.evaluation.compare import ELSEWHERE, NOT_RUN, Comparison, Line
from convs2s.evaluation.contrasts import CurveResult, Direction
from convs2s.evaluation.measures import Group
from convs2s.evaluation.paper import METRICS
from convs2s.evaluation.plots import Plot, capital
from convs2s.evaluation.run_record import RunRecord
from convs2s.evaluation.significance import Interval

HEADINGS = ["system", "metric", "published", "ours", "seeds", "difference", "95 % interval", "what differs", "command"]


class Code(str):
    """A cell that is written as code."""


@dataclass(frozen=True)
class Section:
    title: str
    level: int  # 2: a chapter, 3: one table of it
    words: list[str] = field(default_factory=list)  # paragraphs; Code: written as code
    headings: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    plots: list[Plot] = field(default_factory=list)
    runs: list[RunRecord] = field(default_factory=list)  # whose pictures of attention belong here


def sections(comparison: Comparison, plots: Sequence[Plot]) -> list[Section]:
    """The whole document, what was run first."""
    peers = [line for line in comparison.lines if not line.row.version]
    paper = [line for line in comparison.lines if line.row.version]
    found = [Section("Beside other programs and trainings", 2), *tables(peers, plots)]
    found += [Section("Learning curves", 2), *(curve_section(result, plots) for result in comparison.curves)]
    found.append(direction_section(comparison.directions))
    found += [Section("Beside the paper", 2, ["Gehring et al. (2017), arXiv 1705.03122v3."]), *tables(paper, plots)]
    if comparison.others:
        found.append(others_section(comparison.others))
    if any(run.pictures for run in comparison.runs):
        found.append(Section("Attention", 2, runs=[run for run in comparison.runs if run.pictures]))
    if comparison.runs:
        found.append(runs_section(comparison.runs))
    return found


def tables(lines: Iterable[Line], plots: Sequence[Plot]) -> list[Section]:
    """One section for each published table."""
    by_table: dict[str, list[Line]] = {}
    for line in lines:
        by_table.setdefault(line.table.name, []).append(line)
    found = []
    for name, own in by_table.items():
        notes = [f"Test set: {own[0].row.test}."] + [f"{capital(own[0].row.note)}."] * bool(own[0].row.note)
        pictures = [plot for plot in plots if plot.of is own[0].table]
        table = [cells(line) for line in own]
        words = [" ".join(notes), *conditions(own)]
        commands = {row[-1] for row in table if row[-1]}
        if len(commands) == 1:
            words.append(Code(commands.pop()))
            table = [[*row[:-1], ""] for row in table]
        headings, rows = trimmed(HEADINGS, table)
        found.append(Section(f"{capital(name)}: {own[0].table.title}", 3, words, headings, rows, pictures))
    return found


def conditions(lines: Sequence[Line]) -> list[str]:
    """Under which conditions the figures of a table that ours stand beside were published, where they agree."""
    own = [line.row.conditions for line in lines if line.state != ELSEWHERE]
    shared = (
        [f"{name}: {text}" for name, text in own[0].items() if all(c.get(name) == text for c in own)] if own else []
    )
    return [f"Published conditions: {'; '.join(shared)}."] if shared else []


def trimmed(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> tuple[list[str], list[list[str]]]:
    """A table without the columns in which nothing stands."""
    kept = [i for i in range(len(headings)) if any(row[i] for row in rows)]
    return [headings[i] for i in kept], [[row[i] for i in kept] for row in rows]


def cells(line: Line) -> list[str]:
    """A line of HEADINGS."""
    metric, ours = METRICS[line.metric], line.ours
    system = line.row.system + (f" ({line.row.version})" if line.row.version == "v2" else "")
    start = [system, metric.label, number(line.published, metric.digits)]
    if line.group is None or ours is None:
        return [*start, line.state, "", "", "", "", Code(line.command)]
    seeds = ", ".join(str(member.run.config.seed) for member in line.group.members)
    shown = number(ours.mean, metric.digits) + (f" ± {number(ours.std, metric.digits)}" if ours.std is not None else "")
    return [
        *start,
        shown if line.comparable else f"{shown} (not comparable)",
        seeds,
        "" if line.difference is None else number(line.difference, metric.digits, "+"),
        interval(ours, metric.digits),
        "; ".join(line.differs),
        Code(line.command),
    ]


def number(value: float, digits: int = 2, sign: str = "") -> str:
    return f"{value:{sign},.{digits}f}".replace("-", "−")


def interval(ours: Interval, digits: int = 2) -> str:
    """The confidence interval of the mean; a single seed has none."""
    if ours.low is None or ours.high is None:
        return ""
    return f"{number(ours.low, digits)} to {number(ours.high, digits)}"


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
        seeds = ", ".join(str(member.run.config.seed) for member in result.group.members)
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


def direction_section(found: Sequence[Direction]) -> Section:
    """Whether the ablations of ours go where the paper's go."""
    words = [
        "What each change to the model does to a figure, against the first row or the paper's own choice of its table, "
        "in the paper and in our runs (which may be of another size and test set, so that only the direction of a "
        "change is compared). A change smaller than what seeds differ by has no direction."
    ]
    if not found:
        return Section("Ablations: do the paper's directions hold?", 2, [*words, "Not run."])
    agreeing = sum(one.agrees is True for one in found)
    words.append(f"Of {len(found)} changes, {agreeing} go the paper's way.")
    rows = [
        [
            capital(one.table.name),
            one.row.system,
            str(one.table.baseline),
            METRICS[one.metric].label,
            number(one.published, 2, "+"),
            number(one.ours, 2, "+"),
            str(one.seeds),
            {True: "yes", False: "no", None: "no change"}[one.agrees],
        ]
        for one in found
    ]
    headings = ["table", "row", "against", "metric", "paper's change", "our change", "our seeds", "same direction"]
    return Section("Ablations: do the paper's directions hold?", 2, words, headings, rows)


def others_section(groups: Sequence[Group]) -> Section:
    """Runs that no published figure is about, with what they reached."""
    rows = []
    for group in groups:
        ours, first = group.interval, group.first
        digits = METRICS[first.metric].digits
        rows.append(
            [
                first.run.config.experiment,
                ", ".join(str(member.run.config.seed) for member in group.members),
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
        rows.append(
            [run.name, str(run.config.seed), str(len(run.epochs)), "; ".join(sorted(signatures)), Code(run.command)]
        )
    return Section("Runs", 2, [], ["run", "seed", "epochs", "signatures", "command"], rows)


def in_short(comparison: Comparison) -> str:
    """What a terminal shows: the figures that were run, without conditions and commands; all where none was."""
    ours = [line for line in comparison.lines if line.state != ELSEWHERE]
    run = [line for line in ours if line.state != NOT_RUN]
    rows = [[capital(line.table.name), *cells(line)[:7]] for line in run or ours]
    rest = [f"{len(ours) - len(run)} further figures: not run"] if run and len(run) < len(ours) else []
    return "\n".join([aligned([["table", *HEADINGS[:7]], *rows]), *rest])


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
