"""Files that are whole or not there, and folders that only one process writes."""

from __future__ import annotations

import fcntl
import glob
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from convs2s.errors import UserError


@contextmanager
def atomic(path: Path, mode: str = "w") -> Iterator[IO[Any]]:
    """Write ``path`` whole or not at all: a temporary file beside it is flushed to disk and renamed at the end.

    What is no file (a named pipe, /dev/null) is written into, a link's target in its place. Text is UTF-8 with "\\n"
    line ends. Raises UserError when the file cannot be written; the old one is then intact.
    """
    if not path.name:
        raise UserError(f"{path}: is a folder; give a file in it")
    target = real(path)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    text: dict[str, Any] = {} if "b" in mode else {"encoding": "utf-8", "newline": "\n"}
    try:
        if target.exists() and not target.is_file() and not target.is_dir():
            with open(target, mode, **text) as file:
                yield file
            return
        remove_leftovers(target.parent, target.name)
        with open(temporary, mode, **text) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
        sync_folder(target.parent)
    except BrokenPipeError:  # of another file: whoever read our output has gone
        raise
    except OSError as error:
        raise UserError(f"{path}: not written ({error.strerror or error}); what was there before is intact") from error
    finally:
        with suppress(OSError):  # its folder may be gone, or have been a file
            temporary.unlink(missing_ok=True)


def write_json(path: Path, content: Any, indent: int | None = 1) -> None:
    """Write ``content`` as JSON, whole or not at all; ``indent``: None for one long line. Raises as ``atomic``."""
    with atomic(path) as file:
        json.dump(content, file, indent=indent, ensure_ascii=False)
        file.write("\n")


def read_json(path: Path, remedy: str) -> dict[str, Any]:
    """A JSON object; UserError that names the file and the ``remedy`` where it is none."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(content, dict):
            raise ValueError("not an object")
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path}: cannot be read ({error!s:.80}); {remedy}") from error
    return content


def matching(pattern: str, option: str) -> list[Path]:
    """What a path, or a pattern such as results/*, stands for: itself, or what it matches, sorted.

    UserError that names the ``option`` where a pattern matches nothing.
    """
    path = Path(pattern)
    if path.exists() or not any(sign in pattern for sign in "*?["):  # a name may have brackets in it
        return [path]
    start = Path(path.anchor)
    if not (found := sorted(start.glob(str(path.relative_to(start))))):
        raise UserError(f"{option}: {pattern} matches nothing; mend it, or leave it out")
    return found


def real(path: str | Path) -> Path:
    """Where a path leads; at links that go round in circles ``Path.resolve`` raises."""
    return Path(os.path.realpath(path))


def check_place(path: str, option: str) -> None:
    """Before long work: UserError that names the ``option`` where ``path`` is a folder, or in one that is not there."""
    place = Path(path)
    if place.is_dir() or not place.parent.is_dir():
        raise UserError(f"{option}={path} cannot be written: it is a folder, or its folder does not exist; name a file")


def check_outputs(outputs: Mapping[str, str | None], inputs: Mapping[str, Sequence[str | None]]) -> None:
    """Before long work: ``check_place`` of every output that is a file, and UserError for one that is read, too, or
    that another option writes. Both are paths by the option's name; null and "-" are no files."""
    named = {real(path): option for option, paths in inputs.items() for path in paths if path is not None}
    for option, path in outputs.items():
        if path is None or path == "-":
            continue
        check_place(path, option)
        place = real(path)
        if place in named and (place.is_file() or not place.exists()):  # anything may go to /dev/null
            raise UserError(f"{option}={path} is the file of {named[place]}=, too: give another name")
        named[place] = option


def make_folder(folder: Path, option: str) -> None:
    """Make a folder where it is not there; UserError that names the ``option`` it was given by."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{option}={folder}: cannot be made ({error.strerror}); give another folder") from error


def remove_leftovers(folder: Path, name: str | None = None) -> None:
    """Remove what processes that died in ``atomic`` left in ``folder``, of all files or of one."""
    for path in folder.glob(".*.tmp" if name is None else f".{glob.escape(name)}.*.tmp"):
        process = path.name.split(".")[-2]
        if process.isdigit() and (int(process) == os.getpid() or not running(int(process))):
            path.unlink(missing_ok=True)


def running(process: int) -> bool:
    """Whether there is a process of this number."""
    try:
        os.kill(process, 0)
    except PermissionError:  # somebody else's
        return True
    except (ProcessLookupError, OverflowError):
        return False
    return True


def sync_folder(folder: Path) -> None:
    """Make a rename in ``folder`` survive a crash of the machine."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def locked(path: Path, refusal: str | None = None) -> Iterator[None]:
    """Hold the lock file ``path``; the system releases it when the process ends, however it ends.

    Another holder is waited for, or with ``refusal`` refused with that message.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (fcntl.LOCK_NB if refusal else 0))
        except BlockingIOError:
            raise UserError(refusal or "") from None
        yield
