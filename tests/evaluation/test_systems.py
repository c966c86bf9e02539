"""Systems against each other: where a difference is known, its size and its probability."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from convs2s.config import Metric
from convs2s.errors import UserError
from convs2s.evaluation.systems import compare_systems, markdown, systems_option

WORDS = ["the", "dog", "runs", "in", "snow", "and", "a", "red", "house", "stands", "here", "while", "nobody", "sings"]
LINES = 40
SOME = {"metrics": [Metric.bleu, Metric.chrf], "samples": 150, "trials": 150, "seed": 7, "language": "en"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """ref: the references; good1 to good3 change a word in eight, bad one in two, twin is good1 as it is."""
    draw = random.Random(3)
    reference = [draw.choices(WORDS, k=draw.randint(5, 12)) for _ in range(LINES)]

    def changed(share: float) -> list[list[str]]:
        return [[draw.choice(WORDS) if draw.random() < share else word for word in line] for line in reference]

    texts = {"ref": reference, **{f"good{i}": changed(1 / 8) for i in (1, 2, 3)}, "bad": changed(1 / 2)}
    texts["twin"] = texts["good1"]
    for name, lines in texts.items():
        (tmp_path / name).write_text("".join(f"{' '.join(line)}\n" for line in lines), encoding="utf-8")
    return tmp_path


def compared(folder: Path, systems: Any, **options: Any) -> dict[str, Any]:
    named = {name: [str(folder / file) for file in files] for name, files in systems.items()}
    return compare_systems(named, [str(folder / "ref")], **(SOME | options))


def test_what_chance_explains_and_what_not(folder: Path) -> None:
    """Fault: hypotheses paired with other lines, p of the wrong tail, a system that differs from itself."""
    report = compared(folder, {"good": ["good1"], "other": ["good2"], "bad": ["bad"], "twin": ["twin"]})
    for metric in ("bleu", "bleu_paper", "chrf"):
        base, other, bad, twin = (row[metric] for row in report["runs"])
        assert base["p_bootstrap"] is None
        assert base["p_randomisation"] is None
        for test in ("p_bootstrap", "p_randomisation"):
            assert other[test] > 0.05
            assert bad[test] < 0.01
            assert twin[test] == 1
        assert twin["score"] == base["score"] > bad["score"] + 20
        assert abs(base["bootstrap_mean"] - base["score"]) < base["bootstrap_margin"] < 10
    assert "seed:7" in report["signatures"]["bleu"]["bootstrap"]
    assert "bs:150" in report["signatures"]["bleu"]["bootstrap"]
    assert "ar:150" in report["signatures"]["chrf"]["randomisation"]
    assert report["systems"]["good"]["bleu"]["std"] is None


def test_the_same_seed_gives_the_same_figures(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault: figures that nobody can reproduce, or that a variable of the environment changes."""
    systems = {"a": ["good1"], "b": ["good2"]}
    found = compared(folder, systems, metrics=[Metric.bleu])
    monkeypatch.setenv("SACREBLEU_SEED", "99")
    assert compared(folder, systems, metrics=[Metric.bleu])["runs"] == found["runs"]
    assert compared(folder, systems, metrics=[Metric.bleu], seed=8)["runs"] != found["runs"]


def test_seeds_of_a_system(folder: Path) -> None:
    """Fault: seeds of two systems averaged together; the paper's mean of three without its spread."""
    report = compared(folder, {"good": ["good1", "good2", "good3"], "bad": ["bad"]}, output=str(folder / "out"))
    scores = [row["chrf"]["score"] for row in report["runs"]]
    good = report["systems"]["good"]["chrf"]
    assert good["count"] == 3
    assert good["mean"] == pytest.approx(sum(scores[:3]) / 3)
    assert good["low"] < good["mean"] < good["high"]
    saved = json.loads((folder / "out" / "significance.json").read_text("utf-8"))
    assert {**saved, "report": report["report"]} == report
    table = (folder / "out" / "significance.md").read_text("utf-8")
    assert table == markdown(report)
    assert "| good   | BLEU" in table
    assert f"good: {folder}/good2" in table
    assert "Command: `python " in table


def test_options() -> None:
    """Fault: a list of files taken for one system, or a mapping for a list."""
    assert systems_option(["a", "b"]) == {"a": ["a"], "b": ["b"]}
    assert systems_option({"x": ["a", "b"], "y": "c"}) == {"x": ["a", "b"], "y": ["c"]}
    for wrong in ("a", [1, 2], {"x": 3}, {"x": []}, None):
        with pytest.raises(UserError, match=r"give files as|at least two"):
            systems_option(wrong)
    for few in (["a"], ["a", "a"], {"x": "a"}):
        with pytest.raises(UserError, match="at least two different files"):
            systems_option(few)


def test_refusals(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Fault: systems of unequal length compared up to the shorter; a stack trace for seed 0."""
    pair = {"a": ["good1"], "b": ["good2"]}
    with pytest.raises(UserError, match="leave rouge out"):
        compared(folder, pair, metrics=[Metric.rouge])
    with pytest.raises(UserError, match="name what to compare by"):
        compared(folder, pair, metrics=[])
    for option in ("samples", "trials", "seed"):
        with pytest.raises(UserError, match=f"{option}=0 must be at least 1"):
            compared(folder, pair, **{option: 0})
    (folder / "short").write_text("one\n")
    with pytest.raises(UserError, match=f"ref has {LINES} lines but .*short has 1;"):
        compared(folder, {"a": ["good1"], "b": ["short"]})
    (folder / "blank").write_text("\n" * LINES)
    report = compared(folder, {"a": ["good1"], "b": ["blank"]}, metrics=[Metric.bleu], language=None)
    assert report["runs"][1]["bleu"]["score"] == 0
    assert report["notes"] == {"bleu_paper": "not computed: give language=, the target's"}
    assert "blank: every line is blank" in capsys.readouterr().err
