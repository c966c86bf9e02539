"""Sampling, weights, duplicates, held-out validation and words as a unit: what is used, counted and repeatable."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

import convs2s.data.choice as module
from convs2s.config import DataConfig, Errors, ExtraConfig, LengthUnit, TextConfig, TokenizerKind
from convs2s.data.corpus import check_lengths
from convs2s.data.lines import read_lines, read_pairs
from convs2s.data.prepare import Prepared, prepare, split_paths
from convs2s.errors import UserError

WORDS = TextConfig(kind=TokenizerKind.whitespace, joint=False)
COUNT = 300


def write(root: Path, name: str, pairs: list[tuple[str, str]]) -> None:
    for side, language in enumerate(("de", "en")):
        (root / f"{name}.{language}").write_text("".join(f"{pair[side]}\n" for pair in pairs), "utf-8")


@pytest.fixture
def data(tmp_path: Path) -> DataConfig:
    """300 numbered training pairs, 40 of other text, two of validation."""
    write(tmp_path, "train", [(f"satz {i}", f"sentence {i}") for i in range(COUNT)])
    write(tmp_path, "extra", [(f"mehr {i}", f"more {i}") for i in range(40)])
    write(tmp_path, "valid", [("satz 1", "sentence 1"), ("satz x", "sentence x")])
    return DataConfig(
        name="tiny",
        source="de",
        target="en",
        root=str(tmp_path),
        prepared_dir=str(tmp_path / "prepared"),
        train=["train.de", "train.en"],
        valid=["valid.de", "valid.en"],
    )


def silent(_: str) -> None:
    pass


def text(prepared: Prepared, split: str = "train", side: str = "source") -> list[str]:
    """The prepared split as text again."""
    corpus, tokenizer = getattr(prepared, split), getattr(prepared.tokenizers, side)
    return [tokenizer.decode(getattr(corpus, side)(i).tolist()) for i in range(len(corpus))]


def dropped(prepared: Prepared, split: str = "train") -> dict[str, int]:
    return {rule: count for rule, count in prepared.manifest["splits"][split]["dropped"].items() if count}


def test_fraction_and_max_pairs_draw_by_seed(data: DataConfig) -> None:
    """Fault: the first pairs instead of drawn ones, other counts, another draw each time, sides drawn apart."""
    half = prepare(replace(data, fraction=0.5), WORDS, silent)
    assert (len(half.train), dropped(half)) == (150, {"not drawn": 150})
    chosen = text(half)
    assert chosen != [f"satz {i}" for i in range(150)]
    assert [line.replace("satz", "sentence") for line in chosen] == text(half, side="target")
    assert [f"satz {line - 1}" for line in half.train.lines.tolist()] == chosen
    said: list[str] = []
    assert text(prepare(replace(data, fraction=0.5), WORDS, said.append)) == chosen
    assert said == []
    assert text(prepare(replace(data, fraction=0.5, seed=2), WORDS, silent)) != chosen
    few = prepare(replace(data, fraction=0.5, max_pairs=20), WORDS, silent)
    assert len(few.train) == 20
    assert len(prepare(replace(data, max_pairs=COUNT), WORDS, silent).train) == COUNT
    assert len(few.tokenizers.source.symbols) <= 3 + 1 + 20  # the vocabulary is learnt from what is used


def test_weights_mix_corpora(data: DataConfig) -> None:
    """Fault: a weight without effect or on the wrong corpus; fractions that round; the vocabulary counted twice."""
    mixed = replace(data, extra=[ExtraConfig(["extra.de", "extra.en"], 2.0)], train_weight=0.5)
    prepared = prepare(mixed, WORDS, silent)
    counts = Counter(text(prepared))
    assert {counts[f"mehr {i}"] for i in range(40)} == {2}
    own = [line for line in counts if line.startswith("satz")]
    assert {counts[line] for line in own} == {1}
    assert 110 < len(own) < 190  # 150 expected, 4.6 standard deviations
    assert prepared.manifest["splits"]["train"]["pairs_read"] == COUNT + 40
    assert dropped(prepared) == {"not drawn": COUNT - len(own)}
    said: list[str] = []
    prepare(replace(mixed, train_weight=1.0), WORDS, said.append)
    assert any("other inputs: preparing again" in line for line in said)


def test_a_fault_in_any_corpus_is_located(data: DataConfig) -> None:
    """Fault: an over-long sentence of the second corpus named with a line of the first."""
    root = Path(data.root)
    write(root, "extra", [("a", "b"), ("x " * 50, "y " * 50)])
    mixed = replace(data, extra=[ExtraConfig(["extra.de", "extra.en"])])
    prepared = prepare(mixed, WORDS, silent)
    with pytest.raises(UserError, match=r"extra\.de, line 2: 51 pieces"):
        check_lengths(prepared.train, 20, *split_paths(mixed, "train"))


def test_duplicates_are_dropped_and_counted_when_asked(data: DataConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault: pairs dropped that are equal on one side only, the first one dropped, duplicates in other chunks kept."""
    pairs = [("a", "b"), ("a", "c"), ("a", "b"), ("d", "b"), ("a", "b"), ("", "b"), ("d", "b")]
    write(Path(data.root), "train", pairs)
    assert len(prepare(data, WORDS, silent).train) == 6
    monkeypatch.setattr(module, "CHUNK", 2)
    prepared = prepare(replace(data, drop_duplicates=True), WORDS, silent)
    assert prepared.train.lines.tolist() == [1, 2, 4]
    assert dropped(prepared) == {"duplicate": 3, "empty": 1}


def test_undecodable_lines_are_skipped_and_counted_when_asked(data: DataConfig) -> None:
    """Fault: a pair kept with one side, or all later line numbers shifted."""
    root = Path(data.root)
    (root / "train.de").write_bytes(b"a\nM\xe4nner\nb\nc\n")
    (root / "train.en").write_bytes(b"A\nmen\nB\n\xff\n")
    with pytest.raises(UserError, match=r"train\.de, line 2, byte 2: 0xe4 is not UTF-8; .* or give data\.errors=skip"):
        prepare(data, WORDS, silent)
    skipping = replace(data, errors=Errors.skip)
    prepared = prepare(skipping, WORDS, silent)
    assert (text(prepared), text(prepared, side="target")) == (["a", "b"], ["A", "B"])
    assert prepared.train.lines.tolist() == [1, 3]
    assert dropped(prepared) == {"undecodable": 2}
    raw = (root / "valid.de").read_bytes()
    (root / "valid.de").write_bytes(raw + b"\xff\n")  # what is scored is never thinned out
    with pytest.raises(UserError, match=r"valid\.de, line \d+, byte 1: 0xff is not UTF-8; .* -t UTF-8$"):
        prepare(skipping, WORDS, silent)


@pytest.mark.parametrize("options", [{"valid_fraction": 0.2}, {"valid_every": 5}])
def test_held_out_pairs_are_validation_only(data: DataConfig, options: dict[str, float]) -> None:
    """Fault: validation pairs trained on or in the vocabulary, other text scored than held out, extras held out."""
    mixed = replace(data, valid=[], extra=[ExtraConfig(["extra.de", "extra.en"])], **options)  # type: ignore[arg-type]
    prepared = prepare(mixed, WORDS, silent)
    held = list(read_pairs(*split_paths(mixed, "valid")))
    assert len(held) == len(prepared.valid) == dropped(prepared)["held out"]
    assert 30 < len(held) < 95
    train = set(text(prepared))
    assert train.isdisjoint(source for source, _ in held)
    everything = {f"satz {i}" for i in range(COUNT)} | {f"mehr {i}" for i in range(40)}
    assert train | {source for source, _ in held} == everything
    assert all(source.replace("satz", "sentence") == target for source, target in held)
    numbers = {symbol for symbol in prepared.tokenizers.source.symbols if symbol.isdigit()}
    alone = {source.split()[1] for source, _ in held} - {line.split()[1] for line in train}
    assert alone
    assert numbers.isdisjoint(alone)
    with pytest.raises(UserError, match=r"valid\.source\.txt, line 1: 3 pieces"):
        check_lengths(prepared.valid, 2, *split_paths(mixed, "valid"))


def test_the_hash_holds_out_pairs_wherever_they_stand(data: DataConfig) -> None:
    """Fault: a split that depends on the order of the corpus or on what else is in it: text leaks at the next start."""
    held = replace(data, valid=[], valid_fraction=0.2)
    prepare(held, WORDS, silent)
    before = set(read_lines(split_paths(held, "valid")[0]))
    pairs = [(f"satz {i}", f"sentence {i}") for i in reversed(range(COUNT))]
    write(Path(data.root), "train", [("neu", "new"), *pairs, *pairs[:50]])
    prepare(replace(held, seed=7), WORDS, silent)
    assert set(read_lines(split_paths(held, "valid")[0])) - {"neu"} == before


def test_what_is_held_out_is_in_no_extra_text(data: DataConfig) -> None:
    """Fault: data.extra repeats data.train's text, and with it the pairs that validation is of."""
    mixed = replace(data, valid=[], valid_fraction=0.2, extra=[ExtraConfig(data.train), ExtraConfig(data.valid)])
    prepared = prepare(mixed, WORDS, silent)
    held = {source for source, _ in read_pairs(*split_paths(mixed, "valid"))}
    assert len(held) == dropped(prepared)["held out"] == dropped(prepared)["duplicate"]
    assert held.isdisjoint(text(prepared))


def test_nothing_held_out_is_refused(data: DataConfig) -> None:
    """Fault: training without validation, ending in a division by zero."""
    with pytest.raises(UserError, match=r"no pair was held out of 300 .* data\.valid_every=400"):
        prepare(replace(data, valid=[], valid_every=400), WORDS, silent)
    with pytest.raises(UserError, match="prepare first"):
        split_paths(replace(data, valid=[], valid_every=400), "valid")


def test_every_nth_is_counted_among_clean_pairs(data: DataConfig) -> None:
    """Fault: IWSLT14's every 23rd pair counted before cleaning (the authors' recipe cleans first)."""
    pairs = [("a b", "c d"), ("a b c d", "x"), ("e", "f"), ("g", "h"), ("", "x"), ("i", "j"), ("k", "l")]
    write(Path(data.root), "train", pairs)
    clean = replace(data, valid=[], valid_every=2, length_unit=LengthUnit.words, max_ratio=1.5)
    prepared = prepare(clean, WORDS, silent)
    assert text(prepared, "train") == ["a b", "g", "k"]
    assert list(read_lines(split_paths(clean, "valid")[0])) == ["e", "i"]
    assert dropped(prepared) == {"ratio": 1, "empty": 1, "held out": 2}


def test_words_are_a_unit_of_cleaning(data: DataConfig) -> None:
    """Fault: the paper's 175 words taken as pieces, or pieces without any limit."""
    write(Path(data.root), "train", [("abc def", "abc def"), ("abc " * 9, "abc " * 9), ("a" * 40, "a" * 40)])
    letters = TextConfig(vocabulary_size=10)  # a piece a letter
    words = replace(data, length_unit=LengthUnit.words, max_length=8, max_ratio=1.5)
    assert prepare(words, letters, silent).train.lines.tolist() == [1, 3]
    prepared = prepare(replace(words, max_pieces=20), letters, silent)
    assert prepared.train.lines.tolist() == [1]
    assert dropped(prepared) == {"long": 2}


def test_the_table(data: DataConfig) -> None:
    """Fault: a preparation that drops without a word, or figures that do not add up."""
    write(Path(data.root), "train", [("a b", "c"), ("", "x"), ("a " * 99, "b"), ("d", "e f")])
    said: list[str] = []
    prepare(replace(data, max_length=20), WORDS, said.append)
    table = [line for line in said if "  " in line]
    cells = {line.split("  ")[0].strip(): line.split()[-2:] for line in table}
    assert cells["pairs read"] == ["4", "2"]
    assert cells["dropped: empty"] == ["1", "0"]
    assert cells["dropped: long"] == ["1", "0"]
    assert cells["pairs written"] == ["2", "2"]
    names = [line.split("  ")[0] for line in table]
    for name in ("tokens, de / en", "pieces a word, de / en", "unknown, de / en", "longest, de / en"):
        assert name in names
    assert any(line.split() == ["tokens,", "de", "/", "en", "5", "/", "5", "6", "/", "6"] for line in table)


def test_a_high_unknown_rate_is_warned_of(data: DataConfig) -> None:
    """Fault: validation text in another language or segmentation, noticed after days by a high perplexity."""
    write(Path(data.root), "valid", [("etwas ganz anderes", "sentence 1")])
    said: list[str] = []
    prepare(data, WORDS, said.append)
    assert [line for line in said if "warning" in line] == [
        "warning: 75 % of the valid source pieces are unknown; is it the same language, and segmented as text.kind"
        " expects?"
    ]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"fraction": 0.0}, "data.fraction=0.0"),
        ({"fraction": 1.5}, "data.fraction=1.5"),
        ({"max_pairs": 0}, "data.max_pairs=0"),
        ({"valid_fraction": 1.0, "valid": []}, "data.valid_fraction=1.0"),
        ({"valid_every": 1, "valid": []}, "data.valid_every=1"),
        ({"valid_every": 9, "valid_fraction": 0.1, "valid": []}, "give one"),
        ({"valid_every": 9}, "data.valid names files"),
        ({"train_weight": -1.0}, "data.train_weight=-1.0"),
        ({"extra": [ExtraConfig(["a", "b"], 300.0)]}, r"data.extra\[0\].weight=300.0"),
        ({"extra": [ExtraConfig(["a"])]}, r"data.extra\[0\].files must name two files"),
        ({"extra": [ExtraConfig(["a", "b"])]}, "a does not exist; put a, b into"),
        ({"train_weight": 0.0}, "none of 300 pairs is left"),
        ({"workers": -1}, "data.workers=-1"),
    ],
)
def test_options_that_cannot_work_are_named(data: DataConfig, options: dict[str, object], named: str) -> None:
    """Fault: a traceback, an empty corpus or an option ignored."""
    with pytest.raises(UserError, match=named):
        prepare(replace(data, **options), WORDS, silent)  # type: ignore[arg-type]
