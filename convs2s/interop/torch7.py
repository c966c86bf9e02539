"""A safe reader of Torch7 files (Lua ``torch.save``), binary and ascii: nothing in the file is ever executed.

Lua values become Python's: nil None, numbers float, booleans bool, strings str (bytes that are not UTF-8 as surrogate
escapes, so nothing is lost), tables ``Table``, functions ``Function`` (skipped), tensors ``Tensor``, storages
``Storage``, every other torch object ``Object``. An object that is referred to twice is one object here too, and
tensors that share a storage share its memory. Arrays of a binary file are views of the memory-mapped file, so a
model of several gigabytes is opened at once and read where it is used.

The format, from torch7's File.lua: each value is a type mark and its content. Tables, functions and torch objects
carry an index; where an index comes up again, nothing follows it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from convs2s.interop.torch7_encoding import DTYPES, Array, Encoding, open_file

NIL, NUMBER, STRING, TABLE, TORCH, BOOLEAN, FUNCTION, LEGACY_FUNCTION, RECURSIVE_FUNCTION = range(9)

MAX_DEPTH = 10_000  # nested values; Lua's own stack ends earlier
MAX_VALUES = 30_000_000  # values a file may hold: bounds memory, some 200 bytes each
MAX_DIMENSIONS = 32  # numpy's limit before version 2
MAX_EXPANDED = 1 << 28  # elements that a tensor may have beyond its storage's (dimensions with stride 0)


class BooleanKey(NamedTuple):
    """A boolean as the key of a table, where Python takes True for 1."""

    value: bool


@dataclass(eq=False, slots=True)
class Table:
    """A Lua table or tds hash; equal to nothing but itself, so that it can be a key."""

    entries: dict[Any, Any] = field(default_factory=dict, repr=False)  # contents may be endless: not shown

    def get(self, key: Any) -> Any:
        """The value of a key, None where there is none, as in Lua."""
        return self.entries.get(key)

    def sequence(self) -> Iterator[Any]:
        """The values of the keys 1, 2, 3 … up to the first that is missing."""
        for value in range(1, len(self.entries) + 1):
            if value not in self.entries:
                return
            yield self.entries[value]


@dataclass(eq=False, slots=True)
class Object:
    """A torch object of any class but tensors and storages: its class name, version and content (usually a Table)."""

    kind: str
    version: str
    content: Any = field(default=None, repr=False)

    def get(self, key: Any) -> Any:
        """A field of the object, None where there is none."""
        return self.content.get(key) if isinstance(self.content, Table) else None


@dataclass(eq=False, slots=True)
class Storage:
    """``array``: (N,) read-only."""

    kind: str
    array: Array


@dataclass(eq=False, slots=True)
class Tensor:
    """``array``: a read-only view of the storage with the tensor's sizes and strides; (0,) for an empty tensor."""

    kind: str
    array: Array
    storage: Storage | None


@dataclass(eq=False, slots=True)
class Function:
    """A Lua function that the file holds; its byte code was skipped."""

    upvalues: Any = field(default=None, repr=False)


def load(path: str | Path) -> Any:
    """Read a Torch7 file.

    Raises UserError, naming the file and the byte offset, for what is not a Torch7 file, is damaged or cut short, or
    nests or holds more than MAX_DEPTH or MAX_VALUES values. Memory is at most a constant multiple of the file's size.
    """
    return _Reader(open_file(path)).read()


Steps = Generator["Steps", Any, Any]  # yields the reading of a nested value, is sent that value, returns its own


class _Reader:
    def __init__(self, file: Encoding) -> None:
        self.file = file
        self.objects: dict[int, Any] = {}  # by the index that the file gives them
        self.values = 0

    def read(self) -> Any:
        """Run the nested readings on a stack of our own, so that depth is a number and not Python's recursion."""
        stack: list[Steps] = [self.value()]
        result = None
        while stack:
            try:
                nested = stack[-1].send(result)
            except StopIteration as finished:
                stack.pop()
                result = finished.value
            else:
                if len(stack) >= MAX_DEPTH:
                    self.file.fail(f"more than {MAX_DEPTH:,} values lie inside each other")
                stack.append(nested)
                result = None
        return result

    def value(self) -> Steps:
        file = self.file
        self.values += 1
        if self.values > MAX_VALUES:
            file.fail(f"the file holds more than {MAX_VALUES:,} values")
        start = file.position
        mark = file.integer()
        if mark == NIL:
            return None
        if mark == NUMBER:
            return file.double()
        if mark == BOOLEAN:
            return self.boolean()
        if mark == STRING:
            return self.string()
        if mark == FUNCTION:
            return (yield self.function(Function()))
        if not NIL <= mark <= RECURSIVE_FUNCTION:
            file.fail(f"there is no type {mark}", start)
        index = file.integer()
        if index in self.objects:
            return self.objects[index]
        if mark == TABLE:
            table = self.objects[index] = Table()
            return (yield self.entries(table, self.count(file.integer(), 8)))
        if mark == TORCH:
            return (yield self.torch_object(index))
        function = self.objects[index] = Function()
        return (yield self.function(function))

    def boolean(self) -> bool:
        start = self.file.position
        value = self.file.integer()
        if value not in (0, 1):
            self.file.fail(f"a boolean is {value}", start)
        return value == 1

    def raw_string(self) -> bytes:
        return self.file.characters(self.count(self.file.integer(), 1))

    def string(self) -> str:
        return self.raw_string().decode("utf-8", "surrogateescape")

    def count(self, count: int, least: int) -> int:
        """A count of items that take at least ``least`` bytes each in the binary encoding, or half that in ascii."""
        left = self.file.size - self.file.position
        if not 0 <= count * max(1, least // 2) <= left:
            self.file.fail(f"a count of {count} items, where {left} bytes are left")
        return count

    def function(self, function: Function) -> Steps:
        self.raw_string()
        function.upvalues = yield self.value()
        return function

    def entries(self, table: Table, count: int) -> Steps:
        for _ in range(count):
            start = self.file.position
            key = yield self.value()
            value = yield self.value()
            if key is None or key != key:
                self.file.fail(f"a table's key is {'nil' if key is None else 'not a number'}", start)
            if value is not None:
                table.entries[BooleanKey(key) if isinstance(key, bool) else key] = value
        return table

    def torch_object(self, index: int) -> Steps:
        kind, version = self.string(), "0"
        if kind.startswith("V "):
            version, kind = kind[2:], self.string()
        family, _, name = kind.partition(".")
        if family == "torch" and name.endswith(("Tensor", "Storage")):
            element = name.removesuffix("Tensor").removesuffix("Storage").removeprefix("Cuda") or "Float"
            if element in DTYPES:
                if name.endswith("Storage"):
                    self.objects[index] = self.storage(element)
                    return self.objects[index]
                return (yield self.tensor(element, index))
        if kind.lower() in ("tds.hash", "tds_hash", "tds.vec", "tds_vec"):
            table = self.objects[index] = Table()
            hashed = kind.lower().endswith("hash")
            size = self.count(self.file.long(), 8 if hashed else 4)
            return (yield self.entries(table, size) if hashed else self.vector(table, size))
        found = self.objects[index] = Object(kind, version)
        found.content = yield self.value()
        return found

    def vector(self, table: Table, count: int) -> Steps:
        for number in range(1, count + 1):
            value = yield self.value()
            if value is not None:
                table.entries[float(number)] = value
        return table

    def storage(self, element: str) -> Storage:
        start = self.file.position
        size = self.file.long()
        if not 0 <= size <= self.file.size:
            self.file.fail(f"a storage of {size} elements, in a file of {self.file.size} bytes", start)
        return Storage(f"torch.{element}Storage", self.file.array(DTYPES[element], size))

    def tensor(self, element: str, index: int) -> Steps:
        file, start = self.file, self.file.position
        dimensions = file.integer()
        if not 0 <= dimensions <= MAX_DIMENSIONS:
            file.fail(f"a tensor with {dimensions} dimensions", start)
        sizes, strides = file.longs(dimensions), file.longs(dimensions)
        offset = file.long() - 1
        tensor = Tensor(f"torch.{element}Tensor", np.empty(0, DTYPES[element]), None)
        self.objects[index] = tensor
        storage = yield self.value()
        if isinstance(storage, Storage) and storage.kind == f"torch.{element}Storage":
            tensor.array, tensor.storage = self.view(storage.array, sizes, strides, offset, start), storage
        elif storage is not None or 0 not in (sizes or [0]):
            file.fail(f"a torch.{element}Tensor without a torch.{element}Storage", start)
        return tensor

    def view(self, array: Array, sizes: list[int], strides: list[int], offset: int, start: int) -> Array:
        """The part of a storage that a tensor shows."""
        if not sizes:
            return array[:0]
        if min(sizes) < 0 or min(strides) < 0 or offset < 0:
            self.file.fail(f"a tensor with sizes {sizes}, strides {strides}, offset {offset + 1}", start)
        if 0 in sizes:
            return array[:0]
        last = offset + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
        if last >= len(array):
            self.file.fail(f"a tensor reaches element {last + 1} of a storage of {len(array)}", start)
        if prod(sizes) > len(array) + MAX_EXPANDED:
            self.file.fail(f"a tensor with sizes {sizes} over a storage of {len(array)} elements", start)
        steps = [min(stride, len(array)) * array.dtype.itemsize for stride in strides]  # large ones have size 1
        return np.lib.stride_tricks.as_strided(array[offset:], sizes, steps, writeable=False)
