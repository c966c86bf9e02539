"""Who writes the built-in English–German corpus: an ``Author`` draws noun phrases, adverbials and clauses.

It keeps to what makes sense (books are borrowed, doors opened) and to tenses that suit their adverbials.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

from convs2s.data.builtin.clauses import Clause, Tense
from convs2s.data.builtin.lexicon import ADJECTIVES, HEADS, NOUNS, Adjective, Noun, compound, nouns_of
from convs2s.data.builtin.numbers import MONTHS, Pair, clock_time, date
from convs2s.data.builtin.phrases import HE, IT, SHE, THEY, WE, I, NounPhrase, Pronoun, place
from convs2s.data.builtin.verbs import VERBS, Verb

Option = TypeVar("Option")
Combination = tuple[str, str]  # (adjective, noun), (verb, noun of its object) or (first, second part of a compound)


def pairs(*texts: str) -> tuple[Pair, ...]:
    """Fixed expressions, each written "English = German"."""
    return tuple(Pair(*text.split(" = ")) for text in texts)


WEEKDAYS = pairs("Monday = Montag", "Tuesday = Dienstag", "Wednesday = Mittwoch", "Thursday = Donnerstag",
                 "Friday = Freitag", "Saturday = Samstag", "Sunday = Sonntag")  # fmt: skip
PAST_TIMES = pairs("yesterday = gestern", "last week = letzte Woche", "last year = letztes Jahr",
                   "yesterday evening = gestern Abend", "last month = letzten Monat")  # fmt: skip
FUTURE_TIMES = pairs("tomorrow = morgen", "next week = nächste Woche", "soon = bald",
                     "tomorrow evening = morgen Abend", "next month = nächsten Monat")  # fmt: skip
PRESENT_TIMES = pairs("today = heute", "this week = diese Woche", "this morning = heute Morgen")
HABITS = pairs("every day = jeden Tag", "every morning = jeden Morgen", "every evening = jeden Abend",
               "in winter = im Winter", "in summer = im Sommer")  # fmt: skip
HABITS += tuple(Pair(f"every {day.english}", f"jeden {day.german}") for day in WEEKDAYS)
DEGREES = (Pair("", ""), Pair("", ""), Pair("very ", "sehr "), Pair("too ", "zu "))

# A mood says which tenses go together with which adverbials of time.
MOODS = ("now", "now", "past", "past", "past", "perfect", "perfect", "future", "future", "modal", "modal", "habit")
TENSES: dict[str, Tense] = {"past": "past", "perfect": "perfect", "future": "future", "habit": "present"}
MODALS: tuple[Tense, ...] = ("must", "must", "can", "should", "want")
LASTING = ("kennen", "lieben")  # states, which no adverbial of time suits
NOWHERE = (*LASTING, "zeichnen", "aufräumen", "zurückkommen", "abfahren", "zurückbringen", "mitnehmen")  # nor a place

PATTERNS = ("accusative",) * 9 + ("dative",) * 4 + ("recipient",) * 3 + ("none",) * 3 + ("motion",) * 2
VERBS_OF = {pattern: [verb for verb in VERBS.values() if verb.pattern == pattern] for pattern in (*PATTERNS, "to")}
ADJECTIVES_OF = {
    kind: [adjective for adjective in ADJECTIVES.values() if kind in adjective.kinds]
    for kind in sorted({noun.kind for noun in NOUNS.values()})
}
PEOPLE, PLACES = nouns_of("people"), nouns_of("place")
OUTDOORS = nouns_of("forest park station market river bridge")  # where one can drive

# What stands before a noun: a determiner, with "+" of the plural, or a number word.
WHOLE = ("the", "the", "the", "the", "a", "a", "a", "this", "the+", "+", "number", "number", "number")
OWNED = (*WHOLE, "my", "our", "his", "her", "their", "his+", "my+")
KIN = ("my", "my", "our", "our", "his", "her", "their", "my+", "our+", "his+")
UNCOUNTED = ("", "", "the", "the", "my", "this")
FORMS = {"person": WHOLE, "child": WHOLE, "opening": WHOLE, "transport": WHOLE, "mass": UNCOUNTED, "drink": UNCOUNTED}
KNOWN = ("the", "the", "the", "the", "this", "a")  # of places
PRONOUNS = (I, HE, HE, SHE, SHE, WE, THEY)


def personal(phrase: NounPhrase | Pronoun) -> Pronoun:
    """The pronoun that takes a phrase up again: he, she, they for people; for all else it, in German by gender."""
    if isinstance(phrase, Pronoun):
        return phrase
    if phrase.plural:
        return THEY
    return (HE, SHE, IT[2])[phrase.noun.gender] if phrase.noun.human else IT[phrase.noun.gender]


def deniable(clause: Clause) -> bool:
    """Whether a negation has one reading and one place: no number, no indefinite subject, recipient or "every"."""
    for phrase in (clause.subject, clause.object, clause.recipient):
        if isinstance(phrase, NounPhrase):
            if phrase.amount or phrase.determiner in ("every", "no"):
                return False
            if phrase is not clause.object and phrase.determiner in ("", "a"):
                return False
    return not (clause.object and clause.place)


class Author:
    """Draws from a random generator, of which only ``random()`` is used: its sequence is the same in every Python."""

    def __init__(self, rng: random.Random) -> None:
        self.random = rng.random
        self.combinations: set[Combination] = set()  # of the sentence in hand

    def pick(self, options: Sequence[Option]) -> Option:
        """One of the options, each as likely as any other."""
        return options[int(self.random() * len(options))]

    def chance(self, probability: float) -> bool:
        """True so often."""
        return self.random() < probability

    # Noun phrases

    def phrase(self, noun: Noun, forms: Sequence[str] = (), described: float = 0.35) -> NounPhrase:
        """The noun with a determiner out of ``forms`` (or the usual ones), perhaps compounded, perhaps described."""
        if noun.english in HEADS and self.chance(0.6):
            modifier = self.pick(HEADS[noun.english])
            self.combinations.add((modifier, noun.english))
            noun = compound(modifier, noun)
        if noun.kind == "kin":
            forms = KIN
        elif not forms or noun.kind in ("mass", "drink"):
            forms = FORMS.get(noun.kind, OWNED)
        form = self.pick(forms)
        adjective = self.adjective(noun) if self.chance(described) else None
        if form == "number":
            most = 20 if noun.human or noun.kind == "animal" else 99
            return NounPhrase("", noun, adjective, True, 2 + int(self.random() * (most - 1)))
        return NounPhrase(form.rstrip("+"), noun, adjective, form.endswith("+"))

    def adjective(self, noun: Noun) -> Adjective:
        """An adjective that suits the noun."""
        adjective = self.pick(ADJECTIVES_OF[noun.kind])
        self.combinations.add((adjective.english, noun.english))
        return adjective

    def subject(self, nouns: Sequence[Noun], pronoun: float = 0.2) -> NounPhrase | Pronoun:
        """A phrase with one of the nouns or, of people, with the chance ``pronoun``, a pronoun."""
        noun = self.pick(nouns)
        if noun.human and self.chance(pronoun):
            return self.pick(PRONOUNS)
        return self.phrase(noun)

    def other(self, nouns: Sequence[Noun], than: NounPhrase | Pronoun) -> NounPhrase | Pronoun:
        """Somebody or something else than the subject; no pronoun either that would have to be reflexive."""
        noun = self.pick(nouns)
        while isinstance(than, NounPhrase) and noun == than.noun:
            noun = self.pick(nouns)
        if noun.human and self.chance(0.15):
            return self.pick([one for one in PRONOUNS if one not in (I, WE) or than not in (I, WE)])
        return self.phrase(noun)

    def object(self, verb: Verb, subject: NounPhrase | Pronoun) -> NounPhrase | Pronoun:
        """An object that suits the verb."""
        phrase = self.other(verb.objects, subject)
        self.note(verb, phrase)
        return phrase

    def note(self, verb: Verb, phrase: NounPhrase | Pronoun) -> None:
        """Remember that the verb has this object; of a compound its head counts."""
        if isinstance(phrase, NounPhrase):
            self.combinations.add((verb.base, phrase.noun.head))

    # Adverbials and predicates

    def place(self, nouns: Sequence[Noun] = PLACES, towards: bool = False) -> Pair:
        """Where somebody is or, ``towards``, goes."""
        return place(self.phrase(self.pick(nouns), KNOWN, described=0.2), towards)

    def date(self) -> Pair:
        """A day of the year; every month is as likely as any other."""
        month = int(self.random() * 12)
        return date(1 + int(self.random() * MONTHS[month][2]), month + 1)

    def time(self, mood: str) -> Pair:
        """An adverbial of time that suits a mood: a date, weekday or hour only for what is over or to come."""
        if mood in ("habit", "now", "perfect"):
            return self.pick(HABITS if mood == "habit" else PRESENT_TIMES)
        kind = self.random()
        if kind < 0.35:
            return self.date()
        if kind < 0.65:
            return self.pick(PAST_TIMES if mood == "past" else FUTURE_TIMES)
        day, hour = self.pick(WEEKDAYS), clock_time(1 + int(self.random() * 12))
        if kind < 0.8:
            return Pair(f"on {day.english}", f"am {day.german}")
        return Pair(f"on {day.english} {hour.english}", f"am {day.german} {hour.german}") if kind < 0.9 else hour

    def predicate(self, phrase: NounPhrase) -> Pair:
        """An adjective said of a phrase, plain or by degree: very tired, sehr müde."""
        adjective, degree = self.pick(ADJECTIVES_OF[phrase.noun.kind]), self.pick(DEGREES)
        if not adjective.german_comparative and "person" not in adjective.kinds:
            degree = DEGREES[0]  # nothing is very red
        return Pair(degree.english + adjective.english, degree.german + adjective.german)

    # Clauses

    def tense(self, mood: str, verb: Verb) -> Tense:
        """A tense of the mood that the verb can have."""
        if mood == "now":
            return "progressive" if verb.ing else "present"
        if mood == "modal":
            return self.pick(MODALS) if verb.ing else "can"
        return TENSES[mood]

    def verb(self, subject: NounPhrase | Pronoun | None = None, patterns: Sequence[str] = PATTERNS) -> Verb:
        """A verb of one of the patterns that the subject, if given, can have (a pronoun stands for a man)."""
        doer = subject.noun if isinstance(subject, NounPhrase) else NOUNS["man"]
        verb = self.pick(VERBS_OF[self.pick(patterns)])
        while subject and doer not in verb.subjects:
            verb = self.pick(VERBS_OF[self.pick(patterns)])
        return verb

    def clause(
        self,
        moods: Sequence[str] = MOODS,
        subject: NounPhrase | Pronoun | None = None,
        verb: Verb | None = None,
        timed: float = 0.0,
        placed: float = 0.2,
        negated: float = 0.12,
    ) -> Clause:
        """A clause around subject and verb, if given, with the chances that it has a time, a place, a negation."""
        verb = verb or self.verb(subject)
        subject = subject or self.subject(verb.subjects)
        mood = self.pick(moods)
        if verb.infinitive in LASTING:
            mood, timed = ("past" if mood == "past" else "now"), 0.0
        thing = self.object(verb, subject) if verb.objects else None
        recipient = self.other(PEOPLE, subject) if verb.pattern == "recipient" else None
        where = None
        if verb.pattern == "motion":
            where = self.place(OUTDOORS if verb.infinitive == "fahren" else PLACES, towards=True)
        elif verb.pattern in ("none", "accusative") and verb.infinitive not in NOWHERE and self.chance(placed):
            where = self.place(OUTDOORS if verb.infinitive == "ankommen" else PLACES)
        when = self.time(mood) if mood == "habit" or self.chance(timed) else None
        clause = Clause(subject, verb, self.tense(mood, verb), thing, recipient, where, when)
        if clause.tense == "must":
            negated *= 3  # "must not" would be too rare to be learnt
        return clause._replace(negated=True) if self.chance(negated) and deniable(clause) else clause
