"""The figures: what they count, that they are those of the programs they stand for, and that each says how."""

from __future__ import annotations

import math
import random
import sys
from collections import Counter

import pytest
import sacrebleu
from helpers import golden_json

from convs2s.errors import UserError
from convs2s.evaluation.scores import bleu, chrf, multi_bleu, paper_bleu, ter

TEXT = ["The dog, it runs in the snow.", "A red house stands here!", "Nobody knows why 67 men sing."]


def test_perfect_and_hopeless() -> None:
    """Fault: hypotheses and references swapped or shifted; a score from 0 to 1."""
    for metric in (bleu, chrf):
        assert metric(TEXT, TEXT).score == pytest.approx(100)
        assert metric(["x y z w"] * 3, TEXT).score < 5  # type: ignore[operator]
        assert metric(TEXT, [*TEXT[1:], TEXT[0]]).score < 50  # type: ignore[operator]
    assert ter(TEXT, TEXT).score == 0


def test_published_figures() -> None:
    """Fault: another tokenisation, smoothing or reference length than sacrebleu's own; expected: its documentation."""
    hypotheses = ["The dog bit the man.", "It wasn't surprising.", "The man had just bitten him."]
    first = ["The dog bit the man.", "It was not unexpected.", "The man bit him first."]
    second = ["The dog had bit the man.", "No one was surprised.", "The man had bitten the dog."]
    found = bleu(hypotheses, first, second)
    assert found.score == pytest.approx(48.53, abs=0.005)
    assert found.details == "82.4/50.0/45.5/37.5 (BP = 0.943 ratio = 0.944 hyp_len = 17 ref_len = 18)"
    assert found.lengths == (17, 18)
    assert chrf(hypotheses, first, second).score == pytest.approx(59.73, abs=0.005)


def test_brevity_penalty() -> None:
    """Fault: hypotheses and references exchanged: brevity would turn into length."""
    short, long = ["a b c d"], ["a b c d e"]
    assert bleu(short, long, tokenize="none").score == pytest.approx(100 * math.exp(1 - 5 / 4))
    assert bleu(long, short, tokenize="none").score == pytest.approx(100 * (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25)


def test_case_counts() -> None:
    """Fault: figures on lower-cased text reported as cased ones."""
    lowered = [text.lower() for text in TEXT]
    assert bleu(lowered, TEXT).score < 90  # type: ignore[operator]
    assert paper_bleu(lowered, TEXT, language="en").score < 90  # type: ignore[operator]
    uncased = paper_bleu(lowered, TEXT, language="en", lowercase=True)
    assert uncased.score == pytest.approx(100)
    assert "case:lc" in uncased.signature


def test_tokenisation() -> None:
    """Fault: plain text scored by spaces alone, or words of a segmented text cut up once more."""
    spaced = [text.replace(",", " ,").replace(".", " .").replace("!", " !") for text in TEXT]
    assert bleu(spaced, TEXT).score == pytest.approx(100)
    assert bleu(spaced, TEXT, tokenize="none").score < 60  # type: ignore[operator]
    assert paper_bleu(spaced, TEXT, language="en").score == pytest.approx(100)
    assert paper_bleu(spaced, TEXT, language="en", segmented=True).score < 60  # type: ignore[operator]


def test_signatures() -> None:
    """Fault: a figure whose tokenisation and version nobody can tell."""
    assert f"tok:13a|smooth:exp|version:{sacrebleu.__version__}" in bleu(TEXT, TEXT).signature
    assert "case:mixed" in bleu(TEXT, TEXT).signature
    assert "tok:none" in bleu(TEXT, TEXT, tokenize="none").signature
    for metric in (chrf, ter):
        assert f"version:{sacrebleu.__version__}" in metric(TEXT, TEXT).signature
    words = paper_bleu(TEXT, TEXT, language="de").signature
    assert "tok:none|smooth:none" in words
    assert "words:moses-de|sacremoses:" in words
    assert paper_bleu(TEXT, TEXT, language="de", segmented=True).signature.endswith("words:as-written")


def test_nothing_to_score() -> None:
    """Fault: a missing last line goes unnoticed; an empty file scores 0 or divides by it."""
    for metric in (bleu, chrf, ter, multi_bleu):
        with pytest.raises(ValueError, match="3 hypotheses, but 2"):
            metric(TEXT, TEXT[:2])
        with pytest.raises(ValueError, match="3 hypotheses, but 2"):
            metric(TEXT, TEXT, TEXT[:2])
        with pytest.raises(UserError, match="nothing to score"):
            metric([], [])


def test_blank_hypotheses_count_as_nothing() -> None:
    """Fault: a blank line is skipped, so that silence is never wrong; all blank divides by 0."""
    for metric in (bleu, chrf, multi_bleu):
        assert metric(["", *TEXT[1:]], TEXT).score < 90  # type: ignore[operator]
        assert metric([""] * 3, TEXT).score == 0
    assert ter([""] * 3, TEXT).score == pytest.approx(100)


# Printed by Moses' multi-bleu.perl for these very lines.
PERL = [
    (
        ["the cat sat on the mat .", "", "a dog ran in the big park &amp; slept", "it is &quot; fine &quot; here , he"],
        ["the cat sat on a mat .", "nobody came", "a dog ran through the big park &amp; slept well", "it is &quot; ,"],
        "42.728701 75.0/57.1/38.9/20.0 BP=1.000",
    ),
    (["a b c x", "d e"], ["a b c d", "d e f"], "0.000000 83.3/75.0/50.0/0.0 BP=0.846"),
    (["a\u00a0b c d e f", "g h i j"], ["a b c d e f", "g h i j k"], "63.931511 88.9/85.7/80.0/66.7 BP=0.801"),
]


@pytest.mark.parametrize(("hypotheses", "reference", "expected"), PERL)
def test_figures_of_multi_bleu(hypotheses: list[str], reference: list[str], expected: str) -> None:
    """Fault: smoothing, another brevity penalty, words split at a no-break space: not the paper's figure."""
    found = multi_bleu(hypotheses, reference)
    assert f"{found.score:.6f} {found.details.split()[0]} BP={found.details.split()[3]}" == expected


def test_figures_of_the_original() -> None:
    """Fault: not the BLEU that the authors' program prints for the same words."""
    for case in golden_json("bleu"):
        found = multi_bleu(case["sys"], case["ref"]) if any(case["ref"]) else None
        if found is not None:  # the original counts one word in a blank line; we refuse blank references
            assert found.score == pytest.approx(case["fairseq_score"]["bleu"]), case["name"]


def test_multi_bleu_by_its_formula() -> None:
    """Fault: clipping, totals or lengths over a corpus go astray; expected: the formula, written down once more."""
    draw = random.Random(5)
    for _ in range(20):
        lines = [[draw.choices("abc", k=draw.randint(0, 9)) for _ in range(12)] for _ in range(2)]
        hypotheses, references = ([" ".join(words) for words in side] for side in lines)
        correct, total = [0] * 4, [0] * 4
        for words, wanted in zip(*lines, strict=True):
            for n in range(1, 5):
                mine, theirs = (Counter(tuple(x[i : i + n]) for i in range(len(x) - n + 1)) for x in (words, wanted))
                correct[n - 1] += sum((mine & theirs).values())
                total[n - 1] += sum(mine.values())
        lengths = [sum(map(len, side)) for side in lines]
        penalty = min(1.0, math.exp(1 - lengths[1] / lengths[0]))
        product = math.prod(c / t if t else 0.0 for c, t in zip(correct, total, strict=True))
        assert multi_bleu(hypotheses, references).score == pytest.approx(100 * penalty * product**0.25, abs=1e-9)


def test_without_sacremoses_or_language(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault: a package that is missing, or an unknown language, ends a training's scoring, or gives a wrong figure."""
    unknown = paper_bleu(TEXT, TEXT, language=None)
    assert (unknown.score, unknown.note) == (None, "not computed: give language=, the target's")
    monkeypatch.setitem(sys.modules, "sacremoses", None)
    missing = paper_bleu(TEXT, TEXT, language="en").as_dict()
    assert missing == {"score": None, "note": "not computed: needs sacremoses, pip install -e '.[paper]'"}
    assert paper_bleu(TEXT, TEXT, language=None, segmented=True).score == pytest.approx(100)
