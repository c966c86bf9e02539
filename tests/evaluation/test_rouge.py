"""ROUGE: the package's own figures, the cut at 75 bytes, several references."""

from __future__ import annotations

import random
import re
import sys
from collections import Counter
from collections.abc import Sequence

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


WORDS = ["cat", "dog", "sat", "mat", "on", "the", "a", "#", "42", "É"]  # too short to be stemmed


def subsequence(one: Sequence[str], other: Sequence[str]) -> int:
    """Length of the longest common subsequence."""
    row = [0] * (len(other) + 1)
    for word in one:
        before = row
        row = [0]
        for i, against in enumerate(other):
            row.append(before[i] + 1 if word == against else max(before[i + 1], row[i]))
    return row[-1]


def recall75(hypothesis: str, references: Sequence[str]) -> list[float]:
    """ROUGE-1, -2 and -L recall of ROUGE-1.5.5 -b 75 -f A from its definition: hits / words, summed over references."""

    def words(text: str) -> list[str]:
        cut = text.encode()[:75].decode("utf-8", "ignore")
        return re.findall("[a-z0-9]+", cut.lower())

    mine, figures = words(hypothesis), []
    for n in (1, 2):
        hits = total = 0
        for wanted in map(words, references):
            ours, theirs = (Counter(zip(*(side[i:] for i in range(n)), strict=False)) for side in (mine, wanted))
            hits, total = hits + sum((ours & theirs).values()), total + sum(theirs.values())
        figures.append(hits / total if total else 0.0)
    lengths = [len(words(reference)) for reference in references]
    common = sum(subsequence(mine, words(reference)) for reference in references)
    return [*figures, common / sum(lengths) if sum(lengths) else 0.0]


@pytest.mark.parametrize("count", [1, 2, 4])
def test_recall_is_that_of_its_definition(count: int) -> None:
    """Fault: n-grams counted without their clip, recall over the hypothesis' words, the cut on one side, a mean of
    the references' recalls."""
    pytest.importorskip("rouge_score")
    draw = random.Random(count)
    for _ in range(20):
        lines = [
            [" ".join(draw.choices(WORDS, k=draw.randint(0, 30))) for _ in range(count + 1)]  # to beyond 75 bytes
            for _ in range(3)
        ]
        hypotheses, *references = map(list, zip(*lines, strict=True))
        found = rouge(hypotheses, *references)
        sentences = [recall75(hypothesis, targets) for hypothesis, *targets in lines]
        for kind, values in zip(("rouge1", "rouge2", "rougeL"), zip(*sentences, strict=True), strict=True):
            assert found[f"{kind}_recall75"].score == pytest.approx(100 * sum(values) / 3), (kind, lines)


def test_recall_by_hand() -> None:
    """Fault: as above, for a reader with a pencil."""
    pytest.importorskip("rouge_score")
    # the cat sat on the mat | the dog sat the: of six words "the" twice and "sat", no pair, "the sat the" in order
    found = rouge(["the dog sat the"], ["the cat sat on the mat"])
    assert [found[f"{kind}_recall75"].score for kind in ("rouge1", "rouge2", "rougeL")] == [
        pytest.approx(100 * value) for value in (3 / 6, 0, 3 / 6)
    ]
    found = rouge(["police killed the gunman"], ["the gunman was killed by police"], ["police kills the gunmen"])
    # 4 of 6 and 3 of 4 words (gunmen is no form of gunman to Porter)
    # pairs: "the gunman" of five, "police kill" and "kill the" of three; in order: "the gunman", "police kill the"
    assert found["rouge1_recall75"].score == pytest.approx(100 * (4 + 3) / (6 + 4))
    assert found["rouge2_recall75"].score == pytest.approx(100 * (1 + 2) / (5 + 3))
    assert found["rougeL_recall75"].score == pytest.approx(100 * (2 + 3) / (6 + 4))


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault: a package that is missing ends a training's scoring."""
    monkeypatch.setitem(sys.modules, "rouge_score.rouge_scorer", None)
    found = rouge([DOG], [FOX])
    assert list(found) == NAMES
    assert found["rougeL_f1"].as_dict() == {
        "score": None,
        "note": "not computed: needs rouge-score, pip install -e '.[rouge]'",
    }
