"""The chapters about what we ran ourselves: ablations, the recurrent contrast, speeds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from statistics import fmean

from convs2s.evaluation.ablations import Ablation, Verdict, varied
from convs2s.evaluation.contrast import TRANSLATION, Contrast
from convs2s.evaluation.measures import VALIDATION, Group
from convs2s.evaluation.paper import METRICS, Case, SpeedTable
from convs2s.evaluation.plots import GRID, Plot, capital
from convs2s.evaluation.section import Code, Section, number, once, spread, trimmed
from convs2s.evaluation.speed import SpeedResult

LONG = 1.1  # translations of so many times the references' length are no translations of another style
SHORT = {VALIDATION: "perplexity", "bleu_paper": "BLEU"}
TOLD = ("data", "encoder", "decoder", "embedding", "positions", "attention", "batch", "epochs")  # about our runs


def ablation_sections(found: Sequence[Ablation], plots: Sequence[Plot]) -> list[Section]:
    """A chapter: every ablation, the paper's figures beside ours, and whether the paper's directions hold."""
    words = (
        "The paper's ablations (WMT14 English-German, means of three seeds) beside ours, which may be of another size "
        "and test set: what can be compared is which row of a column is better, not a figure with the one beside it. "
        "A direction is asked of every metric whose published figures show it, and of perplexity where none was "
        "published; it holds where every row that it calls better is. Seeds differ, too: where ours is a single one, "
        "a small difference says nothing, whichever way it goes."
    )
    sections = [Section("Ablations: do the paper's directions hold?", 2, [words])]
    for i, one in enumerate(found):
        number = sum(other.table is one.table for other in found[:i])
        sections.append(ablation_section(one, number, plots))
    return sections


def ablation_section(one: Ablation, number: int, plots: Sequence[Plot]) -> Section:
    title = f"Ablation, {one.table.name}: {one.table.title}" + (f" ({number + 1})" if number else "")
    pictures = [plot for plot in plots if plot.of is one or (plot.of is one.table and not number)]
    if not one.run:
        scaled = one.table.scaled
        experiment = one.table.rows[0].experiment if scaled is None else scaled.sweep
        command = Code(f"python scripts/train.py experiment={experiment} data.root=DIR")
        return Section(title, 3, ["Not run.", command], plots=pictures)
    commands = once(group.first.run.command for group in one.groups)
    headings, rows = grid(one) if all(GRID.fullmatch(row.system) for row in one.table.rows) else plain(one)
    return Section(title, 3, [told(one), direction(one), *map(Code, commands)], headings, rows, pictures)


def told(one: Ablation) -> str:
    """What our runs are, and which rows there are none of."""
    group = one.groups[0]
    skipped = varied(one.table)
    facts = [f"{name}: {group.facts[name]}" for name in TOLD if name not in skipped]
    tests = once(
        f"{METRICS[group.first.metric].label} on {group.first.test}" for group in one.groups if group.first.test
    )
    missing = [row.system for row in one.table.rows if row.system not in one.run]
    parts = [f"Ours: {'; '.join([f'experiment {group.first.run.config.experiment}', *facts, *tests])}; {seeds(one)}."]
    if missing:
        parts.append(f"Not run: {'; '.join(missing)}.")
    return " ".join([*parts, *unending(one)])


def unending(one: Ablation) -> list[str]:
    """A sentence where translations are much longer than their references: BLEU then says how many do not end."""
    ratios = {}
    for groups in one.figures.values():
        for system, group in groups.items():
            reports = [member.run.reports.get(member.report, {}) for member in group.members]
            found = [float(report["length_ratio"]) for report in reports if "length_ratio" in report]
            if found and fmean(found) > LONG:
                ratios[system] = f"{number(fmean(found))} times (“{system}”)"
    if not ratios:
        return []
    return [f"Translations are {', '.join(ratios.values())} as long as the references: many repeat themselves."]


def seeds(one: Ablation) -> str:
    return "one seed" if one.seeds == 1 else f"means of {one.seeds} seeds or more"


def direction(one: Ablation) -> str:
    """A sentence, by rule: does each claim of the paper hold in ours?"""
    found = one.verdicts()
    parts = []
    for claim in one.table.claims:
        answers = [answer(verdict) for verdict in found if verdict.claim is claim and verdict.holds is not None]
        parts.append(f"{claim.says}: {', '.join(answers) or 'not run'}")
    asked = [verdict for verdict in found if verdict.holds is not None]
    count = f"{sum(verdict.holds is True for verdict in asked)} of the {len(asked)} that could be asked hold"
    return f"The paper's directions in our runs ({seeds(one)}; {count}). {'; '.join(map(capital, parts))}."


def answer(verdict: Verdict) -> str:
    name = SHORT.get(verdict.metric, verdict.metric)
    if verdict.holds:
        return f"by {name} it holds"
    return f"by {name} it does not hold ({verdict.against})"


def plain(one: Ablation) -> tuple[list[str], list[list[str]]]:
    """The rows that we ran, with a column for each metric, published and ours."""
    rows = [[system, *cells(one, system)] for system in one.run]
    return trimmed([one.table.title.lower(), *columns(one)], rows)


def grid(one: Ablation) -> tuple[list[str], list[list[str]]]:
    """As the paper has tables 7 and 8: a row for each kernel, columns by the number of layers."""
    places = {row.system: re.fullmatch(GRID, row.system) for row in one.table.rows}
    kernels = once(match[1] for match in places.values() if match)
    layers = once(match[2] for match in places.values() if match)
    headings = [f"{count} layers, {column}" for count in layers for column in columns(one)]
    rows = [
        [kernel, *(cell for count in layers for cell in cells(one, f"{kernel}, {count} layers"))] for kernel in kernels
    ]
    return trimmed(["kernel", *headings], rows)


def columns(one: Ablation) -> list[str]:
    return [f"{SHORT.get(metric, metric)}, {whose}" for metric in one.metrics for whose in ("paper", "ours")]


def cells(one: Ablation, system: str) -> list[str]:
    found = []
    for metric in one.metrics:
        published, ours = one.published(metric), one.figures.get(metric, {})
        digits = METRICS[metric].digits
        found.append(number(published[system], digits) if system in published else "")
        found.append(mean(ours.get(system), digits) if system in ours or published else "")
    return found


def mean(group: Group | None, digits: int = 2) -> str:
    return "not run" if group is None else spread(group.interval, digits)


def contrast_section(found: Sequence[Contrast]) -> Section:
    """ConvS2S beside the LSTM."""
    words = (
        "Multi30k German-English in BPE pieces, trained alike: text, batches, epochs, optimiser. Perplexity is that of "
        "validation; BLEU and sentences a second are of test 2016 at beam 5. How fast both "
        "train: Speed, contrast."
    )
    headings = ["system", "parameters", "perplexity", "BLEU", "BLEU of"]
    headings += ["sentences/s in translation", "on", "epochs", "seeds", "command"]
    rows = []
    for one in found:
        figures = one.figures
        if VALIDATION not in figures:
            rows.append([one.system.name, *["not run"] * 3, "", "not run", "", "", "", Code(one.system.command)])
            continue
        first, bleu = figures[VALIDATION], one.bleu
        rows.append(
            [
                one.system.name,
                "not recorded" if one.parameters is None else f"{one.parameters:,}",
                mean(first),
                "not scored" if bleu is None else mean(bleu),
                "" if bleu is None else METRICS[bleu.first.metric].label.removeprefix("BLEU").lstrip(", "),
                mean(figures[TRANSLATION], 1) if TRANSLATION in figures else "not scored",
                figures[TRANSLATION].facts.get("device", "") if TRANSLATION in figures else "",
                first.facts["epochs"],
                ", ".join(first.seeds),
                Code(first.first.run.command),
            ]
        )
    kept = trimmed(headings, rows)
    return Section("The contrast: ConvS2S and an LSTM with attention", 2, [words], *kept)


def speed_sections(found: Sequence[SpeedResult]) -> list[Section]:
    """A chapter: speeds per unit of yardstick."""
    words = (
        "The yardstick is the rate of float32 matrix products (2048 × 2048) with the same threads in the same run, its "
        "median where it was measured several times; the target is for speed per GFLOP/s. Others' were measured once, "
        "on two cores with AVX-512, where the yardstick was 217 GFLOP/s."
    )
    return [Section("Speed", 2, [words]), *map(speed_section, found)]


def speed_section(result: SpeedResult) -> Section:
    table = result.table
    unit = table.figure.partition("_")[0]
    varying = once(name for case in table.cases for name in case.select)
    headings = ["system", *varying, f"{unit}/s", "yardstick, GFLOP/s"]
    headings += [f"{unit}/s per GFLOP/s", "target", "measured with", "command"]
    rows: list[list[str]] = []
    for case, ours in result.cases:
        start = [str(case.select.get(name, "")) for name in varying]
        target = "" if case.target is None else f"{case.target:g}"
        rows += [[name, *start, *rates(value, table.yardstick), "", "", ""] for name, value in case.peers.items()]
        for speed in ours:
            rates_of = rates(speed.absolute, speed.yardstick)
            end = [reached(case, speed.relative, target), speed.conditions, Code(speed.command)]
            rows.append([f"ours, {speed.benchmark.name}", *start, *rates_of, *end])
        if not ours:
            rows.append(["ours", *start, "not run", "", "", target, "", Code(command(table, case))])
    return Section(f"Speed, {table.name}: {table.title}", 3, [], *trimmed(headings, rows))


def rates(absolute: float, yardstick: float) -> list[str]:
    relative = absolute / yardstick
    return [
        number(absolute, 1 if absolute < 1000 else 0),
        number(yardstick, 1),
        number(relative, 3 if relative < 1 else 2),
    ]


def reached(case: Case, relative: float, target: str) -> str:
    return "" if case.target is None else f"{target}, {'reached' if relative >= case.target else 'NOT reached'}"


def command(table: SpeedTable, case: Case) -> str:
    """What would measure a case: the table's command with the options that are not its defaults."""
    options = [f"precisions=[{case.select['precision']}]"] if case.select.get("precision") != "fp32" else []
    options += [f"models=[{case.select['model']}]"] if "model" in case.select else []
    return " ".join([table.command, *(f"'{option}'" for option in options)])


def in_short(ablations: Iterable[Ablation], contrast: Sequence[Contrast]) -> list[str]:
    """What a terminal shows of ablations and contrast: those that were run."""
    lines = [f"{capital(one.table.name)}: {direction(one)}" for one in ablations if one.run]
    for one in contrast:
        if VALIDATION in one.figures:
            parts = [f"perplexity {mean(one.figures[VALIDATION])}"]
            parts += [f"BLEU {mean(one.bleu)}"] if one.bleu is not None else []
            lines.append(f"Contrast: {one.system.name}: {', '.join(parts)}")
    return lines
