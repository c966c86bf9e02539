"""The words of a command line, as Hydra understands them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException

from convs2s.errors import UserError
from convs2s.options import group_choices, options

MULTIRUN = ("--multirun", "-m")
CONTENTS = ("job", "hydra", "all")  # what --cfg prints
# Those of Hydra's flags that work with our programs, and what may follow them: one of some words, or any.
FLAGS: dict[str, Sequence[str] | None] = {
    **dict.fromkeys(("--help", "-h", "--resolve", *MULTIRUN), ()),
    **dict.fromkeys(("--cfg", "-c"), CONTENTS),
    **dict.fromkeys(("--config-dir", "-cd", "--config-name", "-cn"), None),
}
# Hydra keeps no folders and logs of its own: a run's directory is run_dir.
QUIET = [
    "hydra/job_logging=disabled",
    "hydra/hydra_logging=disabled",
    "hydra.output_subdir=null",
    "hydra.run.dir=.",
    "hydra.sweep.dir=.",
    "hydra.sweep.subdir=.",
]


def arranged(given: Sequence[str], schema: type[Any]) -> list[str]:
    """Flags, our own settings of Hydra, options: in any other order Hydra says that it does not know half of them.

    Raises UserError for flags that are none, or lack their value, and for choices that a group does not have.
    """
    flags: list[str] = []
    overrides: list[str] = []
    words = iter(given)
    for word in words:
        if not word.startswith("-"):
            overrides.append(word)
            continue
        flag, equals, value = word.partition("=")
        if flag not in FLAGS:
            raise UserError(f"there is no flag {flag}; options are written name=value, --help lists them")
        wanted = FLAGS[flag]
        if wanted == ():
            flags.append(word)
            continue
        value = value if equals else next(words, "")
        if not value or (wanted is not None and value not in wanted):
            raise UserError(f"{flag} needs a value: {flag} {'|'.join(wanted or ['VALUE'])}")
        flags += [flag, value]
    sweep = any(flag in MULTIRUN for flag in flags)
    return flags + QUIET + [as_hydra_reads(override, schema, sweep) for override in overrides]


def as_hydra_reads(override: str, schema: type[Any], sweep: bool) -> str:
    """An override with its field's name, and with quotes where Hydra would not take its text as it is written.

    A field named like a word of Python, or like a group of configs/, ends in an underscore (from_, model_), which the
    command line and the messages leave out. Hydra's grammar knows no letters beyond ASCII and few signs, and takes the
    file 1e3 for the number 1000.0.
    """
    name, equals, value = override.partition("=")
    choices = group_choices(name, schema)
    if choices and (value.startswith(("[", "{")) or re.fullmatch(r"null|true|false|[-+.\d]*", value)):
        raise UserError(f"{override}: there is no such choice, only {', '.join(choices)}")
    if not choices and value.startswith("glob("):
        raise UserError(f"{override}: glob chooses among the files of a group, such as experiment; name the values")
    plain = next((option for option in options(schema) if option.name == name.lstrip("+")), None)
    if any(field.name == f"{name}_" for field in fields(schema)):
        name = f"{name}_"
    override = f"{name}{equals}{value}"
    if not equals or value in ("", "null") or value[0] in "'\"[{" or (sweep and "," in value):
        return override
    try:
        parsed = OverridesParser.create().parse_override(override)
    except HydraException:
        return f"{name}={quoted(value)}"
    as_written = plain is None or not plain.is_text or parsed.is_sweep_override() or parsed.value() == value
    return override if as_written else f"{name}={quoted(value)}"


def quoted(value: str) -> str:
    """Any text as one value of Hydra's grammar: a backslash counts only before a quote."""
    return '"' + re.sub(r'(\\*)("|\Z)', lambda match: match[1] * 2 + ('\\"' if match[2] else ""), value) + '"'
