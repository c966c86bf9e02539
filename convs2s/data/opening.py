"""The bytes of a file: plain or compressed (.gz, .xz, .zst, told by the first bytes), or one member of an archive."""

from __future__ import annotations

import gzip
import io
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from convs2s.errors import UserError

SUFFIXES = (".gz", ".xz", ".zst")
MEMBER = "::"  # ARCHIVE::MEMBER names a file inside a .tar, .tgz or .zip
_KINDS = {b"\x1f\x8b": "gzip", b"\xfd7zXZ\x00": "xz", b"\x28\xb5\x2f\xfd": "zstd"}


def plain_name(name: str) -> str:
    """The name of a file without that of its compression: train.de.gz -> train.de."""
    return next((name.removesuffix(suffix) for suffix in SUFFIXES if name.endswith(suffix)), name)


@contextmanager
def opened(path: Path, member: str = "") -> Iterator[BinaryIO]:
    """The decompressed bytes of a file, or of one member of an archive, read by its name and never written to disk.

    Raises UserError for a file that cannot be read, a damaged one, an archive without that member.
    """
    name = f"{path}{MEMBER}{member}" if member else str(path)
    kind = "archive" if member else "file"
    try:
        with ExitStack() as stack:
            raw: BinaryIO = stack.enter_context(path.open("rb"))
            if member:
                raw = stack.enter_context(_member(path, raw, member))
            head = cast(io.BufferedReader, raw).peek(6)  # a pipe cannot be read twice
            kind = next((kind for magic, kind in _KINDS.items() if head.startswith(magic)), kind)
            yield _decompressed(raw, kind, name)
    except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile, tarfile.TarError, zipfile.BadZipFile) as error:
        reason = str(error).partition("\n")[0].rstrip(":")  # tarfile says more
        raise UserError(f"{name}: damaged {kind} file ({reason}); fetch or compress it again") from None
    except OSError as error:
        raise UserError(f"{name}: cannot be read ({error.strerror or error})") from None


def _decompressed(raw: BinaryIO, kind: str, name: str) -> BinaryIO:
    if kind == "gzip":
        return cast(BinaryIO, gzip.GzipFile(fileobj=raw))
    if kind == "xz":
        return cast(BinaryIO, lzma.LZMAFile(raw))
    if kind == "zstd":
        return cast(BinaryIO, io.BufferedReader(_Zstandard(raw, name), 1 << 18))
    return raw


class _Zstandard(io.RawIOBase):
    """Decompresses frame after frame. zstandard's own reader takes a file that is cut short for a whole one."""

    def __init__(self, raw: BinaryIO, name: str) -> None:
        try:
            import zstandard
        except ImportError:
            raise UserError(f"{name}: .zst files need zstandard: pip install -e '.[hub]'") from None
        self._raw, self._error = raw, zstandard.ZstdError
        self._new = zstandard.ZstdDecompressor().decompressobj
        self._frame = self._new()
        self._fed = False  # whether the frame has begun
        self._ready = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(cast(bytearray, buffer))
        while not self._ready:
            block = self._frame.unused_data if self._frame.eof else b""
            if self._frame.eof:
                self._frame, self._fed = self._new(), False
            block = block or self._raw.read(1 << 17)
            if not block:
                if self._fed:
                    raise EOFError("the compressed data ends too early")
                return 0
            self._fed = True
            try:
                self._ready = self._frame.decompress(block)
            except self._error as error:
                raise EOFError(str(error)) from None
        count = min(len(view), len(self._ready))
        view[:count], self._ready = self._ready[:count], self._ready[count:]
        return count


@contextmanager
def _member(path: Path, raw: BinaryIO, member: str) -> Iterator[BinaryIO]:
    """One member of a .zip or .tar archive, by its exact name."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(raw) as archive:
            names = archive.namelist()
            if member not in names:
                raise _no_member(path, member, names)
            try:
                file = archive.open(member)
            except RuntimeError as error:  # encrypted, or compressed in a way that zipfile does not know
                raise UserError(f"{path}{MEMBER}{member}: {error}; unpack it, and name the file itself") from None
            with file:
                yield cast(BinaryIO, file)
        return
    raw.seek(0)
    with tarfile.open(fileobj=raw, mode="r:*") as tar:
        found = next((info for info in tar if info.name.removeprefix("./") == member and info.isfile()), None)
        extracted = None if found is None else tar.extractfile(found)
        if extracted is None:
            raise _no_member(path, member, [info.name for info in tar if info.isfile()])
        yield cast(BinaryIO, extracted)


def _no_member(path: Path, member: str, names: list[str]) -> UserError:
    some = ", ".join(sorted(names)[:5]) + (", ..." if len(names) > 5 else "")
    return UserError(f"{path} has no member {member}; it holds {some or 'no files'}")
