"""Corpus scores by sacrebleu, each with the signature that says how it was computed (Post 2018).

Every function takes the hypotheses and one or more lists of references, all of one length, and raises UserError when
there is nothing to score, ValueError for unequal counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any, NamedTuple

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from convs2s.errors import UserError
from convs2s.text.moses import Moses

Lines = Sequence[str]
# White space to Python and so to sacrebleu, part of a word to Perl: the no-break space, U+2028, ...
_NO_SPACE_TO_PERL = re.compile(r"[^\S \t\n\v\f\r]")


class Score(NamedTuple):
    """A corpus score, in percent, and how it came about."""

    score: float | None  # None where it could not be computed: ``note`` says why
    signature: str = ""
    details: str = ""  # BLEU: n-gram precisions, brevity penalty, lengths
    note: str = ""
    lengths: tuple[int, int] | None = None  # BLEU: words of hypotheses and references

    def as_dict(self) -> dict[str, Any]:
        """For JSON, without what is empty."""
        found = {key: value for key, value in self._asdict().items() if key == "score" or value}
        return found | ({"lengths": list(self.lengths)} if self.lengths else {})


def bleu(
    hypotheses: Lines, *references: Lines, tokenize: str = "13a", smooth: str = "exp", lowercase: bool = False
) -> Score:
    """Corpus BLEU-4.

    tokenize: "13a" for plain text (comparable with published figures), "none" for text that is already in words.
    """
    check(hypotheses, references)
    # "force" silences a warning about text that looks tokenised, which whitespace text rightly does.
    metric = BLEU(tokenize=tokenize, smooth_method=smooth, lowercase=lowercase, force=True)
    result = metric.corpus_score(hypotheses, references)
    details = f"{result.prec_str} {result._verbose.partition(' ')[2]}"
    return Score(result.score, str(metric.get_signature()), details, lengths=(result.sys_len, result.ref_len))


def multi_bleu(hypotheses: Lines, *references: Lines, lowercase: bool = False) -> Score:
    """What multi-bleu.perl gives for text in words: no smoothing, words between ASCII white space.

    0 where the hypotheses have no word (that program then divides by zero).
    """
    texts = [perl_words(text) for text in (hypotheses, *references)]
    return bleu(*texts, tokenize="none", smooth="none", lowercase=lowercase)


def perl_words(lines: Lines) -> list[str]:
    """Lines that Python splits into words where Perl does."""
    return [_NO_SPACE_TO_PERL.sub(lambda match: f"<{ord(match[0]):x}>", line) for line in lines]


def paper_bleu(
    hypotheses: Lines, *references: Lines, language: str | None, segmented: bool = False, lowercase: bool = False
) -> Score:
    """The paper's BLEU for English-German and English-French: multi-bleu over Moses words of both sides (sec. 4.2).

    language: the target's; segmented: the text is in words already and taken as it is; lowercase: case counts for
    nothing. No score where the language is unknown or sacremoses (extra: paper) missing.
    """
    prepare, words, note = paper_words(language, segmented)
    if prepare is None:
        return Score(None, note=note)
    found = multi_bleu(*(prepare(text) for text in (hypotheses, *references)), lowercase=lowercase)
    return found._replace(signature=f"{found.signature}|words:{words}")


def paper_words(language: str | None, segmented: bool) -> tuple[Callable[[Lines], list[str]] | None, str, str]:
    """What makes words of lines, its name in signatures, and why there is none."""
    if segmented:
        return perl_words, "as-written", ""
    if language is None:
        return None, "", "not computed: give language=, the target's"
    try:
        moses = Moses(language, punctuation=False, lowercase=False)
    except UserError:
        return None, "", "not computed: needs sacremoses, pip install -e '.[paper]'"
    name = f"moses-{language}|sacremoses:{version('sacremoses')}"
    return lambda lines: perl_words([moses.segment(line) for line in lines]), name, ""


def chrf(hypotheses: Lines, *references: Lines) -> Score:
    """chrF2: F-score of character 1- to 6-grams (Popović 2015)."""
    check(hypotheses, references)
    metric = CHRF()
    return Score(metric.corpus_score(hypotheses, references).score, str(metric.get_signature()))


def ter(hypotheses: Lines, *references: Lines) -> Score:
    """Translation edit rate: edits per reference word, less is better (Snover et al. 2006); lower-cased, as tercom."""
    check(hypotheses, references)
    metric = TER()
    return Score(metric.corpus_score(hypotheses, references).score, str(metric.get_signature()))


def check(hypotheses: Lines, references: Sequence[Lines]) -> None:
    if not references:
        raise ValueError("no references")
    for reference in references:
        if len(hypotheses) != len(reference):
            raise ValueError(f"{len(hypotheses)} hypotheses, but {len(reference)} references")
    if not hypotheses:
        raise UserError("nothing to score: the text has no lines")
