"""From raw files to a prepared folder: tokenisers learnt, pairs encoded once, all of it re-used while nothing changed.

The folder holds ``tokenizers.pt``, the arrays of the training and validation split, the text of a held-out validation
split and ``manifest.json``: SHA-256 of the raw files, the settings, what was dropped, and size and SHA-256 of the
folder's own files. Every call hashes the raw and the prepared files (about a second a gigabyte) and rebuilds what does
not agree, in a sibling folder that then takes its place.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sentencepiece
import torch

from convs2s.config import DataConfig, TextConfig, TokenizerKind
from convs2s.data import space
from convs2s.data.choice import Choice, choose, numbered
from convs2s.data.corpus import FILES, Corpus, over_long_line
from convs2s.data.download import fetch, record
from convs2s.data.encode import encode_choice, encode_texts
from convs2s.data.lines import Part, Side, read_all_pairs, read_pairs
from convs2s.data.manifest import digests, drawn, inputs, wanted_manifest, whole
from convs2s.data.parallel import cores
from convs2s.data.report import table, warnings
from convs2s.data.sources import (
    Sides,
    file_names,
    first_seen,
    held_out,
    missing,
    sides,
    split_names,
    training_names,
    unique,
    verify_pinned,
)
from convs2s.data.storage import folder_lock, recover, replacing, sha256
from convs2s.errors import UserError
from convs2s.files import real
from convs2s.messages import Log, say, silent
from convs2s.text.tokenizer import Tokenizers, sampled, segmenters, train_tokenizers

_SPLITS = ("train", "valid")
_MANIFEST = "manifest.json"
_TOKENIZERS = "tokenizers.pt"
_HELD_OUT = ("valid.source.txt", "valid.target.txt")


@dataclass
class Prepared:
    """Everything training needs of the data. ``manifest`` is the content of manifest.json."""

    tokenizers: Tokenizers
    train: Corpus
    valid: Corpus
    manifest: dict[str, Any]


def prepare(data: DataConfig, text: TextConfig, log: Log = say, given: Tokenizers | None = None) -> Prepared:
    """Open the prepared folder of these settings, built or rebuilt where needed; many processes may call it at once.

    ``given``: tokenisers to use instead of learning some, made with the options ``text`` (fine-tuning).
    Raises UserError for anything wrong with files or options. A folder that was there stays as it was then.
    """
    data.check()
    names = file_names(data)
    segmenters(text, (data.source, data.target))  # options and packages, before anything is fetched
    folder = real(data.prepared_dir)
    if not folder.name:
        raise UserError(f"data.prepared_dir={data.prepared_dir} is the root of the disk; name a new or empty folder")

    def waiting() -> None:
        log(f"another process prepares {folder}: waiting for it")

    def wanted_now() -> dict[str, Any]:
        return wanted_manifest(data, text, found_inputs) | {"given": None if given is None else _digest(given)}

    try:
        if data.generate or missing(data, names):
            _provide(data, names, log)
        found_inputs = inputs(data)
        with folder_lock(folder, shared=True, waiting=waiting):
            found = _reuse(folder, wanted_now(), data.seed, log)
        if found is None:
            with folder_lock(folder, shared=False, waiting=waiting):
                recover(folder)
                wanted = wanted_now()
                found = _reuse(folder, wanted, data.seed, silent)
                if found is None:
                    _check_replaceable(folder)
                    _build(folder, data, text, wanted, log, given)
                    found = _reuse(folder, wanted, data.seed, log)
    except OSError as error:
        raise UserError(
            f"data.prepared_dir={data.prepared_dir} cannot be written ({error.strerror or error});"
            " what was there before is intact"
        ) from None
    if found is None:
        raise UserError(f"{folder} changes while it is read; is something else writing into it?")
    return found


def split_paths(data: DataConfig, split: str, log: Log = say) -> Sides:
    """The raw source and target text of "train", "valid" or a test split, provided where missing, pins checked.

    Raises UserError for an unknown split, missing files, a wrong checksum.
    """
    names = split_names(data)
    if split == "valid" and held_out(data):
        paths = [Path(data.prepared_dir) / name for name in _HELD_OUT]
        for path in paths:
            if not path.exists():
                raise UserError(
                    f"{path} does not exist: the validation pairs are held out in preparation; prepare first"
                )
        return Side((Part(paths[0]),)), Side((Part(paths[1]),))
    if split not in names:
        raise UserError(f"split={split} is none of {', '.join(name for name in names if name != 'train')}")
    pairs = names[split]
    if split == "train":
        pairs = [pair for part, _ in training_names(data) for pair in part]
    files = unique([name for pair in pairs for name in pair])
    if missing(data, files):
        _provide(data, files, log)
    for name in files:
        verify_pinned(data, name)
    return sides(data, pairs)


def held_out_digests(manifest: dict[str, Any]) -> dict[str, str]:
    """SHA-256 of the text that was held out for validation, by file; empty where none was."""
    return {name: manifest["files"][name]["sha256"] for name in _HELD_OUT if name in manifest["files"]}


def check_held_out(data: DataConfig, digests: dict[str, str]) -> None:
    """UserError where the folder now holds out other pairs than when ``digests`` were taken: they may be training's."""
    for name, digest in digests.items():
        path = Path(data.prepared_dir) / name
        if sha256(path) != digest:
            raise UserError(
                f"{path} holds other pairs than those held out from this model's training, the folder was prepared "
                "anew: prepare the run's config.yaml in another data.prepared_dir, or give source= and reference="
            )


def check_tests(data: DataConfig, tokenizers: Tokenizers, limit: int | None, log: Log = say) -> None:
    """Find out before training whether the test splits can be translated: read every pair, measure every source.

    ``limit``: tokens with </s> that the model takes (the position table's rows - 2); None: longer lines will be cut.
    Raises UserError with file and line.
    """
    for split in data.test:
        paths = split_paths(data, split, log)
        for first, chunk in numbered(read_all_pairs(*paths, skip=False)):
            if limit is None:
                continue
            lines = tokenizers.source.encode([source or "" for source, _ in chunk])
            for number, ids in enumerate(lines, start=first + 1):
                if len(ids) + 1 > limit:
                    raise over_long_line(paths[0], number, len(ids) + 1, limit)


def _provide(data: DataConfig, names: Sequence[str], log: Log) -> None:
    """Write or fetch raw files that are missing."""
    if data.generate:
        from convs2s.data.builtin.splits import write_corpus

        written = write_corpus(Path(data.root), data.generate, data.seed, first_seen(data))
        if written:
            record(data, written)
    fetch(data, names, log)


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
        changed = [key for key in wanted if digests(manifest[key]) != digests(wanted[key])]
        if changed or manifest["seed"] not in (None, seed):
            log(f"{folder} was prepared with other {', '.join(changed or ['seed'])}: preparing again")
            return None
        damaged = next((name for name in manifest["files"] if not whole(folder / name, manifest["files"][name])), None)
        if damaged is not None:
            log(f"{folder / damaged} is damaged or cut short: preparing again")
            return None
        tokenizers = Tokenizers.from_state(torch.load(folder / _TOKENIZERS, weights_only=True))
        train, valid = (Corpus.open(folder, split, manifest["splits"][split]["dtypes"]) for split in _SPLITS)
    except (KeyError, TypeError, AttributeError):
        log(f"{folder / _MANIFEST} is not a manifest of this program: preparing again")
        return None
    return Prepared(tokenizers, train, valid, manifest)


def _build(
    folder: Path,
    data: DataConfig,
    text: TextConfig,
    wanted: dict[str, Any],
    log: Log,
    given: Tokenizers | None,
) -> None:
    names = split_names(data)
    texts = [(sides(data, pairs), weight) for pairs, weight in training_names(data)]
    workers = _workers(data, text, texts)
    log(space.check(folder, space.needed(data, text, texts)))
    with replacing(folder) as new:
        if "valid" in names:
            for _ in read_pairs(*sides(data, names["valid"])):
                pass  # finds every fault of the files before minutes of learning, as choose does for training text
        cutting = segmenters(text, (data.source, data.target))
        log(f"reading the training text{' and cutting it into words' if cutting else ''}")
        choice = choose(data, texts, cutting, new, workers)
        tokenizers = given or _learn(data, text, choice, log)
        (new / _TOKENIZERS).write_bytes(_saved(tokenizers))
        splits = encode_choice(new, data, choice, tokenizers, cutting is not None, workers)
        if "valid" in names:
            splits["valid"] = encode_texts(new, "valid", sides(data, names["valid"]), tokenizers)
        elif "valid" not in splits:
            raise UserError(
                f"no pair was held out of {len(choice.held):,} for validation by"
                f" data.valid_fraction={data.valid_fraction:g}, data.valid_every={data.valid_every}"
            )
        else:
            _write_held_out(new, choice, texts)
        for words in new.glob("*.words"):
            words.unlink()
        manifest = {
            **wanted,
            "seed": data.seed if sampled(text, int((choice.copies > 0).sum())) or drawn(data) else None,
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
    for line in [*table(manifest), *warnings(manifest)]:
        log(line)


def _saved(tokenizers: Tokenizers) -> bytes:
    """As torch.save writes it to a file, but without hiding what a full disk says."""
    state = io.BytesIO()
    torch.save(tokenizers.state(), state)
    return state.getvalue()


def _digest(tokenizers: Tokenizers) -> str:
    return hashlib.sha256(_saved(tokenizers)).hexdigest()


def _learn(data: DataConfig, text: TextConfig, choice: Choice, log: Log) -> Tokenizers:
    count = int((choice.copies > 0).sum())
    log(f"learning the {text.kind.value} vocabulary from {count:,} pairs")
    return train_tokenizers(
        text,
        choice.chosen(0),
        choice.chosen(1),
        data.seed,
        count=count,
        languages=(data.source, data.target),
        segmented=text.kind == TokenizerKind.moses_bpe,
        log=log,
    )


def _write_held_out(new: Path, choice: Choice, texts: Sequence[tuple[Sides, float]]) -> None:
    """The raw text of the held-out pairs, which are all of data.train."""
    with (new / _HELD_OUT[0]).open("wb") as source, (new / _HELD_OUT[1]).open("wb") as target:
        for held, pair in zip(choice.held, read_all_pairs(*texts[0][0], skip=True), strict=False):
            if held:
                source.write(f"{pair[0]}\n".encode())
                target.write(f"{pair[1]}\n".encode())


def _workers(data: DataConfig, text: TextConfig, texts: Sequence[tuple[Sides, float]]) -> int:
    """Processes for encoding; none where starting them takes longer than the work."""
    if data.workers is not None:
        return data.workers if data.workers > 1 else 0
    size = sum(space.text_size(pair) for pair, _ in texts)
    worth = 2e6 if text.kind == TokenizerKind.moses_bpe else 5e7  # bytes; Moses takes most of the time
    return cores() if size > worth and cores() > 1 else 0


def _check_replaceable(folder: Path) -> None:
    """Never take the place of a folder that holds anything but a prepared corpus."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise UserError(f"data.prepared_dir={folder} is a file; name a folder")
    ours = {_MANIFEST, _TOKENIZERS, *_HELD_OUT, *(f"{split}.{name}" for split in _SPLITS for name in FILES)}
    foreign = next((path for path in folder.iterdir() if path.name not in ours), None)
    if foreign is not None:
        raise UserError(f"data.prepared_dir={folder} holds other things ({foreign.name}); name a new or empty folder")
