"""Which words of two languages were aligned with each other, and how often.

A lexicon file has a line for each pair, tab separated: source word, target word, how often they were aligned; the
source's words in the order of the training text, each with its most frequent companion first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from convs2s.data.lines import read_lines
from convs2s.errors import UserError
from convs2s.text.vocabulary import EOS, SPECIALS

Lexicon = dict[str, list[tuple[str, int]]]  # most frequent first
Links = list[tuple[int, int]]  # (source word, target word), counted from 0


def read_links(path: str) -> Iterator[Links]:
    """The lines of an alignment file in Pharaoh format, "0-0 1-2 2-1". Raises UserError that names the wrong line."""
    for number, line in enumerate(read_lines(path), start=1):
        try:
            yield [(int(source), int(target)) for source, target in (link.split("-") for link in line.split())]
        except ValueError:
            raise UserError(
                f"{path}, line {number}: not an alignment in Pharaoh format, which reads like 0-0 1-2 2-1"
            ) from None


def count_links(
    pairs: Iterable[tuple[Sequence[str], Sequence[str]]], alignments: Iterable[Links], name: str = "alignment"
) -> Lexicon:
    """Count the linked words (original: makealigndict). Raises UserError where a link leads out of its sentence."""
    counts: dict[str, Counter[str]] = {}
    links = iter(alignments)
    number = 0
    for number, (source, target) in enumerate(pairs, start=1):
        found = next(links, None)
        if found is None:
            raise UserError(f"{name} has {number - 1:,} lines, fewer than the text")
        for s, t in found:
            if not (0 <= s < len(source) and 0 <= t < len(target)):
                raise UserError(
                    f"{name}, line {number}: {s}-{t} is beyond the {len(source)} and {len(target)} words of the pair; "
                    "was it made from this text, segmented like this?"
                )
            counts.setdefault(source[s], Counter())[target[t]] += 1
    if next(links, None) is not None:
        raise UserError(f"{name} has more lines than the text ({number:,})")
    return {word: of_word.most_common() for word, of_word in counts.items()}


def lexicon_lines(lexicon: Lexicon) -> Iterator[str]:
    """The lines of a lexicon file, without "\\n"."""
    for source, companions in lexicon.items():
        yield from (f"{source}\t{target}\t{count}" for target, count in companions)


def check_lexicon(option: str, path: str) -> None:
    """Refuse a lexicon that is not there."""
    if not Path(path).exists() or Path(path).is_dir():  # a pipe is fine
        raise UserError(f"{option}={path}: there is no such file; scripts/lexicon.py writes one")


def read_lexicon(path: str, option: str = "lexicon") -> Lexicon:
    """The lexicon of the file that an option names. Raises UserError where it is missing or a line does not fit."""
    check_lexicon(option, path)
    lexicon: Lexicon = {}
    for number, line in enumerate(read_lines(path), start=1):
        fields = line.split("\t")
        if len(fields) != 3 or not fields[2].isdecimal():
            raise UserError(
                f"{path}, line {number}: a lexicon has source word, target word and count, tab separated; "
                "scripts/lexicon.py writes one"
            )
        lexicon.setdefault(fields[0], []).append((fields[1], int(fields[2])))
    return lexicon


def as_ids(lexicon: Lexicon, source: Sequence[str], target: Sequence[str]) -> dict[int, list[tuple[int, int]]]:
    """The lexicon by ids, given the symbols of both vocabularies; words that a vocabulary lacks are left out."""
    source_ids, target_ids = ({symbol: i for i, symbol in enumerate(s) if i >= len(SPECIALS)} for s in (source, target))
    source_ids[SPECIALS[EOS]], target_ids[SPECIALS[EOS]] = EOS, EOS
    return {
        source_ids[word]: [(target_ids[other], count) for other, count in companions if other in target_ids]
        for word, companions in lexicon.items()
        if word in source_ids
    }
