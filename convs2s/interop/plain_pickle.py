"""The data in a pickle, read without running it.

A pickle is a program for a stack machine that may import and call anything. This interpreter knows the instructions
but has nothing to call: a name stays a ``Name``, an object of a known class becomes a dict, and an object of any class
that is not on the short list below is refused. Time and memory are bounded by the pickle's own length.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any, NamedTuple

from convs2s.errors import UserError


class Name(NamedTuple):
    """Something a pickle would import."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


class Attributes(dict[str, Any]):
    """An object as the dict of its attributes."""


class Opaque:
    """An object that nobody needs to look into: its class, what it was made from, its attributes."""

    def __init__(self, kind: Name, arguments: tuple[Any, ...]) -> None:
        self.kind = kind
        self.arguments = arguments
        self.state: Any = None


Constructor = Callable[..., Any]

BUILTINS = ("builtins", "__builtin__")  # Python 3, Python 2
# Logs, meters and settings of the program itself and of the libraries it kept its settings in.
OPAQUE_PACKAGES = ("fairseq.", "omegaconf.", "torch.optim.")
OPAQUE = {
    *(Name(module, kind) for module in BUILTINS for kind in ("int", "float", "str", "bool", "object")),
    *(Name(f"numpy.{core}.multiarray", kind) for core in ("core", "_core") for kind in ("scalar", "_reconstruct")),
    Name("numpy", "dtype"),
    Name("numpy", "ndarray"),
    Name("_codecs", "encode"),
    Name("typing", "Any"),
    Name("torch", "Size"),
    Name("torch", "device"),
    Name("pathlib", "PosixPath"),
}
REBUILD = {Name("copyreg", "_reconstructor"), Name("copy_reg", "_reconstructor")}
SEQUENCES = {
    *(Name(module, kind) for module in BUILTINS for kind in ("list", "tuple", "set")),
    Name("collections", "deque"),
}
DICTS = {
    Name("collections", "OrderedDict"),
    Name("collections", "defaultdict"),
    Name("collections", "Counter"),
    Name("builtins", "dict"),
    Name("__builtin__", "dict"),
}
NAMESPACES = {Name("argparse", "Namespace")}

CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
LITERALS = {
    *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
    *("UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "STRING", "BINSTRING", "SHORT_BINSTRING"),
    *("BINBYTES", "SHORT_BINBYTES", "BINBYTES8"),
}
TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
MARK = object()
MOST_COPIED = 10_000_000  # items; a short pickle can ask for endless copies of one long list


def read_pickle(
    stream: IO[bytes],
    constructors: Mapping[Name, Constructor] | None = None,
    persistent: Callable[[Any], Any] | None = None,
) -> Any:
    """The object of the pickle that starts at the stream's position, which is then just behind it.

    constructors: what to call, with the pickle's arguments, for objects of further classes; persistent: what to call
    for references to data outside the pickle. Sets become lists; items whose key is no plain value are dropped.
    Raises UserError for names that are not known, and whatever damaged data provokes: ValueError, KeyError, IndexError,
    TypeError, AttributeError.
    """
    machine = Machine(constructors or {}, persistent)
    for opcode, argument, _ in pickletools.genops(stream):
        machine.run(opcode.name, argument)
    if len(machine.stack) != 1:
        raise ValueError("a pickle holds one object")
    return machine.stack[0]


class Machine:
    """The stack machine of one pickle."""

    def __init__(self, constructors: Mapping[Name, Constructor], persistent: Callable[[Any], Any] | None) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self.constructors = constructors
        self.persistent = persistent
        self.copied = 0

    def run(self, name: str, argument: Any) -> None:
        """One instruction."""
        stack = self.stack
        if name in LITERALS:
            stack.append(argument)
        elif name in CONSTANTS:
            stack.append(CONSTANTS[name])
        elif name in ("BINPUT", "LONG_BINPUT", "PUT", "MEMOIZE"):
            self.memo[len(self.memo) if name == "MEMOIZE" else argument] = stack[-1]
        elif name in ("BINGET", "LONG_BINGET", "GET"):
            stack.append(self.memo[argument])
        elif name == "MARK":
            stack.append(MARK)
        elif name in TUPLES:
            stack[-TUPLES[name] :] = [tuple(stack[-TUPLES[name] :])]
        elif name == "TUPLE":
            stack.append(tuple(self.marked()))
        elif name in ("LIST", "FROZENSET"):
            stack.append(self.marked())
        elif name == "EMPTY_TUPLE":
            stack.append(())
        elif name in ("EMPTY_LIST", "EMPTY_SET"):
            stack.append([])
        elif name == "EMPTY_DICT":
            stack.append({})
        elif name == "DICT":
            items = self.marked()
            stack.append({})
            self.set_items(stack[-1], items)
        elif name in ("APPEND", "APPENDS", "ADDITEMS"):
            items = [stack.pop()] if name == "APPEND" else self.marked()
            if isinstance(stack[-1], list):
                stack[-1].extend(items)
        elif name in ("SETITEM", "SETITEMS"):
            items = [stack.pop(), stack.pop()][::-1] if name == "SETITEM" else self.marked()
            self.set_items(stack[-1], items)
        elif name == "POP":
            stack.pop()
        elif name == "POP_MARK":
            self.marked()
        elif name == "DUP":
            stack.append(stack[-1])
        elif name not in ("PROTO", "FRAME", "STOP"):
            self.run_object(name, argument)

    def run_object(self, name: str, argument: Any) -> None:
        """The instructions that name, make and fill objects."""
        stack = self.stack
        if name == "GLOBAL":
            stack.append(self.name(*argument.split(" ", 1)))
        elif name == "STACK_GLOBAL":
            kind = stack.pop()
            stack.append(self.name(stack.pop(), kind))
        elif name == "INST":
            stack.append(self.make(self.name(*argument.split(" ", 1)), self.marked()))
        elif name == "OBJ":
            kind, *arguments = self.marked()
            stack.append(self.make(kind, arguments))
        elif name in ("REDUCE", "NEWOBJ"):
            arguments = stack.pop()
            stack.append(self.make(stack.pop(), arguments))
        elif name == "NEWOBJ_EX":
            stack.pop()
            arguments = stack.pop()
            stack.append(self.make(stack.pop(), arguments))
        elif name == "BUILD":
            state = stack.pop()
            if isinstance(stack[-1], Attributes) and isinstance(state, dict):
                self.charge(state)
                stack[-1].update(state)
            elif isinstance(stack[-1], Opaque):
                stack[-1].state = state
        elif name in ("BINPERSID", "PERSID") and self.persistent is not None:
            stack.append(self.persistent(stack.pop() if name == "BINPERSID" else argument))
        else:
            raise ValueError(f"instruction {name} has no place in such a file")

    def marked(self) -> list[Any]:
        """Take what lies above the last mark, and the mark."""
        items = []
        while (item := self.stack.pop()) is not MARK:
            items.append(item)
        return items[::-1]

    def set_items(self, target: Any, items: list[Any]) -> None:
        if isinstance(target, dict):
            for key, value in zip(items[::2], items[1::2], strict=True):
                if key is None or isinstance(key, (str, bytes, int, float)):
                    target[key] = value

    def name(self, module: str, name: str) -> Name:
        """A name that may stand in such a file."""
        found = Name(module, name)
        known = found in DICTS | NAMESPACES | SEQUENCES | OPAQUE | REBUILD or found in self.constructors
        if not known and not f"{module}.".startswith(OPAQUE_PACKAGES):
            raise UserError(
                f"it would load {str(found)[:80]!r}, for which a checkpoint has no use; refused, nothing was run"
            )
        return found

    def make(self, kind: Any, arguments: Sequence[Any]) -> Any:
        """What a call of ``kind`` stands for."""
        if not isinstance(kind, Name) or not isinstance(arguments, (list, tuple)):
            raise ValueError("it calls what is not a class")
        if kind in REBUILD:
            return self.make(arguments[0], ())
        if kind in self.constructors:
            return self.constructors[kind](*arguments)
        if kind in NAMESPACES:
            return Attributes()
        if kind in DICTS:
            made: dict[Any, Any] = {}
            if arguments and isinstance(arguments[-1], (list, dict)):
                self.charge(arguments[-1])
                pairs = arguments[-1].items() if isinstance(arguments[-1], dict) else arguments[-1]
                self.set_items(made, [x for key, value in pairs for x in (key, value)])
            return made
        if kind in SEQUENCES:
            return arguments[0] if arguments and isinstance(arguments[0], (list, tuple)) else []
        return Opaque(kind, tuple(arguments) if isinstance(arguments, list) else arguments)

    def charge(self, items: Any) -> None:
        """Count what is copied."""
        self.copied += len(items)
        if self.copied > MOST_COPIED:
            raise ValueError("it copies one object over and over")
