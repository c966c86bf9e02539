"""The code as a whole: every option is used, every module imported, and imports go one way."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_type_hints

import convs2s.config.scripts as schemas

ROOT = Path(__file__).resolve().parents[1]
FILES = [*sorted((ROOT / "convs2s").rglob("*.py")), *sorted((ROOT / "scripts").glob("*.py"))]
# What a configuration or a part of it is called where its options are read: a path's name is no use of data.name.
CONFIGS = (
    *("config", "options", "data", "text", "model", "optimizer", "normalization", "training", "search"),
    *("hub", "more", "selection", "unknown", "encoder", "decoder", "side", "layer"),
)
# Parts of the code; each may import from those before it.
LEVELS = ("config", "text", "model data", "search", "training", "evaluation interop", "scripts")
FOR_OTHERS = {"convs2s.interop.onnx_model"}  # for programs without PyTorch, which read what convert.py to=onnx wrote


def schema_classes(schema: type[Any]) -> Iterator[type[Any]]:
    """A dataclass and those that its fields hold, in lists too."""
    yield schema
    for hint in get_type_hints(schema).values():
        for kind in (hint, *get_args(hint)):
            if is_dataclass(kind):
                assert isinstance(kind, type)
                yield from schema_classes(kind)


OPTIONS = sorted(
    {
        (kind.__name__, field.name)
        for schema in vars(schemas).values()
        if is_dataclass(schema) and isinstance(schema, type)
        for kind in schema_classes(schema)
        for field in fields(kind)
    }
)


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def module(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def imports(path: Path) -> frozenset[str]:
    """The modules of ours that a file imports, at its top or inside a function."""
    names: set[str] = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names.update([node.module, *(f"{node.module}.{alias.name}" for alias in node.names)])
    return frozenset(names & set(map(module, FILES)))


@cache
def read_options() -> frozenset[str]:
    """Names of attributes that are read of something called like a configuration, outside of convs2s/config."""
    names: set[str] = set()
    for path in FILES:
        if "config" in module(path).split("."):
            continue
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                owner = node.value
                if (owner.id if isinstance(owner, ast.Name) else getattr(owner, "attr", "")) in CONFIGS:
                    names.add(node.attr)
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "rate":
                names.update(f"dropout_{place.value}" for place in node.args if isinstance(place, ast.Constant))
    return frozenset(names)


def test_every_option_has_a_use() -> None:
    """Fault: an option that --help explains and that nothing reads, but to check it."""
    assert ("DataConfig", "root") in OPTIONS
    assert ("LayerConfig", "kernel") in OPTIONS
    assert not [option for option in OPTIONS if option[1] not in read_options()]


def test_every_module_is_imported() -> None:
    """Fault: a module that nothing leads to any more."""
    used = set[str]().union(*map(imports, FILES))
    unused = {module(path) for path in FILES if path.parent.name != "scripts"} - used
    assert {name for name in unused if name.count(".") > 1} == FOR_OTHERS  # a package needs no import of its own


def test_imports_go_one_way() -> None:
    """Fault: a part that knows one that is built on it, as a model that knows how it is trained."""

    def level(name: str) -> int:
        top, _, rest = name.partition(".")
        part = rest.partition(".")[0] if top == "convs2s" else top
        return next((i for i, parts in enumerate(LEVELS) if part in parts.split()), 0)

    def goes_back(own: str, other: str) -> bool:
        beside = level(own) == level(other) > 0 and own.split(".")[:2] != other.split(".")[:2]
        return beside or level(other) > level(own)

    pairs = [(module(path), other) for path in FILES for other in imports(path)]
    assert not [f"{own} imports {other}" for own, other in pairs if goes_back(own, other)]
