"""Text in from a file or standard input, text out to a file or standard output: UTF-8 whatever the locale."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from convs2s.data.lines import BOM, decoded, read_lines
from convs2s.errors import UserError
from convs2s.files import atomic, check_place
from convs2s.search.translate import blocks

PATIENCE = 0.02  # seconds that a pipe with something in it may take to deliver more


def read_input(path: str) -> Iterator[str]:
    """The lines of a file, plain or compressed, or of standard input ("-"), without "\\n".

    Raises UserError for what cannot be read or is not UTF-8, with line and byte.
    """
    return read_stdin() if path == "-" else read_lines(named(path))


def named(path: str) -> str:
    """The path, or a UserError for an empty one: a variable of the shell that was not set."""
    if not path:
        raise UserError("input= is empty: give a file, or - for standard input")
    return path


def read_stdin() -> Iterator[str]:
    """The lines of standard input as they come."""
    for number, raw in enumerate(sys.stdin.buffer, start=1):
        yield decode(raw.removesuffix(b"\n"), number)


def read_blocks(path: str, chunk: int) -> Iterator[list[str]]:
    """The same lines, at most ``chunk`` together. Of standard input, what is there: nobody waits for a full chunk."""
    return stdin_blocks(chunk) if path == "-" else blocks(read_lines(named(path)), chunk)


def stdin_blocks(chunk: int) -> Iterator[list[str]]:
    """Lines of standard input, as many as have arrived. A line counts when its end has come."""
    try:
        descriptor = sys.stdin.fileno()
    except (OSError, ValueError, AttributeError):  # not a real file
        yield from blocks(read_stdin(), chunk)
        return
    number, rest, ended = 0, b"", False
    while not ended:
        lines: list[str] = []
        while not ended and len(lines) < chunk:
            if lines and not select.select([descriptor], [], [], PATIENCE)[0]:
                break
            data = os.read(descriptor, 1 << 16)
            ended = not data
            *whole, rest = (rest + data).split(b"\n")
            if ended and rest:
                whole.append(rest)
            for raw in whole:
                number += 1
                lines.append(decode(raw, number))
        yield from blocks(lines, chunk)


def decode(raw: bytes, number: int) -> str:
    """A line of standard input."""
    return decoded(raw.removeprefix(BOM) if number == 1 else raw, f"standard input, line {number}")


@contextmanager
def open_output(path: str, option: str = "output") -> Iterator[Callable[[str], None]]:
    """A function that writes a line to a file or to standard output ("-").

    A file appears when all is written, or not at all; what was there before is intact until then. Lines for standard
    output leave at once; BrokenPipeError when its reader has gone (``convs2s.cli`` then ends without a word).
    Raises UserError that names the ``option``, before anything is written, for a place that cannot be written.
    """
    if path == "-":
        yield write_stdout
        return
    check_place(path, option)
    with atomic(Path(path)) as file:
        yield lambda line: print(line, file=file)


def write_stdout(line: str) -> None:
    """A line for standard output, which leaves at once."""
    sys.stdout.buffer.write(line.encode("utf-8") + b"\n")
    sys.stdout.buffer.flush()
