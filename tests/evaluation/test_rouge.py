"""ROUGE: the package's own figures, the cut at 75 bytes, several references."""

from __future__ import annotations

import sys

import pytest

from convs2s.evaluation.rouge import first_bytes, rouge

FOX = "The quick brown fox jumps over the lazy dog"
DOG = "The quick brown dog jumps on the log."
NAMES = [f"{kind}_{figure}" for figure in ("recall75", "f1") for kind in ("rouge1", "rouge2", "rougeL")]


def test_known_figures() -> None:
    """Fault: precision taken for recall, F1 of means; expected: by hand, as in rouge-score's documentation."""
    pytest.importorskip("rouge_score")
    found = rouge([DOG], [FOX])
    assert list(found) == NAMES
    expected = [6 / 9, 2 / 8, 5 / 9, 12 / 17, 4 / 15, 10 / 17]
    assert [found[name].score for name in NAMES] == [pytest.approx(100 * value) for value in expected]
    assert "stem:porter|rouge-score:" in found["rouge1_f1"].signature
    assert found["rouge1_recall75"].signature.endswith("|bytes:75")
    twice = rouge([DOG, ""], [FOX, FOX])  # a mean over sentences; a blank one is worth nothing
    assert [twice[name].score for name in NAMES] == [pytest.approx(50 * value) for value in expected]


def test_only_75_bytes_count() -> None:
    """Fault: DUC's recall is raised by long summaries; a cut in the middle of a character."""
    pytest.importorskip("rouge_score")
    padding = "x" * 70 + " "
    found = rouge([f"{padding}cat dog"], ["cat dog"])  # 71 + 3 bytes: the cat fits, the dog does not
    assert found["rouge1_recall75"].score == pytest.approx(50)
    assert found["rouge1_f1"].score == pytest.approx(80)
    assert first_bytes("é" * 40) == "é" * 37


def test_several_references() -> None:
    """Fault: the best reference only. ROUGE-1.5.5 -f A sums hits and words over them: (2 + 1) / (2 + 4) here."""
    pytest.importorskip("rouge_score")
    found = rouge(["cat dog"], ["cat dog"], ["cat one two three"])
    assert found["rouge1_recall75"].score == pytest.approx(50)
    assert found["rouge2_recall75"].score == pytest.approx(100 * 1 / 4)
    assert found["rouge1_f1"].score == pytest.approx(100 * 2 * 0.5 * 0.75 / 1.25)


def test_stems_and_case() -> None:
    """Fault: other words than the paper's scorer compares."""
    pytest.importorskip("rouge_score")
    assert rouge(["Dogs jumped"], ["dog jumps"])["rouge1_f1"].score == pytest.approx(100)


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault: a package that is missing ends a training's scoring."""
    monkeypatch.setitem(sys.modules, "rouge_score.rouge_scorer", None)
    found = rouge([DOG], [FOX])
    assert list(found) == NAMES
    assert found["rougeL_f1"].as_dict() == {
        "score": None,
        "note": "not computed: needs rouge-score, pip install -e '.[rouge]'",
    }
