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
    is_speed: bool = False  # a figure of the machine, too


METRICS = {
    "bleu": Metric("BLEU, detokenised (13a)", 0, 100),
    "bleu_paper": Metric("BLEU as in the paper (Moses words)", 0, 100),  # case-sensitive, multi-bleu
    "bleu_tokenized": Metric("BLEU, tokenised (the text's own words)", 0, 100),
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
    "seconds": Metric("seconds, test set", 0, 1e6, 0, True),
    "sentences_per_second": Metric("sentences per second, translation", 0, 1e6, 0, True),
    "tokens_per_second": Metric("tokens per second, translation", 0, 1e6, 0, True),
    "target_words_per_second": Metric("target words per second, training", 0, 1e6, 0, True),
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
    split: str = ""  # of data.test, where it is not the first
    conditions: dict[str, str] = field(default_factory=dict)  # as convs2s/evaluation/facts.py words them
    select: dict[str, str] = field(default_factory=dict)  # what a run must have to be this row's
    note: str = ""


@dataclass(frozen=True)
class Scaled:
    """An experiment at another scale whose runs serve several ablations."""

    experiment: str
    sweep: str  # experiment that runs the table's rows of it
    select: dict[str, str]  # what a run has of it that a row does not vary


OTHERS = "others"  # of a claim's order: every other row of the table


@dataclass(frozen=True)
class Claim:
    """What an ablation says in the paper, so that it can be seen whether our runs say the same."""

    says: str
    order: list[str]  # systems, each better than the next, OTHERS among them


@dataclass(frozen=True)
class Table:
    name: str
    title: str
    rows: list[Row]
    scaled: Scaled | None = None  # also laid beside it
    claims: list[Claim] = field(default_factory=list)  # of an ablation; a table without is none


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


@dataclass(frozen=True)
class Case:
    """A measurement that scripts/benchmark.py makes, and what others reach in it."""

    select: dict[str, Any]  # what an entry of its JSON has
    peers: dict[str, float] = field(default_factory=dict)  # system -> sentences or tokens a second
    target: float | None = None  # of this project, per unit of yardstick


@dataclass(frozen=True)
class SpeedTable:
    name: str
    title: str
    benchmark: str  # generate or train: of scripts/benchmark.py, and the key of its JSON
    figure: str  # sentences_per_second or tokens_per_second
    yardstick: float  # GFLOP/s where the peers were measured, float32
    command: str  # that measures ours
    cases: list[Case]


class Published(NamedTuple):
    tables: list[Table]
    curves: list[Curve]
    speeds: list[SpeedTable]


@cache
def read(path: Path) -> Published:
    """The figures of a file, checked; UserError that names the table and the row of what is wrong."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        tables = [read_table(table, "v3" if path == PAPER else "") for table in content["tables"]]
        curves = [build(Curve, curve, curve.get("name", "a curve")) for curve in content.get("curves", [])]
        speeds = [read_speed(speed) for speed in content.get("speeds", [])]
    except (OSError, yaml.YAMLError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{path}: not a file of published figures ({str(error).splitlines()[0]})") from error
    except ValueError as error:
        raise UserError(f"{path}: {error}") from error
    return Published(tables, curves, speeds)


def read_table(table: Mapping[str, Any], version: str) -> Table:
    names = ("test", "split", "experiment", "options", "version", "note")
    shared = {name: table[name] for name in names if name in table}
    own = {key: table[key] for key in table if key not in shared and key not in ("rows", "conditions")}
    rows = []
    for row in table["rows"]:
        conditions = {**table.get("conditions", {}), **row.get("conditions", {})}
        place = f"{table['name']}, {row.get('system', 'a row without system')}"
        rows.append(build(Row, {"version": version, **shared, **row, "conditions": conditions}, place))
        check(rows[-1], place)
    if "scaled" in own:
        own["scaled"] = build(Scaled, own["scaled"], f"{table['name']}, scaled")
    own["claims"] = [build(Claim, claim, f"{table['name']}, claims") for claim in own.get("claims", [])]
    result = build(Table, {**own, "rows": rows}, table["name"])
    for name in (name for claim in result.claims for name in claim.order):
        if name != OTHERS and name not in {row.system for row in rows}:
            raise ValueError(f"{result.name}: {name!r} of a claim is none of its rows")
    return result


def read_speed(table: Mapping[str, Any]) -> SpeedTable:
    cases = [build(Case, case, f"{table['name']}, cases") for case in table["cases"]]
    return build(SpeedTable, {**table, "cases": cases}, table["name"])


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
