"""The built-in English–German corpus of the quickstart: splits, held-out combinations, files.

A synchronous grammar of our own writes both sides at once, so that a run needs no download and its score has a known
ceiling of 100. It is a demonstration: it never stands among results. The modules beside this one have the words, the
rules of the two languages and what is said with them.

Some combinations of words (red + garden chair, buy + lamp, cellar + clock) are held out by a fixed rule: no training or
validation sentence has one, every second test sentence has. A model scores well only if it recombines what it learnt.
"""

from __future__ import annotations

import hashlib
import random
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from convs2s.data.builtin.author import Author, Combination
from convs2s.data.builtin.lexicon import LINKS
from convs2s.data.builtin.sentences import write
from convs2s.errors import UserError
from convs2s.files import atomic

SPLITS = ("train", "valid", "test")
MOST_PAIRS = 10_000_000  # the grammar has more distinct sentences (tests/data/test_builtin_splits.py counts them)
HELD_OUT, HELD_OUT_COMPOUNDS = 10, 4  # one combination in so many; more of the compounds, since these are rarer


def held_out(combination: Combination) -> bool:
    """Whether a combination is kept for the test split: a property of its words, whatever the seed."""
    share = HELD_OUT_COMPOUNDS if combination[0] in LINKS else HELD_OUT
    return zlib.crc32(" ".join(combination).encode()) % share == 0


def generate(pairs: Sequence[int], seed: int) -> tuple[list[tuple[str, str]], ...]:
    """Draw (English, German) pairs: three lists, for train, valid and test, of the sizes given in ``pairs``.

    No English sentence occurs twice, within or across splits. Each split has its own generator and test is drawn first,
    then valid, so that neither depends on the size of the training split. Raises UserError for impossible sizes.
    """
    if len(pairs) != 3 or any(type(count) is not int or count < 1 for count in pairs):
        raise UserError(f"data.generate: {list(pairs)} is not three positive numbers of pairs: [train, valid, test]")
    if sum(pairs) > MOST_PAIRS:
        raise UserError(f"data.generate: {sum(pairs)} pairs are too many; up to {MOST_PAIRS} are sure to be distinct")
    seen: set[str] = set()
    splits: list[list[tuple[str, str]]] = [[], [], []]
    for index in (2, 1, 0):
        author = Author(random.Random(3 * seed + index))
        split = splits[index]
        while len(split) < pairs[index]:
            pair, combinations = write(author)
            novel = any(map(held_out, combinations))
            wanted = index == 2 and len(split) % 2 == 0
            if novel == wanted and pair.english not in seen:
                seen.add(pair.english)
                split.append((pair.english, pair.german))
    return tuple(splits)


def write_corpus(root: Path, pairs: Sequence[int], seed: int, known: Mapping[str, str]) -> list[str]:
    """Write train.en, train.de, valid.en, … to ``root``, each whole or not at all; those that are right stay.

    ``known``: SHA-256 of what the program wrote or fetched there before, by name. Returns the names of all the corpus'
    files if one had to be written, else none. Raises UserError for a file that is another and not ``known``: it is
    somebody's own text.
    """
    splits = generate(pairs, seed)
    texts = {
        f"{name}.{language}": "".join(pair[side] + "\n" for pair in split).encode("utf-8")
        for name, split in zip(SPLITS, splits, strict=True)
        for side, language in enumerate(("en", "de"))
    }
    wanted = {name: text for name, text in texts.items() if not _is_there(root / name, text, known.get(name))}
    for name, text in wanted.items():
        with atomic(root / name, "wb") as file:
            file.write(text)
    return list(texts) if wanted else []


def _is_there(path: Path, text: bytes, known: str | None) -> bool:
    """Whether a file needs not be written; ``known``: SHA-256 of what the program wrote before."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        found = path.read_bytes() if path.exists() else None
    except OSError as error:
        raise UserError(f"data.root={path.parent} cannot be written ({error.strerror}); give another folder") from error
    if found is not None and found != text and hashlib.sha256(found).hexdigest() != known:
        raise UserError(
            f"{path} was not written by this program; for your own text add data=files, else give another data.root"
        )
    return found == text
