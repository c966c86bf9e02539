"""All that is said about translations beside their references, whoever made them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from convs2s.config import Metric
from convs2s.errors import UserError
from convs2s.evaluation.rouge import rouge
from convs2s.evaluation.scores import Lines, Score, bleu, chrf, paper_bleu, ter

EDGES = (10, 20, 30, 40, 50)  # longest sentences of each bucket but the last, in words between spaces
UNKNOWN = "<unk>"


def figures(
    hypotheses: Lines,
    references: Sequence[Lines],
    metrics: Collection[Metric],
    *,
    sources: Lines | None = None,
    language: str | None = None,
    segmented: bool = False,
    lowercase: bool = False,
) -> dict[str, Any]:
    """Scores by name, length ratio, BLEU by length, and how many hypotheses are blank.

    segmented: the text is in words between spaces and also gets ``bleu_tokenized``; language and lowercase: as in
    ``paper_bleu``, whose figure is ``bleu_paper`` or, lower-cased, ``bleu_lowercased``; sources: what the lengths are
    of, else the first references. Raises UserError for blank references.
    """
    check_references(references)
    scores: dict[str, Score] = {}
    if Metric.bleu in metrics:
        scores["bleu"] = bleu(hypotheses, *references)
        if segmented:
            scores["bleu_tokenized"] = bleu(hypotheses, *references, tokenize="none")
        scores["bleu_lowercased" if lowercase else "bleu_paper"] = paper_bleu(
            hypotheses, *references, language=language, segmented=segmented, lowercase=lowercase
        )
    if Metric.chrf in metrics:
        scores["chrf"] = chrf(hypotheses, *references)
    if Metric.ter in metrics:
        scores["ter"] = ter(hypotheses, *references)
    if Metric.rouge in metrics:
        scores |= rouge(hypotheses, *references)
    found: dict[str, Any] = {name: score.as_dict() for name, score in scores.items()}
    if Metric.bleu in metrics:
        words, expected = scores["bleu"].lengths or (0, 0)
        found["length_ratio"] = words / expected if expected else 0.0
        found["length_buckets"] = {
            "of": "reference" if sources is None else "source",
            "buckets": buckets(hypotheses, references, references[0] if sources is None else sources),
        }
    return found | {"sentences": len(hypotheses), "blank": sum(not line.strip() for line in hypotheses)}


def check_references(references: Sequence[Lines]) -> None:
    """Raise UserError where there is nothing to compare with."""
    if not any(line.strip() for line in references[0]):
        raise UserError("nothing to score: every reference is blank")


def buckets(hypotheses: Lines, references: Sequence[Lines], measured: Lines) -> list[dict[str, Any]]:
    """BLEU of the sentences whose line of ``measured`` has so many words; buckets without a sentence are left out."""
    members: dict[int, list[int]] = {}
    for i, line in enumerate(measured):
        words = len(line.split())
        members.setdefault(sum(words > edge for edge in EDGES), []).append(i)
    names = [*(f"{low + 1}-{high}" for low, high in zip((-1, *EDGES), EDGES, strict=False)), f"over {EDGES[-1]}"]
    return [
        {
            "words": names[bucket],
            "sentences": len(chosen),
            "bleu": bleu([hypotheses[i] for i in chosen], *([text[i] for i in chosen] for text in references)).score,
        }
        for bucket, chosen in sorted(members.items())
    ]


def unknown_words(lines: Lines) -> float:
    """Share of words that are <unk>."""
    words = [word for line in lines for word in line.split()]
    return words.count(UNKNOWN) / max(1, len(words))
