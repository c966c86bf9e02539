"""Corpus scores by sacrebleu, each with the signature that says how it was computed (Post 2018)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from convs2s.errors import UserError


class Score(NamedTuple):
    """A corpus score from 0 to 100 and how it came about."""

    score: float
    signature: str
    details: str = ""  # BLEU: n-gram precisions, brevity penalty, lengths


def bleu(hypotheses: Sequence[str], references: Sequence[str], tokenize: str = "13a") -> Score:
    """Cased corpus BLEU-4 against one reference a sentence.

    tokenize: "13a" for plain text (comparable with published figures), "none" for text that is already in words.
    Raises UserError when there is nothing to score, ValueError for unequal counts.
    """
    check(hypotheses, references)
    # "force" silences a warning about text that looks tokenised, which whitespace text rightly does.
    metric = BLEU(tokenize=tokenize, lowercase=False, force=True)
    result = metric.corpus_score(hypotheses, [references])
    return Score(result.score, str(metric.get_signature()), f"{result.prec_str} {result._verbose.partition(' ')[2]}")


def chrf(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """chrF2: F-score of character 1- to 6-grams (Popović 2015). Errors as for ``bleu``."""
    check(hypotheses, references)
    metric = CHRF()
    return Score(metric.corpus_score(hypotheses, [references]).score, str(metric.get_signature()))


def check(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    if len(hypotheses) != len(references):
        raise ValueError(f"{len(hypotheses)} hypotheses, but {len(references)} references")
    if not hypotheses:
        raise UserError("nothing to score: the text has no lines")
