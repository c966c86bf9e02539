"""Clauses of the built-in English–German corpus: where German puts its verbs, its "nicht" and everything else.

Pure functions; those for whole clauses return a ``Pair``. What German does beyond substitution is here: the sentence
bracket (finite verb second, the rest of the verb last), verb-final clauses, the order of the middle field, negation.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from convs2s.data.builtin.numbers import Pair, words
from convs2s.data.builtin.phrases import PLURAL, THIRD, NounPhrase, Pronoun, prepend, render
from convs2s.data.builtin.verbs import VERBS, Verb

Tense = Literal[
    "present", "progressive", "past", "past progressive", "perfect", "future", "must", "can", "should", "want"
]
# By agreement. The progressive has no German counterpart but the plain tense; "must not" is "darf nicht".
ENGLISH_AUXILIARIES: dict[str, tuple[str, str, str]] = {
    "present": ("do", "does", "do"),
    "want": ("do", "does", "do"),
    "past": ("did", "did", "did"),
    "progressive": ("am", "is", "are"),
    "past progressive": ("was", "was", "were"),
    "perfect": ("have", "has", "have"),
    "future": ("will", "will", "will"),
    "must": ("must", "must", "must"),
    "can": ("can", "can", "can"),
    "should": ("should", "should", "should"),
}
GERMAN_AUXILIARIES = {
    "future": ("werde", "wird", "werden"),
    "must": ("muss", "muss", "müssen"),
    "must not": ("darf", "darf", "dürfen"),
    "can": ("kann", "kann", "können"),
    "should": ("sollte", "sollte", "sollten"),
    "want": ("will", "will", "wollen"),
    "haben": ("habe", "hat", "haben"),
    "sein": ("bin", "ist", "sind"),
}
BE = VERBS["sein"]
NOTHING = Pair("", "")


class Clause(NamedTuple):
    """One clause before its words are in order; ``place``, ``time`` and ``predicate`` are ready in both languages."""

    subject: NounPhrase | Pronoun
    verb: Verb
    tense: Tense
    object: NounPhrase | Pronoun | None = None
    recipient: NounPhrase | Pronoun | None = None
    place: Pair | None = None
    time: Pair | None = None
    predicate: Pair | None = None
    negated: bool = False


def _english_verb(clause: Clause) -> tuple[str, str, str]:
    """Auxiliary, the rest of the verb after it, and the whole without "do" for an affirmative statement."""
    verb, tense, agreement = clause.verb, clause.tense, clause.subject.agreement
    if verb is BE and tense in ("present", "past"):
        auxiliary = ENGLISH_AUXILIARIES["progressive" if tense == "present" else "past progressive"][agreement]
        return auxiliary, "", auxiliary
    auxiliary = ENGLISH_AUXILIARIES[tense][agreement]
    if tense in ("present", "past"):
        finite = verb.past if tense == "past" else verb.third if agreement == THIRD else verb.base
        return auxiliary, verb.base, finite
    if tense == "want":
        return auxiliary, f"want to {verb.base}", f"{'wants' if agreement == THIRD else 'want'} to {verb.base}"
    rest = verb.ing if "progressive" in tense else verb.participle if tense == "perfect" else verb.base
    return auxiliary, rest, f"{auxiliary} {rest}"


def _english_tail(clause: Clause) -> str:
    """What follows the verb in English: objects, particle, predicate, place, time."""
    objects = [render(phrase, "accusative").english for phrase in (clause.recipient, clause.object) if phrase]
    particle, preposition = clause.verb.particle, clause.verb.preposition
    if isinstance(clause.object, Pronoun):
        objects.append(particle)
    else:
        objects.insert(0, particle)
    adverbials = [pair.english for pair in (clause.predicate, clause.place, clause.time) if pair]
    return words(preposition, *objects, *adverbials)


def german_bracket(clause: Clause) -> tuple[str, str]:
    """The finite verb and what closes the clause: prefix, participle or infinitive (ruft … an, hat … angerufen)."""
    verb, agreement = clause.verb, clause.subject.agreement
    tense = clause.tense.removesuffix("progressive").strip() or "present"
    if tense == "present":
        if verb is BE:
            return GERMAN_AUXILIARIES["sein"][agreement], ""
        first = verb.german_third if verb.german_third == "weiß" else verb.simple[:-1]
        return (first, verb.german_third, verb.simple)[agreement], verb.prefix
    if tense == "past":
        plural = verb.preterite + ("n" if verb.preterite.endswith("e") else "en")
        return (plural if agreement == PLURAL else verb.preterite), verb.prefix
    if tense == "perfect":
        return GERMAN_AUXILIARIES[verb.auxiliary][agreement], verb.german_participle
    modal = "must not" if tense == "must" and clause.negated else tense
    return GERMAN_AUXILIARIES[modal][agreement], verb.infinitive


def german_middle(clause: Clause) -> str:
    """The middle field: pronouns, time, recipient, object, "nicht", then what belongs closely to the verb.

    An indefinite object is negated by its article (keinen Hund), anything else by "nicht" before place and predicate.
    """
    verb, thing, negated = clause.verb, clause.object, clause.negated
    if negated and isinstance(thing, NounPhrase) and thing.determiner in ("", "a") and not verb.german_preposition:
        thing, negated = thing._replace(determiner="no"), False
    pronouns: list[str] = []
    phrases: list[str] = []
    close = ["nicht"] if negated else []
    if clause.recipient:
        group = pronouns if isinstance(clause.recipient, Pronoun) else phrases
        group.append(render(clause.recipient, "dative").german)
    if thing:
        text = render(thing, verb.case).german
        if verb.german_preposition:
            close.append(prepend(verb.german_preposition, text))
        else:
            (pronouns if isinstance(thing, Pronoun) else phrases).append(text)
    close += [pair.german for pair in (clause.place, clause.predicate) if pair]
    return words(*pronouns, clause.time.german if clause.time else "", *phrases, *close)


def statement(clause: Clause, front: Pair | None = None) -> Pair:
    """A main clause; with ``front`` (an adverbial or clause) first, the German subject moves behind the finite verb."""
    subject = render(clause.subject, "nominative")
    auxiliary, rest, whole = _english_verb(clause)
    if clause.negated:
        whole = words("cannot" if auxiliary == "can" else f"{auxiliary} not", rest)
    english = words(subject.english, whole, _english_tail(clause))
    finite, closing = german_bracket(clause)
    if front:
        german = words(front.german, finite, subject.german, german_middle(clause), closing)
        return Pair(f"{front.english}, {english}", german)
    return Pair(english, words(subject.german, finite, german_middle(clause), closing))


def question(clause: Clause, word: Pair = NOTHING) -> Pair:
    """A question, after an interrogative if one is given: inversion in both languages, "do" only in English."""
    subject = render(clause.subject, "nominative")
    auxiliary, rest, _ = _english_verb(clause)
    english = words(word.english, auxiliary, subject.english, "not" * clause.negated, rest, _english_tail(clause))
    finite, closing = german_bracket(clause)
    return Pair(english, words(word.german, finite, subject.german, german_middle(clause), closing))


def subordinate(clause: Clause, conjunction: Pair = NOTHING) -> Pair:
    """A verb-final clause: because the dog has seen the ball, weil der Hund den Ball gesehen hat."""
    english, _ = statement(clause)
    finite, closing = german_bracket(clause)
    verb = closing + finite if closing == clause.verb.prefix else f"{closing} {finite}"
    german = words(conjunction.german, render(clause.subject, "nominative").german, german_middle(clause), verb)
    return Pair(words(conjunction.english, english), german)


def infinitive(clause: Clause, conjunction: Pair = NOTHING) -> Pair:
    """An infinitive clause, which has no subject: to call the doctor, die Ärztin anzurufen; in order to, um … zu."""
    verb = clause.verb
    english = words(conjunction.english, "not" * clause.negated, "to", verb.base, _english_tail(clause))
    zu = f"{verb.prefix}zu{verb.simple}" if verb.prefix else f"zu {verb.infinitive}"
    return Pair(english, words(conjunction.german, german_middle(clause), zu))


def request(clause: Clause) -> Pair:
    """A polite imperative; the clause's subject is YOU: please open the door, bitte machen Sie die Tür auf."""
    english = words("please", "do not" * clause.negated, clause.verb.base, _english_tail(clause))
    finite, closing = german_bracket(clause)
    return Pair(english, words("bitte", finite, "Sie", german_middle(clause), closing))


def sentence(pair: Pair, mark: str = ".") -> Pair:
    """Raw text: a capital first, the mark last, and no comma of a relative clause doubled or before the mark."""
    english, german = pair
    german = german.rstrip(",").replace(",,", ",")
    return Pair(english[0].upper() + english[1:] + mark, german[0].upper() + german[1:] + mark)
