"""A script's options, as its dataclass tree has them: their names, defaults and meanings, and the text of --help."""

from __future__ import annotations

import difflib
import sys
import typing
from collections.abc import Callable, Iterator
from dataclasses import MISSING as NO_DEFAULT
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

CONFIGS = Path(__file__).resolve().parents[1] / "configs"
TEXT = (str, str | None, Any)  # Any: a file, or a list of them


class Option(NamedTuple):
    """An option as --help shows it."""

    name: str
    default: str
    meaning: str
    is_text: bool


def options(schema: type[Any], prefix: str = "") -> Iterator[Option]:
    """Every option of a dataclass tree."""
    hints = typing.get_type_hints(schema)
    for field in fields(schema):
        hint, name = hints[field.name], f"{prefix}{field.name}"
        if is_dataclass(hint):
            assert isinstance(hint, type)
            yield from options(hint, f"{name}.")
            continue
        default = field.default if field.default_factory is NO_DEFAULT else field.default_factory()
        yield Option(name.removesuffix("_"), show(default), field.metadata["help"], hint in TEXT)


def show(value: Any) -> str:
    """A default as one writes it on the command line."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Enum):
        choices = "|".join(member.value for member in type(value))
        return f"{value.value} ({choices})"
    if is_dataclass(value):
        return "{" + ", ".join(f"{field.name}: {show(getattr(value, field.name))}" for field in fields(value)) + "}"
    if isinstance(value, list):
        if value and isinstance(value[0], Enum):
            return f"[{', '.join(item.value for item in value)}] ({'|'.join(one.value for one in type(value[0]))})"
        return "[" + ", ".join(show(item) for item in value) + "]"
    return str(value)


def group_choices(group: str, schema: type[Any]) -> list[str]:
    """The files of a group of configs/; none where a script has no such group."""
    if not any(field.name == group for field in fields(schema)):
        return []
    return sorted(path.stem for path in (CONFIGS / group).glob("*.yaml"))


def no_option(key: str, schema: type[Any]) -> str:
    """What to say of a name that no option has."""
    names = [name for name, *_ in options(schema)]
    if any(option.default == "{}" and key.startswith(f"{option.name}.") for option in options(schema)):
        return f"{key} is a new entry: write it with a plus, +{key}=VALUE"
    depth = key.count(".") + 1  # a mistyped group is compared with groups
    near = difflib.get_close_matches(key, {".".join(name.split(".")[:depth]) for name in names}, 1)
    return f"there is no option {key}" + (f"; did you mean {near[0]}?" if near else "; --help lists them")


def help_text(main: Callable[..., None], schema: type[Any]) -> str:
    """Every option of a script with its default and meaning."""
    script = Path(sys.argv[0]).name
    purpose = sys.modules[main.__module__].__doc__ or ""
    lines = [purpose.strip(), "", f"python scripts/{script} [option=value ...]", ""]
    for group in ("experiment", "data", "text", "model", "optimizer", "search"):
        if choices := group_choices(group, schema):
            lines.append(f"  {group}={'|'.join(choices)}")
    lines.append("")
    for option in options(schema):
        lines.append(f"  {option.name}={option.default}")
        lines.append(f"      {option.meaning}")
    lines += [
        "",
        "A list or stack is quoted as one word: 'model.encoder.layers=[{channels: 256, kernel: 3, repeat: 4}]'.",
        "Text with a comma, and in a list any but plain words, goes into inner quotes: 'checkpoint=[\"größe 1.pt\"]'.",
        "Flags: --cfg job prints the composed configuration, -m runs a sweep over comma-separated values,",
        "--config-dir RUN --config-name config repeats what a run's config.yaml says.",
    ]
    return "\n".join(lines)
