"""ROUGE-1/2/L of summaries by the rouge-score package: recall at 75 bytes (DUC) and F1 (Gigaword), paper sec. 4.2.

As ROUGE-1.5.5 -m -b 75 -f A: lower-cased, all but ASCII letters and digits dropped (so a # and every accented letter
are), words of more than three letters stemmed by Porter's rules, recall over several references by the sum of their
counts. The package's stemmer is NLTK's version of those rules; Perl's differs in rare words.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from statistics import fmean

from convs2s.evaluation.scores import Lines, Score, check

BYTES = 75  # DUC-2004, task 1
KINDS = ("rouge1", "rouge2", "rougeL")


def rouge(hypotheses: Lines, *references: Lines) -> dict[str, Score]:
    """rouge1_recall75 ... rougeL_f1: means over the sentences. The DUC figures cut both sides, as -b does.

    Without scores where rouge-score (extra: rouge) is missing. Errors as in ``convs2s.evaluation.scores``.
    """
    check(hypotheses, references)
    names = [f"{kind}_{figure}" for figure in ("recall75", "f1") for kind in KINDS]
    try:
        from rouge_score.rouge_scorer import RougeScorer
        from rouge_score.tokenizers import DefaultTokenizer
    except ImportError:
        missing = Score(None, note="not computed: needs rouge-score, pip install -e '.[rouge]'")
        return dict.fromkeys(names, missing)
    tokenizer = DefaultTokenizer(use_stemmer=True)
    scorer = RougeScorer(list(KINDS), tokenizer=tokenizer)

    def sentence(hypothesis: str, targets: Sequence[str]) -> dict[str, tuple[float, float]]:
        """Recall and F1 by kind: hits, and counts, summed over the references."""
        hits, counts = dict.fromkeys(KINDS, 0.0), dict.fromkeys(KINDS, 0)
        precision = dict.fromkeys(KINDS, 0.0)
        for target in targets:
            words = len(tokenizer.tokenize(target))
            for kind, found in scorer.score(target, hypothesis).items():
                count = max(0, words - 1) if kind == "rouge2" else words
                hits[kind] += found.recall * count
                counts[kind] += count
                precision[kind] += found.precision / len(targets)
        recall = {kind: hits[kind] / max(1, counts[kind]) for kind in KINDS}
        return {kind: (recall[kind], harmonic(recall[kind], precision[kind])) for kind in KINDS}

    cut, whole = [], []
    for hypothesis, *targets in zip(hypotheses, *references, strict=True):
        whole.append(sentence(hypothesis, targets))
        cut.append(sentence(first_bytes(hypothesis), [first_bytes(target) for target in targets]))
    signature = f"nrefs:{len(references)}|stem:porter|rouge-score:{version('rouge-score')}"
    found = {f"{kind}_recall75": fmean(figures[kind][0] for figures in cut) for kind in KINDS}
    found |= {f"{kind}_f1": fmean(figures[kind][1] for figures in whole) for kind in KINDS}
    limit = {name: f"|bytes:{BYTES}" if name.endswith("recall75") else "" for name in names}
    return {name: Score(100 * found[name], signature + limit[name]) for name in names}


def first_bytes(text: str) -> str:
    """The first 75 bytes; a character that they cut is left out."""
    return text.encode()[:BYTES].decode(errors="ignore")


def harmonic(recall: float, precision: float) -> float:
    return 2 * recall * precision / (recall + precision) if recall + precision else 0.0
