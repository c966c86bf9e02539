"""Attention by words, as pages and numbers, and beside alignments that are given."""

from __future__ import annotations

import importlib.util
import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny import model, save_checkpoint, tokenizers

from convs2s.config import DataConfig, PictureFormat, PlotAttentionConfig, SearchConfig
from convs2s.errors import UserError
from convs2s.evaluation.alignment_error import Agreement
from convs2s.evaluation.attention import Attention, Reader, Side
from convs2s.evaluation.attention_page import page
from convs2s.search.pieces import Joints

ROOT = Path(__file__).resolve().parents[2]


def script() -> Any:
    spec = importlib.util.spec_from_file_location("plot_attention", ROOT / "scripts" / "plot_attention.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Marked:
    """A tokeniser as far as pieces are concerned."""

    def __init__(self, kind: str, joiner: str) -> None:
        self.word_start = "▁" if kind == "sentencepiece" else ""
        self.joiner, self.symbols = joiner, ["<unk>", "<pad>", "</s>"]


PIECES = [
    ("whitespace", "@@", ["ein", "hand@@", "schuh", "<unk>", "rot@@", "</s>"], ["ein", "handschuh", "<unk>", "rot"]),
    ("whitespace", "", ["ein", "hand@@", "</s>"], ["ein", "hand@@"]),
    ("moses_bpe", "@@", ["hand@@", "schuh", "</s>"], ["handschuh"]),
    ("sentencepiece", "", ["▁ein", "▁hand", "schuh", "▁", "x", "</s>"], ["ein", "handschuh", "x"]),
    ("sentencepiece", "", ["hand", "schuh", "<unk>", "t", "</s>"], ["handschuh", "<unk>", "t"]),
]


@pytest.mark.parametrize(("kind", "joiner", "pieces", "words"), PIECES)
def test_pieces_make_words(kind: str, joiner: str, pieces: list[str], words: list[str]) -> None:
    """Fault: a tokeniser's pieces are put together at the wrong places, so that word maps are of no words."""
    tokenizer: Any = Marked(kind, joiner)
    side = Side.of(pieces, Joints(tokenizer))
    assert side.words == [*words, "</s>"]
    assert [i for span in side.spans for i in span] == list(range(len(pieces)))


def example(layers: int = 2) -> Attention:
    tokenizer: Any = Marked("whitespace", "@@")
    joints = Joints(tokenizer)
    source = Side.of(["ein", "hand@@", "schuh", "<b>", "</s>"], joints)
    target = Side.of(["a", "glo@@", "ve", "</s>"], joints)
    weights = np.random.default_rng(1).dirichlet(np.ones(5), size=(layers, 4))
    weights[:, 1:3] = [0.0, 0.4, 0.5, 0.1, 0.0]
    return Attention(3, source, target, "a glove & more", list(range(1, layers + 1)), weights)


def test_attention_by_words() -> None:
    """Fault: weight is lost or counted twice where pieces become words."""
    attention = example()
    words = attention.by_words(attention.average)
    assert words.shape == (3, 4)
    assert words.sum(1) == pytest.approx(np.ones(3))
    assert words[1].tolist() == pytest.approx([0.0, 0.9, 0.1, 0.0])
    assert attention.used()[1] == [("handschuh", pytest.approx(0.9)), ("<b>", pytest.approx(0.1))]
    assert (1, 1) in attention.links(attention.average)
    assert len(attention.links(attention.average)) == 2  # </s> is not linked


def test_agreement_by_hand() -> None:
    """Fault: precision and recall are mixed up, or a word with two links counts twice as hit."""
    agreement = Agreement()
    agreement.add({(0, 0), (1, 1), (3, 2)}, {(0, 0), (1, 1), (2, 1), (4, 3)})
    assert (agreement.found, agreement.given, agreement.both) == (3, 4, 2)
    assert agreement.error_rate == pytest.approx(1 - 4 / 7)
    assert agreement.hits == pytest.approx(2 / 3)
    agreement.add({(0, 0)}, {(0, 0)})
    assert agreement.error_rate == pytest.approx(1 - 6 / 9)
    assert Agreement().error_rate == 1.0


class Cells(HTMLParser):
    """Counts elements, collects text and whatever would be fetched."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.cells = 0
        self.text = ""
        self.links: list[str | None] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.cells += tag == "td" and "style" in dict(attrs)
        self.links += [value for name, value in attrs if name in ("src", "href")]
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_page_stands_alone() -> None:
    """Fault: a panel is missing, a token breaks the page, an element stays open, or something is fetched."""
    parser = Cells()
    parser.feed(page([example()], "Title <1>", 1, 2))
    assert not parser.open
    assert parser.cells == 3 * 4 + 3 * 4 * 5  # words, two layers and the average
    for text in ("Title <1>", "3. a glove & more", "handschuh", "<b>", "layer 2", "average"):
        assert text in parser.text
    assert parser.links == ["attention2.html"]


def test_given_translations_have_the_attention_of_the_search() -> None:
    """Fault: forced decoding is shifted by a word against what a search reports."""
    made = model().float()
    reader = Reader(made, tokenizers())
    lines = ["ein hund läuft", "", "im rot"]
    found = list(reader.found(lines, SearchConfig(beam=2, max_length=6), "text"))
    texts = [" ".join(a.target.pieces[:-1]) if a else "" for a in found]
    given = list(reader.given(lines, texts, "text"))
    assert [a is None for a in found] == [a is None for a in given] == [False, True, False]
    for one, other in zip(found, given, strict=True):
        if one is not None and other is not None:
            assert one.target.pieces == other.target.pieces
            np.testing.assert_allclose(one.weights, other.weights, atol=1e-5)
    with pytest.raises(UserError, match=r"text, line 1, source: 13 pieces, .* at most 12"):
        list(reader.given(["ein " * 12], ["a"], "text"))
    with pytest.raises(UserError, match="no layer of this model attends"):
        Reader(model(attention=[]), tokenizers())


def test_the_script_s_other_outputs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Fault: outputs disagree with each other or with the documented form; an alignment of another text is taken."""
    save_checkpoint(tmp_path / "run" / "checkpoints" / "best.pt", DataConfig(), joiner="@@")
    (tmp_path / "source").write_text("ein hund\n\nim schnee@@ .\n", "utf-8")
    (tmp_path / "target").write_text("a dog\n\nin snow@@ .\n", "utf-8")
    (tmp_path / "links").write_text("0-0 1-1\n\n0-0 1-1\n", "utf-8")
    config = PlotAttentionConfig(
        checkpoint=str(tmp_path / "run" / "checkpoints" / "best.pt"),
        input=str(tmp_path / "source"),
        target=str(tmp_path / "target"),
        alignment=str(tmp_path / "links"),
        formats=[PictureFormat.json, PictureFormat.html, PictureFormat.tsv],
        device="cpu",
    )
    main = script().main
    main(config)
    folder = tmp_path / "run" / "attention"
    names = ["alignment.json", "attention.html", "line1.json", "line3.json", "words.tsv"]
    assert sorted(path.name for path in folder.iterdir()) == names
    record = json.loads((folder / "line3.json").read_text("utf-8"))
    assert (record["line"], record["layers"], record["text"]) == (3, [1, 2], "in snow@@ .")
    assert record["source"] == ["im", "schnee@@", ".", "</s>"]
    assert record["target_words"] == ["in", "snow.", "</s>"]
    average = torch.tensor(record["attention"]).mean(0)
    torch.testing.assert_close(average, torch.tensor(record["average"]), rtol=0.0, atol=1e-3)
    assert torch.tensor(record["words"]).sum(1).tolist() == pytest.approx([1.0] * 3, abs=1e-3)
    rows = [line.split("\t") for line in (folder / "words.tsv").read_text("utf-8").splitlines()[1:]]
    assert [row[:2] for row in rows] == [
        ["1", "a"],
        ["1", "dog"],
        ["1", "</s>"],
        *(["3", w] for w in ("in", "snow.", "</s>")),
    ]
    agreement = json.loads((folder / "alignment.json").read_text("utf-8"))
    assert list(agreement) == ["layer 1", "layer 2", "average"]
    assert agreement["average"]["given"] == 4
    assert "alignment error rate" in capsys.readouterr().out

    (tmp_path / "links").write_text("0-0 1-1\n\n0-0 2-1\n", "utf-8")
    with pytest.raises(UserError, match="line 3: 2-1 is beyond the 2 and 2 words"):
        main(config)
    (tmp_path / "links").write_text("0-0 1-1\n", "utf-8")
    with pytest.raises(UserError, match="has 1 lines, input= has 3"):
        main(config)
    config.target = None
    with pytest.raises(UserError, match="give target=, too"):
        main(config)
