"""Files that torch.save wrote, old or new, read without torch.load: plain data and tensors, nothing executed.

Two formats: the zip archive of today, and the run of pickles followed by raw storages of PyTorch before 1.6. Storages
that lay on a GPU come to CPU memory. Only tensors that are asked for are read.
"""

from __future__ import annotations

import io
import math
import mmap
import struct
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from convs2s.errors import UserError
from convs2s.interop.plain_pickle import Constructor, Name, read_pickle

STACKED_MAGIC = 0x1950A86A20F9469CFC6C
STACKED_VERSION = 1001
DTYPES = {
    "DoubleStorage": torch.float64,
    "FloatStorage": torch.float32,
    "HalfStorage": torch.float16,
    "BFloat16Storage": torch.bfloat16,
    "LongStorage": torch.int64,
    "IntStorage": torch.int32,
    "ShortStorage": torch.int16,
    "CharStorage": torch.int8,
    "ByteStorage": torch.uint8,
    "BoolStorage": torch.bool,
}
STORAGES = {Name(module, kind): dtype for kind, dtype in DTYPES.items() for module in ("torch", "torch.cuda")}


class Storage(NamedTuple):
    """A run of numbers in the file, or a part of it."""

    key: str
    dtype: torch.dtype
    start: int  # elements before the part
    length: int  # elements of the part


class StoredTensor(NamedTuple):
    """Where a tensor is and how it lies there; ``TorchFile.tensor`` reads it."""

    storage: Storage
    offset: int
    size: tuple[int, ...]
    stride: tuple[int, ...]


class TorchFile:
    """``content``: what was saved, as dicts, lists and plain values, with ``StoredTensor`` for tensors."""

    def __init__(self, path: str | Path) -> None:
        """Raises UserError for a file that is missing, damaged, or would run code."""
        self.path = Path(path)
        self.spans: dict[str, tuple[int, int]] = {}  # storage key -> first byte and number of bytes
        try:
            with open(self.path, "rb") as file:
                self.bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except OSError as error:
            raise UserError(f"model={path}: {error.strerror}; give the file that training wrote") from error
        except ValueError as error:  # nothing to map
            raise UserError(f"{path}: the file is empty") from error
        try:
            self.content = self._read_zip() if self.bytes[:4] == b"PK\x03\x04" else self._read_stacked()
        except UserError as error:
            raise UserError(f"{path}: {error}") from None
        except Exception as error:  # damage can provoke any
            raise UserError(f"{path}: not a file that torch.save wrote, or damaged ({describe(error)})") from error

    def tensor(self, stored: Any) -> Tensor:
        """A tensor of the file, contiguous and in memory of its own. UserError where it reaches beyond its data."""
        if not isinstance(stored, StoredTensor):
            raise UserError(f"{self.path}: something else stands where a tensor should")
        storage, offset, size, stride = stored
        if storage.key not in self.spans:
            raise UserError(f"{self.path}: damaged: the data of a tensor is missing")
        first, length = self.spans[storage.key]
        last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
        numbers = math.prod(size)
        if min((*size, *stride, offset, storage.start, storage.length), default=0) < 0 or (
            numbers and (last >= storage.length or numbers > storage.length)
        ):
            raise UserError(f"{self.path}: damaged: a tensor of size {size} is larger than its data")
        if (storage.start + storage.length) * storage.dtype.itemsize > length:
            raise UserError(f"{self.path}: damaged: a storage is shorter than the file says")
        if not numbers:
            return torch.empty(size, dtype=storage.dtype)
        begin = first + (storage.start + offset) * storage.dtype.itemsize
        data = bytearray(memoryview(self.bytes)[begin : begin + (last - offset + 1) * storage.dtype.itemsize])
        return torch.frombuffer(data, dtype=storage.dtype).as_strided(size, stride).contiguous()

    def _read_zip(self) -> Any:
        with zipfile.ZipFile(io.BufferedReader(_Bytes(self.bytes))) as archive:
            entries = {entry.filename: entry for entry in archive.infolist()}
            root = next((name[: -len("data.pkl")] for name in entries if name.endswith("/data.pkl")), None)
            if root is None:
                raise ValueError("no data.pkl in it")
            for name, entry in entries.items():
                name_length, extra_length = struct.unpack_from("<HH", self.bytes, entry.header_offset + 26)
                first = entry.header_offset + 30 + name_length + extra_length
                if entry.compress_type != zipfile.ZIP_STORED or first + entry.file_size > len(self.bytes):
                    raise ValueError(f"its entry {name} is compressed or cut short")
                if zlib.crc32(memoryview(self.bytes)[first : first + entry.file_size]) != entry.CRC:
                    raise ValueError(f"its entry {name} is damaged: it does not have its checksum")
                self.spans[name.removeprefix(f"{root}data/")] = first, entry.file_size
            if (order := self.spans.get(f"{root}byteorder")) and self.bytes[order[0] : sum(order)] != b"little":
                raise UserError("it was written on a big-endian machine; save it again on a little-endian one")
            first, length = self.spans[f"{root}data.pkl"]
            data = io.BytesIO(self.bytes[first : first + length])
        return read_pickle(data, CONSTRUCTORS, stored)

    def _read_stacked(self) -> Any:
        self.bytes.seek(0)
        stream: Any = self.bytes
        if read_pickle(stream) != STACKED_MAGIC or read_pickle(stream) != STACKED_VERSION:
            raise ValueError("unknown format")
        if not read_pickle(stream)["little_endian"]:
            raise UserError("it was written on a big-endian machine; save it again on a little-endian one")
        sizes: dict[str, int] = {}

        def remember(reference: Any) -> Storage:
            storage = stored(reference)
            sizes[storage.key] = storage.dtype.itemsize
            return storage

        content = read_pickle(stream, CONSTRUCTORS, remember)
        for key in read_pickle(stream):
            (count,) = struct.unpack("<q", self.bytes.read(8))
            length = count * sizes[str(key)]  # old files have numbers for keys
            if not 0 <= length <= len(self.bytes) - self.bytes.tell():
                raise ValueError("a storage is cut short")
            self.spans[str(key)] = self.bytes.tell(), length
            self.bytes.seek(length, io.SEEK_CUR)
        return content


class _Bytes(io.RawIOBase):
    """A mapped file as the file object that zipfile wants."""

    def __init__(self, data: mmap.mmap) -> None:
        self.data = data
        self.at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self.at = max(0, offset + {io.SEEK_SET: 0, io.SEEK_CUR: self.at, io.SEEK_END: len(self.data)}[whence])
        return self.at

    def readinto(self, buffer: Any) -> int:
        piece = self.data[self.at : self.at + len(buffer)]
        buffer[: len(piece)] = piece
        self.at += len(piece)
        return len(piece)


def describe(error: Exception) -> str:
    """An error in one line."""
    if isinstance(error, LookupError):  # whose text is a bare key
        return "it refers to what is not there"
    return (str(error).splitlines() or [type(error).__name__])[0]


def stored(reference: Any) -> Storage:
    """The persistent reference ("storage", type, key, location, elements[, (view's key, first element, elements)])."""
    kind, storage_type, key, _, count, *rest = reference
    start = 0
    if rest and rest[0] is not None:
        _, start, count = rest[0]
    if kind != "storage" or storage_type not in STORAGES or not isinstance(start, int) or not isinstance(count, int):
        raise ValueError("a reference to what is no storage of a known type")
    return Storage(str(key), STORAGES[storage_type], start, count)


def rebuild_tensor(storage: Storage, offset: int, size: Sequence[int], stride: Sequence[int], *_: Any) -> StoredTensor:
    """torch._utils._rebuild_tensor and _rebuild_tensor_v2."""
    numbers = (offset, *size, *stride) if len(size) == len(stride) < 10 else ()
    if not isinstance(storage, Storage) or not numbers or not all(isinstance(n, int) and n < 2**60 for n in numbers):
        raise ValueError("a tensor without storage or shape")
    return StoredTensor(storage, offset, tuple(size), tuple(stride))


def rebuild_parameter(data: StoredTensor, *_: Any) -> StoredTensor:
    """torch._utils._rebuild_parameter."""
    return data


def no_call(*_: Any) -> None:
    """Stands in for classes that are named but never called."""
    raise ValueError("a storage type is called")


CONSTRUCTORS: dict[Name, Constructor] = {
    Name("torch._utils", "_rebuild_tensor"): rebuild_tensor,
    Name("torch._utils", "_rebuild_tensor_v2"): rebuild_tensor,
    Name("torch._utils", "_rebuild_parameter"): rebuild_parameter,
    Name("torch.nn.parameter", "Parameter"): rebuild_parameter,
    **dict.fromkeys(STORAGES, no_call),
}
