"""The two encodings of Torch7 files, binary and ascii: numbers, bytes and arrays, read from a memory-mapped file.

Nothing here trusts the file: every length is compared with what is left of it before anything is read or allocated,
and whatever does not fit ends in a UserError that names the file and the byte offset.
"""

from __future__ import annotations

import mmap
import re
import struct
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from convs2s.errors import UserError

Array = NDArray[Any]

# Element types of storages by the middle of their class name; in files they are little-endian.
DTYPES: dict[str, np.dtype[Any]] = {
    "Byte": np.dtype("<u1"),
    "Char": np.dtype("<i1"),
    "Short": np.dtype("<i2"),
    "Int": np.dtype("<i4"),
    "Long": np.dtype("<i8"),
    "Half": np.dtype("<f2"),
    "Float": np.dtype("<f4"),
    "Double": np.dtype("<f8"),
}

_INT, _LONG, _DOUBLE = struct.Struct("<i"), struct.Struct("<q"), struct.Struct("<d")
_TEXT_CHUNK = 1 << 20  # bytes of ascii numbers parsed at a time
_TOKEN = re.compile(rb"[ \t\r\n]*([^ \t\r\n]{1,64})")
_INTEGER = re.compile(rb"[+-]?[0-9]+")
_REAL = re.compile(rb"[+-]?([0-9]+\.?[0-9]*([eE][+-]?[0-9]+)?|\.[0-9]+([eE][+-]?[0-9]+)?|inf|nan)")
_NUMBER_BYTES = b"0123456789+-.eEinfa \t\r\n"


class Encoding(ABC):
    """A position in a Torch7 file, and how to read what stands there."""

    def __init__(self, path: Path, data: mmap.mmap) -> None:
        self.path = path
        self.data = data
        self.size = len(data)
        self.position = 0

    def fail(self, problem: str, position: int | None = None) -> NoReturn:
        """Give up, naming the file and the offset."""
        where = self.position if position is None else position
        raise UserError(f"{self.path}: offset {where}: {problem}; copy or download the file again")

    @abstractmethod
    def integer(self) -> int:
        """A 32-bit integer: type marks, indices, counts."""

    @abstractmethod
    def long(self) -> int:
        """A 64-bit integer: sizes."""

    @abstractmethod
    def longs(self, count: int) -> list[int]:
        """``count`` 64-bit integers."""

    @abstractmethod
    def double(self) -> float:
        """A 64-bit floating-point number."""

    @abstractmethod
    def characters(self, count: int) -> bytes:
        """``count`` raw bytes, for strings; both encodings write them as they are."""

    @abstractmethod
    def array(self, dtype: np.dtype[Any], count: int) -> Array:
        """``count`` elements of a storage, read-only."""


class Binary(Encoding):
    """Little-endian fields without padding; storages are views of the mapped file, never copies."""

    def take(self, size: int, what: str) -> int:
        """Step over ``size`` bytes; returns where they start."""
        start = self.position
        if size > self.size - start:
            self.fail(f"the file ends in the middle of {what} ({size} bytes, {self.size - start} are left)")
        self.position += size
        return start

    def integer(self) -> int:
        return int(_INT.unpack_from(self.data, self.take(4, "an integer"))[0])

    def long(self) -> int:
        return int(_LONG.unpack_from(self.data, self.take(8, "an integer"))[0])

    def longs(self, count: int) -> list[int]:
        return list(struct.unpack_from(f"<{count}q", self.data, self.take(8 * count, "a tensor's sizes")))

    def double(self) -> float:
        return float(_DOUBLE.unpack_from(self.data, self.take(8, "a number"))[0])

    def characters(self, count: int) -> bytes:
        start = self.take(count, "a string")
        return self.data[start : start + count]

    def array(self, dtype: np.dtype[Any], count: int) -> Array:
        start = self.take(dtype.itemsize * count, "a storage")
        if count == 0:
            return np.empty(0, dtype)
        return np.frombuffer(self.data, dtype, count, start)


class Ascii(Encoding):
    """Numbers as text between white space; strings and one-byte storages are raw bytes, followed by a newline."""

    def token(self, form: re.Pattern[bytes], what: str) -> bytes:
        match = _TOKEN.match(self.data, self.position)
        if match is None:
            self.fail(f"the file ends where {what} should be")
        if form.fullmatch(match[1]) is None:
            self.fail(f"there is no {what} but {match[1][:20]!r}", match.start(1))
        self.position = match.end()
        self.newline()
        return match[1]

    def newline(self) -> None:
        """The line end that follows whatever was written at once."""
        if self.data[self.position : self.position + 1] == b"\n":
            self.position += 1

    def integer(self) -> int:
        return self.bounded(31)

    def long(self) -> int:
        return self.bounded(63)

    def bounded(self, bits: int) -> int:
        start = self.position
        value = int(self.token(_INTEGER, "integer"))
        if not -(1 << bits) <= value < 1 << bits:
            self.fail(f"the integer {value} has more than {bits + 1} bits", start)
        return value

    def longs(self, count: int) -> list[int]:
        return [self.long() for _ in range(count)]

    def double(self) -> float:
        return float(self.token(_REAL, "number"))

    def characters(self, count: int) -> bytes:
        start = self.position
        if count > self.size - start:
            self.fail(f"the file ends in the middle of a string ({count} bytes, {self.size - start} are left)")
        self.position += count
        if count:
            self.newline()
        return self.data[start : start + count]

    def array(self, dtype: np.dtype[Any], count: int) -> Array:
        start, left = self.position, self.size - self.position
        if dtype.itemsize == 1:
            found: Array = np.frombuffer(self.characters(count), dtype)
            return found
        if count > (left + 1) // 2:  # a digit and a space each
            self.fail(f"the file ends in the middle of a storage ({count} numbers, {left} bytes are left)")
        values = np.empty(count, dtype)
        done = 0
        while done < count:
            text = self.line_part()
            words = text.split()
            if not words:
                self.fail(f"the storage has {done} numbers instead of {count}", start)
            if done + len(words) > count:
                self.fail(f"the storage has more than {count} numbers", start)
            values[done : done + len(words)] = self.numbers(text, words, dtype)
            done += len(words)
            self.position += len(text)
        self.newline()
        values.flags.writeable = False
        return values

    def line_part(self) -> bytes:
        """Some of the current line: up to its end, or where that is far away up to a space."""
        chunk = self.data[self.position : self.position + _TEXT_CHUNK]
        end = chunk.find(b"\n")
        if end < 0 and len(chunk) == _TEXT_CHUNK:
            end = chunk.rfind(b" ")
        return chunk if end < 0 else chunk[:end] if chunk[end] == 10 else chunk[: end + 1]

    def numbers(self, text: bytes, words: list[bytes], dtype: np.dtype[Any]) -> Array:
        """Words as numbers; what is none is an error."""
        if text.translate(None, _NUMBER_BYTES):
            self.fail("a storage holds something else than numbers")
        try:
            if dtype.kind == "i":
                return np.array([int(word) for word in words], dtype)
            with np.errstate(over="ignore"):
                return np.array([float(word) for word in words], np.float64).astype(dtype)
        except (ValueError, OverflowError):
            self.fail("a storage holds something else than numbers")


def open_file(path: str | Path) -> Encoding:
    """Map a Torch7 file into memory and tell its encoding by its first record, whose type mark is 0 to 8.

    Raises UserError when the file cannot be read or is something else.
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            head = file.read(4)
            if len(head) < 2:
                raise UserError(f"{path}: offset 0: the file is empty or cut short; copy or download it again")
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"{path}: cannot be read ({reason}); give a file that torch.save wrote") from None
    if head[0] <= 8 and head[1:] == b"\0\0\0":
        return Binary(path, data)
    if b"0" <= head[:1] <= b"8" and head[1:2] in (b"\n", b" ", b"\r"):
        return Ascii(path, data)
    raise UserError(f"{path}: offset 0: not a Torch7 file; give one that torch.save wrote, e.g. model.th7")
