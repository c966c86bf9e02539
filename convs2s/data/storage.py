"""Files found and checked, and folders that are replaced as a whole or not at all, by one process at a time."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from convs2s.data.opening import SUFFIXES, plain_name
from convs2s.errors import UserError
from convs2s.files import sync_folder


def find_file(path: Path) -> Path | None:
    """``path``, or its compressed or plain twin (``train.de`` <-> ``train.de.gz``) where only that exists, or None."""
    plain = path.with_name(plain_name(path.name)) if path.name else path
    twins = [plain, *(plain.with_name(f"{plain.name}{suffix}") for suffix in SUFFIXES)]
    return next((candidate for candidate in (path, *twins) if candidate.exists()), None)


def sha256(path: Path) -> str:
    """Hex digest of a file's bytes. Raises UserError when it cannot be read."""
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror or error})") from None
    return digest.hexdigest()


@contextmanager
def folder_lock(folder: Path, *, shared: bool, waiting: Callable[[], None]) -> Iterator[None]:
    """Hold the lock of ``folder``, a file beside it; readers share it. The system drops it when its process dies.

    ``waiting`` is called once when another process holds it. Where the lock's file cannot be written (read-only disk),
    readers go on without it. Raises OSError for a writer there.
    """
    path = folder.with_name(f"{folder.name}.lock")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError:
        if not shared:
            raise
        yield
        return
    try:
        mode = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        try:
            fcntl.flock(descriptor, mode | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(descriptor, mode)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def replacing(folder: Path) -> Iterator[Path]:
    """An empty sibling folder to write into; when the block ends well it takes ``folder``'s place, else it is removed.

    ``folder`` stays whole until its successor is on the disk. To be called under ``folder_lock``; what a killed process
    left behind is cleared up, and a folder that it had moved aside is put back.
    """
    new, old = (folder.with_name(f".{folder.name}.{role}") for role in ("new", "old"))
    recover(folder)
    if new.exists():
        shutil.rmtree(new)
    new.mkdir(parents=True)
    try:
        yield new
        for path in [*sorted(new.iterdir()), new]:
            sync_folder(path)  # files too
        if folder.exists():
            folder.rename(old)
        try:
            new.rename(folder)
        except BaseException:
            recover(folder)
            raise
        sync_folder(folder.parent)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise
    shutil.rmtree(old, ignore_errors=True)


def recover(folder: Path) -> None:
    """Put back a folder that an interrupted ``replacing`` had moved aside, or remove what it left to be removed."""
    old = folder.with_name(f".{folder.name}.old")
    if old.exists():
        if folder.exists():
            shutil.rmtree(old)
        else:
            old.rename(folder)
