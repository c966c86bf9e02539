"""What real corpora hold that is not text as one wishes it, through every pipeline: kept in step, or counted away."""

from __future__ import annotations

from pathlib import Path

import pytest

from convs2s.config import DataConfig, TextConfig, TokenizerKind
from convs2s.data.lines import read_pairs
from convs2s.data.prepare import check_tests, prepare, split_paths
from convs2s.errors import UserError

KINDS = {
    "sentencepiece": TextConfig(vocabulary_size=60),
    "moses_bpe": TextConfig(kind=TokenizerKind.moses_bpe, merges=20),
    "whitespace": TextConfig(kind=TokenizerKind.whitespace, joint=False),
}
ODD = {
    "CRLF": "ein Mann\r",
    "lone CR": "ein\rMann",
    "U+2028": "ein\u2028Mann",
    "U+0085": "ein\u0085Mann",
    "VT": "ein\x0bMann",
    "FF": "ein\x0cMann",
    "NUL": "ein\0Mann",
    "tab": "ein\tMann",
    "NBSP": "ein\u00a0Mann",
    "zero-width space": "ein\u200bMann",
    "trailing blanks": "  ein Mann  \u00a0",
    "BOM inside": "ein \ufeffMann",
    "special symbols": "<unk> <pad> </s> Mann",
    "joiner": "ein@@ Mann @@",
    "SentencePiece's space": "ein▁Mann",
    "long word": "Mann" * 400,
}


@pytest.fixture(params=sorted(KINDS))
def text(request: pytest.FixtureRequest) -> TextConfig:
    if request.param == "moses_bpe":
        pytest.importorskip("sacremoses")
    return KINDS[request.param]


def corpus(root: Path, source: list[str], target: list[str], head: bytes = b"") -> DataConfig:
    for split in ("train", "valid", "test"):
        for language, lines in (("de", source), ("en", target)):
            raw = "".join(f"{line}\n" for line in lines).encode()
            (root / f"{split}.{language}").write_bytes(head + raw)
    return DataConfig(
        source="de",
        target="en",
        root=str(root),
        prepared_dir=str(root / "prepared"),
        train=["train.de", "train.en"],
        valid=["valid.de", "valid.en"],
        test={"test": ["test.de", "test.en"]},
        max_length=2000,
        max_ratio=1000.0,
    )


def silent(_: str) -> None:
    pass


@pytest.mark.parametrize("head", [b"", b"\xef\xbb\xbf"], ids=["plain", "BOM"])
def test_odd_lines_stay_in_step(tmp_path: Path, text: TextConfig, head: bytes) -> None:
    """Fault: a character that ends a line, empties it or drops it on one side: all later pairs are misaligned."""
    source = [*ODD.values(), "das Ende"]
    target = [f"line {i}" for i in range(len(source))]
    data = corpus(tmp_path, source, target, head)
    prepared = prepare(data, text, silent)
    assert prepared.train.lines.tolist() == list(range(1, len(source) + 1))
    for i, line in enumerate(target):
        assert prepared.tokenizers.target.decode(prepared.train.target(i).tolist()) == line
        ids = prepared.tokenizers.source.encode([source[i]])[0]
        assert prepared.train.source(i).tolist() == [*ids, 2]
        assert "\n" not in prepared.tokenizers.source.decode(ids)
    assert not any(prepared.manifest["splits"]["train"]["dropped"].values())
    check_tests(data, prepared.tokenizers, 2001)
    assert [pair[1] for pair in read_pairs(*split_paths(data, "test"))] == target


@pytest.mark.parametrize(
    "million",
    ["Mann " * 200_000, "m" * 1_000_000, "." * 1_000_000, "a'b," * 250_000],
    ids=["words", "word", "periods", "marks"],
)
def test_a_line_of_a_million_characters_is_counted_away(tmp_path: Path, text: TextConfig, million: str) -> None:
    """Fault: hours, gigabytes or a crash for one line; validation text dropped without a count."""
    data = corpus(tmp_path, ["ein Mann", "eine Frau"], ["a man", "a woman"])
    (tmp_path / "train.de").write_text(f"ein Mann\n{million}\n", "utf-8")
    data.max_length = 175
    prepared = prepare(data, text, silent)
    whole = text.kind is TokenizerKind.whitespace and " " not in million  # one word, however long
    assert prepared.train.lines.tolist() == ([1, 2] if whole else [1])
    assert prepared.manifest["splits"]["train"]["dropped"]["long"] == (0 if whole else 1)


def test_a_blank_side_drops_the_pair_and_is_counted(tmp_path: Path, text: TextConfig) -> None:
    """Fault: a side filtered by itself, or an empty sentence trained on."""
    blank = ["", " ", "\r", "\t"]
    data = corpus(tmp_path, [*blank, "ein Mann"], [*["a man"] * 4, "a woman"])
    prepared = prepare(data, text, silent)
    for split, corpus_ in (("train", prepared.train), ("valid", prepared.valid)):
        assert corpus_.lines.tolist() == [5]
        assert prepared.manifest["splits"][split]["dropped"]["empty"] == 4


def test_a_side_missing(tmp_path: Path, text: TextConfig) -> None:
    """Fault: a traceback, or minutes of work before it."""
    data = corpus(tmp_path, ["a"], ["b"])
    (tmp_path / "train.en").unlink()
    with pytest.raises(UserError, match=r"train\.en does not exist; put train\.en into .*, or set data\.root"):
        prepare(data, text, silent)


def test_a_vocabulary_larger_than_the_corpus_supports(tmp_path: Path) -> None:
    """Fault: a crash deep in the library, or a size that silently differs from the one asked for."""
    data = corpus(tmp_path, ["ein Mann", "eine Frau"], ["a man", "a woman"])
    said: list[str] = []
    prepared = prepare(data, TextConfig(vocabulary_size=32_000), said.append)
    size = len(prepared.tokenizers.source.symbols)
    assert size < 60
    assert any(f"yields {size} SentencePiece pieces, fewer than text.vocabulary_size=32000" in line for line in said)
    pytest.importorskip("sacremoses")
    few = prepare(data, TextConfig(kind=TokenizerKind.moses_bpe, merges=32_000), silent)
    assert few.tokenizers.source.decode(few.train.source(0).tolist()) == "ein Mann"
