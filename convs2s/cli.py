"""Hydra at the edge: a script's command line becomes plain dataclasses, a user's mistake becomes one line.

``run`` is all that a script calls.  It prints ``--help`` from the options' own texts, lets Hydra compose and validate
the configuration against its schema, and turns every expected failure into one line and exit status 1.
"""

from __future__ import annotations

import difflib
import os
import re
import sys
import typing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import MISSING as NO_DEFAULT
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import hydra
from hydra.core.config_store import ConfigStore
from hydra.errors import HydraException, MissingConfigException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import ConfigAttributeError, ConfigKeyError, OmegaConfBaseException

from convs2s.errors import UserError

C = TypeVar("C")
CONFIGS = Path(__file__).resolve().parents[1] / "configs"


def run(main: Callable[[C], None], schema: type[C], config_name: str) -> None:
    """Call ``main`` with the configuration that configs/CONFIG_NAME.yaml and the command line compose."""
    register(schema, config_name)
    # Hydra then raises its errors here instead of printing them over several lines.
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")

    def job(composed: DictConfig) -> None:
        with one_line_failures(schema):  # here too: Hydra announces what leaves its job over several lines
            main(plain(schema, composed))

    with one_line_failures(schema):
        if any(argument in ("--help", "-h") for argument in sys.argv[1:]):
            print(help_text(main, schema), flush=True)
        else:
            hydra.main(version_base="1.3", config_path=str(CONFIGS), config_name=config_name)(job)()


@contextmanager
def one_line_failures(schema: type[Any]) -> Iterator[None]:
    """End the program with one line and status 1 for a user's mistake, quietly where its user has turned away."""
    try:
        yield
    except UserError as error:
        fail(str(error))
    except (HydraException, OmegaConfBaseException) as error:
        fail(one_line(error, schema))
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        # Whoever read our output has gone; point it elsewhere so that Python's last flush does not complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)


def register(schema: type[Any], config_name: str) -> None:
    """Make the dataclass tree the schema that configs/CONFIG_NAME.yaml is validated against."""
    ConfigStore.instance().store(name=f"{config_name}_schema", node=schema)


def plain(schema: type[C], composed: DictConfig) -> C:
    """The composed configuration as the dataclass tree; UserError where a value must be given."""
    missing = sorted(OmegaConf.missing_keys(composed))
    if missing:
        raise UserError(f"{missing[0]} must be given: add {missing[0]}=VALUE to the command")
    config = OmegaConf.to_object(composed)
    assert isinstance(config, schema)
    return config


def fail(message: str) -> NoReturn:
    print(f"error: {message}", file=sys.stderr)
    sys.exit(1)


def one_line(error: BaseException, schema: type[Any]) -> str:
    """What Hydra or OmegaConf say over several lines and causes, in one that names the option and the fix."""
    causes: list[BaseException] = [error]
    while (cause := causes[-1].__cause__) is not None:
        causes.append(cause)
    if isinstance(error, MissingConfigException) and error.options is not None:
        group, _, choice = (error.missing_cfg_file or "").partition("/")
        return f"{group}={choice}: there is no such choice, only {', '.join(error.options)}"
    key = next((str(key) for cause in causes if (key := getattr(cause, "full_key", None))), "")
    if any(isinstance(cause, (ConfigKeyError, ConfigAttributeError)) for cause in causes):
        near = difflib.get_close_matches(key, [name for name, _, _ in options(schema)], 1)
        return f"there is no option {key}" + (f"; did you mean {near[0]}?" if near else "; --help lists them")
    text = str(causes[-1]).splitlines()[0].strip()
    override = re.search(r"override (\S+)", str(error))
    where = override.group(1) if override else key
    return f"{where}: {text}" if where and where not in text else text


def help_text(main: Callable[..., None], schema: type[Any]) -> str:
    """Every option of a script with its default and meaning."""
    script = Path(sys.argv[0]).name
    purpose = sys.modules[main.__module__].__doc__ or ""
    lines = [purpose.strip(), "", f"python scripts/{script} [option=value ...]", ""]
    for group in ("experiment", "data", "model", "optimizer", "search"):
        choices = sorted(path.stem for path in (CONFIGS / group).glob("*.yaml"))
        if choices and any(field.name == group for field in fields(schema)):
            lines.append(f"  {group}={'|'.join(choices)}")
    lines.append("")
    for name, default, meaning in options(schema):
        lines.append(f"  {name}={default}")
        lines.append(f"      {meaning}")
    lines += [
        "",
        "A list or stack is quoted as one word: 'model.encoder.layers=[{channels: 256, kernel: 3, repeat: 4}]'.",
        "A value with = or other special characters goes into inner quotes: 'data.root=\"a=b\"'.",
        "Hydra's own flags: --cfg job prints the composed configuration, -m runs a sweep over comma-separated values.",
    ]
    return "\n".join(lines)


def options(schema: type[Any], prefix: str = "") -> Iterator[tuple[str, str, str]]:
    """(name, default, meaning) of every option of a dataclass tree."""
    hints = typing.get_type_hints(schema)
    for field in fields(schema):
        if is_dataclass(hints[field.name]):
            yield from options(hints[field.name], f"{prefix}{field.name}.")
            continue
        default = field.default if field.default_factory is NO_DEFAULT else field.default_factory()
        yield f"{prefix}{field.name}", show(default), field.metadata["help"]


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
        return "[" + ", ".join(show(item) for item in value) + "]"
    return str(value)
