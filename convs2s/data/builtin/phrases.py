"""Noun phrases of the built-in English–German corpus: articles, adjective endings, pronouns, places.

Pure functions from words to a ``Pair`` of English and German text (for German alone: to a string).
"""

from __future__ import annotations

from typing import NamedTuple

from convs2s.data.builtin.lexicon import INSIDE, PREPOSITIONS, Adjective, Case, Noun
from convs2s.data.builtin.numbers import Pair, number, words

FIRST, THIRD, PLURAL = 0, 1, 2  # agreement of a finite verb: I, he, we/they

# Columns: masculine, feminine, neuter, plural. STRONG also declines dies- and jed-.
DEFINITE = {
    "nominative": ("der", "die", "das", "die"),
    "accusative": ("den", "die", "das", "die"),
    "dative": ("dem", "der", "dem", "den"),
}
STRONG = {
    "nominative": ("er", "e", "es", "e"),
    "accusative": ("en", "e", "es", "e"),
    "dative": ("em", "er", "em", "en"),
}
MIXED_ARTICLE = STRONG | {"nominative": ("", "e", "", "e"), "accusative": ("en", "e", "", "e")}  # ein, kein, mein
WEAK = {
    "nominative": ("e", "e", "e", "en"),
    "accusative": ("en", "e", "e", "en"),
    "dative": ("en", "en", "en", "en"),
}
MIXED = {
    "nominative": ("er", "e", "es", "en"),
    "accusative": ("en", "e", "es", "en"),
    "dative": ("en", "en", "en", "en"),
}
DER_WORDS = {"this": "dies", "every": "jed"}
EIN_WORDS = {"a": "ein", "no": "kein", "my": "mein", "our": "unser", "his": "sein", "her": "ihr", "their": "ihr"}
CONTRACTIONS = {"in dem": "im", "in das": "ins", "an dem": "am", "von dem": "vom", "zu dem": "zum", "zu der": "zur"}


class NounPhrase(NamedTuple):
    """Determiner ("" for none), at most one adjective, noun; ``amount``: a number word in the determiner's place."""

    determiner: str
    noun: Noun
    adjective: Adjective | None = None
    plural: bool = False
    amount: int = 0
    relative: Pair | None = None

    @property
    def agreement(self) -> int:
        return PLURAL if self.plural else THIRD


class Pronoun(NamedTuple):
    """A personal, interrogative or relative pronoun: English subject and object, German forms by case."""

    subject: str
    object: str
    forms: dict[str, str]
    agreement: int


def _pronoun(subject: str, object: str, german: str, agreement: int) -> Pronoun:
    return Pronoun(subject, object, dict(zip(DEFINITE, german.split(), strict=True)), agreement)


I = _pronoun("I", "me", "ich mich mir", FIRST)  # noqa: E741
HE = _pronoun("he", "him", "er ihn ihm", THIRD)
SHE = _pronoun("she", "her", "sie sie ihr", THIRD)
WE = _pronoun("we", "us", "wir uns uns", PLURAL)
THEY = _pronoun("they", "them", "sie sie ihnen", PLURAL)
IT = tuple(_pronoun("it", "it", forms, THIRD) for forms in ("er ihn ihm", "sie sie ihr", "es es ihm"))
WHO = _pronoun("who", "whom", "wer wen wem", THIRD)
YOU = _pronoun("", "", "Sie Sie Ihnen", PLURAL)  # of the polite imperative
RELATIVE = tuple(
    _pronoun("who", "whom", forms, PLURAL if forms.endswith("denen") else THIRD)
    for forms in ("der den dem", "die die der", "das das dem", "die die denen")
)


def render(phrase: NounPhrase | Pronoun, case: Case) -> Pair:
    """A noun phrase or pronoun in a case: (the old dog, den alten Hund), (him, ihm)."""
    if isinstance(phrase, Pronoun):
        return Pair(phrase.subject if case == "nominative" else phrase.object, phrase.forms[case])
    determiner, noun, adjective, plural, amount, relative = phrase
    column = 3 if plural else noun.gender
    article, endings = "", STRONG[case]
    if determiner == "the":
        article, endings = DEFINITE[case][column], WEAK[case]
    elif determiner in DER_WORDS:
        article, endings = DER_WORDS[determiner] + STRONG[case][column], WEAK[case]
    elif determiner:
        article, endings = EIN_WORDS[determiner] + MIXED_ARTICLE[case][column], MIXED[case]
    german = noun.german_plural if plural or (noun.weak and case != "nominative") else noun.german
    if plural and case == "dative" and german[-1] not in "ns":
        german += "n"
    english = noun.english_plural if plural else noun.english
    if adjective:
        english, german = f"{adjective.english} {english}", f"{adjective.stem}{endings[column]} {german}"
    if determiner == "this" and plural:
        determiner = "these"
    elif determiner == "a" and english[0] in "aeiou":
        determiner = "an"
    elif amount:
        determiner, article = number(amount)
    if determiner:
        english, german = f"{determiner} {english}", f"{article} {german}"
    if relative:
        english, german = f"{english} {relative.english}", f"{german}, {relative.german},"
    return Pair(english, german)


def place(phrase: NounPhrase, towards: bool = False) -> Pair:
    """Where somebody is or, ``towards``, goes: in the garden, im Garten; into the garden, in den Garten."""
    english_at, german_at, english_to, german_to, case = PREPOSITIONS.get(phrase.noun.english, INSIDE)
    if towards:
        english, german = render(phrase, case)
        return Pair(f"{english_to} {english}", prepend(german_to, german))
    english, german = render(phrase, "dative")
    return Pair(f"{english_at} {english}", prepend(german_at, german))


def prepend(preposition: str, german: str) -> str:
    """A German preposition before its noun phrase, contracted with the article where that is usual (im, zur, vom)."""
    article, _, rest = german.partition(" ")
    start = f"{preposition} {article}"
    return words(CONTRACTIONS.get(start, start), rest)
