"""Hydra at the edge: a script's command line becomes plain dataclasses, a user's mistake becomes one line.

``run`` is all that a script calls. It prints ``--help`` from the options' own texts, lets Hydra compose and validate
the configuration against its schema, and turns every expected failure into one line and exit status 1.
"""

# ruff: noqa: E402
from __future__ import annotations

import contextlib
import difflib
import os
import re
import signal
import sys
import typing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import MISSING as NO_DEFAULT
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, TypeVar, cast


def quiet_interrupt(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Ctrl-C ends a program without a stack trace also where ``run`` has not begun: packages take seconds to load."""
    if not issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)


sys.excepthook = quiet_interrupt  # before anything that takes long

import hydra
from hydra.core.config_store import ConfigStore
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import ConfigAttributeError, ConfigKeyError, OmegaConfBaseException

from convs2s.errors import UserError

C = TypeVar("C")
# Hydra's own flags and the forms they have.
FLAGS = [
    "--help",
    "-h",
    "--hydra-help",
    "--version",
    "--cfg",
    "-c",
    "--resolve",
    "--package",
    "-p",
    "--run",
    "-r",
    "--multirun",
    "-m",
    "--shell-completion",
    "-sc",
    "--config-path",
    "-cp",
    "--config-name",
    "-cn",
    "--config-dir",
    "-cd",
    "--experimental-rerun",
    "--info",
    "-i",
]
# Hydra keeps no folders and logs of its own: a run's directory is run_dir.
QUIET = [
    "hydra/job_logging=disabled",
    "hydra/hydra_logging=disabled",
    "hydra.output_subdir=null",
    "hydra.run.dir=.",
    "hydra.sweep.dir=.",
    "hydra.sweep.subdir=.",
]
# What OmegaConf says of a value of the wrong form, and what its user should write.
FORMS = {
    "is not a ListConfig, list or tuple": "a list is wanted, written [A, B]",
    "Cannot merge DictConfig with ListConfig": "named entries are wanted, written {NAME: VALUE}",
    "Cannot merge ListConfig with DictConfig": "a list is wanted, written [A, B]",
}
CONFIGS = Path(__file__).resolve().parents[1] / "configs"


def run(main: Callable[[C], None], schema: type[C], config_name: str) -> None:
    """Call ``main`` with the configuration that configs/CONFIG_NAME.yaml and the command line compose.

    SIGTERM ends it as Ctrl-C does: what is being written is removed, worker processes end.
    """
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    register(schema, config_name)
    given = sys.argv[1:]
    sys.argv[1:] = arranged(with_underscores(given, schema))
    # Hydra then raises its errors here instead of printing them over several lines.
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")

    def job(composed: DictConfig) -> None:
        sys.argv[1:] = given  # as records of a run quote it
        with one_line_failures(schema):  # here too: Hydra announces what leaves its job over several lines
            name_sweep(composed)
            main(plain(schema, composed))

    with one_line_failures(schema):
        for argument in given:
            if argument.startswith("-") and argument.partition("=")[0] not in FLAGS:
                raise UserError(f"there is no flag {argument}; options are written name=value, --help lists them")
            group, _, choice = argument.partition("=")
            if choice == "null" and (choices := group_choices(group, schema)):
                raise UserError(f"{argument}: there is no such choice, only {', '.join(choices)}")
        if any(argument in ("--help", "-h") for argument in given):
            print(help_text(main, schema), flush=True)
        else:
            hydra.main(version_base="1.3", config_path=str(CONFIGS), config_name=config_name)(job)()


def with_underscores(arguments: list[str], schema: type[Any]) -> list[str]:
    """Options as Hydra is given them: a field named like a word of Python, or like a group of configs/, ends in an
    underscore (from_, model_), which the command line and the messages leave out."""
    names = {field.name[:-1]: field.name for field in fields(schema) if field.name.endswith("_")}
    return [re.sub(r"^\w+(?==)", lambda match: names.get(match[0], match[0]), argument) for argument in arguments]


def arranged(arguments: list[str]) -> list[str]:
    """Flags, our own settings of Hydra, overrides: in any other order it says that it does not know half of them."""
    overrides = [argument for argument in arguments if argument[:1] == "~" or (argument[:1] != "-" and "=" in argument)]
    return [argument for argument in arguments if argument not in overrides] + QUIET + overrides


@contextmanager
def one_line_failures(schema: type[Any]) -> Iterator[None]:
    """End the program with one line and status 1 for a user's mistake, quietly where its user has turned away."""
    try:
        yield
        sys.stdout.flush()  # here its failure can still be told
    except UserError as error:
        fail(str(error))
    except (HydraException, OmegaConfBaseException) as error:
        fail(one_line(error, schema))
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # whoever read our output has gone
        drop_output()
        sys.exit(141)
    except OSError as error:  # a full disk above all
        drop_output()
        fail(f"{error.filename or 'standard input or output'}: {error.strerror or error}")


def drop_output() -> None:
    """Point standard output elsewhere: Python's last flush would complain about what it could not deliver."""
    with contextlib.suppress(OSError, ValueError):  # not a real file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def register(schema: type[Any], config_name: str) -> None:
    """Make the dataclass tree the schema that configs/CONFIG_NAME.yaml is validated against."""
    ConfigStore.instance().store(name=f"{config_name}_schema", node=schema)


def plain(schema: type[C], composed: DictConfig) -> C:
    """The composed configuration as the dataclass tree; UserError where a value must be given."""
    # A run's own config.yaml (--config-dir RUN --config-name config) names no schema.
    if OmegaConf.get_type(composed) is not schema:
        composed = cast(DictConfig, OmegaConf.merge(OmegaConf.structured(schema), composed))
    missing = sorted(OmegaConf.missing_keys(composed))
    if missing:
        name = missing[0].removesuffix("_")
        if "[" in name:
            raise UserError(f"{name} must be given: complete that entry of the list")
        raise UserError(f"{name} must be given: add {name}=VALUE to the command")
    config = OmegaConf.to_object(composed)
    assert isinstance(config, schema)
    return config


def files(option: str, value: Any) -> list[str]:
    """option=FILE or option=[FILE,FILE,...] as a list; UserError for anything else."""
    found = [value] if isinstance(value, str) else value
    if not isinstance(found, list) or not found or not all(isinstance(path, str) and path for path in found):
        raise UserError(f"{option}={value}: give a file, or several as {option}=[FILE,FILE]")
    return found


def name_sweep(composed: DictConfig) -> None:
    """Give each run of a sweep (-m) a directory of its own inside ``run_dir``, named by its overrides."""
    if HydraConfig.get().mode != RunMode.MULTIRUN or "run_dir" not in composed:
        return
    written = OmegaConf.to_container(composed, resolve=False)
    if isinstance(written, dict) and "${" in str(written["run_dir"]).replace("${experiment}", ""):
        return  # it already says what the runs differ in
    shared = ("experiment=", "run_dir=", "data.root=", "data.prepared_dir=", "training.device=", "training.threads=")
    own = [override for override in HydraConfig.get().overrides.task if not override.startswith(shared)]
    composed.run_dir = f"{composed.run_dir}/{','.join(own).replace('/', '_') or 'default'}"


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
    if isinstance(error, OverrideParseException):
        return f"{error.override}: cannot be read; write name=value, and quote lists and signs as --help shows"
    if ambiguous := re.match(r"Ambiguous value for argument '(.+)'", str(error)):
        return f"{ambiguous.group(1)}: several values; write a list as [A, B], or add -m for a sweep over them"
    key = next((str(key) for cause in causes if (key := getattr(cause, "full_key", None))), "").removesuffix("_")
    if any(isinstance(cause, (ConfigKeyError, ConfigAttributeError)) for cause in causes):
        overridden = re.search(r"override '([\w.]+)'", str(error))
        inside_a_list = "." not in key and overridden is not None and not overridden.group(1).startswith(key)
        if overridden is not None and inside_a_list:
            return f"{overridden.group(1)}: there is no option {key} in it; --help shows its form"
        names = [name for name, _, _ in options(schema)]
        if any(default == "{}" and key.startswith(f"{name}.") for name, default, _ in options(schema)):
            return f"{key} is a new entry: write it with a plus, +{key}=VALUE"
        depth = key.count(".") + 1  # a mistyped group is compared with groups
        near = difflib.get_close_matches(key, {".".join(name.split(".")[:depth]) for name in names}, 1)
        return f"there is no option {key}" + (f"; did you mean {near[0]}?" if near else "; --help lists them")
    text = str(causes[-1]).splitlines()[0].strip()
    text = next((form for said, form in FORMS.items() if said in text), text)
    override = re.search(r"override (.+)", str(error))
    where = re.sub(r"_(?==)", "", override.group(1), count=1) if override else key
    return f"{where}: {text}" if where and where not in text else text


def group_choices(group: str, schema: type[Any]) -> list[str]:
    """The files of a group of configs/; none where a script has no such group."""
    if not any(field.name == group for field in fields(schema)):
        return []
    return sorted(path.stem for path in (CONFIGS / group).glob("*.yaml"))


def help_text(main: Callable[..., None], schema: type[Any]) -> str:
    """Every option of a script with its default and meaning."""
    script = Path(sys.argv[0]).name
    purpose = sys.modules[main.__module__].__doc__ or ""
    lines = [purpose.strip(), "", f"python scripts/{script} [option=value ...]", ""]
    for group in ("experiment", "data", "text", "model", "optimizer", "search"):
        if choices := group_choices(group, schema):
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
        yield f"{prefix}{field.name.removesuffix('_')}", show(default), field.metadata["help"]


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
