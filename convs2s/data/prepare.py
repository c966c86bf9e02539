"""From raw files to a prepared folder: tokenisers learnt, pairs encoded once, all of it re-used while nothing changed.

The folder holds ``tokenizers.pt``, the arrays of the training and validation split and ``manifest.json``: SHA-256 of
the raw files, the settings, what was dropped, and size and SHA-256 of the folder's own files. Every call hashes the raw
and the prepared files (about a second a gigabyte) and rebuilds what does not agree, in a sibling folder that then takes
its place.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from enum import Enum
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece
import torch

from convs2s.config import DataConfig, TextConfig
from convs2s.data.clean import Cleaner
from convs2s.data.corpus import Corpus, CorpusWriter, over_long
from convs2s.data.download import fetch, located, missing, raw_pairs, verified, verify_pinned
from convs2s.data.lines import read_lines, read_pairs
from convs2s.data.storage import folder_lock, recover, replacing, sha256
from convs2s.errors import UserError
from convs2s.text.tokenizer import Tokenizers, sampled, train_tokenizers

FORMAT = 1  # raise it when the arrays or their meaning change: older folders are then rebuilt
_CHUNK = 20_000  # pairs encoded at a time
_SPLITS = ("train", "valid")
_MANIFEST = "manifest.json"
_TOKENIZERS = "tokenizers.pt"
Log = Callable[[str], None]


@dataclass
class Prepared:
    """Everything training needs of the data. ``manifest`` is the content of manifest.json."""

    tokenizers: Tokenizers
    train: Corpus
    valid: Corpus
    manifest: dict[str, Any]


def prepare(data: DataConfig, text: TextConfig, seed: int, log: Log = print) -> Prepared:
    """Open the prepared folder of these settings, built or rebuilt where needed; many processes may call it at once.

    ``seed`` draws the built-in corpus and the lines that SentencePiece learns from: data.seed.
    Errors: UserError for anything wrong with files or options. A folder that was there stays as it was then.
    """
    _check(data)
    names = raw_pairs(data)
    folder = Path(data.prepared_dir).resolve()

    def waiting() -> None:
        log(f"another process prepares {folder}: waiting for it")

    try:
        if not data.generate and data.url is None:
            fetch(data, _flat(names), log)  # nothing to fetch from: says what is missing, before a folder is made
        elif data.generate or missing(data, _flat(names)):
            with folder_lock(folder, shared=False, waiting=waiting):
                _provide(data, names, seed, log)
        inputs = _inputs(data, names)
        with folder_lock(folder, shared=True, waiting=waiting):
            found = _reuse(folder, _wanted(data, text, inputs), seed, log)
        if found is None:
            with folder_lock(folder, shared=False, waiting=waiting):
                recover(folder)
                wanted = _wanted(data, text, inputs)
                found = _reuse(folder, wanted, seed, _silent)
                if found is None:
                    _check_replaceable(folder)
                    _build(folder, data, text, seed, wanted, log)
                    found = _reuse(folder, wanted, seed, log)
    except OSError as error:
        raise UserError(
            f"data.prepared_dir={data.prepared_dir} cannot be written ({error.strerror or error});"
            " what was there before is unchanged"
        ) from None
    if found is None:
        raise UserError(f"{folder} changes while it is read; is something else writing into it?")
    return found


def split_paths(data: DataConfig, split: str, log: Log = print) -> tuple[Path, Path]:
    """The raw source and target file of "train", "valid" or a test split, provided where missing, pins checked.

    Errors: UserError for an unknown split, missing files, a wrong checksum.
    """
    names = raw_pairs(data)
    if split not in names:
        raise UserError(f"split={split} is none of {', '.join(name for name in names if name != 'train')}")
    pair = names[split]
    if missing(data, pair):
        _provide(data, {split: pair}, data.seed, log)
    for name in pair:
        verify_pinned(data, name)
    return located(data, pair[0]), located(data, pair[1])


def check_tests(data: DataConfig, tokenizers: Tokenizers, limit: int, log: Log = print) -> None:
    """Find out before training whether the test splits can be translated: read every pair, measure every source.

    ``limit``: tokens with </s> that the model takes (the position table's rows - 2).
    Errors: UserError with file and line.
    """
    for split in data.test:
        paths = split_paths(data, split, log)
        read = 0
        for chunk in _chunks(read_pairs(*paths)):
            for number, ids in enumerate(tokenizers.source.encode([pair[0] for pair in chunk]), start=read + 1):
                if len(ids) + 1 > limit:
                    raise over_long(paths[0], number, len(ids) + 1, limit)
            read += len(chunk)


def _flat(names: dict[str, tuple[str, str]]) -> list[str]:
    return list(dict.fromkeys(name for pair in names.values() for name in pair))


def _provide(data: DataConfig, names: dict[str, tuple[str, str]], seed: int, log: Log) -> None:
    """Write or fetch raw files that are missing."""
    if data.generate:
        from convs2s.data.grammar import write_corpus

        write_corpus(Path(data.root), data.generate, seed)
    fetch(data, _flat(names), log)


def _inputs(data: DataConfig, names: dict[str, tuple[str, str]]) -> dict[str, list[dict[str, str]]]:
    """Files and checksums of what is encoded; the test splits' pins are checked on the way."""
    for split in names:
        for name in names[split]:
            if split not in _SPLITS:
                verify_pinned(data, name)
    return {
        split: [{"file": located(data, name).name, "sha256": verified(data, name)} for name in names[split]]
        for split in _SPLITS
    }


def _wanted(data: DataConfig, text: TextConfig, inputs: dict[str, list[dict[str, str]]]) -> dict[str, Any]:
    """The part of the manifest that must agree for a prepared folder to be re-used."""
    settings = {name: value.value if isinstance(value, Enum) else value for name, value in asdict(text).items()}
    return {
        "format": FORMAT,
        "inputs": inputs,
        "text": settings,
        "clean": {"min_length": data.min_length, "max_length": data.max_length, "max_ratio": data.max_ratio},
    }


def _reuse(folder: Path, wanted: dict[str, Any], seed: int, log: Log) -> Prepared | None:
    """The folder's content if it is whole and was made from the same files with the same settings, else None."""
    try:
        manifest = json.loads((folder / _MANIFEST).read_text("utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        log(f"{folder / _MANIFEST} cannot be read: preparing again")
        return None
    try:
        changed = [key for key in wanted if _digests(manifest[key]) != _digests(wanted[key])]
        if changed or manifest["seed"] not in (None, seed):
            log(f"{folder} was prepared with other {', '.join(changed or ['seed'])}: preparing again")
            return None
        damaged = next((name for name in manifest["files"] if not _whole(folder / name, manifest["files"][name])), None)
        if damaged is not None:
            log(f"{folder / damaged} is damaged or cut short: preparing again")
            return None
        tokenizers = Tokenizers.from_state(torch.load(folder / _TOKENIZERS, weights_only=True))
        train, valid = (Corpus.open(folder, split, manifest["splits"][split]["dtypes"]) for split in _SPLITS)
    except (KeyError, TypeError, AttributeError):
        log(f"{folder / _MANIFEST} is not a manifest of this program: preparing again")
        return None
    return Prepared(tokenizers, train, valid, manifest)


def _digests(value: Any) -> Any:
    """Inputs are compared by content, not by name; anything else as it is."""
    if isinstance(value, dict) and set(value) == set(_SPLITS):
        return {split: [file["sha256"] for file in value[split]] for split in _SPLITS}
    return value


def _whole(path: Path, expected: dict[str, Any]) -> bool:
    return path.is_file() and path.stat().st_size == expected["bytes"] and sha256(path) == expected["sha256"]


def _build(folder: Path, data: DataConfig, text: TextConfig, seed: int, wanted: dict[str, Any], log: Log) -> None:
    paths = {split: (located(data, pair[0]), located(data, pair[1])) for split, pair in raw_pairs(data).items()}
    with replacing(folder) as new:
        source, target = paths["train"]
        count = sum(1 for _ in read_pairs(source, target))  # finds every fault of the files before minutes of learning
        for _ in read_pairs(*paths["valid"]):
            pass
        log(f"learning the {text.kind.value} vocabulary from {count:,} pairs")
        tokenizers = train_tokenizers(text, read_lines(source), read_lines(target), seed, count=count, log=log)
        state = io.BytesIO()
        torch.save(tokenizers.state(), state)
        (new / _TOKENIZERS).write_bytes(state.getvalue())  # torch.save itself hides what a full disk says
        cleaners = {
            "train": Cleaner(data.min_length, data.max_length, data.max_ratio),
            "valid": Cleaner(),
        }
        splits = {split: _encode(new, split, paths[split], tokenizers, cleaners[split], log) for split in _SPLITS}
        manifest = {
            **wanted,
            "seed": seed if sampled(text, count) else None,
            "name": data.name,
            "languages": [data.source, data.target],
            "vocabulary": [len(tokenizers.source.symbols), len(tokenizers.target.symbols)],
            "sentencepiece": sentencepiece.__version__,
            "splits": splits,
            "files": {
                path.name: {"bytes": path.stat().st_size, "sha256": sha256(path)} for path in sorted(new.iterdir())
            },
        }
        (new / _MANIFEST).write_text(json.dumps(manifest, indent=1, ensure_ascii=False) + "\n", "utf-8")


def _encode(
    folder: Path, split: str, paths: tuple[Path, Path], tokenizers: Tokenizers, cleaner: Cleaner, log: Log
) -> dict[str, Any]:
    """Write one split; returns its part of the manifest. Errors: UserError when no pair is left."""
    read = 0
    with CorpusWriter(folder, split, len(tokenizers.source.symbols), len(tokenizers.target.symbols)) as writer:
        for chunk in _chunks(read_pairs(*paths)):
            source = tokenizers.source.encode([pair[0] for pair in chunk])
            target = tokenizers.target.encode([pair[1] for pair in chunk])
            lengths = [np.fromiter(map(len, side), np.int64, len(chunk)) for side in (source, target)]
            lines = np.arange(read + 1, read + len(chunk) + 1, dtype=np.int64)
            writer.add(source, target, lines, cleaner.keep(*lengths))
            read += len(chunk)
    dropped = ", ".join(f"{name} {count:,}" for name, count in cleaner.dropped.items() if count)
    log(
        f"{split}: {read:,} pairs read, {read - writer.pairs:,} dropped{f' ({dropped})' if dropped else ''};"
        f" {writer.tokens['source']:,} + {writer.tokens['target']:,} tokens,"
        f" longest {writer.longest['source']:,} / {writer.longest['target']:,},"
        f" unknown {_percent(writer, 'source')} / {_percent(writer, 'target')}"
    )
    if writer.pairs == 0:
        raise UserError(f"{paths[0]} and {paths[1]}: none of {read:,} pairs is left ({dropped}); see data.max_length")
    return {
        "pairs_read": read,
        "pairs": writer.pairs,
        "dropped": cleaner.dropped,
        "tokens": writer.tokens,
        "unknown": writer.unknown,
        "longest": writer.longest,
        "dtypes": writer.dtypes,
    }


def _percent(writer: CorpusWriter, side: str) -> str:
    return f"{100 * writer.unknown[side] / max(1, writer.tokens[side]):.2f} %"


def _chunks(pairs: Iterator[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    while chunk := list(islice(pairs, _CHUNK)):
        yield chunk


def _check(data: DataConfig) -> None:
    if data.min_length < 0 or data.max_length < max(1, data.min_length):
        raise UserError(
            f"data.max_length={data.max_length} must be at least 1 and at least data.min_length={data.min_length}"
        )
    if data.max_ratio < 1:
        raise UserError(f"data.max_ratio={data.max_ratio} must be at least 1, or it drops every pair")


def _check_replaceable(folder: Path) -> None:
    """Never take the place of a folder that holds anything but a prepared corpus."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise UserError(f"data.prepared_dir={folder} is a file; name a folder")
    ours = (_MANIFEST, _TOKENIZERS, *(f"{split}." for split in _SPLITS))
    foreign = next((path for path in folder.iterdir() if not path.name.startswith(ours)), None)
    if foreign is not None:
        raise UserError(f"data.prepared_dir={folder} holds other things ({foreign.name}); name a new or empty folder")


def _silent(_: str) -> None:
    pass
