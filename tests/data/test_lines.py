"""Lines and pairs of files: what ends a line, what is refused, and what the refusal says."""

from __future__ import annotations

import gzip
import os
import re
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import convs2s.data.lines as module
from convs2s.data.lines import Part, Side, read_lines, read_pairs, read_texts
from convs2s.errors import UserError

texts = st.lists(st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"])), max_size=10)


def write(path: Path, data: str | bytes) -> Path:
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_a_pipe_is_a_file(tmp_path: Path, compress: Callable[[bytes], bytes]) -> None:
    """Fault: input=<(zcat FILE) is refused, because the first bytes are read twice."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=[compress(b"a\nb\n")])
    writer.start()
    assert list(read_lines(pipe)) == ["a", "b"]
    writer.join()


@pytest.mark.parametrize("end", ["\n", ""])
@pytest.mark.parametrize("suffix", ["", ".gz"])
@given(lines=texts.filter(lambda lines: not (lines and lines[0].startswith("\ufeff"))))
def test_lines_come_back_whatever_they_hold(tmp_path: Path, suffix: str, end: str, lines: list[str]) -> None:
    """Would catch str.splitlines, universal newlines, a lost last line, a line end left on a line."""
    text = "\n".join(lines) + end if lines else ""
    raw = text.encode()
    path = write(tmp_path / f"text{suffix}", gzip.compress(raw) if suffix else raw)
    expected = lines[:-1] if lines and not end and not lines[-1] else lines
    assert list(read_lines(path)) == expected


@given(lines=texts, block=st.integers(1, 9))
def test_lines_across_blocks(tmp_path: Path, lines: list[str], block: int) -> None:
    """Fault: a line, character or byte-order mark torn where one block of bytes ends and the next begins."""
    raw = "".join(f"{line}\n" for line in ["\ufeffä", *lines]).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_BLOCK", block)
        assert list(read_lines(write(tmp_path / "text", raw))) == ["ä", *lines]
        broken = write(tmp_path / "broken", raw + b"x\xff\n")
        with pytest.raises(UserError, match=rf"broken, line {len(lines) + 2}, byte 2: 0xff"):
            list(read_lines(broken))


def test_only_line_feeds_end_a_line(tmp_path: Path) -> None:
    """Would catch the separators that misalign corpora with equal `wc -l`."""
    text = "a\u2028b\u2029c\u0085d\x0be\x0cf\rg\x1ch\0i\tj\r\nk\n\n"
    assert list(read_lines(write(tmp_path / "a", text))) == [text.split("\n")[0], "k", ""]


def test_gzip_is_told_by_content(tmp_path: Path) -> None:
    """Would catch a .gz that a browser has unpacked, and a gzip file without the suffix."""
    assert list(read_lines(write(tmp_path / "plain.gz", "ä\n"))) == ["ä"]
    assert list(read_lines(write(tmp_path / "packed", gzip.compress("ä\n".encode())))) == ["ä"]


def test_gzip_files_strung_together_are_one(tmp_path: Path) -> None:
    """Would catch a reader that stops after the first member."""
    two = gzip.compress(b"a\n") + gzip.compress(b"b\n")
    assert list(read_lines(write(tmp_path / "a.gz", two))) == ["a", "b"]


def test_byte_order_mark_at_the_start_is_dropped(tmp_path: Path) -> None:
    """Would catch a first word that is never seen again, and U+FEFF inside the text being touched."""
    assert list(read_lines(write(tmp_path / "a", "\ufeffa\n\ufeffb\n"))) == ["a", "\ufeffb"]
    assert list(read_lines(write(tmp_path / "b", "\ufeff"))) == []


def test_locale_does_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Would catch open() without an encoding under the C locale."""
    monkeypatch.setattr("locale.getpreferredencoding", lambda *_: "ascii")
    monkeypatch.setattr("locale.getencoding", lambda: "ascii", raising=False)
    assert list(read_lines(write(tmp_path / "a", "ä\n"))) == ["ä"]


@pytest.mark.parametrize("compress", [False, True])
def test_bytes_that_are_not_utf8_are_located(tmp_path: Path, compress: bool) -> None:
    """Would catch replacement characters, and a message without file, line and byte."""
    raw = b"gut\nM" + "änner".encode("latin-1") + b"\n"
    path = write(tmp_path / "train.de", gzip.compress(raw) if compress else raw)
    with pytest.raises(UserError, match=r"train\.de, line 2, byte 2: 0xe4 is not UTF-8"):
        list(read_lines(path))


@pytest.mark.parametrize(
    ("damage", "what"),
    [
        (lambda raw: raw[:-9], "damaged gzip"),  # cut short
        (lambda raw: raw[:30] + bytes(20) + raw[50:], "damaged gzip"),
        (lambda raw: raw[:-6] + b"\0\0" + raw[-4:], "damaged gzip"),  # checksum
        (lambda raw: raw + b"trailing", "damaged gzip"),
    ],
    ids=["short", "inside", "checksum", "trailing"],
)
def test_damaged_gzip_is_refused(tmp_path: Path, damage, what: str) -> None:  # type: ignore[no-untyped-def]
    """Would catch a traceback, or the lines before the damage taken for the whole file."""
    path = write(tmp_path / "a.gz", damage(gzip.compress(os.urandom(60).hex().encode() + b"\n")))
    with pytest.raises(UserError, match=f"a.gz: {what}"):
        list(read_lines(path))


def test_unreadable_files_are_named(tmp_path: Path) -> None:
    """Would catch a traceback for a missing file or a folder."""
    with pytest.raises(UserError, match="none: cannot be read"):
        list(read_lines(tmp_path / "none"))
    with pytest.raises(UserError, match=f"{re.escape(str(tmp_path))}: cannot be read"):
        list(read_lines(tmp_path))


@pytest.mark.parametrize("counts", [(3, 2), (2, 3), (2, 0), (0, 2), (5, 1)])
def test_unequal_counts_are_refused_with_both(tmp_path: Path, counts: tuple[int, int]) -> None:
    """Would catch zip(), which drops the longer side's rest without a word, and counts off by one."""
    source, target = (write(tmp_path / name, "x\n" * n) for name, n in zip(("a.de", "a.en"), counts, strict=True))
    with pytest.raises(UserError, match=rf"a\.de has {counts[0]} lines but \S*a\.en has {counts[1]}"):
        list(read_pairs(source, target))


def test_unequal_pipes_are_refused_with_both_counts(tmp_path: Path) -> None:
    """Fault: the refusal waits for ever for a pipe that is over."""
    texts = {"a": b"x\n\ny\nz\n", "b": b"x\ny\n"}
    writers = []
    for name, text in texts.items():
        os.mkfifo(tmp_path / name)
        writers.append(threading.Thread(target=(tmp_path / name).write_bytes, args=[text]))
        writers[-1].start()
    with pytest.raises(UserError, match=r"a has 4 lines but \S*b has 2; .*a goes on alone from line 3$"):
        list(read_pairs(tmp_path / "a", tmp_path / "b"))
    for writer in writers:
        writer.join()


def test_texts_are_read_once(tmp_path: Path) -> None:
    """Fault: hypotheses=<(...) is empty for the second reference, or sides of several files are compared as a whole."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=[b"a\nb\n"])
    writer.start()
    one, other = write(tmp_path / "1", "c\nd\n"), write(tmp_path / "2", "e\nf")
    assert read_texts(pipe, one, other) == [["a", "b"], ["c", "d"], ["e", "f"]]
    writer.join()
    three = write(tmp_path / "3", "x\ny\nz\n")
    parts = [Side((Part(first), Part(second))) for first, second in ((one, three), (three, one))]
    with pytest.raises(UserError, match=r"1 has 2 lines but \S*3 has 3"):
        read_texts(*parts)
    with pytest.raises(UserError, match="are empty"):
        read_texts(write(tmp_path / "4", ""), write(tmp_path / "5", ""))


def test_the_first_blank_line_is_told(tmp_path: Path) -> None:
    """Fault: the place where the sides parted ways is not named, or is the other side's."""
    source, target = write(tmp_path / "a", "1\n\n3\n\n5\n"), write(tmp_path / "b", "1\n\n3\n4\n")
    with pytest.raises(UserError, match=r"alone from line 5; the first blank line against text is \S*a, line 4$"):
        list(read_pairs(source, target))


def test_pairs_keep_blank_lines(tmp_path: Path) -> None:
    """Would catch blank lines skipped on one side, and a last line lost for want of its line feed."""
    source, target = write(tmp_path / "a", "a\n\nc"), write(tmp_path / "b", "\nB\n\n")
    assert list(read_pairs(source, target)) == [("a", ""), ("", "B"), ("c", "")]


def test_two_empty_files_are_refused(tmp_path: Path) -> None:
    """Would catch training on nothing."""
    with pytest.raises(UserError, match="are empty"):
        list(read_pairs(write(tmp_path / "a", ""), write(tmp_path / "b", "")))
