"""The figures: what they count, and that each says how it was computed."""

from __future__ import annotations

import math

import pytest
import sacrebleu

from convs2s.errors import UserError
from convs2s.evaluation.scores import bleu, chrf

TEXT = ["The dog, it runs in the snow.", "A red house stands here!", "Nobody knows why 67 men sing."]


def test_perfect_and_hopeless() -> None:
    """Fault: hypotheses and references swapped or shifted; a score from 0 to 1."""
    for metric in (bleu, chrf):
        assert metric(TEXT, TEXT).score == pytest.approx(100)
        assert metric(["x y z w"] * 3, TEXT).score < 5
        assert metric(TEXT, [*TEXT[1:], TEXT[0]]).score < 50


def test_brevity_penalty() -> None:
    """Fault: hypotheses and references exchanged: brevity would turn into length."""
    short, long = ["a b c d"], ["a b c d e"]
    assert bleu(short, long, "none").score == pytest.approx(100 * math.exp(1 - 5 / 4))
    assert bleu(long, short, "none").score == pytest.approx(100 * (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25)


def test_case_counts() -> None:
    """Fault: figures on lower-cased text reported as cased ones."""
    assert bleu([text.lower() for text in TEXT], TEXT).score < 90


def test_tokenisation() -> None:
    """Fault: plain text scored by spaces alone, or words of a segmented text cut up once more."""
    spaced = [text.replace(",", " ,").replace(".", " .").replace("!", " !") for text in TEXT]
    assert bleu(spaced, TEXT).score == pytest.approx(100)
    assert bleu(spaced, TEXT, "none").score < 60


def test_signatures() -> None:
    """Fault: a figure whose tokenisation and version nobody can tell."""
    assert f"tok:13a|smooth:exp|version:{sacrebleu.__version__}" in bleu(TEXT, TEXT).signature
    assert "case:mixed" in bleu(TEXT, TEXT).signature
    assert "tok:none" in bleu(TEXT, TEXT, "none").signature
    assert f"version:{sacrebleu.__version__}" in chrf(TEXT, TEXT).signature


def test_nothing_to_score() -> None:
    """Fault: a missing last line goes unnoticed; an empty file scores 0 or divides by it."""
    for metric in (bleu, chrf):
        with pytest.raises(ValueError, match="3 hypotheses, but 2"):
            metric(TEXT, TEXT[:2])
        with pytest.raises(UserError, match="nothing to score"):
            metric([], [])
