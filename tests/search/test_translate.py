"""Text in, text out: order, blank lines, limits, n-best, streams and the script itself."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import tiny

from convs2s.config import DataConfig, SearchConfig, SourcePadding, Stop
from convs2s.errors import UserError
from convs2s.search.batches import length_batches
from convs2s.search.output import HEADER, output_lines
from convs2s.search.streams import open_output, read_blocks, read_input
from convs2s.search.translate import Translation, translate_lines
from convs2s.text.vocabulary import EOS

ROOT = Path(__file__).parents[2]
LINES = [
    "ein hund läuft",
    "",
    "rot",
    "ein haus im hund .",
    "  ",
    "hund hund",
    "ein rot haus läuft im haus .",
    "läuft .",
]


def translate(lines: Sequence[str], config: SearchConfig | None = None, **options: Any) -> list[list[Translation]]:
    models = options.pop("models", [tiny.model()])
    return list(
        translate_lines(models, tiny.tokenizers(), lines, config or SearchConfig(beam=3, max_length=8), **options)
    )


def texts(results: list[list[Translation]]) -> list[str]:
    return [result[0].text for result in results]


# --- lines --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("padding", list(SourcePadding))
@pytest.mark.parametrize(("batch_size", "chunk"), [(1, 100), (2, 3), (3, 1), (64, 100)])
def test_order_and_count(batch_size: int, chunk: int, padding: SourcePadding) -> None:
    """Fault: output in order of length, the last partial batch lost, a line that depends on its batch or chunk."""
    models = [tiny.model(source_padding=padding)]
    config = SearchConfig(beam=3, max_length=8, batch_size=batch_size)
    alone = [texts(translate([line], config, models=models))[0] for line in LINES]
    assert texts(translate(LINES, config, models=models, chunk=chunk)) == alone
    assert len(set(alone)) > 3  # else the test sees nothing


def test_blank_in_blank_out() -> None:
    """Fault: a blank line crashes, vanishes or gets a translation; so it would with only blank lines."""
    results = translate(LINES)
    assert [not text for text in texts(results)] == [not line.strip() for line in LINES]
    assert texts(translate(["", " ", "\r"])) == ["", "", ""]
    assert translate([]) == []


def test_input_is_streamed() -> None:
    """Fault: a file of any size is read into memory before the first translation."""
    taken = 0

    def endless() -> Iterator[str]:
        nonlocal taken
        while True:
            taken += 1
            yield "ein hund"

    results = translate_lines([tiny.model()], tiny.tokenizers(), endless(), SearchConfig(beam=1, max_length=4), chunk=5)
    for _ in range(6):
        next(results)
    assert taken == 10


def test_long_line_is_refused_by_number() -> None:
    """Fault: an index error in the position table; an off-by-one in its limit; the number counted within the chunk."""
    limit = tiny.model().max_source_length
    fits = " ".join(["hund"] * (limit - 1))  # and </s>
    assert len(translate([fits])) == 1
    with pytest.raises(UserError, match=rf"news\.de, line 4: {limit + 1} pieces.*at most {limit}"):
        translate(["ein", "", "hund", f"{fits} hund"], name="news.de", chunk=3)


def test_many_unknown_words_give_one_warning() -> None:
    """Fault: raw text fed to a model of segmented text gives nonsense without a word; or a warning for every chunk."""
    warnings: list[str] = []
    translate(["ein hund läuft", "nix da", "weder noch", "so was"], chunk=1, warn=warnings.append, name="news.de")
    assert len(warnings) == 1
    assert "news.de" in warnings[0]
    translate(["ein hund läuft rot haus im x"], warn=warnings.append)  # one of eight, </s> included
    assert len(warnings) == 1


def test_batches_are_sorted_and_complete() -> None:
    """Fault: a sentence twice or never; blank ones searched; lengths mixed where no padding is allowed."""
    lengths = [3, 0, 5, 3, 3, 1, 5, 0, 3]
    for exact in (False, True):
        batches = list(length_batches(lengths, 2, 100, exact))
        assert sorted(i for batch in batches for i in batch) == [0, 2, 3, 4, 5, 6, 8]
        assert all(len(batch) <= 2 for batch in batches)
        ordered = [lengths[i] for batch in batches for i in batch]
        assert ordered == sorted(ordered, reverse=True)
        if exact:
            assert all(len({lengths[i] for i in batch}) == 1 for batch in batches)
    assert [len(batch) for batch in length_batches(lengths, 2, 100, exact=False)] == [2, 2, 2, 1]


# --- n-best and options -------------------------------------------------------------------------------------------


def test_nbest() -> None:
    """Fault: another number of translations than asked for, not sorted, not the head of the beam, or repeated."""
    beam = SearchConfig(beam=4, max_length=8)
    best = translate(LINES, beam)
    several = translate(LINES, SearchConfig(beam=4, nbest=3, max_length=8))
    for line, one, three in zip(LINES, best, several, strict=True):
        assert len(three) == (3 if line.strip() else 1)
        assert (three[0].text, three[0].score) == (one[0].text, pytest.approx(one[0].score))
        scores = [translation.score for translation in three]
        assert scores == sorted(scores, reverse=True)
        if line.strip():
            found = [tuple(translation.hypothesis.ids) for translation in three if translation.hypothesis]
            assert len(set(found)) == 3
            assert all(ids[-1] == EOS for ids in found)


def test_output_lines() -> None:
    """Fault: n-best lines that nobody can tell apart, or a plain run that prints scores."""
    translations = [Translation("a dog", -0.25), Translation("dog", -1.5)]
    assert HEADER.split("\t") == ["line", "rank", "score", "translation"]
    assert list(output_lines(7, translations, table=False)) == ["a dog"]
    assert list(output_lines(7, translations, table=True)) == ["7\t1\t-0.250000\ta dog", "7\t2\t-1.500000\tdog"]
    assert list(output_lines(8, [Translation("")], table=True)) == ["8\t1\t0.000000\t"]
    assert list(output_lines(9, [Translation("a\tb")], table=True)) == ["9\t1\t0.000000\ta b"]


@pytest.mark.parametrize(
    "options",
    [
        {"beam": 0},
        {"beam": 2, "nbest": 3},
        {"nbest": 0},
        {"batch_size": 0},
        {"max_length": 0},
        {"min_length": -1},
        {"min_length": 9, "max_length": 8},
        {"lenpen": float("nan")},
        {"unkpen": float("inf")},
        {"covpen": float("nan")},
        {"subwordpen": float("nan")},
        {"max_length_ratio": -0.5},
        {"lenpen": 11.0},
        {"lenpen": -1e3},
        {"max_length_ratio": float("inf")},
        {"batch_tokens": 0},
        {"workers": 0},
        {"stop": Stop.optimal, "unkpen": -1.0},
    ],
    ids=str,
)
def test_impossible_options_are_refused(options: dict[str, Any]) -> None:
    """Fault: an n-best list beyond the beam or contradictory lengths end in an index error, or in silence."""
    config = SearchConfig(**options)
    with pytest.raises(UserError, match=r"search\."):
        config.check()
    with pytest.raises(UserError, match=r"search\."):
        translate(["ein hund"], config)


# --- streams ------------------------------------------------------------------------------------------------------


class Stdin:
    def __init__(self, content: bytes) -> None:
        self.buffer = io.BytesIO(content)


def test_only_line_feeds_end_a_line_of_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault: U+2028, U+0085, CR or a form feed taken for a line end, NUL for the end of the text."""
    text = "a\u2028b\nc\x85d\r\n\x0c\x00e\n\nf"
    monkeypatch.setattr(sys, "stdin", Stdin(text.encode()))
    assert list(read_input("-")) == text.split("\n")


def test_an_empty_name_is_no_file() -> None:
    """Fault: input=$UNSET reads the folder that the command runs in, and says that "." cannot be read."""
    for read in (read_input, lambda path: read_blocks(path, 1)):
        with pytest.raises(UserError, match="input= is empty: give a file, or - for standard input"):
            read("")


def test_bad_bytes_on_standard_input_are_located(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault: Latin-1 input ends in a traceback or in wrong letters."""
    monkeypatch.setattr(sys, "stdin", Stdin("gut\nb\u00fc".encode() + b"sch\xfc\n"))
    with pytest.raises(UserError, match="standard input, line 2, byte 7: 0xfc"):
        list(read_input("-"))


def test_output_file_is_whole_or_not_there(tmp_path: Path) -> None:
    """Fault: an error half-way leaves half a file under the name that was asked for, or destroys the old one."""
    path = tmp_path / "out.en"
    with open_output(str(path)) as write:
        write("straße")
        assert not path.exists()
    assert path.read_bytes() == "straße\n".encode()
    with pytest.raises(ZeroDivisionError), open_output(str(path)) as write:
        write(f"half{1 // 0}")
    assert path.read_bytes() == "straße\n".encode()
    assert list(tmp_path.iterdir()) == [path]


def test_output_that_cannot_be_written(tmp_path: Path) -> None:
    """Fault: hours of translation before the message that the folder does not exist; a device replaced by a file."""
    for path in (tmp_path, tmp_path / "no" / "folder"):
        with pytest.raises(UserError, match=str(path)), open_output(str(path)):
            pytest.fail("the translation began")
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    with open_output(str(fifo)) as write:
        write("a")
    assert os.read(reader, 10) == b"a\n"
    os.close(reader)


# --- the script ---------------------------------------------------------------------------------------------------


def test_script_with_pipes_in_a_foreign_locale(tmp_path: Path) -> None:
    """Fault: the script reads or writes in the locale's encoding, loses lines, or chatters on standard output."""
    checkpoint = tmp_path / "checkpoints" / "best.pt"
    made = tiny.save_checkpoint(checkpoint, DataConfig())
    config = SearchConfig(beam=2, max_length=6)
    expected = texts(list(translate_lines([made], tiny.tokenizers(), LINES, config)))
    command = [sys.executable, str(ROOT / "scripts" / "translate.py"), f"checkpoint={checkpoint}"]
    options = ["search.beam=2", "search.max_length=6", "device=cpu"]
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [*command, *options], input="\n".join(LINES).encode(), capture_output=True, env=environment, cwd=tmp_path
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode().split("\n") == [*expected, ""]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoints"]
