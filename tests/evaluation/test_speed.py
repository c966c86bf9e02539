"""Speeds beside those of other programs: the right case, per unit of yardstick, nothing of the machine kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from convs2s.config import CompareConfig
from convs2s.errors import UserError
from convs2s.evaluation.chapters import speed_sections
from convs2s.evaluation.compare import compare
from convs2s.evaluation.paper import PEERS, read
from convs2s.evaluation.report import own_command, report
from convs2s.evaluation.speed import find_benchmarks


def generate(batch: int, rate: float, beam: int = 5, precision: str = "fp32") -> dict[str, Any]:
    found = {"batch": batch, "beam": beam, "precision": precision, "sentences_per_second": rate}
    return found | {"yardstick_gflops": 100.0, "sentences_per_second_per_gflops": rate / 100}


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "translation.json").write_text(
        json.dumps(
            {
                "options": [
                    "checkpoint=/disk/a/best.pt",
                    "input=/disk/a/test.de",
                    "beams=[1,5]",
                    "output=/disk/x.json",
                ],
                "device": "cpu",
                "threads": 2,
                "checkpoint": "/disk/a/best.pt",
                "input": "/disk/a/test.de",
                "generate": [generate(1, 40.0), generate(1, 90.0, beam=1), generate(128, 120.0)],
            }
        ),
        "utf-8",
    )
    row = {"model": "iwslt", "precision": "fp32", "tokens_per_second": 3600.0, "yardstick_gflops": 100.0}
    (tmp_path / "training.json").write_text(json.dumps({"threads": 1, "sentences": 16, "train": [row]}), "utf-8")
    return tmp_path


def test_the_peers_speeds_are_those_per_yardstick() -> None:
    """Fault: a speed mistyped; expected: the ratios as they were written down when they were measured."""
    tables = {table.name: table for table in read(PEERS).speeds}
    found = {}
    for name, system in (
        ("translation", "fairseq fconv, its inference weight cache repaired"),
        ("training", "fairseq fconv"),
    ):
        table = tables[name]
        found[name] = [round(case.peers[system] / table.yardstick, 3) for case in table.cases if case.peers]
    assert found == {"translation": [0.099, 0.636, 0.834], "training": [23.733, 0.899]}


def test_ours_stand_in_their_cases(files: Path) -> None:
    """Fault: another beam or precision in a case, a speed that is not divided, a target that is missed unseen."""
    _, translation, training, _ = speed_sections(compare([], find_benchmarks([f"{files}/*.json"])).speeds)
    columns = translation.headings
    ours = [dict(zip(columns, row, strict=True)) for row in translation.rows if row[0].startswith("ours")]
    assert [(row["batch"], row["precision"]) for row in ours] == [
        *(("1", "fp32"), ("32", "fp32"), ("128", "fp32"), ("128", "bf16"), ("1", "int8"))
    ]
    assert [row["sentences/s per GFLOP/s"] for row in ours] == ["0.400", "", "1.20", "", ""]
    assert [row["target"] for row in ours] == ["0.3, reached", "1.4", "1.5, NOT reached", "2.5", ""]
    assert [row["sentences/s"] for row in ours] == ["40.0", "not run", "120.0", "not run", "not run"]
    assert ours[0]["measured with"] == "2 threads"
    assert ours[0]["command"].startswith(
        "python scripts/benchmark.py generate checkpoint=DIR/best.pt input=DIR/test.de 'beams=[1,5]'"
    )
    assert all(row["command"] for row in ours)
    row = dict(zip(training.headings, next(row for row in training.rows if row[0] == "ours, training"), strict=True))
    assert (row["tokens/s per GFLOP/s"], row["target"]) == ("36.00", "33, reached")
    assert row["measured with"] == "1 threads, batches of 16 sentences"  # not the others' 128


def test_kept_benchmarks_say_the_same_and_nothing_of_the_machine(files: Path) -> None:
    """Fault: a committed speed names a folder of the machine, or one silently takes another's place."""
    kept = files / "results"
    report(CompareConfig(benchmarks=[f"{files}/*.json"], keep=str(kept)))
    texts = {path.name: path.read_text("utf-8") for path in (kept / "benchmarks").iterdir()}
    assert set(texts) == {"training.json", "translation.json"}
    assert not any(word in text for text in texts.values() for word in ("/disk", "/tmp"))
    before, after = (
        speed_sections(compare([], find_benchmarks([f"{folder}/*.json"])).speeds)
        for folder in (files, kept / "benchmarks")
    )
    assert before == after
    report(CompareConfig(benchmarks=[f"{kept}/benchmarks/*.json"], keep=str(kept)))
    assert texts == {path.name: path.read_text("utf-8") for path in (kept / "benchmarks").iterdir()}
    (files / "training.json").write_text(json.dumps({"threads": 2, "train": []}), "utf-8")
    with pytest.raises(UserError, match=r"benchmarks/training\.json is another benchmark"):
        report(CompareConfig(benchmarks=[f"{files}/training.json"], keep=str(kept)))


def test_a_file_that_is_none_is_refused(files: Path) -> None:
    """Fault: a stack trace, or speeds that are passed over in silence."""
    with pytest.raises(UserError, match=r"^benchmarks: .*/absent/\*\.json matches nothing; mend it"):
        find_benchmarks([f"{files}/absent/*.json"])
    path = files / "other.json"
    for content in (
        "{",
        "[]",
        "{}",
        '{"generate": [{}]}',
        '{"train": [{"tokens_per_second": 0, "yardstick_gflops": 1}]}',
    ):
        path.write_text(content, "utf-8")
        with pytest.raises(UserError, match=rf"^benchmarks: {path}: not what scripts/benchmark.py"):
            find_benchmarks([str(path)])
    with pytest.raises(UserError, match="No such file"):
        find_benchmarks([str(files / "absent.json")])
    assert own_command(CompareConfig(benchmarks=["a.json"])).endswith("'benchmarks=[a.json]'")
    assert "benchmarks" not in own_command(CompareConfig())
