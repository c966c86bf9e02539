"""Fetching raw files: pins, interruptions, being offline; served from a local folder, nothing leaves the machine."""

from __future__ import annotations

import hashlib
import shutil
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from convs2s.config import DataConfig
from convs2s.data.download import fetch
from convs2s.data.sources import RECORD, located, missing, split_names, verified, verify_pinned
from convs2s.errors import UserError

TEXT = b"".join(b"Satz %d\n" % i for i in range(50))


class Handler(SimpleHTTPRequestHandler):
    def do_GET(self) -> None:
        wanted = self.headers.get("Range", "")
        if self.path.endswith("resumed.de") and wanted and self.headers["If-Range"] == '"1"':
            body = TEXT[int(wanted.removeprefix("bytes=").removesuffix("-")) :]
            self.send_response(206)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            return
        if self.path.endswith("resumed.de"):  # breaks off, unless a rest of another version was asked for
            self.send_response(200)
            self.send_header("Content-Length", str(len(TEXT)))
            self.send_header("ETag", '"1"')
            self.end_headers()
            self.wfile.write(TEXT if wanted else TEXT[:100])
            return
        if self.path.endswith("cut.de"):  # promises more than it sends
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b"only this")
        else:
            super().do_GET()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DataConfig]:
    """A server with the files "train.de" and "ä b.de"; data.root is an empty folder."""
    monkeypatch.setenv("no_proxy", "*")
    served = tmp_path / "served"
    served.mkdir()
    (served / "train.de").write_text("eins\n")
    (served / "ä b.de").write_text("zwei\n")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(served)))
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield DataConfig(
        root=str(tmp_path / "raw=ü x"),
        train=["train.de", "ä b.de"],
        valid=["a", "b"],
        url=f"http://127.0.0.1:{server.server_port}/",
    )
    server.shutdown()
    server.server_close()


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def names(data: DataConfig) -> list[str]:
    root = Path(data.root)
    return sorted(path.name for path in root.iterdir() if path.name != ".lock") if root.exists() else []


def test_missing_files_are_fetched_and_checked(data: DataConfig) -> None:
    """Would catch names that are not quoted in the url, leftovers, and a second fetch of what is there."""
    pinned = replace(data, sha256={"train.de": digest("eins\n"), "ä b.de": digest("zwei\n")})
    said: list[str] = []
    fetch(pinned, ["train.de", "ä b.de"], said.append)
    assert names(data) == [RECORD, "train.de", "ä b.de"]
    assert (Path(data.root) / "ä b.de").read_text() == "zwei\n"
    assert len(said) == 4
    assert "fetching http://" in said[0]
    assert "(0.0 MB)" in said[0]
    assert missing(data, ["train.de", "x"]) == ["x"]
    fetch(replace(data, url="http://127.0.0.1:1/"), ["train.de"], said.append)


def test_a_changed_file_on_the_server_is_refused(data: DataConfig) -> None:
    """Would catch training on a corpus that was altered since the pin was made."""
    with pytest.raises(UserError, match=r"train\.de has SHA-256 .* not abc"):
        fetch(replace(data, sha256={"train.de": "abc"}), ["train.de"])
    assert names(data) == []


@pytest.mark.parametrize(("name", "reason"), [("none.de", "HTTP Error 404"), ("cut.de", "9 of 1,000 bytes")])
def test_a_failing_fetch_says_what_to_put_where(data: DataConfig, name: str, reason: str) -> None:
    """Would catch half a file under the right name, and a message that does not help offline."""
    with pytest.raises(UserError, match=reason) as caught:
        fetch(data, [name, "other.de"])
    assert f"put {name}, other.de into {data.root}" in str(caught.value)
    assert [name for name in names(data) if not name.endswith(".part")] == []


def test_a_disk_without_room_is_found_out_before_the_download(
    data: DataConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fault: gigabytes fetched until the disk is full."""
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10**9, 10**9, 4))
    with pytest.raises(UserError, match=r"cannot fetch .*0\.0 MB are to come, but 0\.0 MB are free there.*; put train"):
        fetch(data, ["train.de"], lambda _: None)
    assert names(data) == []


def test_a_broken_download_goes_on_where_it_ended(data: DataConfig) -> None:
    """Fault: gigabytes fetched again, or the rest written over the beginning."""
    with pytest.raises(UserError, match="after 100 of 390 bytes; the same command goes on from there"):
        fetch(data, ["resumed.de"])
    assert names(data) == ["resumed.de.part", "resumed.de.part.version"]
    said: list[str] = []
    fetch(replace(data, sha256={"resumed.de": hashlib.sha256(TEXT).hexdigest()}), ["resumed.de"], said.append)
    assert (Path(data.root) / "resumed.de").read_bytes() == TEXT
    assert "MB of it are there" in said[0]
    assert names(data) == [RECORD, "resumed.de"]


def test_the_rest_of_another_version_is_not_taken(data: DataConfig) -> None:
    """Fault: a file put together from an old version's beginning and a new one's end, where none is pinned."""
    with pytest.raises(UserError, match="goes on from there"):
        fetch(data, ["resumed.de"], lambda _: None)
    (Path(data.root) / "resumed.de.part").write_bytes(b"x" * 100)
    (Path(data.root) / "resumed.de.part.version").write_text('"0"')
    fetch(data, ["resumed.de"], lambda _: None)
    assert (Path(data.root) / "resumed.de").read_bytes() == TEXT


def test_without_a_version_a_download_starts_anew(data: DataConfig) -> None:
    """Fault: the promise to go on, or a rest of who knows what, where the server does not say what it sends."""
    with pytest.raises(UserError, match="after 9 of 1,000 bytes; the same command tries again"):
        fetch(data, ["cut.de"], lambda _: None)
    assert names(data) == ["cut.de.part"]
    with pytest.raises(UserError, match="after 9 of 1,000 bytes"):
        fetch(data, ["cut.de"], lambda _: None)


def test_a_rest_that_does_not_fit_is_thrown_away(data: DataConfig) -> None:
    """Fault: a file put together from two versions on the server, kept for ever after under .part."""
    Path(data.root).mkdir()
    (Path(data.root) / "resumed.de.part").write_bytes(b"another file's beginning")
    (Path(data.root) / "resumed.de.part.version").write_text('"1"')
    pinned = replace(data, sha256={"resumed.de": hashlib.sha256(TEXT).hexdigest()})
    with pytest.raises(UserError, match=r"resumed\.de has SHA-256"):
        fetch(pinned, ["resumed.de"])
    assert not (Path(data.root) / "resumed.de.part").exists()


def test_checksums_at_first_sight_hold_ever_after(data: DataConfig) -> None:
    """Fault: a fetched file that changes later, without a pin in the configuration, goes unnoticed."""
    fetch(data, ["train.de"], lambda _: None)
    path = Path(data.root) / "train.de"
    assert verified(data, "train.de") == digest("eins\n")
    path.write_text("zwei\n")
    for check in (verified, verify_pinned):
        with pytest.raises(
            UserError, match=rf"train\.de has SHA-256 .* but had {digest('eins' + chr(10))} when it was"
        ):
            check(data, "train.de")
    path.unlink()
    fetch(data, ["train.de"], lambda _: None)
    assert verified(data, "train.de") == digest("eins\n")


def test_offline(data: DataConfig) -> None:
    """Would catch a traceback without a network, without a url, and with one that is no address."""
    with pytest.raises(UserError, match=r"cannot fetch .* put train.de into "):
        fetch(replace(data, url="http://127.0.0.1:1/"), ["train.de"])
    with pytest.raises(
        UserError, match=r"cannot fetch example\.org/train\.de \(unknown url type: .* put train.de into "
    ):
        fetch(replace(data, url="example.org/"), ["train.de"])
    with pytest.raises(UserError, match=r"train\.de does not exist; put train\.de into .*set data\.root"):
        fetch(replace(data, url=None), ["train.de"])


def test_nothing_is_written_outside_the_data_folder(data: DataConfig, tmp_path: Path) -> None:
    """Would catch a file name that leads out of data.root."""
    for name in ("../evil", str(tmp_path / "evil")):
        with pytest.raises(UserError, match="only files inside data"):
            fetch(data, [name])
    assert not (tmp_path / "evil").exists()


def test_a_local_file_that_differs_from_its_pin_is_refused_when_used(data: DataConfig) -> None:
    """Would catch an edited copy under a pinned name, and an unpacked twin held to the pin of its .gz."""
    Path(data.root).mkdir()
    (Path(data.root) / "a.de").write_text("x")
    (Path(data.root) / "b.de").write_text("x")
    pinned = replace(data, sha256={"a.de": digest("y"), "b.de.gz": digest("y")})
    for check in (verified, verify_pinned):
        with pytest.raises(UserError, match=r"a\.de has SHA-256"):
            check(pinned, "a.de")
    assert verified(pinned, "b.de.gz") == digest("x")
    with pytest.raises(UserError, match=r"c\.de does not exist"):
        located(pinned, "c.de")


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"train": []}, "data.train must name two files"),
        ({"valid": ["a"]}, "data.valid must name two files"),
        ({"test": {"t": ["a", "b", "c"]}}, "data.test.t must name two files"),
        ({"valid_every": 9}, "data.valid names files"),
        ({"test": {"valid": ["a", "b"]}}, "data.test.valid: a test split cannot be named valid"),
    ],
)
def test_splits_that_are_no_pairs_are_named(options: dict[str, object], named: str) -> None:
    """Would catch an index error or a third file ignored."""
    data = DataConfig(train=["a", "b"], valid=["a", "b"])
    with pytest.raises(UserError, match=named):
        split_names(replace(data, **options))  # type: ignore[arg-type]
