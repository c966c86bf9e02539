"""Lines of text and pairs of them: UTF-8 whatever the locale, and only "\\n" ends a line.

CR, U+2028, U+0085, form feeds and the like are text inside a line. A last line without "\\n" counts; a byte-order mark
at the start of a file is dropped. Every error names the file, and the line and byte where there is one.

Besides plain files: one column of a tab-separated or parquet file, and IWSLT's two forms (segments of .xml files, the
text of train.tags.* files).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from convs2s.data.opening import MEMBER, opened, plain_name
from convs2s.errors import UserError

BOM = b"\xef\xbb\xbf"
_BLOCK = 1 << 18  # bytes read at a time
_SEGMENT = re.compile(r'<seg id="[0-9]*">\s*(.*?)\s*(?:</seg>\s*)?$')
_TITLE = re.compile(r"</?(?:title|description)>")


class UndecodableError(UserError):
    """A line that is not UTF-8."""


@dataclass(frozen=True)
class Part:
    """A file, or a member of an archive, or a column of one that holds both sides."""

    path: Path
    member: str = ""  # inside an archive
    column: str = ""  # number (from 1) of a tab-separated file, name in a parquet file

    @property
    def name(self) -> str:
        """The file's name, without that of its compression."""
        return plain_name(Path(self.member).name if self.member else self.path.name)

    def __str__(self) -> str:
        name = f"{self.path}{MEMBER}{self.member}" if self.member else str(self.path)
        return f"{name} ({self.column})" if self.column else name


@dataclass(frozen=True)
class Side:
    """One language of a split: parts that are read one after another."""

    parts: tuple[Part, ...]

    @property
    def name(self) -> str:
        return self.parts[0].name

    def __str__(self) -> str:
        more = f" and {len(self.parts) - 1} more" if len(self.parts) > 1 else ""
        return f"{self.parts[0]}{more}"

    def place(self, line: int) -> tuple[str, int]:
        """The part and the line in it of line ``line``, counted from 1 over all parts. Reads the parts before it."""
        for part in self.parts[:-1]:
            count = sum(1 for _ in _part_lines(part, skip=True))
            if line <= count:
                return str(part), line
            line -= count
        return str(self.parts[-1]), line


Text = str | Path | Side


def read_lines(text: Text) -> Iterator[str]:
    """The lines of a text, without "\\n".

    Raises UserError for a file that cannot be read or is damaged, bytes that are not UTF-8.
    """
    for line in _lines(text, skip=False):
        assert line is not None
        yield line


def read_pairs(source: Text, target: Text) -> Iterator[tuple[str, str]]:
    """Line n of one text with line n of the other.

    Raises as ``read_lines``, and UserError with both counts when they differ (at the end), and for empty texts.
    """
    for first, second in read_all_pairs(source, target, skip=False):
        assert first is not None
        assert second is not None
        yield first, second


def read_texts(first: Text, *others: Text) -> list[list[str]]:
    """The lines of texts of one length, each read once: a pipe is as good as a file. Raises as ``read_pairs``."""
    sides = [_as_side(text) for text in (first, *others)]
    texts: list[list[str]] = [[] for _ in sides]
    for parts in zip(*(side.parts for side in sides), strict=True):
        for part, text in zip(parts, texts, strict=True):
            before = len(text)
            text += read_lines(Side((part,)))
            count, expected = len(text) - before, len(texts[0]) - before
            if count != expected:
                raise _unequal((parts[0], part), (expected, count))
    if not texts[0]:
        raise UserError(f"{' and '.join(map(str, (first, *others)))} are empty")
    return texts


def read_all_pairs(source: Text, target: Text, skip: bool) -> Iterator[tuple[str | None, str | None]]:
    """As ``read_pairs``; with ``skip`` a line that is not UTF-8 is None instead of an error."""
    first, second = _as_side(source), _as_side(target)
    total = 0
    for parts in zip(first.parts, second.parts, strict=True):  # part by part: an error names the right file
        lines = [_part_lines(part, skip) for part in parts]
        count = 0
        for one, other in zip_longest(*lines, fillvalue=_MISSING):
            if one == _MISSING or other == _MISSING:
                rest = 1 + sum(1 for _ in zip_longest(*lines))  # of the longer
                raise _unequal(parts, (count + rest * (one != _MISSING), count + rest * (other != _MISSING)))
            count += 1
            yield one, other
        total += count
    if total == 0:
        raise UserError(f"{source} and {target} are empty")


_MISSING = "\n"  # no line can be this


def _unequal(sides: tuple[Part, Part], counts: tuple[int, int]) -> UserError:
    """Both counts, and where both can be read once more, the first place where they may have parted ways."""
    blank = ""
    if all(part.path.is_file() for part in sides):  # a pipe is over
        pairs = zip(*(_part_lines(part, skip=True) for part in sides), strict=False)
        for number, pair in enumerate(pairs, start=1):
            if "" in pair and pair != ("", ""):
                blank = f"; the first blank line against text is {sides[pair.index('')]}, line {number}"
                break
    (source, target), longer = sides, sides[counts[1] > counts[0]]
    return UserError(
        f"{source} has {counts[0]:,} lines but {target} has {counts[1]:,}; line n of one must belong to line n of the"
        f" other: {longer} goes on alone from line {min(counts) + 1:,}{blank}"
    )


def _as_side(text: Text) -> Side:
    return text if isinstance(text, Side) else Side((Part(Path(text)),))


def _lines(text: Text, skip: bool) -> Iterator[str | None]:
    for part in _as_side(text).parts:
        yield from _part_lines(part, skip)


def _part_lines(part: Part, skip: bool) -> Iterator[str | None]:
    """The lines of one part; None for a line that is not UTF-8, if ``skip``."""
    if part.name.endswith(".parquet"):
        from convs2s.data.parquet import column_values

        return column_values(part)
    read = _decoded(part, skip)
    if part.column:
        return _column(read, part)
    if part.name.endswith(".xml"):
        return _chosen(read, _segment)
    if part.name.startswith("train.tags."):
        return _chosen(read, _tagged)
    return read


def _decoded(part: Part, skip: bool) -> Iterator[str | None]:
    number, rest = 0, b""  # lines so far, and the beginning of a line that the next block ends
    with opened(part.path, part.member) as file:
        while block := file.read(_BLOCK):
            block = rest + block
            whole = block.rfind(b"\n") + 1
            rest = block[whole:]
            if whole:
                lines = _decode(block[:whole], part, number, skip)
                yield from lines
                number += len(lines)
    if rest and not (number == 0 and rest == BOM):
        yield from _decode(rest + b"\n", part, number, skip)


def _decode(block: bytes, part: Part, number: int, skip: bool) -> list[str | None]:
    """The lines of whole lines; ``number`` of them came before."""
    if number == 0:
        block = block.removeprefix(BOM)
    try:
        return block.decode("utf-8").split("\n")[:-1]  # type: ignore[return-value]
    except UnicodeDecodeError:
        pass
    lines: list[str | None] = []
    for raw in block.split(b"\n")[:-1]:
        try:
            lines.append(decoded(raw, f"{part}, line {number + len(lines) + 1}"))
        except UndecodableError:
            if not skip:
                raise
            lines.append(None)
    return lines


def decoded(raw: bytes, place: str) -> str:
    """A line. Raises UndecodableError that names its ``place`` and the byte, counted from 1."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UndecodableError(
            f"{place}, byte {error.start + 1}: 0x{raw[error.start]:02x} is not UTF-8; convert the text, e.g. with"
            " iconv -f LATIN1 -t UTF-8"
        ) from None


def _column(lines: Iterable[str | None], part: Part) -> Iterator[str | None]:
    """One column of tab-separated lines."""
    wanted = int(part.column) - 1
    for number, line in enumerate(lines, start=1):
        columns = None if line is None else line.split("\t")
        if columns is not None and len(columns) < 2:
            raise UserError(f"{part.path}, line {number}: no tab, so no two columns; each line is SOURCE, tab, TARGET")
        yield None if columns is None else columns[wanted].rstrip("\r")


def _chosen(lines: Iterable[str | None], choose: Callable[[str], str | None]) -> Iterator[str | None]:
    """What ``choose`` makes of each line, without those of which it makes None; None stays None."""
    for line in lines:
        if line is None:
            yield None
        elif (chosen := choose(line)) is not None:
            yield chosen


def _segment(line: str) -> str | None:
    """The text of a <seg> of IWSLT's development and test files, as the authors' preparation reads it (’ -> ')."""
    match = _SEGMENT.search(line) if "<seg id" in line else None
    return None if match is None else match[1].replace("’", "'")


def _tagged(line: str) -> str | None:
    """A line of IWSLT's train.tags files, titles and descriptions included, as the authors' preparation reads it."""
    if any(tag in line for tag in ("<url>", "<talkid>", "<keywords>")):
        return None
    return _TITLE.sub("", line)
