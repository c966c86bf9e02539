"""Several systems on one test set: their scores, whether they differ, and the seeds of each in one figure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sacrebleu.metrics.base import Metric as SacrebleuMetric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from convs2s.config import Metric
from convs2s.data.lines import read_texts
from convs2s.errors import UserError
from convs2s.evaluation.evaluate import named_references
from convs2s.evaluation.results import LABELS, Report, command_line, origin, table, write
from convs2s.evaluation.scores import paper_words
from convs2s.evaluation.significance import Method, mean_interval, paired_test
from convs2s.files import make_folder
from convs2s.messages import say

Systems = dict[str, list[str]]


class Measure(NamedTuple):
    """A score that can be tested, and what it does to the text first."""

    metric: SacrebleuMetric
    prepare: Callable[[Sequence[str]], Sequence[str]] = lambda lines: lines
    words: str = ""  # the name of what ``prepare`` makes, for signatures


def systems_option(value: Any) -> Systems:
    """systems=[FILE,...] or {NAME: FILE or [FILE,...], ...} as files by name; UserError for anything else."""
    named = value if isinstance(value, dict) else {path: path for path in value} if isinstance(value, list) else {}
    found = {str(name): [files] if isinstance(files, str) else files for name, files in named.items()}
    if not all(
        isinstance(files, list) and files and all(isinstance(f, str) for f in files) for files in found.values()
    ):
        raise UserError(f"systems={value}: give files as [FILE,FILE] or {{NAME: [FILE,FILE], NAME: FILE}}")
    if sum(map(len, found.values())) < 2:
        raise UserError(f"systems={value}: give at least two different files; for one, hypotheses=FILE")
    return found


def compare_systems(
    systems: Systems,
    references: Sequence[str],
    *,
    metrics: Sequence[Metric],
    samples: int,
    trials: int,
    seed: int,
    language: str | None = None,
    segmented: bool = False,
    output: str | None = None,
) -> Report:
    """Every file beside the first system's first, by both tests; of systems with several files mean and interval.

    Writes OUTPUT/significance.json and .md where output is given. Raises UserError for options and files that do not
    fit, before anything is computed.
    """
    for name, value in (("samples", samples), ("trials", trials), ("seed", seed)):
        if value < 1:
            raise UserError(f"{name}={value} must be at least 1")
    measures, notes = measures_of(metrics, language, segmented)
    files = [(name, file) for name, paths in systems.items() for file in paths]
    read = read_texts(*map(Path, references), *(Path(file) for _, file in files))
    targets, texts = read[: len(references)], read[len(references) :]
    for (_, file), lines in zip(files, texts, strict=True):
        if not any(line.strip() for line in lines):
            say(f"warning: {file}: every line is blank")
    if not any(line.strip() for line in targets[0]):
        raise UserError(f"{references[0]}: every line is blank; nothing to score")
    if output is not None:
        make_folder(Path(output), "output")

    rows: list[Report] = [{"system": name, "file": file} for name, file in files]
    signatures: dict[str, dict[str, str]] = {}
    for key, measure in measures.items():
        prepared, expected = ([list(measure.prepare(text)) for text in some] for some in (texts, targets))
        signatures[key] = {}
        for row in rows:
            row[key] = {}
        for method, count in ((Method.bootstrap, samples), (Method.randomisation, trials)):
            outcomes, signature = paired_test(prepared, expected, measure.metric, method, count, seed)
            signatures[key][method.name] = signature + (f"|words:{measure.words}" if measure.words else "")
            for row, outcome in zip(rows, outcomes, strict=True):
                row[key]["score"] = outcome.score
                row[key][f"p_{method.name}"] = outcome.p_value
                if method == Method.bootstrap:
                    row[key] |= {"bootstrap_mean": outcome.mean, "bootstrap_margin": outcome.margin}
    seeds = {
        name: {
            key: mean_interval([row[key]["score"] for row in rows if row["system"] == name])._asdict()
            for key in measures
        }
        for name in systems
    }
    report: Report = {
        **named_references(references),
        "baseline": files[0][1],
        "sentences": len(texts[0]),
        "runs": rows,
        "systems": seeds,
        "signatures": signatures,
        "notes": notes,
        **origin(),
    }
    if output is not None:
        path = Path(output) / "significance.json"
        write(path, report, markdown(report))
        report = report | {"report": str(path)}
    return report


def measures_of(
    metrics: Sequence[Metric], language: str | None, segmented: bool
) -> tuple[dict[str, Measure], dict[str, str]]:
    """What is tested, by its key in reports, and why something is not."""
    if Metric.rouge in metrics:
        raise UserError("metrics=rouge: sacrebleu's tests know bleu, chrf and ter; leave rouge out")
    found: dict[str, Measure] = {}
    notes: dict[str, str] = {}
    if Metric.bleu in metrics:
        found["bleu"] = Measure(BLEU(tokenize="13a", force=True))
        if segmented:
            found["bleu_tokenized"] = Measure(BLEU(tokenize="none", force=True))
        prepare, words, note = paper_words(language, segmented)
        if prepare is None:
            notes["bleu_paper"] = note
        else:
            found["bleu_paper"] = Measure(BLEU(tokenize="none", smooth_method="none", force=True), prepare, words)
    if Metric.chrf in metrics:
        found["chrf"] = Measure(CHRF())
    if Metric.ter in metrics:
        found["ter"] = Measure(TER())
    if not found:
        raise UserError("metrics=[]: name what to compare by, e.g. metrics=[bleu,chrf]")
    return found, notes


def markdown(report: Report) -> str:
    """A table for each score, then one of the systems that have several runs."""
    parts = [f"# {len(report['runs'])} outputs, {report['sentences']:,} sentences"]
    head = ("file", "score", "95 % of resamples", "difference", "p, bootstrap", "p, randomisation")
    for key in report["signatures"]:
        base = report["runs"][0][key]["score"]
        rows = []
        for i, row in enumerate(report["runs"]):
            found = row[key]
            name = row["file"] if row["system"] == row["file"] else f"{row['system']}: {row['file']}"
            between = f"{found['bootstrap_mean']:.2f} ± {found['bootstrap_margin']:.2f}"
            tested = (
                [f"{found['score'] - base:+.2f}", *(f"{found[f'p_{method.name}']:.4f}" for method in Method)]
                if i
                else [""] * 3
            )
            rows.append((name, f"{found['score']:.2f}", between, *tested))
        parts.append(f"## {LABELS[key]}\n\n{table(head, rows)}")
    several = {
        name: found
        for name, found in report["systems"].items()
        if any(one["std"] is not None for one in found.values())
    }
    if several:
        rows = [
            (
                name,
                LABELS[key],
                str(one["count"]),
                f"{one['mean']:.2f}",
                f"{one['std']:.2f}",
                f"{one['low']:.2f} to {one['high']:.2f}",
            )
            for name, found in several.items()
            for key, one in found.items()
        ]
        head = ("system", "score", "runs", "mean", "deviation", "95 % interval of the mean")
        parts.append(f"## Systems of several runs\n\n{table(head, rows)}")
    lines = ["The first file is the baseline; p is the probability that chance alone makes so large a difference.", ""]
    for key, found in report["signatures"].items():
        lines += [f"- {LABELS[key]}, {test}: `{signature}`" for test, signature in found.items()]
    lines += [f"- {LABELS[key]}: {note}" for key, note in report["notes"].items()]
    lines.append(f"- reference: `{report['reference']}`")
    parts += ["\n".join(lines), f"Command: `{command_line(report)}`"]
    return "\n\n".join(parts) + "\n"
