"""Preparing end to end: what is encoded, when it is re-used or built again, and that no fault loses what was there."""

from __future__ import annotations

import gzip
import json
import os
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

import convs2s.data.choice as choosing
import convs2s.data.prepare as module
from convs2s.config import DataConfig, TextConfig, TokenizerKind
from convs2s.data import space
from convs2s.data.lines import read_lines
from convs2s.data.prepare import Prepared, check_tests, prepare, split_paths
from convs2s.data.sources import sides
from convs2s.errors import UserError

WORDS = TextConfig(kind=TokenizerKind.whitespace, joint=False)
PIECES = TextConfig(vocabulary_size=60)
SOURCE = ["der Mann geht", "", "die Frau\u2028geht", "x " * 9, "das Kind", "ein Haus am See ."]
TARGET = ["the man walks", "nothing", "the woman\rwalks", "y", "", "a house by the lake"]


@pytest.fixture
def data(tmp_path: Path) -> DataConfig:
    """Six training pairs of which three survive, two of validation, one of test, in a folder with an awkward name."""
    root = tmp_path / "raw = ü"
    root.mkdir()
    for name, source, target in (
        ("train", SOURCE, TARGET),
        ("valid", ["die Frau", "der Mann " * 6], ["the woman", "a"]),
        ("test", ["der See"], ["the lake"]),
    ):
        (root / f"{name}.de").write_text("\n".join(source), encoding="utf-8", newline="\n")
        (root / f"{name}.en").write_text("\n".join(target) + "\n", encoding="utf-8", newline="\n")
    return DataConfig(
        name="tiny",
        source="de",
        target="en",
        root=str(root),
        prepared_dir=str(tmp_path / "prepared = ü" / "x"),
        train=["train.de", "train.en"],
        valid=["valid.de", "valid.en"],
        test={"test": ["test.de", "test.en"]},
        max_length=8,
        max_ratio=3.0,
    )


def files(data: DataConfig) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path(data.prepared_dir).iterdir()}


class Log(list[str]):
    """Collects what is said; ``built`` tells whether anything was encoded, and starts afresh."""

    def __call__(self, line: str) -> None:
        self.append(line)

    def built(self) -> bool:
        found = any(line.startswith("pairs read") for line in self)
        self.clear()
        return found


@pytest.mark.parametrize("text", [WORDS, PIECES], ids=["whitespace", "sentencepiece"])
def test_pairs_are_cleaned_encoded_and_located(data: DataConfig, text: TextConfig) -> None:
    """Would catch sides cleaned apart, line numbers of the cleaned text, U+2028 or CR as line ends, filtered valid."""
    text = replace(text, joint=True)
    long = replace(data, max_length=40)  # the fourth pair goes by its ratio, whatever the pieces
    prepared = prepare(long, text, Log())
    assert prepared.train.lines.tolist() == [1, 3, 6]
    assert prepared.valid.lines.tolist() == [1, 2]
    for i, line in enumerate([1, 3, 6]):
        for side, raw in (("source", SOURCE), ("target", TARGET)):
            tokenizer = getattr(prepared.tokenizers, side)
            ids = tokenizer.encode([raw[line - 1]])[0]
            assert getattr(prepared.train, side)(i).tolist() == [*ids, 2]
    split = prepared.manifest["splits"]["train"]
    assert (split["pairs_read"], split["pairs"]) == (6, 3)
    assert {rule: count for rule, count in split["dropped"].items() if count} == {"empty": 2, "ratio": 1}


def test_everything_is_the_same_in_any_chunks(data: DataConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Would catch pairs lost, line numbers restarting or counts off at the border of a chunk."""
    prepare(data, WORDS, Log())
    whole = files(data)
    monkeypatch.setattr(choosing, "CHUNK", 2)
    prepare(replace(data, prepared_dir=f"{data.prepared_dir}2"), WORDS, Log())
    assert files(replace(data, prepared_dir=f"{data.prepared_dir}2")) == whole


def test_reused_while_nothing_changes_and_rebuilt_when_something_does(data: DataConfig) -> None:
    """Would catch a stale corpus after an edit or another setting, and work done again at every start."""
    log = Log()
    root = Path(data.root)

    def built(data: DataConfig, text: TextConfig, seed: int = 1) -> bool:
        prepare(replace(data, seed=seed), text, log)
        return log.built()

    assert built(data, WORDS)
    assert not built(data, WORDS)
    assert not built(data, WORDS, seed=2)
    assert built(data, replace(WORDS, min_frequency=2))
    assert built(data, WORDS)
    assert built(replace(data, max_length=3), WORDS)
    assert built(data, WORDS)
    (root / "train.en").write_bytes((root / "train.en").read_bytes().replace(b"man", b"boy"))
    assert built(data, WORDS)
    assert not built(data, WORDS)
    (root / "valid.de").write_text("die Frau\nder See\n", "utf-8")
    assert built(data, WORDS)
    assert not built(data, WORDS)
    root.rename(root.with_name("moved"))  # what counts is the content
    assert not built(replace(data, root=str(root.with_name("moved"))), WORDS)


def test_the_seed_counts_only_where_lines_are_drawn(data: DataConfig) -> None:
    """Would catch three training seeds that rebuild each other's corpus, or a seed without effect on the sample."""
    log = Log()
    few = replace(PIECES, training_lines=6, vocabulary_size=40)
    data = replace(data, max_length=99)
    for seed, builds in ((1, True), (1, False), (2, True)):
        prepare(replace(data, seed=seed), few, log)
        assert log.built() == builds


def test_compressed_twins_are_found(data: DataConfig) -> None:
    """Would catch train.de refused where only train.de.gz is there."""
    path = Path(data.root) / "train.de"
    before = prepare(data, WORDS, Log()).train.source_tokens.tolist()
    path.with_name("train.de.gz").write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    assert prepare(data, WORDS, Log()).train.source_tokens.tolist() == before


@pytest.mark.parametrize("damage", ["shorter", "changed", "gone", "manifest", "no manifest", "foreign manifest"])
def test_a_damaged_corpus_is_built_again_with_a_message(data: DataConfig, damage: str) -> None:
    """Would catch training on a corpus cut short or altered, or a crash that only deleting the folder mends."""
    log = Log()
    prepare(data, WORDS, log)
    whole = files(data)
    tokens, manifest = (Path(data.prepared_dir) / name for name in ("train.target.tokens", "manifest.json"))
    raw = tokens.read_bytes()
    match damage:
        case "shorter":
            tokens.write_bytes(raw[:-2])
        case "changed":
            tokens.write_bytes(bytes([raw[0] ^ 1]) + raw[1:])
        case "gone":
            tokens.unlink()
        case "manifest":
            manifest.write_text(manifest.read_text("utf-8")[:-20], "utf-8")
        case "no manifest":
            manifest.unlink()
        case "foreign manifest":
            manifest.write_text('{"files": []}')
    log.clear()
    prepare(data, WORDS, log)
    assert damage == "no manifest" or "preparing again" in log[0]
    assert log.built()
    assert files(data) == whole


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """No file may grow beyond ``size`` bytes, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("size", [0, 20, 200])
def test_a_full_disk_leaves_the_old_corpus_intact(data: DataConfig, size: int) -> None:
    """Would catch a corpus lost to one that does not fit, a traceback, and half a folder left behind."""
    log = Log()
    prepare(data, WORDS, log)
    before = files(data)
    with pytest.raises(UserError, match=r"cannot be written .*what was there before is intact"), largest_file(size):
        prepare(data, PIECES, log)
    assert files(data) == before
    assert sorted(path.name for path in Path(data.prepared_dir).parent.iterdir()) == ["x", "x.lock"]
    log.clear()
    prepare(data, WORDS, log)
    assert not log.built()


def test_a_disk_without_room_is_found_out_before_the_work(data: DataConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault: hours of work before the disk is full; weights, compression or moses_bpe's words not counted."""
    log, free = Log(), 40
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10**9, 0, free))
    with pytest.raises(UserError, match=r"preparing writes about 0\.0 MB there, but 0\.0 MB are free; make room"):
        prepare(data, WORDS, log)
    assert log == []
    assert not Path(data.prepared_dir).exists()
    free = 10**12
    prepare(data, WORDS, log)
    assert log[0].endswith("of the 1,000,000.0 MB that are free there")
    raw = [Path(data.root) / f"train.{language}" for language in ("de", "en")]
    size = sum(path.stat().st_size for path in raw)
    texts = [(sides(data, [("train.de", "train.en")]), 2.0)]
    assert space.needed(data, WORDS, texts) == 2 * size
    assert space.needed(replace(data, fraction=0.5), TextConfig(kind=TokenizerKind.moses_bpe), texts) == 2 * size
    assert space.needed(replace(data, max_pairs=0), WORDS, texts) == 0
    for path in raw:
        path.rename(path.with_name(f"{path.name}.gz"))
    assert space.needed(data, WORDS, [(sides(data, [("train.de", "train.en")]), 1.0)]) == 4 * size


def test_an_interrupted_preparation_leaves_the_old_corpus_intact(
    data: DataConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Would catch Ctrl-C in the middle of a rebuild costing the corpus that was there."""
    prepare(data, WORDS, Log())
    before = files(data)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module, "encode_choice", interrupted)
        with pytest.raises(KeyboardInterrupt):
            prepare(data, PIECES, Log())
    assert files(data) == before
    prepare(data, PIECES, Log())
    assert files(data) != before


def test_preparations_at_once_build_once(data: DataConfig) -> None:
    """Would catch several writers in one folder: under torchrun every rank prepares."""
    log = Log()
    with ThreadPoolExecutor(4) as pool:
        prepared = list(pool.map(lambda _: prepare(data, WORDS, log), range(4)))
    assert sum(line.startswith("pairs read") for line in log) == 1
    assert all(both.train.source_tokens.tolist() == prepared[0].train.source_tokens.tolist() for both in prepared)


def test_a_prepared_corpus_on_a_read_only_disk_is_used(data: DataConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Would catch a shared, write-protected corpus being useless because its lock cannot be taken."""
    prepare(data, WORDS, Log())
    system_open = os.open

    def read_only(path: str, flags: int, *rest: int) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR):
            raise OSError(30, "Read-only file system", str(path))
        return system_open(path, flags, *rest)

    monkeypatch.setattr(os, "open", read_only)
    assert len(prepare(data, WORDS, Log()).train) == 3
    with pytest.raises(
        UserError, match=re.escape(f"data.prepared_dir={data.prepared_dir} cannot be written (Read-only")
    ):
        prepare(data, PIECES, Log())


def test_a_folder_of_other_things_is_never_replaced(data: DataConfig, tmp_path: Path) -> None:
    """Would catch data.prepared_dir=~ costing somebody their files.

    Fault: the raw text itself, train.* and valid.*, passes for a prepared corpus; a stack trace for the disk's root.
    """
    (Path(data.root) / "test.de").unlink()
    (Path(data.root) / "test.en").unlink()
    data.test = {}
    with pytest.raises(UserError, match="holds other things"):
        prepare(replace(data, prepared_dir=data.root), WORDS, Log())
    assert (Path(data.root) / "train.de").exists()
    with pytest.raises(UserError, match=r"data\.prepared_dir=/ is the root of the disk"):
        prepare(replace(data, prepared_dir="/"), WORDS, Log())
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="is a file; name a folder"):
        prepare(replace(data, prepared_dir=str(tmp_path / "file")), WORDS, Log())


def spoil(data: DataConfig, name: str, content: bytes) -> DataConfig:
    (Path(data.root) / name).write_bytes(content)
    return data


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("train.en", b"a\nb\n", r"train\.de has 6 lines but .*train\.en has 2"),
        ("valid.en", b"a\n", r"valid\.de has 2 lines but .*valid\.en has 1"),
        ("train.de", b"a\nb\nc\nd\ne\nM\xe4nner", r"train\.de, line 6, byte 2: 0xe4"),
        ("valid.de", b"\x1f\x8b\x08\x00broken", r"valid\.de: damaged gzip"),
        ("train.de", b"", r"train\.de has 0 lines but"),
        ("train.de", b"\n\n\n\n\n\n", r"none of 6 pairs is left \(empty 6\)"),
        ("valid.de", b"\n \n", r"none of 2 pairs is left \(empty 2\)"),
    ],
)
def test_bad_files_are_refused_by_name(data: DataConfig, name: str, content: bytes, message: str) -> None:
    """Would catch a traceback or a shifted corpus; and the corpus prepared before must survive the bad file."""
    prepare(data, WORDS, Log())
    before = files(data)
    with pytest.raises(UserError, match=message):
        prepare(spoil(data, name, content), WORDS, Log())
    assert files(data) == before


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"max_length": 0}, "data.max_length=0"),
        ({"min_length": 9}, "data.min_length=9"),
        ({"max_ratio": 0.5}, "data.max_ratio=0.5"),
        ({"train": ["train.de", "none"]}, r"none does not exist; put none into .*, or set data\.root"),
        ({"test": {"test": ["test.de", "gone"]}}, "gone does not exist"),
        ({"sha256": {"test.de": "00"}}, r"test\.de has SHA-256"),
        ({"sha256": {"train.de": "00"}}, r"train\.de has SHA-256"),
    ],
)
def test_bad_options_are_refused_by_name(data: DataConfig, options: dict[str, object], named: str) -> None:
    """Would catch a run that trains for days before it misses its test split, or drops every pair."""
    with pytest.raises(UserError, match=named):
        prepare(replace(data, **options), WORDS, Log())  # type: ignore[arg-type]


def test_split_paths(data: DataConfig) -> None:
    """Would catch a score on the wrong split, and a mistyped split that says nothing of the right ones."""
    root = Path(data.root)
    assert [str(side) for side in split_paths(data, "test")] == [str(root / "test.de"), str(root / "test.en")]
    assert [str(side) for side in split_paths(data, "valid")] == [str(root / "valid.de"), str(root / "valid.en")]
    with pytest.raises(UserError, match="split=tset is none of valid, test"):
        split_paths(data, "tset")
    with pytest.raises(UserError, match=r"test\.de has SHA-256"):
        split_paths(replace(data, sha256={"test.de": "00"}), "test")


def test_test_splits_are_measured_before_training(data: DataConfig) -> None:
    """Would catch a test sentence beyond the position table found only after training, and </s> not counted."""
    prepared: Prepared = prepare(data, WORDS, Log())
    check_tests(data, prepared.tokenizers, 3)
    with pytest.raises(UserError, match=r"test\.de, line 1: 3 pieces, </s> included, .* at most 2"):
        check_tests(data, prepared.tokenizers, 2)
    (Path(data.root) / "test.en").write_text("a\nb\n")
    with pytest.raises(UserError, match=r"test\.de has 1 lines but"):
        check_tests(data, prepared.tokenizers, 9)


def test_the_manifest_is_plain_json_with_checksums(data: DataConfig) -> None:
    """Would catch a manifest that does not say what the corpus was made of."""
    prepared = prepare(data, WORDS, Log())
    manifest = json.loads((Path(data.prepared_dir) / "manifest.json").read_text("utf-8"))
    assert manifest == prepared.manifest
    assert [file["file"] for file in manifest["inputs"]["train"]] == ["train.de", "train.en"]
    assert all(len(file["sha256"]) == 64 for split in ("train", "valid") for file in manifest["inputs"][split])
    assert manifest["vocabulary"] == [len(tokenizer.symbols) for tokenizer in prepared.tokenizers]
    assert manifest["text"]["kind"] == "whitespace"


def test_the_built_in_corpus_is_written_and_prepared(tmp_path: Path) -> None:
    """Would catch a quickstart that needs files, is built anew at every start, scores another test text, cannot be
    made in another size, or takes the place of a user's own text."""
    data = DataConfig(
        root=str(tmp_path / "raw"),
        prepared_dir=str(tmp_path / "prepared"),
        train=["train.en", "train.de"],
        valid=["valid.en", "valid.de"],
        test={"test": ["test.en", "test.de"]},
        generate=[40, 5, 5],
    )
    log = Log()
    assert len(prepare(data, WORDS, log).train) == 40
    assert log.built()
    before = [list(read_lines(side)) for side in split_paths(data, "test")]
    (tmp_path / "raw" / "test.de").unlink()
    assert [list(read_lines(side)) for side in split_paths(data, "test")] == before
    prepare(data, WORDS, log)
    assert not log.built()
    assert len(prepare(replace(data, generate=[30, 5, 5]), WORDS, log).train) == 30
    (tmp_path / "raw" / "train.de").write_text("mein Satz\n")
    with pytest.raises(UserError, match=r"train\.de was not written by this program"):
        prepare(data, WORDS, log)


def test_the_script(data: DataConfig) -> None:
    """Would catch a script that does not compose, and a path with spaces, "=" or "ü" that is cut off."""
    root = Path(__file__).parents[2]
    options = {
        "data.name": "tiny",
        "data.root": repr(data.root),
        "data.prepared_dir": repr(data.prepared_dir),
        "data.generate": "[]",
        "text.kind": "whitespace",
    }
    done = subprocess.run(
        [sys.executable, str(root / "scripts" / "prepare.py"), *(f"{key}={value}" for key, value in options.items())],
        cwd=data.root,
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"pairs read +6 +2\n", done.stderr)
    assert done.stdout.startswith(f"{data.prepared_dir}: 4 training and 2 validation pairs")
    assert (Path(data.prepared_dir) / "manifest.json").exists()
