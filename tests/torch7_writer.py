"""A writer of Torch7 files, binary and ascii, that knows nothing of the reader: for round trips and damaged samples.

It takes what the reader returns (Table, Object, Tensor, Storage, Function) and, for what that does not tell apart,
Vec and Hash (tds), Typed (a class name of its own, e.g. torch.CudaTensor) and Raw (bytes as they are).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from convs2s.interop.torch7 import BooleanKey, Function, Object, Storage, Table, Tensor

FORMATS = {"i1": "%d", "u1": "%d", "i2": "%d", "i4": "%d", "i8": "%d", "f2": "%.9g", "f4": "%.9g", "f8": "%.17g"}


@dataclass(eq=False)
class Vec:
    items: list[Any]


@dataclass(eq=False)
class Hash:
    entries: list[tuple[Any, Any]]


@dataclass(eq=False)
class Typed:
    """A tensor or storage under another class name."""

    kind: str
    value: Tensor | Storage
    version: str | None = "1"


@dataclass(eq=False)
class Code:
    """A function record of type 6, 7 or 8."""

    mark: int
    code: bytes
    upvalues: Any = None


@dataclass
class Writer:
    ascii: bool = False
    cuda: bool = False  # class names as a GPU machine writes them
    double: bool = False  # float storages as double
    out: bytearray = field(default_factory=bytearray)
    indices: dict[int, int] = field(default_factory=dict)
    alive: list[Any] = field(default_factory=list)  # so that ids stay unique

    def integer(self, value: int) -> None:
        self.out += f"{value}\n".encode() if self.ascii else struct.pack("<i", value)

    def longs(self, *values: int) -> None:
        if values:
            self.out += (
                (" ".join(map(str, values)) + "\n").encode() if self.ascii else struct.pack(f"<{len(values)}q", *values)
            )

    def double_(self, value: float) -> None:
        self.out += f"{value:.17g}\n".encode() if self.ascii else struct.pack("<d", value)

    def string(self, text: str | bytes) -> None:
        raw = text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape")
        self.integer(len(raw))
        self.raw(raw)

    def raw(self, data: bytes) -> None:
        self.out += data + (b"\n" if self.ascii and data else b"")

    def array(self, array: np.ndarray) -> None:
        if self.ascii and array.dtype.itemsize > 1:
            if len(array):
                form = FORMATS[array.dtype.str[1:]]
                self.out += (" ".join(form % item for item in array.tolist()) + "\n").encode()
        else:
            self.raw(array.tobytes())

    def write(self, value: Any) -> bytes:
        """Write one object, everything inside it included, without recursion."""
        stack: list[Any] = [self.steps(value)]
        while stack:
            try:
                stack.append(self.steps(next(stack[-1])))
            except StopIteration:
                stack.pop()
        return bytes(self.out)

    def steps(self, value: Any) -> Any:
        if isinstance(value, BooleanKey):
            value = value.value
        if value is None:
            self.integer(0)
        elif isinstance(value, bool):
            self.integer(5)
            self.integer(int(value))
        elif isinstance(value, (int, float)):
            self.integer(1)
            self.double_(float(value))
        elif isinstance(value, (str, bytes)):
            self.integer(2)
            self.string(value)
        elif isinstance(value, Code) and value.mark == 6:
            self.integer(6)
            self.string(value.code)
            yield value.upvalues
        else:
            yield from self.indexed(value)

    def indexed(self, value: Any) -> Any:
        self.integer({Table: 3, Function: 8, Code: getattr(value, "mark", 0)}.get(type(value), 4))
        if id(value) in self.indices:
            self.integer(self.indices[id(value)])
            return
        self.alive.append(value)
        self.integer(self.indices.setdefault(id(value), len(self.indices) + 1))
        if isinstance(value, Table):
            self.integer(len(value.entries))
            for key, item in value.entries.items():
                yield key
                yield item
        elif isinstance(value, Code):
            self.string(value.code)
            yield value.upvalues
        elif isinstance(value, Function):
            self.string(b"\x1bLJ code")
            yield value.upvalues
        elif isinstance(value, Vec):
            self.head("tds.Vec", "0")
            self.longs(len(value.items))
            yield from value.items
        elif isinstance(value, Hash):
            self.head("tds.Hash", "0")
            self.longs(len(value.entries))
            for key, item in value.entries:
                yield key
                yield item
        elif isinstance(value, Object):
            self.head(value.kind, value.version)
            yield value.content
        else:
            typed = value if isinstance(value, Typed) else Typed(self.kind(value.kind), value)
            self.head(typed.kind, typed.version)
            inner = typed.value
            if isinstance(inner, Storage):
                array = inner.array.astype(np.float64) if self.doubled(inner.kind) else inner.array
                self.longs(len(array))
                self.array(array)
            else:
                yield from self.tensor(inner)

    def tensor(self, tensor: Tensor) -> Any:
        array, storage = tensor.array, tensor.storage
        sizes = () if array.size == 0 else array.shape
        self.integer(len(sizes))
        item = array.dtype.itemsize
        self.longs(*sizes)
        self.longs(*(stride // item for stride in array.strides[: len(sizes)]))
        start = 0 if storage is None or array.size == 0 else address(array) - address(storage.array)
        self.longs(start // item + 1)
        yield storage

    def head(self, kind: str, version: str | None) -> None:
        if version is not None:
            self.string(f"V {version}")
        self.string(kind)

    def doubled(self, kind: str) -> bool:
        return self.double and "Float" in kind

    def kind(self, kind: str) -> str:
        if self.doubled(kind):
            kind = kind.replace("Float", "Double")
        if self.cuda:
            return kind.replace("torch.", "torch.Cuda").replace("CudaFloat", "Cuda")
        return kind


def address(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])


def dump(value: Any, **options: bool) -> bytes:
    """The bytes of a Torch7 file that holds ``value``."""
    return Writer(**options).write(value)
