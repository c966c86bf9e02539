"""Lines of text files: UTF-8 whatever the locale, plain or gzip, and only "\\n" ends a line.

CR, U+2028, U+0085, form feeds and the like are text inside a line. A last line without "\\n" counts; a byte-order mark
at the start of a file is dropped. Every error names the file, and the line and byte where there is one.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import BinaryIO, cast

from convs2s.errors import UserError

_BOM = b"\xef\xbb\xbf"
_GZIP = b"\x1f\x8b"


def read_lines(path: str | Path) -> Iterator[str]:
    """The lines of a file, without "\\n". Gzip is told by the file's first bytes, not by its name.

    Errors: UserError for a file that cannot be read, a damaged gzip file, bytes that are not UTF-8.
    """
    with _open(Path(path)) as file:
        for number, raw in enumerate(file, start=1):
            if number == 1 and raw.startswith(_BOM):
                raw = raw[len(_BOM) :]
                if not raw:
                    return
            try:
                line = raw.decode("utf-8")
            except UnicodeDecodeError as error:
                raise UserError(
                    f"{path}, line {number}, byte {error.start + 1}: 0x{raw[error.start]:02x} is not UTF-8;"
                    " convert the file, e.g. with iconv -f LATIN1 -t UTF-8"
                ) from None
            yield line[:-1] if line.endswith("\n") else line


def read_pairs(source: str | Path, target: str | Path) -> Iterator[tuple[str, str]]:
    """Line n of one file with line n of the other.

    Errors: those of ``read_lines``; UserError with both counts when they differ (at the end), and for two empty files.
    """
    counts = [0, 0]
    for first, second in zip_longest(read_lines(source), read_lines(target)):
        counts[0] += first is not None
        counts[1] += second is not None
        if first is not None and second is not None:
            yield first, second
    if counts[0] != counts[1]:
        raise UserError(
            f"{source} has {counts[0]:,} lines but {target} has {counts[1]:,};"
            " line n of one must belong to line n of the other"
        )
    if counts[0] == 0:
        raise UserError(f"{source} and {target} are empty")


@contextmanager
def _open(path: Path) -> Iterator[BinaryIO]:
    """The decompressed bytes, with the errors of opening and reading made readable."""
    try:
        with path.open("rb") as file:
            compressed = file.read(2) == _GZIP
            file.seek(0)
            yield cast(BinaryIO, gzip.GzipFile(fileobj=file)) if compressed else file
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise UserError(f"{path}: damaged gzip file ({error}); fetch or compress it again") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror or error})") from None
