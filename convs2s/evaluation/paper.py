"""The published figures as data: paper.yaml (tables 1 to 8, figure 2) and peers.yaml (others' figures and curves).

A file holds ``tables``; a table holds rows, a row one or more figures by metric. ``test``, ``experiment``, ``options``,
``version``, ``conditions`` and ``note`` of a table are those of its rows, but for what a row says itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import yaml

from convs2s.errors import UserError

PAPER = Path(__file__).with_name("paper.yaml")
PEERS = Path(__file__).with_name("peers.yaml")


class Metric(NamedTuple):
    """What a figure measures; ``name`` is also how a report under evaluation/ calls it."""

    label: str
    least: float
    most: float
    digits: int = 2  # behind the point, as published


METRICS = {
    "bleu": Metric("BLEU, detokenised (13a)", 0, 100),
    "bleu_paper": Metric("BLEU, tokenised, case-sensitive", 0, 100),  # Moses' words, multi-bleu
    "bleu_tokenized": Metric("BLEU over the text's own words", 0, 100),
    "bleu_lowercased": Metric("BLEU, tokenised, lower-cased", 0, 100),
    "bleu_pieces": Metric("BLEU over BPE pieces", 0, 100),
    "valid_perplexity": Metric("perplexity, validation", 1, 1000),
    "perplexity": Metric("perplexity, test", 1, 1000),
    "rouge1_recall75": Metric("ROUGE-1 recall, 75 bytes", 0, 100),
    "rouge2_recall75": Metric("ROUGE-2 recall, 75 bytes", 0, 100),
    "rougeL_recall75": Metric("ROUGE-L recall, 75 bytes", 0, 100),
    "rouge1_f1": Metric("ROUGE-1 F1", 0, 100),
    "rouge2_f1": Metric("ROUGE-2 F1", 0, 100),
    "rougeL_f1": Metric("ROUGE-L F1", 0, 100),
    "seconds": Metric("seconds, test set", 0, 1e6, 0),
    "tokens_per_second": Metric("tokens per second, translation", 0, 1e6, 0),
    "target_words_per_second": Metric("target words per second, training", 0, 1e6, 0),
}


@dataclass(frozen=True)
class Row:
    """A system of a table, and what was published about it."""

    system: str
    test: str  # test set and direction
    values: dict[str, float]  # metric -> figure
    ours: bool = False  # ConvS2S in the authors' hands; else another system or another's training of it
    best: bool = False  # the best seed, not the mean of the seeds
    version: str = ""  # of the paper: v2, v3; empty: not the paper's
    experiment: str | None = None  # ours that is laid beside it, configs/experiment/NAME.yaml; None: none can be
    options: str = ""  # of its command, beside the experiment
    conditions: dict[str, str] = field(default_factory=dict)  # as convs2s/evaluation/facts.py words them
    select: dict[str, str] = field(default_factory=dict)  # what a run must have to be this row's
    note: str = ""


@dataclass(frozen=True)
class Scaled:
    """An experiment at another scale whose runs serve several ablations."""

    experiment: str
    select: dict[str, str]  # what a run has of it that a row does not vary


@dataclass(frozen=True)
class Table:
    name: str
    title: str
    rows: list[Row]
    baseline: str | None = None  # system that the others of an ablation are compared with
    scaled: Scaled | None = None  # also laid beside it


@dataclass(frozen=True)
class Curve:
    """Published validation perplexity by epoch."""

    name: str
    system: str
    experiment: str
    epochs: list[int]
    seeds: list[list[float]]  # per seed, the perplexity after each of ``epochs``
    select: dict[str, str] = field(default_factory=dict)
    bound: float | None = None  # largest relative difference of the means that counts as the same curve


class Published(NamedTuple):
    tables: list[Table]
    curves: list[Curve]


@cache
def read(path: Path) -> Published:
    """The figures of a file, checked; UserError that names the table and the row of what is wrong."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        tables = [read_table(table, "v3" if path == PAPER else "") for table in content["tables"]]
        curves = [build(Curve, curve, curve.get("name", "a curve")) for curve in content.get("curves", [])]
    except (OSError, yaml.YAMLError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{path}: not a file of published figures ({str(error).splitlines()[0]})") from error
    except ValueError as error:
        raise UserError(f"{path}: {error}") from error
    return Published(tables, curves)


def read_table(table: Mapping[str, Any], version: str) -> Table:
    shared = {name: table[name] for name in ("test", "experiment", "options", "version", "note") if name in table}
    own = {key: table[key] for key in table if key not in shared and key not in ("rows", "conditions")}
    rows = []
    for row in table["rows"]:
        conditions = {**table.get("conditions", {}), **row.get("conditions", {})}
        place = f"{table['name']}, {row.get('system', 'a row without system')}"
        rows.append(build(Row, {"version": version, **shared, **row, "conditions": conditions}, place))
        check(rows[-1], place)
    if "scaled" in own:
        own["scaled"] = build(Scaled, own["scaled"], f"{table['name']}, scaled")
    result = build(Table, {**own, "rows": rows}, table["name"])
    if result.baseline is not None and result.baseline not in {row.system for row in rows}:
        raise ValueError(f"{result.name}: its baseline {result.baseline!r} is none of its rows")
    return result


K = TypeVar("K")


def build(kind: type[K], given: Mapping[str, Any], place: str) -> K:
    unknown = given.keys() - {field.name for field in fields(kind)}  # type: ignore[arg-type]
    if unknown:
        raise ValueError(f"{place}: there is no field {min(unknown)}")
    try:
        return kind(**given)
    except TypeError as error:
        raise ValueError(f"{place}: {str(error).partition(') ')[2]}") from error


def check(row: Row, place: str) -> None:
    """Raise ValueError for a figure of no known metric or out of range, and for conditions that are not text."""
    if not row.values:
        raise ValueError(f"{place}: no values")
    for name, value in row.values.items():
        if name not in METRICS:
            raise ValueError(f"{place}: there is no metric {name}")
        metric = METRICS[name]
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not metric.least <= value <= metric.most:
            raise ValueError(f"{place}: {name} {value!r} is not between {metric.least:g} and {metric.most:g}")
    for kind in (row.conditions, row.select):
        for name, text in kind.items():
            if not isinstance(text, str):
                raise ValueError(f'{place}: condition {name} is not text: write {name}: "{text}"')
    if row.version not in ("", "v2", "v3"):
        raise ValueError(f"{place}: version {row.version!r} is neither v2 nor v3")
