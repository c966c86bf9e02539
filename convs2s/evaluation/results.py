"""What an evaluation leaves behind: JSON for programs and, beside it, a table for people, with the command of both."""

from __future__ import annotations

import platform
import shlex
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from convs2s.evaluation.paper import METRICS
from convs2s.files import atomic, write_json

Report = dict[str, Any]

LABELS = {
    **{name: metric.label for name, metric in METRICS.items() if name.startswith("bleu")},
    "chrf": "chrF",
    "ter": "TER (less is better)",
    **{name: metric.label for name, metric in METRICS.items() if name.startswith("rouge")},
}
SHORT = {
    "bleu": "BLEU",
    "bleu_tokenized": "tokenised BLEU",
    "bleu_paper": "paper's BLEU",
    "bleu_lowercased": "lower-cased BLEU",
    "chrf": "chrF",
    "ter": "TER",
    "rouge1_f1": "ROUGE-1",
    "rouge2_f1": "ROUGE-2",
    "rougeL_f1": "ROUGE-L",
}
PACKAGES = ("torch", "sacrebleu", "sentencepiece", "sacremoses", "rouge-score")


def origin() -> Report:
    """How and when a report came about."""
    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    date = datetime.now(timezone.utc).isoformat(timespec="seconds")
    return {"command": sys.argv, "date": date, "machine": platform.machine(), "versions": versions}


def command_line(report: Report) -> str:
    return shlex.join(["python", *report["command"]])


def write(path: Path, report: Report, table: str) -> None:
    """The report at ``path`` (.json), its table beside it (.md)."""
    with atomic(path.with_name(path.name.removesuffix(".json") + ".md")) as file:
        file.write(table)
    write_json(path, report)


def summary(report: Report) -> str:
    """One line for people."""
    found = [f"{label} {report[name]['score']:.2f}" for name, label in SHORT.items() if scored(report, name)]
    parts = [f"{title(report)}: {' · '.join(found)}"]
    if "search" in report:
        parts.append(f"beam {report['search']['beam']}")
    seconds = f" in {report['seconds']:.1f} s" if "seconds" in report else ""
    parts.append(f"{report['sentences']:,} sentences{seconds}")
    return " · ".join([*parts, report["report"]])


def title(report: Report) -> str:
    return str(report.get("hypotheses") or report.get("split") or report.get("source"))


def scored(report: Report, name: str) -> bool:
    return name in report and report[name]["score"] is not None


def markdown(report: Report) -> str:
    """All figures of one evaluation."""
    rows = []
    for name, label in LABELS.items():
        if name in report:
            score = report[name]
            value = f"{score['score']:.2f}" if scored(report, name) else "–"
            rows.append((label, value, score.get("details") or score.get("note", "")))
    if "perplexity" in report:
        found = report["perplexity"]
        left_out = f", {found['left_out']:,} pairs left out" if found["left_out"] else ""
        value = "–" if found["score"] is None else f"{found['score']:.3f}"
        rows.append(("perplexity", value, f"of {found['tokens']:,} target pieces{left_out}"))
    if "length_ratio" in report:
        rows.append(("length ratio", f"{report['length_ratio']:.3f}", "words of the translations / of the references"))
    for side, share in report["unknown"].items():
        if share is not None:
            rows.append((f"unknown, {side}", f"{share:.2%}", "share of <unk>"))
    rows.append(("sentences", f"{report['sentences']:,}", f"{report['blank']:,} blank translations"))
    parts = [f"# {title(report)}", table(("figure", "value", ""), rows)]
    if "length_buckets" in report:
        found = report["length_buckets"]
        rows = [(row["words"], f"{row['sentences']:,}", f"{row['bleu']:.2f}") for row in found["buckets"]]
        parts.append(table((f"words, {found['of']}", "sentences", "BLEU"), rows))
    signatures = [f"- {LABELS[name]}: `{report[name]['signature']}`" for name in LABELS if scored(report, name)]
    made = [f"- {key.replace('_', ' ')}: `{report[key]}`" for key in ("reference", "translations") if key in report]
    made += [f"- checkpoint: `{one['path']}`" for one in checkpoints(report)]
    parts += ["\n".join([*signatures, *made]), f"Command: `{command_line(report)}`"]
    return "\n\n".join(parts) + "\n"


def checkpoints(report: Report) -> list[Report]:
    """Of one model, or of each of an ensemble."""
    return [report["checkpoint"]] if "checkpoint" in report else report.get("checkpoints", [])


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table that reads well as text, too: numbers (all but the first and a last column of words) right."""
    lines = [[cell.replace("|", "\\|") for cell in line] for line in (head, *rows)]
    widths = [max(3, *(len(line[i]) for line in lines)) for i in range(len(head))]
    right = [i > 0 and all(not line[i] or not line[i][-1].isalpha() for line in lines[1:]) for i in range(len(head))]
    shown = [
        [
            cell.rjust(width) if flush else cell.ljust(width)
            for cell, width, flush in zip(line, widths, right, strict=True)
        ]
        for line in lines
    ]
    rule = ["-" * (width - 1) + ":" if flush else "-" * width for width, flush in zip(widths, right, strict=True)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (shown[0], rule, *shown[1:]))
