"""Sentences of one clause, or of two main clauses: each kind a function from an ``Author`` to a finished ``Pair``.

Each kind is there for something that word-by-word substitution gets wrong; its docstring says what. None means that
what was drawn does not suit the kind; ``sentences.write`` then draws again.
"""

from __future__ import annotations

from convs2s.data.builtin.author import NOWHERE, PEOPLE, Author, deniable, pairs
from convs2s.data.builtin.clauses import BE, Clause, Tense, question, request, sentence, statement
from convs2s.data.builtin.lexicon import ADJECTIVES, NOUN_ROWS, NOUNS, nouns_of
from convs2s.data.builtin.numbers import Pair, number
from convs2s.data.builtin.phrases import WHO, YOU, NounPhrase, render
from convs2s.data.builtin.verbs import VERBS

WHY, WHEN, WHERE, WHITHER = pairs("why = warum", "when = wann", "where = wo", "where = wohin")
BEING: tuple[Tense, ...] = ("present", "past")
NOUNS_OF = {kind: nouns_of(kind) for kind in NOUN_ROWS}
COMPARABLE = [one for one in ADJECTIVES.values() if one.german_comparative and one.kinds != ("place",)]
ALL_NOUNS = tuple(noun for noun in NOUNS.values() if noun.kind != "place")
PRICED, FOUND = nouns_of("goods vehicle opening"), nouns_of("thing furniture device animal")


def plain(author: Author) -> Pair:
    """A statement: case, agreement, tense, the sentence bracket, time before object and place."""
    clause = author.clause(timed=0.6, placed=0.4)
    if isinstance(clause.subject, NounPhrase) and clause.subject.determiner == "a" and author.chance(0.4):
        clause = clause._replace(subject=clause.subject._replace(determiner=author.pick(("every", "no"))))
    return sentence(statement(clause))


def fronted(author: Author) -> Pair | None:
    """A time or place comes first; the German subject follows the verb."""
    clause = author.clause(timed=0.8, placed=0.3)
    if clause.time:
        return sentence(statement(clause._replace(time=None), front=clause.time))
    if clause.place and clause.verb.pattern != "motion":
        return sentence(statement(clause._replace(place=None), front=clause.place))
    return None


def yes_no(author: Author) -> Pair:
    """Inversion without "do"."""
    return sentence(question(author.clause(timed=0.5)), "?")


def wh(author: Author) -> Pair | None:
    """Questions for circumstances; "where" is "wo" or, of motion, "wohin"."""
    word = author.pick((WHY, WHEN, WHERE))
    if word is WHY:
        return sentence(question(author.clause(timed=0.3), WHY), "?")
    if word is WHEN:
        return sentence(question(author.clause(("past", "future", "modal"), negated=0), WHEN), "?")
    verb = author.verb(patterns=("accusative", "none", "motion", "motion"))
    if verb.infinitive in NOWHERE:
        return None
    asked, verb = (WHITHER, verb._replace(pattern="none")) if verb.pattern == "motion" else (WHERE, verb)
    clause = author.clause(("now", "past", "future", "modal"), verb=verb, placed=0, negated=0)
    return sentence(question(clause, asked), "?")


def who(author: Author) -> Pair:
    """A question for the subject: the order of a statement."""
    return sentence(statement(author.clause(subject=WHO, timed=0.3, negated=0)), "?")


def whom_or_what(author: Author) -> Pair | None:
    """A question for the object, whose German word has a case: wen, wem, was, wie viele."""
    verb = author.verb(patterns=("accusative", "dative", "recipient"))
    if verb.preposition:
        return None
    noun = author.pick(verb.objects)
    word = Pair("what", "was")
    if noun.human or verb.case == "dative":
        word = Pair("whom", "wem" if verb.case == "dative" else "wen")
    elif noun.english_plural and author.chance(0.5):
        phrase = author.phrase(noun, ("+",))
        author.note(verb, phrase)
        english, german = render(phrase, "accusative")
        word = Pair(f"how many {english}", f"wie viele {german}")
    return sentence(question(author.clause(verb=verb._replace(objects=()), placed=0, negated=0), word), "?")


def there_is(author: Author) -> Pair:
    """There is …: the place comes first and the thing is a German accusative."""
    phrase = author.phrase(author.pick(FOUND), ("a", "a", "no", "number", "+"))
    where = author.place()
    english, german = render(phrase, "accusative")
    be = "are" if phrase.plural else "is"
    if author.chance(0.25) and phrase.determiner != "no":
        return sentence(Pair(f"{be} there {english} {where.english}", f"gibt es {where.german} {german}"), "?")
    return sentence(Pair(f"there {be} {english} {where.english}", f"{where.german} gibt es {german}"))


def polite_request(author: Author) -> Pair | None:
    """Please …: finite verb, "Sie", and the prefix at the end."""
    verb = author.verb(YOU, ("accusative", "accusative", "dative", "recipient"))
    if not verb.ing or verb.infinitive == "stehlen":
        return None
    clause = author.clause(("future",), YOU, verb, timed=0.4, placed=0, negated=0.2)._replace(tense="present")
    return sentence(request(clause._replace(time=None) if clause.negated else clause))


def linked(author: Author) -> Pair:
    """Two main clauses with "and" or "but"."""
    moods = (author.pick(("now", "past", "perfect", "future", "modal")),)
    first, second = (statement(author.clause(moods, placed=0.15)) for _ in range(2))
    link = author.pick((Pair(" and", " und"), Pair(", but", ", aber")))
    return sentence(
        Pair(f"{first.english}{link.english} {second.english}", f"{first.german}{link.german} {second.german}")
    )


def state(author: Author) -> Pair:
    """Adjectives as predicates, which German does not decline."""
    phrase = author.phrase(author.pick(ALL_NOUNS), described=0)
    clause = Clause(phrase, BE, author.pick(BEING), predicate=author.predicate(phrase))
    clause = clause._replace(negated=author.chance(0.15) and deniable(clause))
    return sentence(question(clause), "?") if author.chance(0.2) else sentence(statement(clause))


def amount(author: Author) -> Pair:
    """Ages and prices: number words, with the singular "Euro"."""
    if author.chance(0.5):
        phrase = author.phrase(author.pick(PRICED), ("the", "this", "a"))
        value = number(2 + int(author.random() * 98))
        predicate = Pair(f"{value.english} euros", f"{value.german} Euro")
        return sentence(statement(Clause(phrase, VERBS["kosten"], "present", predicate=predicate)))
    subject = author.subject(PEOPLE)
    child = isinstance(subject, NounPhrase) and subject.noun.kind == "child"
    value = number(2 + int(author.random() * 14) if child else 18 + int(author.random() * 82))
    predicate = Pair(f"{value.english} years old", f"{value.german} Jahre alt")
    clause = Clause(subject, BE, author.pick(BEING), predicate=predicate)
    return sentence(question(clause), "?") if author.chance(0.2) else sentence(statement(clause))


def comparison(author: Author) -> Pair | None:
    """Comparatives (older than, älter als), also those that English makes with "more", and equality."""
    adjective = author.pick(COMPARABLE)
    kind = author.pick([kind for kind in adjective.kinds if kind != "place"])
    noun, peer = author.pick(NOUNS_OF[kind]), author.pick(NOUNS_OF[kind])
    if noun is peer:
        return None
    first, second = (author.phrase(one, ("the", "the", "this"), described=0) for one in (noun, peer))
    english, german = render(second, "nominative")
    predicate = Pair(f"as {adjective.english} as {english}", f"so {adjective.german} wie {german}")
    if author.chance(0.65):
        predicate = Pair(
            f"{adjective.english_comparative} than {english}", f"{adjective.german_comparative} als {german}"
        )
    clause = Clause(first, BE, author.pick(BEING), predicate=predicate, negated=author.chance(0.2))
    return sentence(question(clause), "?") if author.chance(0.3) else sentence(statement(clause))
