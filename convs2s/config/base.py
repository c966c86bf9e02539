"""What every module of options is built from: fields with help texts, checks, and the way to and from plain types."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any, TypeVar

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from convs2s.errors import UserError

T = TypeVar("T")
C = TypeVar("C")
LARGEST = (1 << 31) - 1  # of whole numbers, which pass through 32 bits in places
MOST_PROCESSES = 1024
MISSING: Any = "???"  # OmegaConf's mark for a value that must be given


def option(default: T, help: str) -> T:
    """A dataclass field with its help text; lists, dicts and dataclasses are copied for every instance."""
    if isinstance(default, (list, dict)):
        kind = type(default)
        return field(default_factory=lambda: kind(default), metadata={"help": help})
    return field(default=default, metadata={"help": help})


def group(kind: type[T]) -> T:
    """A nested dataclass as a field."""
    return field(default_factory=kind)


def check_minimum(group: str, config: Any, minimum: Mapping[str, float]) -> None:
    """Raise UserError for the first option below its minimum, not finite or too large a number; null is always fine.

    group: where the options stand, e.g. "model"; "" for a script's own.
    """
    for name, least in minimum.items():
        value = getattr(config, name)
        most = MOST_PROCESSES if name in ("workers", "threads") else LARGEST
        if isinstance(value, int) and value > most:
            raise UserError(f"{f'{group}.{name}' if group else name}={value} must be at most {most}")
        if value is not None and not least <= value < math.inf:
            wanted = f"at least {least}" if math.isfinite(value) else "a finite number"
            raise UserError(f"{f'{group}.{name}' if group else name}={value} must be {wanted}")


def refuse_given(config: Any, names: Iterable[str], why: str, group: str = "") -> None:
    """Raise UserError for the first option that differs from its default though it would have no effect.

    why: what the message says after the name; group: as in ``check_minimum``.
    """
    plain = type(config)()
    for name in names:
        if getattr(config, name) != getattr(plain, name):
            raise UserError(f"{f'{group}.{name}' if group else name}= {why}: leave it out")


def to_plain(config: Any) -> dict[str, Any]:
    """A configuration as nested dicts, lists, strings and numbers, for YAML and checkpoints."""
    plain = OmegaConf.to_container(OmegaConf.structured(config), resolve=True, enum_to_str=True)
    assert isinstance(plain, dict)
    return plain  # type: ignore[return-value]


def flatten(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Plain options by their names on the command line: {"a": {"b": 1}} -> {"a.b": 1}."""
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, dict) and value:
            flat.update(flatten(value, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def from_plain(kind: type[C], plain: dict[str, Any]) -> C:
    """The inverse of ``to_plain``; options that are missing get their defaults, unknown ones raise UserError."""
    try:
        config = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(kind), plain))
    except OmegaConfBaseException as error:
        raise UserError(f"configuration: {str(error).splitlines()[0]}") from error
    assert isinstance(config, kind)
    return config
