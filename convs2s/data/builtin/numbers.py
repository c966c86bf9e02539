"""Pairs of English and German text, and the numbers, dates and hours among them."""

from __future__ import annotations

from typing import NamedTuple


class Pair(NamedTuple):
    """The same thing said in both languages."""

    english: str
    german: str


def words(*parts: str) -> str:
    """The parts that are not empty, with spaces between them."""
    return " ".join(filter(None, parts))


SMALL = """
    zero null, one eins, two zwei, three drei, four vier, five fünf, six sechs, seven sieben, eight acht, nine neun,
    ten zehn, eleven elf, twelve zwölf, thirteen dreizehn, fourteen vierzehn, fifteen fünfzehn, sixteen sechzehn,
    seventeen siebzehn, eighteen achtzehn, nineteen neunzehn"""
TENS = """
    twenty zwanzig, thirty dreißig, forty vierzig, fifty fünfzig, sixty sechzig, seventy siebzig,
    eighty achtzig, ninety neunzig"""
ENGLISH_ORDINALS = {"one": "first", "two": "second", "three": "third", "five": "fifth", "eight": "eighth",
                    "nine": "ninth", "twelve": "twelfth", "twenty": "twentieth", "thirty": "thirtieth"}  # fmt: skip
GERMAN_ORDINALS = {1: "ersten", 3: "dritten", 7: "siebten", 8: "achten"}
MONTHS = (
    ("January", "Januar", 31), ("February", "Februar", 29), ("March", "März", 31), ("April", "April", 30),
    ("May", "Mai", 31), ("June", "Juni", 30), ("July", "Juli", 31), ("August", "August", 31),
    ("September", "September", 30), ("October", "Oktober", 31), ("November", "November", 30),
    ("December", "Dezember", 31),
)  # fmt: skip


def _numbers() -> tuple[Pair, ...]:
    small = [Pair(*both.split()) for both in SMALL.split(",")]
    numbers = list(small)
    for ten in [Pair(*both.split()) for both in TENS.split(",")]:
        numbers.append(ten)
        for unit in small[1:10]:
            german = unit.german.removesuffix("s") if unit.english == "one" else unit.german
            numbers.append(Pair(f"{ten.english}-{unit.english}", f"{german}und{ten.german}"))
    return tuple(numbers)


NUMBERS = _numbers()


def number(value: int) -> Pair:
    """A cardinal from 0 to 99; German says the units first: sixty-seven, siebenundsechzig."""
    return NUMBERS[value]


def date(day: int, month: int) -> Pair:
    """A day of the year as an adverbial, day and month from 1: on the third of March, am dritten März."""
    english, german = number(day)
    head, _, last = english.rpartition("-")
    ordinal = f"{head}-" * bool(head) + ENGLISH_ORDINALS.get(last, last + "th")
    german = GERMAN_ORDINALS.get(day, german + ("ten" if day < 20 else "sten"))
    return Pair(f"on the {ordinal} of {MONTHS[month - 1][0]}", f"am {german} {MONTHS[month - 1][1]}")


def clock_time(hour: int) -> Pair:
    """A full hour from 1 to 12 as an adverbial: at one o'clock, um ein Uhr."""
    english, german = number(hour)
    return Pair(f"at {english} o'clock", f"um {'ein' if hour == 1 else german} Uhr")
