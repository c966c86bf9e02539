"""The built-in corpus: its splits, its held-out combinations, its size, its files. Its German is in test_builtin.py."""

from __future__ import annotations

import hashlib
import random
import re
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from convs2s.data.builtin.author import ADJECTIVES_OF, PEOPLE, Author, Combination
from convs2s.data.builtin.lexicon import ADJECTIVES, HEADS, LINKS, NOUNS, Noun
from convs2s.data.builtin.numbers import MONTHS, date
from convs2s.data.builtin.sentences import write
from convs2s.data.builtin.splits import MOST_PAIRS, generate, held_out, write_corpus
from convs2s.data.builtin.verbs import VERBS, Verb
from convs2s.errors import UserError

PINNED = "d4fcf075fb750ccdedcbdeb9d80cc15ad89fc16efe7279b3b5d2447a868fcd7b"  # of 200 + 20 + 20 pairs, seed 1
Splits = tuple[list[tuple[str, str]], ...]


@pytest.fixture(scope="module")
def corpus() -> Splits:
    """The corpus of the quickstart."""
    return generate((20000, 500, 500), seed=1)


def words(text: str) -> list[str]:
    return re.findall(r"[\w'-]+|,", text)


# Combinations read off the English text alone, so that the generator's own records are not taken on trust.

FORMS = {form: noun for noun in NOUNS.values() for form in (noun.english, noun.english_plural) if form}
VERB_FORMS = {
    form: verb
    for verb in VERBS.values()
    if verb.pattern in ("accusative", "dative")
    for form in (verb.base, verb.third, verb.past, verb.participle, verb.ing)
    if form
}
DETERMINERS = {"the", "a", "an", "this", "these", "my", "our", "his", "her", "their"}


def read_noun(tokens: list[str]) -> tuple[str, Noun] | None:
    """The noun that the tokens begin with, compounds first: its full English name and its head."""
    if len(tokens) > 1 and tokens[0] in LINKS and tokens[1] in FORMS and FORMS[tokens[1]].english in HEADS:
        return f"{tokens[0]} {FORMS[tokens[1]].english}", FORMS[tokens[1]]
    return (FORMS[tokens[0]].english, FORMS[tokens[0]]) if tokens and tokens[0] in FORMS else None


def described(english: str) -> Iterator[Combination]:
    """Adjective–noun and compound combinations in a sentence."""
    tokens = words(english.lower())
    for position, token in enumerate(tokens):
        found = read_noun(tokens[position:])
        if found and " " in found[0]:
            yield token, found[1].english
        after = read_noun(tokens[position + 1 :])
        if token in ADJECTIVES and after:
            yield token, after[0]


def governed(english: str) -> Iterator[Combination]:
    """Verb–object combinations in a sentence, where the object follows its verb."""
    tokens = words(english.lower())
    for position, token in enumerate(tokens):
        verb = VERB_FORMS.get(token)
        rest = tokens[position + 1 :]
        if verb and rest and rest[0] in (verb.particle, verb.preposition):
            rest = rest[1:]
        if verb and rest and rest[0] in DETERMINERS:
            after = read_noun(rest[2:] if rest[1:2] and rest[1] in ADJECTIVES else rest[1:])
            if after and verb.pattern != "recipient" and (after[1] in verb.objects):
                yield verb.base, after[1].english


def test_a_seed_writes_the_same_corpus_everywhere() -> None:
    """Would catch any change of the corpus: of a word, of a rule, of the order of draws, of a Python's generator."""
    text = "\n".join("\t".join(pair) for split in generate((200, 20, 20), seed=1) for pair in split)
    assert hashlib.sha256(text.encode()).hexdigest() == PINNED
    assert generate((200, 20, 20), seed=1) == generate((200, 20, 20), seed=1) != generate((200, 20, 20), seed=2)


def test_test_and_validation_do_not_depend_on_the_size_of_training() -> None:
    """Would catch one generator shared by all splits: a larger training set would come with another test set."""
    small, large = generate((10, 20, 20), seed=3), generate((500, 20, 20), seed=3)
    assert small[1:] == large[1:]
    assert small[0] != small[1][:10]


def test_sizes_and_disjointness(corpus: Splits) -> None:
    """Would catch a split of the wrong size and a source sentence that occurs twice, within or across splits."""
    assert [len(split) for split in corpus] == [20000, 500, 500]
    assert len({english for split in corpus for english, _ in split}) == 21000


def test_generation_is_fast() -> None:
    """Would catch drawing that has become slow: the default corpus is to take less than 3 s (here: a quarter of it)."""
    begin = time.process_time()
    generate((5000, 125, 125), seed=4)
    assert time.process_time() - begin < 3


def test_lengths_and_vocabulary(corpus: Splits) -> None:
    """Would catch sentences too short to teach or too long to learn in minutes, and too few words to be a task."""
    lengths = [len(english.split()) for english, _ in corpus[0]]
    assert 9 <= sum(lengths) / len(lengths) <= 13
    assert min(lengths) == 4
    assert max(lengths) == 20
    assert 500 < len({word.lower() for english, _ in corpus[0] for word in words(english)}) < 1000


def test_raw_text(corpus: Splits) -> None:
    """Would catch untidy text: spaces doubled or before a mark, a missing capital, a doubled comma, a line end."""
    for english, german in corpus[0]:
        for text in (english, german):
            assert re.fullmatch(r"[A-ZÄÖÜ][\w' ,-]*\w[.?]", text), text
            assert not re.search(r"  | ,|,,|,\w|,[.?]", text), text
        assert english[-1] == german[-1]


def test_every_word_is_taught(corpus: Splits) -> None:
    """Would catch a word too rare to learn, and one whose combinations are all held out."""
    seen = Counter(word for english, _ in corpus[0] for word in words(english.lower()))
    for noun in NOUNS.values():
        assert seen[noun.english] + seen[noun.english_plural] >= 50, noun.english
    for adjective in ADJECTIVES.values():
        assert seen[adjective.english] >= 50, adjective.english
    for verb in VERBS.values():
        assert sum(seen[form] for form in {verb.base, verb.third, verb.past, verb.participle, verb.ing}) >= 30, (
            verb.base
        )


def test_german_is_a_function_of_english() -> None:
    """Would catch an ambiguity, which would cap BLEU: one English sentence drawn twice with two German ones."""
    author, known = Author(random.Random(11)), {}
    for _ in range(50000):
        english, german = write(author).pair
        assert known.setdefault(english, german) == german, english


def test_recorded_combinations_are_those_in_the_text() -> None:
    """Would catch a combination that slips through unrecorded, and one recorded that the sentence does not have."""
    author, modifiers = Author(random.Random(12)), {*ADJECTIVES, *LINKS}
    for _ in range(5000):
        pair, combinations = write(author)
        assert {one for one in combinations if one[0] in modifiers} == set(described(pair.english))
        assert set(governed(pair.english)) <= combinations, pair.english


def test_training_has_no_held_out_combination(corpus: Splits) -> None:
    """Would catch a leak of the test split's combinations into training or validation."""
    for english, _ in (*corpus[0], *corpus[1]):
        assert not [one for one in (*described(english), *governed(english)) if held_out(one)], english


def test_half_of_the_test_split_is_new(corpus: Splits) -> None:
    """Would catch a test split without recombinations (read off the text, which shows most but not all of them)."""
    kinds: Counter[str] = Counter()
    novel = 0
    for english, _ in corpus[2]:
        found = [one for one in (*described(english), *governed(english)) if held_out(one)]
        novel += bool(found)
        kinds.update("adjective" if a in ADJECTIVES else "compound" if a in LINKS else "verb" for a, _ in found)
    assert 0.35 * len(corpus[2]) <= novel <= 0.5 * len(corpus[2])
    assert min(kinds[kind] for kind in ("adjective", "compound", "verb")) >= 10, kinds


def test_ten_million_sentences() -> None:
    """Would catch a lexicon cut so far down that the promised 10 million distinct pairs are not there.

    Counts one family of training sentences only, "On the DATE, the ADJECTIVE PERSON VERBED the ADJECTIVE NOUN.",
    without what is held out. Every slot but the date is one word, so that different choices are different texts.
    """

    def adjectives(noun: Noun) -> int:
        options = ADJECTIVES_OF[noun.kind]
        assert all(" " not in one.english for one in options)
        return sum(not held_out((one.english, noun.english)) for one in options)

    def objects(verb: Verb) -> int:
        things = [noun for noun in set(verb.objects) if noun.kind not in ("person", "child", "kin", "mass", "drink")]
        return sum(adjectives(noun) for noun in things if not held_out((verb.base, noun.english)))

    verbs = [
        verb
        for verb in VERBS.values()
        if verb.pattern == "accusative" and PEOPLE[0] in verb.subjects and not verb.particle and not verb.preposition
    ]
    assert len({verb.past for verb in verbs}) == len(verbs)
    dates = {date(day, month + 1).english for month, (_, _, days) in enumerate(MONTHS) for day in range(1, days + 1)}
    subjects = sum(adjectives(noun) for noun in PEOPLE if noun.kind != "kin")
    count = len(dates) * subjects * sum(objects(verb) for verb in verbs)
    assert len(dates) == 366
    assert count > MOST_PAIRS


@pytest.mark.parametrize(
    "pairs", [(1, 1), (1, 1, 1, 1), (0, 1, 1), (5, -1, 5), (1.0, 1, 1), (True, 1, 1), (MOST_PAIRS, 1, 1)]
)
def test_impossible_sizes_are_refused(pairs: tuple[int, ...], tmp_path: Path) -> None:
    """Would catch an endless search for sentences, an empty split, and a message without the option's name."""
    with pytest.raises(UserError, match=r"^data\.generate: "):
        write_corpus(tmp_path, pairs, 1, {})
    assert not list(tmp_path.iterdir())


NAMES = [f"{split}.{language}" for split in ("train", "valid", "test") for language in ("en", "de")]


def test_files_hold_the_corpus(tmp_path: Path) -> None:
    """Would catch sides or splits exchanged, another encoding, a platform's line ends, temporary files left behind."""
    root = tmp_path / "new" / "folder"
    write_corpus(root, (30, 10, 12), 5, {})
    assert sorted(path.name for path in root.iterdir()) == sorted(NAMES)
    for split, pairs in zip(("train", "valid", "test"), generate((30, 10, 12), seed=5), strict=True):
        for side, language in enumerate(("en", "de")):
            expected = "".join(f"{pair[side]}\n" for pair in pairs).encode("utf-8")
            assert (root / f"{split}.{language}").read_bytes() == expected


def test_files_are_reused_or_mended(tmp_path: Path) -> None:
    """Would catch a rewrite of what is right already (and of its time stamp), and trust in what is not."""
    assert write_corpus(tmp_path, (30, 10, 12), 6, {}) == NAMES
    known = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in tmp_path.iterdir()}
    assert write_corpus(tmp_path, (30, 10, 12), 5, known) == NAMES
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in tmp_path.iterdir()}
    (tmp_path / "valid.en").unlink()
    assert write_corpus(tmp_path, (30, 10, 12), 5, known) == NAMES
    for path, (text, stamp) in before.items():
        assert path.read_bytes() == text
        assert path.stat().st_mtime_ns == stamp or path.name == "valid.en"
    assert write_corpus(tmp_path, (30, 10, 12), 5, {}) == []


def test_a_users_own_text_stays(tmp_path: Path) -> None:
    """Fault: data.root=/my/folder without data=files costs somebody train.de, the built-in corpus in its place."""
    (tmp_path / "test.de").write_text("mein Satz\n")
    for known in ({}, {"test.de": "another file's"}):
        with pytest.raises(
            UserError, match=r"test\.de was not written by this program; for your own text add data=fil"
        ):
            write_corpus(tmp_path, (30, 10, 12), 5, known)
    assert [path.name for path in tmp_path.iterdir()] == ["test.de"]
    assert (tmp_path / "test.de").read_text() == "mein Satz\n"


def test_an_unusable_folder_is_refused(tmp_path: Path) -> None:
    """Would catch a traceback where the user named a file as the folder, and a file of theirs overwritten by it."""
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UserError, match=r"^data\.root=.*file cannot be written"):
        write_corpus(tmp_path / "file", (3, 1, 1), 1, {})
    assert (tmp_path / "file").read_text() == "mine"
