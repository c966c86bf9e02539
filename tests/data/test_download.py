"""Fetching raw files: pins, interruptions, being offline; served from a local folder, nothing leaves the machine."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from convs2s.config import DataConfig
from convs2s.data.download import fetch, located, missing, raw_pairs, verified, verify_pinned
from convs2s.errors import UserError


class Handler(SimpleHTTPRequestHandler):
    def do_GET(self) -> None:
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
    yield DataConfig(root=str(tmp_path / "raw=ü x"), url=f"http://127.0.0.1:{server.server_port}/")
    server.shutdown()
    server.server_close()


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def names(data: DataConfig) -> list[str]:
    root = Path(data.root)
    return sorted(path.name for path in root.iterdir()) if root.exists() else []


def test_missing_files_are_fetched_and_checked(data: DataConfig) -> None:
    """Would catch names that are not quoted in the url, leftovers, and a second fetch of what is there."""
    pinned = replace(data, sha256={"train.de": digest("eins\n"), "ä b.de": digest("zwei\n")})
    said: list[str] = []
    fetch(pinned, ["train.de", "ä b.de"], said.append)
    assert names(data) == ["train.de", "ä b.de"]
    assert (Path(data.root) / "ä b.de").read_text() == "zwei\n"
    assert len(said) == 2
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
    assert names(data) == []


def test_offline(data: DataConfig) -> None:
    """Would catch a traceback without a network, and without a url."""
    with pytest.raises(UserError, match=r"cannot fetch .* put train.de into "):
        fetch(replace(data, url="http://127.0.0.1:1/"), ["train.de"])
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
        ({"test": {"valid": ["a", "b"]}}, "data.test.valid: a test split cannot be named valid"),
    ],
)
def test_splits_that_are_no_pairs_are_named(options: dict[str, object], named: str) -> None:
    """Would catch an index error or a third file ignored."""
    data = DataConfig(train=["a", "b"], valid=["a", "b"])
    with pytest.raises(UserError, match=named):
        raw_pairs(replace(data, **options))  # type: ignore[arg-type]
