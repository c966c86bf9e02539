"""Sentences with a clause inside: each kind a function from an ``Author`` to a finished ``Pair``; None: draw again."""

from __future__ import annotations

from typing import TypeGuard

from convs2s.data.builtin.author import PEOPLE, Author, deniable, pairs, personal
from convs2s.data.builtin.clauses import (
    BE,
    Clause,
    Tense,
    german_bracket,
    infinitive,
    sentence,
    statement,
    subordinate,
)
from convs2s.data.builtin.lexicon import ADJECTIVES, NOUNS, nouns_of
from convs2s.data.builtin.main_clauses import ALL_NOUNS, BEING
from convs2s.data.builtin.numbers import Pair
from convs2s.data.builtin.phrases import RELATIVE, WHO, NounPhrase, Pronoun
from convs2s.data.builtin.verbs import VERBS, Verb

BECAUSE, ALTHOUGH, WHILE, BEFORE, IF, THAT, WHETHER, WHY = pairs(
    "because = weil", "although = obwohl", "while = während", "before = bevor",
    "if = wenn", "that = dass", "whether = ob", "why = warum",
)  # fmt: skip
NOBODY = Pair("", "")  # no conjunction: "who" itself begins the clause
REPORTS = (
    ("glauben", THAT), ("hoffen", THAT), ("sagen", THAT), ("wissen", THAT), ("wissen", WHETHER), ("wissen", WHY),
    ("wissen", NOBODY), ("fragen", WHETHER), ("fragen", WHY), ("fragen", NOBODY),
)  # fmt: skip
INQUIRIES = pairs("do you know = wissen Sie", "can you tell me = können Sie mir sagen")
SAID = ("now", "past", "perfect", "perfect", "future", "modal")  # moods of what somebody believes or asks
ASIDE = {"past": ("past",), "perfect": ("past", "perfect"), "future": ("now", "perfect", "future", "modal")}
STATES = ("tired", "hungry", "sick")  # of people and animals alike
RELATIONS = nouns_of("kin")
KEPT = ("kaufen", "finden", "waschen", "reparieren", "ausleihen")  # after which more can be done with a thing
HANDLED = ("kaufen", "verkaufen", "finden", "suchen", "waschen", "reparieren", "ausleihen", "wegwerfen")
IN_ORDER = Pair("in order", "um")
# The verbs that can have a noun as their object, which a relative or personal pronoun may then replace.
TAKERS = {
    name: [
        verb
        for verb in VERBS.values()
        if noun in verb.objects and not verb.german_preposition and verb.pattern in ("accusative", "dative")
    ]
    for name, noun in NOUNS.items()
}
# Not done to what one has just bought or found:
UNSUITED = ("sehen", "suchen", "finden", "stehlen", "helfen", "folgen", "jagen", "fressen")


def joined(main: Pair, clause: Pair) -> Pair:
    """A main clause and the clause that depends on it; the comma is German."""
    return Pair(f"{main.english} {clause.english}", f"{main.german}, {clause.german}")


def led_by(clause: Pair, main: Clause) -> Pair:
    """A subordinate clause first, then the main clause, whose German subject moves behind the verb."""
    return statement(main, front=Pair(clause.english, clause.german + ","))


def nameable(phrase: NounPhrase | Pronoun) -> bool:
    """Whether he, she, they or we can take a phrase up: not girl and child, whose German gender is only grammatical."""
    return isinstance(phrase, Pronoun) or (phrase.noun.human and (phrase.plural or phrase.noun.gender != 2))


def thing(phrase: NounPhrase | Pronoun | None) -> TypeGuard[NounPhrase]:
    """Whether "it" (or, of things, "they") can take a phrase up."""
    return isinstance(phrase, NounPhrase) and not phrase.noun.human


def alike(main: Clause, aside: Clause) -> bool:
    """Whether two clauses are too much alike to be read as two: the same verb or noun as subject."""
    first, second = (one.noun if isinstance(one, NounPhrase) else one for one in (main.subject, aside.subject))
    return main.verb is aside.verb or first == second


def reason(author: Author) -> Pair | None:
    """Because, although: the German clause ends in its verb; a pronoun may take the subject up, animals' by gender."""
    mood = author.pick(("now", "past", "past", "perfect", "future", "modal"))
    main = author.clause((mood,), placed=0.15)
    word, moods = author.pick((BECAUSE, ALTHOUGH)), ASIDE.get(mood, ("now", "perfect"))
    if author.chance(0.5):
        aside = author.clause(moods, placed=0.1, negated=0.2)
        clause = subordinate(aside, word)
        if alike(main, aside):
            return None
        return sentence(led_by(clause, main) if author.chance(0.5) else joined(statement(main), clause))
    subject = personal(main.subject)
    if thing(main.subject) and main.subject.noun.kind != "animal":
        return None
    if thing(main.subject) or author.chance(0.5):
        adjective = ADJECTIVES[author.pick(STATES)]
        aside = Clause(subject, BE, "past" if mood in ("past", "perfect") else "present")
        aside = aside._replace(predicate=Pair(adjective.english, adjective.german))
    else:
        aside = author.clause(moods, subject, negated=0.2)
    if not thing(main.subject) and (not nameable(main.subject) or aside.verb is main.verb):
        return None
    return sentence(joined(statement(main), subordinate(aside, word)))


def meanwhile(author: Author) -> Pair | None:
    """While: an English progressive that German leaves to the plain past."""
    main, aside = author.clause(("past",), negated=0), author.clause(("past",), negated=0)
    if not aside.verb.ing or alike(main, aside):
        return None
    clause = subordinate(aside._replace(tense="past progressive"), WHILE)
    return sentence(led_by(clause, main) if author.chance(0.5) else joined(statement(main), clause))


def condition(author: Author) -> Pair | None:
    """If …: present tense in the condition, future or modal in the main clause."""
    aside = author.clause(("now",), placed=0.1, negated=0.2)._replace(tense="present")
    main = author.clause(("future", "modal"), placed=0.1)
    if alike(main, aside):
        return None
    clause = subordinate(aside, IF)
    return sentence(led_by(clause, main) if author.chance(0.6) else joined(statement(main), clause))


def before(author: Author) -> Pair | None:
    """Before …: a pronoun takes the subject up."""
    past = author.chance(0.5)
    main = author.clause(("past" if past else "future",), author.subject(PEOPLE), placed=0.1, negated=0)
    aside = author.clause(("past" if past else "now",), personal(main.subject), placed=0.1, negated=0)
    if not nameable(main.subject) or not (main.verb.ing and aside.verb.ing) or aside.verb is main.verb:
        return None
    aside = aside._replace(tense="past" if past else "present")
    return sentence(joined(statement(main), subordinate(aside, BEFORE)))


def reported(author: Author) -> Pair:
    """That, whether and indirect questions: what is said or asked ends in its verb."""
    verb, word = author.pick(REPORTS)
    subject = WHO if word is NOBODY else None
    content = author.clause(SAID, subject, timed=0.25, placed=0.15, negated=0 if subject else 0.15)
    if word is not THAT and author.chance(0.3):
        return sentence(joined(author.pick(INQUIRIES), subordinate(content, word)), "?")
    matrix = Clause(author.subject(PEOPLE, pronoun=0.35), VERBS[verb], "present")
    return sentence(joined(statement(matrix), subordinate(content, word)))


def purpose(author: Author) -> Pair | None:
    """Infinitives with "zu", which goes between a separable prefix and its verb; "in order to" is "um … zu"."""
    subject = author.subject(PEOPLE)
    aside = author.clause(("future",), subject, placed=0.1, negated=0)
    if not aside.verb.ing:
        return None
    if author.chance(0.5):
        main = author.clause(("now", "past", "future"), subject, placed=0.1, negated=0)
        if not main.verb.ing or main.verb is aside.verb:
            return None
        return sentence(joined(statement(main), infinitive(aside, IN_ORDER)))
    verb = VERBS[author.pick(("versuchen", "vergessen", "versprechen", "beschließen"))]
    if verb.infinitive in ("versprechen", "beschließen") and deniable(aside):
        aside = aside._replace(negated=author.chance(0.3))
    return sentence(joined(statement(Clause(subject, verb, author.pick(("past", "perfect")))), infinitive(aside)))


def relative_clause(author: Author, phrase: NounPhrase, main: Verb) -> Pair:
    """A relative clause for a phrase: as subject, as object of a verb other than ``main``, or with a predicate."""
    noun, pronoun = phrase.noun, RELATIVE[3 if phrase.plural else phrase.noun.gender]
    doer = pronoun if noun.human else pronoun._replace(subject="that")
    kind = author.random()
    if kind < 0.5 and (noun.human or noun.kind == "animal"):
        verb = author.verb(phrase)
        return subordinate(author.clause(("now", "past", "perfect"), doer, verb, placed=0.1))
    takers = [verb for verb in TAKERS[noun.head] if verb is not main]
    if not takers or (kind > 0.85 and main is not BE):
        return subordinate(Clause(doer, BE, author.pick(BEING), predicate=author.predicate(phrase)))
    verb = author.pick(takers)
    author.note(verb, phrase)
    subject = author.subject([one for one in verb.subjects if one != noun], pronoun=0.4)
    clause = Clause(subject, verb, author.tense(author.pick(("past", "past", "perfect", "now")), verb))
    return subordinate(clause, Pair("whom" if noun.human else "that", pronoun.forms[verb.case]))


def relative_subject(author: Author) -> Pair:
    """A relative clause in the middle: the pronoun has the noun's gender and its own clause's case; commas around."""
    phrase = author.phrase(author.pick(ALL_NOUNS), ("the", "the", "this", "a", "the+"), described=0.1)
    if phrase.noun.human or phrase.noun.kind in ("animal", "transport"):
        main = author.clause(subject=phrase, timed=0.2, placed=0.15)
    else:
        main = Clause(phrase, BE, author.pick(BEING), predicate=author.predicate(phrase))
    return sentence(statement(main._replace(subject=with_relative(author, phrase, main.verb))))


def with_relative(author: Author, phrase: NounPhrase, main: Verb) -> NounPhrase:
    """The phrase with a relative clause drawn for it."""
    return phrase._replace(relative=relative_clause(author, phrase, main))


def relative_object(author: Author) -> Pair | None:
    """A relative clause at the end, after a verb that needs nothing there."""
    clause = author.clause(("now", "past"), placed=0, negated=0)
    if not isinstance(clause.object, NounPhrase) or german_bracket(clause)[1] or clause.object.noun.kind == "place":
        return None
    return sentence(statement(clause._replace(object=with_relative(author, clause.object, clause.verb))))


def it_was(author: Author) -> Pair | None:
    """A pronoun for a thing, as subject: "it" is er, sie or es by the gender of the German noun."""
    main = author.clause(("now", "past", "perfect"), verb=VERBS[author.pick(HANDLED)], placed=0, negated=0)
    if thing(main.subject) or not thing(main.object) or main.object.adjective:
        return None  # nothing is bought red because it is blue
    tense: Tense = "past" if main.tense in ("past", "perfect") else "present"
    aside = Clause(personal(main.object), BE, tense, predicate=author.predicate(main.object))
    return sentence(joined(statement(main), subordinate(aside, BECAUSE)))


def with_it(author: Author) -> Pair | None:
    """A pronoun for a thing, as object: "it" is ihn, sie or es, and stands between the parts of "picks it up"."""
    main = author.clause(("past",), author.subject(PEOPLE), VERBS[author.pick(KEPT)], placed=0, negated=0)
    if not nameable(main.subject) or not thing(main.object):
        return None
    then = author.pick([verb for verb in TAKERS[main.object.noun.head] if verb.infinitive not in UNSUITED])
    if then is main.verb:
        return None
    author.note(then, main.object)
    it = personal(main.object)
    if author.chance(0.5):
        clause = subordinate(main._replace(tense="present"), IF)
        return sentence(led_by(clause, Clause(personal(main.subject), then, "future", it)))
    first, second = statement(main), statement(Clause(author.phrase(author.pick(RELATIONS)), then, "perfect", it))
    return sentence(Pair(f"{first.english}, but {second.english}", f"{first.german}, aber {second.german}"))
