"""Around the search: unknown words, lexicons, attention, long lines, forced decoding, streams, workers, scripts."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
import torch
from helpers import golden_json, write_lexicon

from convs2s.config import (
    Average,
    BenchmarkGenerateConfig,
    DataConfig,
    LayerConfig,
    LexiconConfig,
    LongLines,
    ModelConfig,
    ScoreConfig,
    SearchConfig,
    SearchPrecision,
    SelectionConfig,
    TranslateConfig,
    UnknownWordsConfig,
)
from convs2s.errors import UserError
from convs2s.search import benchmark
from convs2s.search.alignment import ibm_model_1
from convs2s.search.beam import Search
from convs2s.search.lexicon import count_links, read_lexicon, read_links
from convs2s.search.output import open_attention, pharaoh
from convs2s.search.pieces import Joints
from convs2s.search.scoring import Score, score_lines
from convs2s.search.splitting import split_line
from convs2s.search.streams import read_blocks
from convs2s.search.translate import Translator, Warner, translate_lines
from convs2s.search.unknown import attended, replacements
from convs2s.search.workers import translate_in_workers, worker_device
from convs2s.text.sentencepiece_tokenizer import SentencePieceTokenizer
from convs2s.text.tokenizer import Tokenizers
from convs2s.text.vocabulary import EOS, UNK
from convs2s.text.whitespace_tokenizer import WhitespaceTokenizer

ROOT = Path(__file__).parents[2]
GOLDEN = Path(__file__).parents[1] / "golden" / "unkreplace"
LINES = ["ein hund läuft", "", "rot", "ein haus im hund .", "hund hund", "ein rot haus läuft im haus .", "läuft ."]
SEARCH = SearchConfig(beam=2, max_length=6)


def translate(lines: list[str], config: SearchConfig = SEARCH, **options: Any) -> list[Any]:
    return list(translate_lines([tiny.model()], tiny.tokenizers(), lines, config, **options))


def script(name: str) -> Callable[[Any], None]:
    """The main function of scripts/NAME.py."""
    spec = importlib.util.spec_from_file_location(f"script_{name}", ROOT / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    main: Callable[[Any], None] = module.main
    return main


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    path = tmp_path / "checkpoints" / "best.pt"
    tiny.save_checkpoint(path, DataConfig())
    return path


# --- unknown words ----------------------------------------------------------------------------------------------------


def golden_replacements() -> Iterator[tuple[int, list[str], list[int], str]]:
    """(number, target words, places, the original's result) of each sentence that the original translated."""
    generated = (GOLDEN / "gen.b5.txt").read_text(encoding="utf-8")
    wanted = dict(
        line.split("\t") for line in (GOLDEN / "per_sentence.off0.txt").read_text(encoding="utf-8").splitlines()
    )
    for match in re.finditer(r"^H-(\d+)\t\S+\t(.*) $\n^A-\1\t(.*)$", generated, re.MULTILINE):
        if match[1] in wanted:
            places = [int(place) - 1 for place in match[3].split()]
            yield int(match[1]), match[2].split(" "), places, wanted[match[1]]


def test_replacement_is_the_original_s() -> None:
    """Fault: the word beside the one attended to, <unk> copied instead of the raw word, the dictionary ignored, or
    an end where attention is on </s>."""
    lexicon = {word: [(other, 1)] for word, other in golden_json("vocabulary_selection")["unk_aligndict"].items()}
    sources = (GOLDEN / "small.test.de").read_text(encoding="utf-8").splitlines()
    compared = crashed = copied = 0
    for number, words, places, wanted in golden_replacements():
        source = [word for word in sources[number - 1].split(" ") if word]
        target = WhitespaceTokenizer(sorted({word for word in words if word != "<unk>"}))
        ids = [UNK if word == "<unk>" else target.encode([word])[0][0] for word in words]
        found = replacements(ids, places, source, lexicon)
        text = Joints(target).text(ids, found)
        if wanted.startswith("CRASH"):
            crashed += 1
            assert None in found
            assert "<unk>" in text
        else:
            compared += 1
            copied += any(word in source and word not in lexicon for word in found if word is not None)
            assert text == wanted
    assert compared >= 15
    assert crashed >= 2
    assert copied >= 1


def test_attention_on_the_end_or_padding_is_not_followed() -> None:
    """Fault: <unk> stays, or an index error, because most attention is on </s>."""
    attention = torch.tensor([[0.1, 0.3, 0.6], [0.4, 0.1, 0.5]])
    assert attended(attention) == [1, 0]


def test_unknown_words_in_translations(tmp_path: Path) -> None:
    """Fault: the option is ignored; the model's <unk> for a source word is copied instead of the word."""
    model = tiny.model()
    model.get_parameter("decoder.output.bias").data[UNK] = 400.0
    lines = ["Zwölf hund", "rot xylophon ."]
    config = SearchConfig(beam=1, min_length=2, max_length=2)
    plain = [r[0].text for r in translate_lines([model], tiny.tokenizers(), lines, config, warn=lambda _: None)]
    assert plain == ["<unk> <unk>"] * 2
    lexicon = tmp_path / "lexicon.tsv"
    write_lexicon(lexicon, {"hund": [("Hund!", 3), ("x", 1)], "xylophon": [("xylophone", 1)]})
    for path, known in ((None, {}), (str(lexicon), {"hund": "Hund!", "xylophon": "xylophone"})):
        config.unknown = UnknownWordsConfig(replace=True, lexicon=path)
        for line, (best,) in zip(
            lines, translate_lines([model], tiny.tokenizers(), lines, config, warn=lambda _: None), strict=True
        ):
            allowed = {known.get(word, word) for word in line.split()}
            assert set(best.text.split()) <= allowed
            assert "<unk>" not in best.text


def sentencepiece() -> SentencePieceTokenizer:
    return SentencePieceTokenizer.train(
        ["the walker walked", "a talker talks", "walking and talking"] * 9, vocabulary_size=30, log=lambda _: None
    )


def test_continued_pieces() -> None:
    """Fault: subwordpen falls on whole words, or on the specials; a joiner is taken for text."""
    joined = Joints(WhitespaceTokenizer(["a", "b@@", "c|"], joiner="@@")).continued
    assert joined.tolist() == [False] * 3 + [False, True, False]
    assert Joints(WhitespaceTokenizer(["a", "b@@", "c|"])).continued.tolist() == [False] * 3 + [False, False, True]
    pieces = sentencepiece()
    expected = [i >= 3 and not symbol.startswith("\u2581") for i, symbol in enumerate(pieces.symbols)]
    assert Joints(pieces).continued.tolist() == expected
    assert 5 < sum(expected) < 27


def test_foreign_words_are_joined_like_pieces() -> None:
    """Fault: a word put in the place of <unk> is glued to a neighbour, or torn from the piece it belongs to; after an
    <unk> without a word none is replaced."""
    joints = Joints(WhitespaceTokenizer(["a", "b@@", "c"], joiner="@@"))
    assert joints.text([3, UNK, 5, EOS], ["X"]) == "a X c"
    assert joints.text([4, UNK, 5], ["X"]) == "bX c"
    assert joints.text([UNK, UNK], ["X", "Y"]) == "X Y"
    assert joints.text([UNK, 3], [None]) == "<unk> a"
    assert joints.text([UNK, UNK, 3], [None, "Haus"]) == "<unk> Haus a"
    tokenizer = sentencepiece()
    (ids,) = tokenizer.encode(["walker"])
    inside = next(i for i, symbol in enumerate(tokenizer.symbols) if i > 2 and symbol[0] != "\u2581")
    assert Joints(tokenizer).text([*ids, UNK, inside], ["X"]) == f"walker X{tokenizer.symbols[inside]}"


# --- lexicons and alignments ------------------------------------------------------------------------------------------


def test_lexicon_from_alignments(tmp_path: Path) -> None:
    """Fault: links read the wrong way round, counts lost, or not the most frequent word first."""
    pairs = [(["das", "haus"], ["the", "house"]), (["haus"], ["house", "!"]), (["das"], ["that"]), (["das"], ["the"])]
    alignment = tmp_path / "a.pharaoh"
    alignment.write_text("0-0 1-1\n0-0 0-1\n0-0\n0-0\n")
    lexicon = count_links(pairs, read_links(str(alignment)))
    assert lexicon == {"das": [("the", 2), ("that", 1)], "haus": [("house", 2), ("!", 1)]}
    write_lexicon(tmp_path / "l.tsv", lexicon)
    assert read_lexicon(str(tmp_path / "l.tsv")) == lexicon


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0-0\nx\n", "line 2: not an alignment"),
        ("0-0\n0-5\n", "line 2: 0-5 is beyond the 1 and 1 words"),
        ("0-0\n", "fewer"),
        ("0-0\n0-0\n0-0\n", "more lines"),
    ],
)
def test_alignments_that_do_not_fit(text: str, message: str, tmp_path: Path) -> None:
    """Fault: an alignment of other text, or of other segmentation, silently makes a lexicon of chance."""
    path = tmp_path / "a"
    path.write_text(text)
    with pytest.raises(UserError, match=message):
        count_links([(["a"], ["b"]), (["c"], ["d"])], read_links(str(path)), str(path))


def test_a_missing_lexicon_is_named_by_its_option(tmp_path: Path) -> None:
    """Fault: the message names a file and leaves open which of two options asked for it."""
    missing = str(tmp_path / "none")
    both = {
        "search.unknown.lexicon": SearchConfig(unknown=UnknownWordsConfig(replace=True, lexicon=missing)),
        "search.selection.lexicon": SearchConfig(selection=SelectionConfig(lexicon=missing)),
    }
    for option, config in both.items():
        with pytest.raises(UserError, match=f"{option}={missing}: there is no such file; scripts/lexicon"):
            Translator([tiny.model()], tiny.tokenizers(), config)


def test_bad_lexicon_is_located(tmp_path: Path) -> None:
    """Fault: any tab-separated file passes for a lexicon."""
    path = tmp_path / "l.tsv"
    path.write_text("a\tb\t1\na b 2\n")
    with pytest.raises(UserError, match=r"l\.tsv, line 2"):
        read_lexicon(str(path))


def test_ibm_model_1_learns_who_belongs_together() -> None:
    """Fault: the expectation or its normalisation is wrong: words align with the most frequent word, or by position."""
    pairs = [
        (["das", "haus"], ["house", "the"]),
        (["das", "buch"], ["book", "the"]),
        (["ein", "buch"], ["book", "a"]),
        (["ein", "haus"], ["house", "a"]),
    ]
    links = list(ibm_model_1(pairs, iterations=20))
    assert [sorted(of_pair) for of_pair in links] == [[(0, 1), (1, 0)]] * 4
    assert list(ibm_model_1([], 3)) == []
    assert list(ibm_model_1([([], ["x"]), (["y"], [])], 3))[1] == []
    assert list(ibm_model_1([(["x"], []), ([], [])], 3)) == [[], []]


def test_lexicon_script(tmp_path: Path, checkpoint: Path) -> None:
    """Fault: the script ignores the alignment, the checkpoint's segmentation, or writes no alignment."""
    main = script("lexicon")
    source, target, output, links = (tmp_path / name for name in ("s", "t", "out.tsv", "links"))
    source.write_text("ein hund\nein haus\nrot hund\n")
    target.write_text("a dog\na house\nred dog\n")
    main(LexiconConfig(str(source), str(target), output=str(output), alignment_output=str(links), iterations=20))
    learnt = read_lexicon(str(output))
    assert {word: companions[0][0] for word, companions in learnt.items()}["hund"] == "dog"
    assert links.read_text().count("\n") == 3
    (tmp_path / "given").write_text("0-1\n0-1\n0-1\n")
    main(LexiconConfig(str(source), str(target), str(tmp_path / "given"), str(checkpoint), str(output)))
    assert read_lexicon(str(output)) == {"ein": [("dog", 1), ("house", 1)], "rot": [("dog", 1)]}


def test_lexicon_script_and_its_outputs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Fault: words that end in a CR; a file named "-", or the summary among its lines; hours of learning before the
    message that there is no such folder; an option that is ignored."""
    monkeypatch.chdir(tmp_path)
    for name, line in (("s", "hund"), ("t", "dog"), ("given", "0-0")):
        (tmp_path / name).write_bytes(f"{line}\r\n".encode())
    main = script("lexicon")
    main(LexiconConfig("s", "t", "given", output="-"))
    said = capfd.readouterr()
    assert said.out == "hund\tdog\t1\n"
    assert said.err == "-: 1 words, 1 pairs\n"
    assert not (tmp_path / "-").exists()
    for options, message in (
        ({"output": "no/l.tsv"}, "output=no/l.tsv cannot be written"),
        ({"output": "l.tsv", "alignment_output": "no/a"}, "alignment_output=no/a cannot be written"),
        ({"output": "l.tsv", "alignment_output": "a", "alignment": "given"}, "give it or alignment=, not both"),
    ):
        with pytest.raises(UserError, match=message):
            main(LexiconConfig("s", "not there", **options))  # type: ignore[arg-type]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["given", "s", "t"]


def test_selection_in_translations(tmp_path: Path) -> None:
    """Fault: the option is ignored, or a line's words depend on the lines beside it."""
    lexicon = tmp_path / "l.tsv"
    write_lexicon(lexicon, {"hund": [("dog", 5), ("runs", 2)], "rot": [("red", 3)], "haus": [("house", 1)]})
    config = SearchConfig(beam=2, max_length=5, selection=SelectionConfig(lexicon=str(lexicon), common=3, aligned=1))
    lines = ["hund", "rot haus", "hund rot"]
    results = translate(lines, config)
    allowed = [{"dog"}, {"red", "house"}, {"dog", "red"}]
    for (best, *_), words in zip(results, allowed, strict=True):
        assert best.text
        assert set(best.text.split()) <= words | {"<unk>"}
    alone = [translate([line], config)[0][0].text for line in lines]
    assert [result[0].text for result in results] == alone
    assert alone != [result[0].text for result in translate(lines, SearchConfig(beam=2, max_length=5))]
    config.selection.common = 2
    with pytest.raises(UserError, match=r"search\.selection\.common=2 must be at least 3"):
        translate(lines, config)


# --- attention --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layers", [False, True])
def test_attention_files(layers: bool, tmp_path: Path) -> None:
    """Fault: rows of padding or of other lines, layers averaged that were asked for, lines of blank input missing."""
    results = translate(LINES, attention=True, layers=layers)
    archive, records = tmp_path / "a.npz", tmp_path / "a.jsonl"
    for path in (archive, records, tmp_path / "a.txt"):
        with open_attention(str(path), tiny.tokenizers(), layers) as write:
            for number, (line, translations) in enumerate(zip(LINES, results, strict=True), 1):
                write(number, line, translations)
    loaded = np.load(archive)
    lines = [json.loads(line) for line in records.read_text(encoding="utf-8").splitlines()]
    hard = (tmp_path / "a.txt").read_text().split("\n")
    assert len(lines) == len(hard) - 1 == len(LINES)
    for number, (line, translations) in enumerate(zip(LINES, results, strict=True), 1):
        if not line:
            assert str(number) not in loaded
            assert lines[number - 1]["attention"] == []
            assert hard[number - 1] == ""
            continue
        hypothesis = translations[0].hypothesis
        shape = (len(hypothesis.ids), len(line.split()) + 1)
        matrix = loaded[str(number)]
        assert matrix.shape == ((2, *shape) if layers else shape)
        np.testing.assert_allclose(matrix.sum(-1), 1, atol=1e-6)
        np.testing.assert_allclose(lines[number - 1]["attention"], matrix, atol=1e-6)
        assert lines[number - 1]["source"] == [*line.split(), "</s>"]
        assert len(lines[number - 1]["target"]) == shape[0]
        if layers:
            np.testing.assert_allclose(matrix.mean(0), hypothesis.attention, atol=1e-6)
            assert abs(matrix[0] - matrix[1]).max() > 1e-3
        expected = hypothesis.attention[:-1, :-1].argmax(1).tolist()
        assert hard[number - 1] == " ".join(f"{s}-{t}" for t, s in enumerate(expected)) == pharaoh(hypothesis)


def test_attention_into_a_pipe(tmp_path: Path) -> None:
    """Fault: a named pipe, or as root /dev/null, is replaced by a file."""
    fifo = tmp_path / "a.jsonl"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    with open_attention(str(fifo), tiny.tokenizers(), layers=False) as write:
        write(1, "rot", translate(["rot"], attention=True)[0])
    assert fifo.is_fifo()
    assert json.loads(os.read(reader, 1 << 16))["source"] == ["rot", "</s>"]
    os.close(reader)
    with pytest.raises(UserError, match=r"attention=.* cannot be written: it is a folder"):
        open_attention(str(tmp_path), tiny.tokenizers(), layers=False).__enter__()


# --- long lines -------------------------------------------------------------------------------------------------------


def test_lines_are_split_at_the_best_place() -> None:
    """Fault: a word torn where a space was near, text lost, or a part that still does not fit."""
    text = "Eins zwei drei. Vier, fünf sechs! Sieben acht"

    def fits(limit: int) -> Callable[[str], bool]:
        return lambda part: len(part) <= limit

    assert split_line(text, fits(33)) == ["Eins zwei drei.", "Vier, fünf sechs! Sieben acht"]
    assert split_line("a b, c d e", fits(6)) == ["a b,", "c d e"]
    assert split_line("abcdefgh", fits(3)) == ["ab", "cd", "ef", "gh"]
    assert max(map(len, split_line("x" * 200_000, fits(1000)))) <= 1000
    for limit in range(1, 40):
        parts = split_line(text, fits(limit))
        assert all(len(part) <= limit for part in parts)
        assert "".join("".join(parts).split()) == "".join(text.split())


def test_long_lines_are_cut_by_option() -> None:
    """Fault: the option is ignored, the parts come in another order, or the next lines shift."""
    parts = ["ein rot haus läuft im haus .", "hund hund im haus läuft rot ."]
    lines = ["rot", " ".join(parts), "hund"]
    with pytest.raises(UserError, match=r"line 2: .*long_lines=cut"):
        translate(lines)
    with pytest.raises(UserError, match="line 1: 500,001 pieces"):
        translate(["m " * 500_000])
    config = SearchConfig(beam=2, nbest=2, max_length=6, long_lines=LongLines.cut)
    results = translate(lines, config)
    single = translate(parts, config)
    assert len(results) == 3
    for rank in range(2):
        assert results[1][rank].text == " ".join(part[rank].text for part in single)
        assert results[1][rank].score == pytest.approx(sum(part[rank].score for part in single))
    assert results[2][0].text == translate(["hund"], config)[0][0].text


# --- forced decoding --------------------------------------------------------------------------------------------------


def test_scores_are_those_of_the_search() -> None:
    """Fault: </s> is not scored, the length penalty or the order is another, a score depends on its batch."""
    model, tokenizers = tiny.model(), tiny.tokenizers()
    config = SearchConfig(beam=3, nbest=3, max_length=6, lenpen=0.7, batch_size=2)
    lines = [line for line in LINES if line]
    results = list(translate_lines([model], tokenizers, lines, config))
    pairs = [(line, t.text) for line, of_line in zip(lines, results, strict=True) for t in of_line]
    scores = list(score_lines([model], tokenizers, pairs, config))
    expected = [t.score for of_line in results for t in of_line]
    assert [score.score for score in scores] == pytest.approx(expected, abs=1e-9)
    assert [len(score.tokens) for score in scores] == [len(text.split()) + 1 for _, text in pairs]
    assert scores[0].perplexity == pytest.approx(np.exp(-np.mean(scores[0].tokens)))


def test_ensembles_score_by_their_average() -> None:
    """Fault: only the first model scores, or the average is always that of the probabilities."""
    models = [tiny.model(1), tiny.model(2)]
    pair = [("ein hund", "a dog")]
    alone = [next(score_lines([model], tiny.tokenizers(), pair, SEARCH)).tokens for model in models]
    both = next(score_lines(models, tiny.tokenizers(), pair, SEARCH)).tokens
    assert both == pytest.approx(np.log(np.exp(alone).mean(0)).tolist())
    config = SearchConfig(average=Average.log_probabilities)
    other = next(score_lines(models, tiny.tokenizers(), pair, config)).tokens
    assert np.less(np.mean(alone, 0), other).all()
    assert other != pytest.approx(both, abs=1e-9)


def test_figures_beyond_the_largest_number() -> None:
    """Fault: a stack trace for a hopeless translation."""
    assert Score([-800.0], lenpen=1.0).perplexity == np.inf


def test_long_pairs_are_refused_by_number() -> None:
    """Fault: an index error in the position table of either side."""
    long = " ".join(["dog"] * 20)
    with pytest.raises(UserError, match=r"line 2, target: 21 pieces"):
        list(score_lines([tiny.model()], tiny.tokenizers(), [("hund", "dog"), ("hund", long)], SEARCH))


# --- streams and workers ----------------------------------------------------------------------------------------------


def test_a_pipe_that_trickles_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault: the first answer comes when the pipe is closed, or when 10,000 lines have come; half a line counts."""
    reading, writing = os.pipe()
    answered = threading.Event()

    def write() -> None:
        os.write(writing, "ä\nb\nhal".encode())
        assert answered.wait(20)
        os.write(writing, b"f\n\nlast")
        os.close(writing)

    thread = threading.Thread(target=write)
    thread.start()
    with os.fdopen(reading) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        blocks = read_blocks("-", 10_000)
        assert next(blocks) == ["ä", "b"]
        answered.set()
        assert [line for block in blocks for line in block] == ["half", "", "last"]
    thread.join()


def test_blocks_of_a_pipe_are_bounded_and_errors_located(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault: bytes that are not UTF-8 are named by their place in a block."""
    reading, writing = os.pipe()
    os.write(writing, b"a\n" * 5 + b"b\xff\n")
    os.close(writing)
    with os.fdopen(reading) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        with pytest.raises(UserError, match="line 6, byte 2: 0xff"):
            list(read_blocks("-", 2))


def test_a_byte_order_mark_and_a_flood(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault: the mark of a file that is piped in is translated; a block holds all that one read has brought."""
    reading, writing = os.pipe()
    os.write(writing, b"\xef\xbb\xbfa\n" + b"b\n" * 9 + b"\xef\xbb\xbfc")
    os.close(writing)
    with os.fdopen(reading) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        found = list(read_blocks("-", 2))
    assert found[0] == ["a", "b"]
    assert found[-1] == ["\ufeffc"]
    assert max(map(len, found)) == 2


@pytest.mark.parametrize("tokens", [1, 7, 20])
def test_token_cap(tokens: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault: the cap is ignored, or changes or loses a translation."""
    sizes, step = [], Search.step

    def recorded(self: Search) -> None:
        sizes.append((self.sentences, self.width))
        step(self)

    monkeypatch.setattr(Search, "step", recorded)
    results = translate(LINES, SearchConfig(beam=2, max_length=6, batch_tokens=tokens))
    assert all(rows == 1 or rows * width <= tokens for rows, width in sizes)
    assert (max(rows for rows, _ in sizes) > 1) == (tokens > 1)
    monkeypatch.undo()
    assert [r[0].text for r in results] == [r[0].text for r in translate(LINES)]


def make_translator() -> Translator:
    return Translator([tiny.model()], tiny.tokenizers(), SEARCH, name="news")


def test_workers_give_the_same_in_order() -> None:
    """Fault: lines in the order in which workers are done, line numbers counted within a block, warnings lost."""
    warnings: list[str] = []
    blocks = [LINES[:1], LINES[1:5], LINES[5:], ["x y z w v u", "x y z w v u"]]
    results = list(translate_in_workers(make_translator, blocks, 2, Warner("news", warnings.append)))
    plain = translate([line for block in blocks for line in block], warn=lambda _: None)
    assert [[t.text for t in of_line] for of_line in results] == [[t.text for t in of_line] for of_line in plain]
    assert len(warnings) == 1
    too_long = [["hund"], ["hund", "hund " * 20]]
    with pytest.raises(UserError, match="news, line 3"):
        list(translate_in_workers(make_translator, too_long, 2, Warner("news", warnings.append)))


def make_attentive() -> Translator:
    return Translator([tiny.model()], tiny.tokenizers(), SEARCH, attention=True)


def test_workers_send_more_tensors_than_files_may_be_open() -> None:
    """Fault: a file descriptor for each tensor: "Too many open files" after some hundred lines with attention."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        blocks = [["ein hund"] * 100] * 3
        results = list(translate_in_workers(make_attentive, blocks, 2, Warner("news")))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert len(results) == 300
    assert all(best.hypothesis.attention.sum() > 1 for best, *_ in results)


def test_workers_are_for_the_cpu() -> None:
    """Fault: several processes share a GPU that has the memory for one."""
    assert worker_device("auto") == worker_device("cpu") == "cpu"
    with pytest.raises(UserError, match=r"give device=cpu, or search\.workers=1 with device=cuda"):
        worker_device("cuda")


# --- scripts ----------------------------------------------------------------------------------------------------------


def test_translate_script(tmp_path: Path, checkpoint: Path) -> None:
    """Fault: a list of checkpoints, the table, the attention file or the search's options do not reach the search."""
    main = script("translate")
    source, output, attention = (tmp_path / name for name in ("in.de", "out.en", "attention.jsonl"))
    source.write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    options = {"input": str(source), "output": str(output), "device": "cpu", "search": SEARCH}
    main(TranslateConfig(str(checkpoint), **options))
    plain = output.read_text(encoding="utf-8").split("\n")
    assert len(plain) == len(LINES) + 1
    assert plain[1] == ""
    main(TranslateConfig([str(checkpoint), str(checkpoint)], attention=str(attention), scores=True, **options))
    table = [line.split("\t") for line in output.read_text(encoding="utf-8").splitlines()]
    assert table[0] == ["line", "rank", "score", "translation"]
    assert [row[3] for row in table[1:]] == plain[:-1]
    assert len(attention.read_text(encoding="utf-8").splitlines()) == len(LINES)
    other = tmp_path / "other.pt"
    saved = tiny.model().float()
    words = Tokenizers(WhitespaceTokenizer(tiny.SOURCE_WORDS), WhitespaceTokenizer(tiny.TARGET_WORDS[::-1]))
    tiny.save_checkpoint(other, DataConfig())
    content = torch.load(other, weights_only=True)
    content["tokenizers"] = words.state()
    tiny.checkpoint.save(other, content)
    assert saved.target_vocabulary == len(words.target.symbols)
    with pytest.raises(UserError, match=r"other\.pt: its target vocabulary is not that of"):
        main(TranslateConfig([str(checkpoint), str(other)], **options))
    with pytest.raises(UserError, match="checkpoint="):
        main(TranslateConfig([], **options))


def test_score_script(tmp_path: Path, checkpoint: Path) -> None:
    """Fault: no head, a row too few, or figures that do not fit each other."""
    for name, lines in (("s", ["ein hund", "rot"]), ("t", ["a dog", "red"])):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    output = tmp_path / "scores.tsv"
    source, target = str(tmp_path / "s"), str(tmp_path / "t")
    script("score")(ScoreConfig(str(checkpoint), source, target, str(output), "cpu"))
    head, *rows = [line.split("\t") for line in output.read_text().splitlines()]
    assert head == ["line", "score", "log_probability", "tokens", "perplexity"]
    assert [row[0] for row in rows] == ["1", "2"]
    for row in rows:
        assert float(row[1]) * int(row[3]) == pytest.approx(float(row[2]), abs=1e-4)
        assert float(row[4]) == pytest.approx(np.exp(-float(row[1])), rel=1e-3)


@pytest.mark.parametrize("attention", [False, True])
def test_a_reader_that_leaves_ends_the_script_quietly(attention: bool, tmp_path: Path, checkpoint: Path) -> None:
    """Fault: a traceback, or a translation that goes on for nobody, when `| head -1` has what it wanted; the file of
    attention is blamed for it."""
    source = tmp_path / "in.de"
    source.write_text("ein hund läuft\n" * 20_000, encoding="utf-8")
    command = [sys.executable, str(ROOT / "scripts" / "translate.py"), f"checkpoint={checkpoint}", f"input={source}"]
    process = subprocess.Popen(
        [*command, "search.beam=1", "search.max_length=3", *([f"attention={tmp_path}/a.jsonl"] if attention else [])],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline()
    process.stdout.close()
    assert process.wait(120) == 141
    assert process.stderr.read() == b""


def test_ctrl_c_ends_the_script_quietly(checkpoint: Path) -> None:
    """Fault: a traceback at a key press."""
    command = [sys.executable, str(ROOT / "scripts" / "translate.py"), f"checkpoint={checkpoint}"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}

    def at_a_terminal() -> None:  # what a shell starts in the background inherits SIGINT ignored
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    process = subprocess.Popen(command, **pipes, preexec_fn=at_a_terminal)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdin.write(b"ein hund\n")
    process.stdin.flush()
    assert process.stdout.readline()  # before the pipe is closed: nothing is waited for
    process.send_signal(signal.SIGINT)
    assert process.wait(120) == 130
    assert process.stderr.read() == b""


def test_sigterm_leaves_nothing_behind(tmp_path: Path, checkpoint: Path) -> None:
    """Fault: a batch system's end of a job leaves half an output under a name that nobody clears up."""
    command = [sys.executable, str(ROOT / "scripts" / "translate.py"), f"checkpoint={checkpoint}"]
    process = subprocess.Popen(
        [*command, f"output={tmp_path}/out.en"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    deadline = time.monotonic() + 120
    while not list(tmp_path.glob(".out.en.*.tmp")) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.terminate()
    assert process.communicate(timeout=120) == (b"", b"")
    assert process.returncode == 143
    assert not list(tmp_path.glob("*out.en*"))


def test_a_terminal_is_answered_line_by_line(checkpoint: Path) -> None:
    """Fault: no prompt, no answer before the end, one line that is too long ends the session, or with workers several
    lines have to be there."""
    ours, theirs = os.openpty()
    command = [sys.executable, str(ROOT / "scripts" / "translate.py"), f"checkpoint={checkpoint}"]
    command.append("search.workers=2")
    process = subprocess.Popen(command, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    os.close(theirs)
    assert process.stdout is not None
    assert process.stderr is not None
    for line in ("ein hund", "hund " * 30, "rot"):
        os.write(ours, f"{line}\n".encode())
        answer = process.stdout.readline().decode()
        assert (answer == "\n") == (len(line) > 100)
    os.write(ours, b"\x04")
    assert process.wait(120) == 0
    messages = process.stderr.read().decode()
    os.close(ours)
    assert messages.replace("</s> ", "").count("> ") == 4
    assert "line 2: 31 pieces" in messages


# --- benchmark --------------------------------------------------------------------------------------------------------


def test_benchmark(tmp_path: Path, checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault: a field of the figures is missing, a setting is measured twice or not at all, rates do not fit; a sentence
    beyond the position table ends in a stack trace."""
    monkeypatch.setattr(benchmark, "SIZE", 32)
    source, output = tmp_path / "in.de", tmp_path / "speed.json"
    source.write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    options: dict[str, Any] = {"batches": [1, 4], "beams": [1, 2], "repeat": 1, "device": "cpu", "output": str(output)}
    main = script("benchmark_generate")
    main(BenchmarkGenerateConfig(checkpoint=str(checkpoint), input=str(source), single_sentences=2, **options))
    rows = json.loads(output.read_text())["generate"]
    assert [(row["batch"], row["beam"], row["sentences"]) for row in rows] == [
        (1, 1, 2),
        (1, 2, 2),
        (4, 1, 6),
        (4, 2, 6),
    ]
    for row in rows:
        assert row["precision"] == "fp32"
        rate = row["sentences_per_second"] / row["yardstick_gflops"]
        assert row["sentences_per_second_per_gflops"] == pytest.approx(rate, rel=0.01)
        assert row["tokens_per_second"] > row["sentences_per_second"]
        assert row["peak_gib"] > 0
        assert row["share"] == pytest.approx(row["gflops"] / row["yardstick_gflops"], rel=0.2)
    small = ModelConfig(embedding=8, output_embedding=8)
    small.encoder.layers = small.decoder.layers = [LayerConfig(8, 3)]
    options["beams"], options["precisions"] = [2], [SearchPrecision.int8]
    main(BenchmarkGenerateConfig(model=small, vocabulary=[20, 30], sentences=3, single_sentences=1, **options))
    assert [row["precision"] for row in json.loads(output.read_text())["generate"]] == ["int8"] * 2
    with pytest.raises(UserError, match="input="):
        main(BenchmarkGenerateConfig(input=str(source), **options))
    source.write_text("rot\n\n" + "hund " * 20)
    with pytest.raises(UserError, match=r"in\.de, line 3: 21 pieces, </s> included, but the model takes at most 12"):
        main(BenchmarkGenerateConfig(checkpoint=str(checkpoint), input=str(source), **options))
    small.max_positions = 20
    with pytest.raises(UserError, match=r"random sentences: 25 pieces, .* at most 18; raise model\.max_positions"):
        main(BenchmarkGenerateConfig(model=small, vocabulary=[20, 30], **options))
