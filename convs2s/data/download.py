"""Fetching what data.root lacks: single files by url, the rest from the Hugging Face hub or by sacrebleu.

What is fetched is announced first. Each file is written under another name and renamed when whole; a download by url
that broke off goes on where it ended. Checksums of fetched files are written down at first sight.
"""

from __future__ import annotations

import http.client
import os
import shutil
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from tqdm import tqdm

from convs2s.config import DataConfig
from convs2s.data import hub
from convs2s.data.sources import RECORD, first_seen, missing, split_names
from convs2s.data.storage import sha256
from convs2s.errors import UserError
from convs2s.files import atomic, locked
from convs2s.messages import Log, say

_TIMEOUT = 30  # seconds without an answer


def fetch(data: DataConfig, names: Sequence[str], log: Log = say) -> None:
    """Fetch those of ``names`` that data.root lacks.

    Raises UserError that says which files to put where, when there is nothing to fetch from or the fetching fails.
    """
    wanted = missing(data, names)
    if not wanted:
        return
    root = Path(data.root)
    if data.url is None and data.hub.name is None and not data.sacrebleu:  # says so before a folder is made
        raise UserError(f"{root / wanted[0]} does not exist; {_hint(data, wanted)}, or set data.root to their folder")
    try:
        with locked(root / ".lock"):
            _fetch_missing(data, names, log)
    except OSError as error:
        raise UserError(f"data.root={data.root} cannot be written ({error.strerror or error})") from None


def _fetch_missing(data: DataConfig, names: Sequence[str], log: Log) -> None:
    root, wanted = Path(data.root), missing(data, names)  # another process may have fetched them meanwhile
    splits = {split: [name for pair in pairs for name in pair] for split, pairs in split_names(data).items()}
    provided = {split: files for split, files in splits.items() if len(files) == 2 and _provider(data, split)}
    own = [name for name in wanted if not any(name in files for files in provided.values())]
    if own and data.url is None:  # said before gigabytes are fetched
        raise UserError(f"{root / own[0]} does not exist; {_hint(data, own)}, or set data.root to their folder")
    for split, files in provided.items():
        if any(name in wanted for name in files):
            fetch_pair = hub.fetch_sacrebleu if split in data.sacrebleu else hub.fetch_split
            fetch_pair(data, split, files, _hint(data, wanted), log)
            record(data, files)
    wanted = missing(data, own)
    for number, name in enumerate(wanted, start=1):
        _fetch_url(data, name, f"file {number} of {len(wanted)}", _hint(data, wanted), log)
        record(data, [name])


def _provider(data: DataConfig, split: str) -> bool:
    """Whether sacrebleu or the hub has this split."""
    return split in data.sacrebleu or (data.hub.name is not None and split in data.hub.splits)


def _hint(data: DataConfig, wanted: Sequence[str]) -> str:
    return f"put {', '.join(wanted)} into {Path(data.root).absolute()}"


def record(data: DataConfig, names: Sequence[str]) -> None:
    """Write down the checksums of files as they were fetched, or written by the program."""
    known = first_seen(data)
    known |= {name: sha256(Path(data.root) / name) for name in names}
    with atomic(Path(data.root) / RECORD) as file:
        file.writelines(f"{digest}  {name}\n" for name, digest in sorted(known.items()))


def _fetch_url(data: DataConfig, name: str, which: str, hint: str, log: Log) -> None:
    assert data.url is not None
    url = data.url + urllib.parse.quote(name)
    path = Path(data.root) / name
    if Path(name).is_absolute() or ".." in Path(name).parts:
        raise UserError(f"{path} does not exist, and data.url serves only files inside data.root")
    try:
        size = _download(url, path, data.sha256.get(name), lambda text: log(f"{text}, {which}"))
    except (OSError, http.client.HTTPException, ValueError) as error:  # urllib's are OSErrors; ValueError: no address
        reason = str(error).removeprefix("<urlopen error ").removesuffix(">")
        raise UserError(f"cannot fetch {url} ({reason}); {hint}, or set data.root to their folder") from None
    log(f"fetched {path} ({size / 1e6:,.1f} MB)")


def _download(url: str, path: Path, pinned: str | None, announce: Log) -> int:
    """Bytes of ``path``. Raises OSError, HTTPException, and UserError for a wrong checksum."""
    part = path.with_name(f"{path.name}.part")
    version = part.with_name(f"{part.name}.version")  # what the server calls the file that the part is of
    done = part.stat().st_size if part.exists() and version.exists() else 0
    rest = {"Range": f"bytes={done}-", "If-Range": version.read_text("utf-8")} if done else {}
    request = urllib.request.Request(url, headers=rest)
    try:
        answer = urllib.request.urlopen(request, timeout=_TIMEOUT)
    except urllib.error.HTTPError as error:
        if done and error.code == 416:  # nothing of it is left on the server, or it is another file by now
            part.unlink()
            return _download(url, path, pinned, announce)
        raise
    with answer:
        if done and answer.status != 206:  # the server sends the whole file again, or a newer one
            done = 0
        length = answer.headers.get("Content-Length")
        expected = None if length is None else done + int(length)
        size = "unknown size" if expected is None else f"{expected / 1e6:,.1f} MB"
        announce(f"fetching {url} ({size}{f', {done / 1e6:,.1f} MB of it are there' if done else ''}) to {path}")
        path.parent.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(path.parent).free
        if expected is not None and expected - done > free:
            raise OSError(f"{(expected - done) / 1e6:,.1f} MB are to come, but {free / 1e6:,.1f} MB are free there")
        if not done:
            version.unlink(missing_ok=True)
            if called := answer.headers.get("ETag") or answer.headers.get("Last-Modified"):
                version.write_text(called, "utf-8")
        quiet = not sys.stderr.isatty()
        with (
            part.open("ab" if done else "wb") as file,
            tqdm(total=expected, initial=done, unit="B", unit_scale=True, leave=False, disable=quiet) as bar,
        ):
            while block := answer.read(1 << 18):
                file.write(block)
                done += len(block)
                bar.update(len(block))
            file.flush()
            os.fsync(file.fileno())
    if expected is not None and done != expected:
        then = "goes on from there" if version.exists() else "tries again"
        raise OSError(f"the connection ended after {done:,} of {expected:,} bytes; the same command {then}")
    version.unlink(missing_ok=True)
    found = sha256(part)
    if pinned is not None and found != pinned:
        part.unlink()
        raise UserError(f"{url} has SHA-256 {found}, not {pinned} as data.sha256 says; the file there has changed")
    part.replace(path)
    return done
