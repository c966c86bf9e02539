"""Hydra at the edge: a script's command line becomes plain dataclasses, a user's mistake becomes one line.

``run`` is all that a script calls. It prints ``--help`` from the options' own texts, lets Hydra compose and validate
the configuration against its schema, and turns every expected failure into one line and exit status 1.
"""

# ruff: noqa: E402
from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
import typing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import is_dataclass
from types import TracebackType
from typing import Any, NoReturn, TypeVar, cast


def quiet_interrupt(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Ctrl-C ends a program without a stack trace also where ``run`` has not begun: packages take seconds to load."""
    if not issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)


sys.excepthook = quiet_interrupt  # before anything that takes long


def open_closed_streams() -> None:
    """Give a standard stream that the shell closed (>&-) a file: reading and writing fail as on a disk, messages go
    nowhere, and no other file takes its number."""
    for number, name, access in ((0, "stdin", os.O_WRONLY), (1, "stdout", os.O_RDONLY), (2, "stderr", os.O_WRONLY)):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, access)
            if descriptor != number:
                os.dup2(descriptor, number)
                os.close(descriptor)
            setattr(sys, name, os.fdopen(number, "w" if number else "r", encoding="utf-8", closefd=False))


open_closed_streams()
try:
    os.getcwd()
except OSError:
    sys.exit("error: the current folder is gone: change to one that is there")

import hydra
import yaml
from hydra.core.config_store import ConfigStore
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import ConfigAttributeError, ConfigKeyError, OmegaConfBaseException

from convs2s.arguments import arranged
from convs2s.errors import UserError
from convs2s.options import CONFIGS, help_text, no_option

C = TypeVar("C")
# What OmegaConf says of a value of the wrong form, and what its user should write.
FORMS = {
    "is not a ListConfig, list or tuple": "a list is wanted, written [A, B]",
    "Cannot merge DictConfig with ListConfig": "named entries are wanted, written {NAME: VALUE}",
    "Cannot merge ListConfig with DictConfig": "a list is wanted, written [A, B]",
}


def run(main: Callable[[C], None], schema: type[C], config_name: str) -> None:
    """Call ``main`` with the configuration that configs/CONFIG_NAME.yaml and the command line compose.

    SIGTERM and SIGHUP end it as Ctrl-C does: what is being written is removed, worker processes end.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # nohup
            signal.signal(number, lambda number, _: sys.exit(128 + number))
    register(schema, config_name)
    given = sys.argv[1:]
    # Hydra then raises its errors here instead of printing them over several lines.
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")

    composing = True

    def job(composed: DictConfig) -> None:
        nonlocal composing
        composing = False
        sys.argv[1:] = given  # as records of a run quote it
        with one_line_failures(schema):  # here too: Hydra announces what leaves its job over several lines
            name_sweep(composed)
            main(plain(schema, composed))

    with one_line_failures(schema):
        sys.argv[1:] = arranged(given, schema)
        if any(argument in ("--help", "-h") for argument in given):
            print(help_text(main, schema), flush=True)
        else:
            try:
                hydra.main(version_base="1.3", config_path=str(CONFIGS), config_name=config_name)(job)()
            except Exception as error:
                if composing and (message := unreadable(error)):
                    raise UserError(message) from error
                raise


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
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # more of them would interrupt Python's own clearing up
        sys.exit(130)
    except MemoryError:
        fail("out of memory: a lower search.beam, search.batch_size, training.batch_tokens or the like needs less")
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


def unreadable(error: Exception) -> str:
    """What is wrong with a file of configs/ or --config-dir that Hydra could not compose; "" for other failures."""
    if isinstance(error, (HydraException, OmegaConfBaseException, UserError)):
        return ""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return f"{error.problem_mark.name}, line {error.problem_mark.line + 1}: {error.problem}; mend the file"
    known = (yaml.YAMLError, ValueError, TypeError, RecursionError, AttributeError)
    if isinstance(error, known) or (isinstance(error, OSError) and error.errno is None):
        reason = str(error).partition("\n")[0]
        return f"a file of --config-dir, or the choice of one, is no configuration ({reason:.100}); mend it"
    return ""


def register(schema: type[Any], config_name: str) -> None:
    """Make the dataclass tree the schema that configs/CONFIG_NAME.yaml is validated against."""
    ConfigStore.instance().store(name=f"{config_name}_schema", node=schema)


def plain(schema: type[C], composed: DictConfig) -> C:
    """The composed configuration as the dataclass tree; UserError where a value must be given, or has no option."""
    # A run's own config.yaml (--config-dir RUN --config-name config) names no schema.
    if OmegaConf.get_type(composed) is not schema:
        composed = cast(DictConfig, OmegaConf.merge(OmegaConf.structured(schema), composed))
    for name in additions(schema, composed):
        raise UserError(no_option(name, schema))
    missing = sorted(OmegaConf.missing_keys(composed))
    if missing:
        name = missing[0].removesuffix("_")
        if "[" in name:
            raise UserError(f"{name} must be given: complete that entry of the list")
        raise UserError(f"{name} must be given: add {name}=VALUE to the command")
    config = OmegaConf.to_object(composed)
    assert isinstance(config, schema)
    return config


def additions(schema: type[Any], composed: DictConfig, prefix: str = "") -> Iterator[str]:
    """Names that Hydra's + has added, which no option has."""
    hints = typing.get_type_hints(schema)
    for key in map(str, composed):
        if key not in hints:
            yield f"{prefix}{key}"
        elif is_dataclass(hints[key]):
            yield from additions(hints[key], composed[key], f"{prefix}{key}.")


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
        return f'{error.override}: cannot be read; write name=value, and lists as --help shows: ["größe 1.txt",b.txt]'
    if ambiguous := re.match(r"Ambiguous value for argument '(.+)'", str(error)):
        ways = "write a list as [A, B], one text in inner quotes as '\"A,B\"', or add -m for a sweep over them"
        return f"{ambiguous.group(1)}: several values; {ways}"
    key = next((str(key) for cause in causes if (key := getattr(cause, "full_key", None))), "").removesuffix("_")
    if any(isinstance(cause, (ConfigKeyError, ConfigAttributeError)) for cause in causes):
        overridden = re.search(r"override '([\w.]+)'", str(error))
        inside_a_list = "." not in key and overridden is not None and not overridden.group(1).startswith(key)
        if overridden is not None and inside_a_list:
            return f"{overridden.group(1)}: there is no option {key} in it; --help shows its form"
        return no_option(key, schema)
    text = str(causes[-1]).splitlines()[0].strip()
    if missing := re.search(r"Missing mandatory value: (\w+)", text):
        return f"{missing[1]} must be given: add {missing[1]}=VALUE to the command"
    text = next((form for said, form in FORMS.items() if said in text), text)
    override = re.search(r"override (.+)", str(error))
    where = re.sub(r"_(?==)", "", override.group(1), count=1) if override else key
    return f"{where}: {text}" if where and where not in text else text
