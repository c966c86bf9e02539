"""Where the raw files are: in data.root, else fetched there from data.url, checked against the pinned SHA-256."""

from __future__ import annotations

import http.client
import os
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path

from convs2s.config import DataConfig
from convs2s.data.storage import find_file, sha256
from convs2s.errors import UserError

_TIMEOUT = 30  # seconds without an answer


def raw_pairs(data: DataConfig) -> dict[str, tuple[str, str]]:
    """The configured names of the source and target file of "train", "valid" and every test split.

    Errors: UserError for a split that is not a pair of files or a test split named like another.
    """
    for name in ("train", "valid"):
        if name in data.test:
            raise UserError(f"data.test.{name}: a test split cannot be named {name}")
    splits = {"train": data.train, "valid": data.valid, **data.test}
    for split, files in splits.items():
        if len(files) != 2:
            option = f"data.test.{split}" if split in data.test else f"data.{split}"
            raise UserError(f"{option} must name two files, [source, target], not {len(files)}")
    return {split: (files[0], files[1]) for split, files in splits.items()}


def missing(data: DataConfig, names: Sequence[str]) -> list[str]:
    """Those of the configured names for which no file, plain or .gz, is in data.root."""
    return [name for name in names if find_file(Path(data.root) / name) is None]


def fetch(data: DataConfig, names: Sequence[str], log: Callable[[str], None] = print) -> None:
    """Fetch those of ``names`` that data.root lacks from data.url, each to a .part file that is renamed when whole.

    Errors: UserError that says which files to put where, when there is no url or the fetching fails.
    """
    wanted = missing(data, names)
    if not wanted:
        return
    hint = f"put {', '.join(wanted)} into {Path(data.root).absolute()}"
    if data.url is None:
        raise UserError(f"{Path(data.root) / wanted[0]} does not exist; {hint}, or set data.root to their folder")
    for number, name in enumerate(wanted, start=1):
        url = data.url + urllib.parse.quote(name)
        path = Path(data.root) / name
        if Path(name).is_absolute() or ".." in Path(name).parts:
            raise UserError(f"{path} does not exist, and data.url serves only files inside data.root")
        try:
            size = _download(url, path, data.sha256.get(name))
        except (OSError, http.client.HTTPException) as error:  # urllib's errors are OSErrors
            reason = str(error).removeprefix("<urlopen error ").removesuffix(">")
            raise UserError(f"cannot fetch {url} ({reason}); {hint}, or set data.root to their folder") from None
        log(f"fetched {url} ({size / 1e6:,.1f} MB), file {number} of {len(wanted)}")


def _download(url: str, path: Path, pinned: str | None) -> int:
    """Bytes written to ``path``. Errors: OSError, HTTPException; UserError for a wrong checksum."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    size = 0
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT) as answer:
            expected = answer.headers.get("Content-Length")
            path.parent.mkdir(parents=True, exist_ok=True)
            with part.open("wb") as file:
                while block := answer.read(1 << 18):
                    file.write(block)
                    size += len(block)
                file.flush()
                os.fsync(file.fileno())
        if expected is not None and size != int(expected):
            raise OSError(f"the connection ended after {size:,} of {int(expected):,} bytes")
        found = sha256(part)
        if pinned is not None and found != pinned:
            raise UserError(f"{url} has SHA-256 {found}, not {pinned} as data.sha256 says; the file there has changed")
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return size


def located(data: DataConfig, name: str) -> Path:
    """The file of a configured name, plain or .gz. Errors: UserError when there is none."""
    path = find_file(Path(data.root) / name)
    if path is None:
        raise UserError(f"{Path(data.root) / name} does not exist; put it there, or set data.root to its folder")
    return path


def verified(data: DataConfig, name: str) -> str:
    """SHA-256 of the file of a configured name. Errors: UserError when data.sha256 pins another."""
    path = located(data, name)
    found = sha256(path)
    pinned = _pin(data, name, path)
    if pinned is not None and found != pinned:
        raise UserError(
            f"{path} has SHA-256 {found}, not {pinned} as data.sha256 says;"
            " remove it to have it fetched again, or drop the pin"
        )
    return found


def verify_pinned(data: DataConfig, name: str) -> None:
    """As ``verified``, but reads the file only if data.sha256 pins it."""
    if _pin(data, name, located(data, name)) is not None:
        verified(data, name)


def _pin(data: DataConfig, name: str, path: Path) -> str | None:
    """The pin of a configured name; where its plain or .gz twin is used instead, the twin's own."""
    return data.sha256.get(name if path.name == Path(name).name else str(Path(name).with_name(path.name)))
