"""What a prepared folder was made of: the inputs and settings that must agree for it to be used again."""

from __future__ import annotations

from dataclasses import asdict
from enum import Enum
from pathlib import Path
from typing import Any

from convs2s.config import DataConfig, TextConfig, TokenizerKind
from convs2s.data.sources import Names, located, split_names, training_names, unique, verified, verify_pinned
from convs2s.data.storage import sha256

FORMAT = 3  # raise it when the arrays or their meaning change: older folders are then rebuilt


def inputs(data: DataConfig) -> dict[str, Any]:
    """Files and checksums of what is encoded, weights included; the test splits' pins are checked on the way."""
    names = split_names(data)
    seen: dict[str, str] = {}

    def described(pairs: Names) -> list[dict[str, str]]:
        found = []
        for name in unique([name for pair in pairs for name in pair]):
            if name not in seen:
                seen[name] = verified(data, name)
            found.append({"file": located(data, name).name, "sha256": seen[name]})
        return found

    found_all: dict[str, Any] = {"train": [], "weights": [weight for _, weight in training_names(data)]}
    for pairs, _ in training_names(data):
        found_all["train"] += described(pairs)
    if "valid" in names:
        found_all["valid"] = described(names["valid"])
    for split in data.test:
        for pair in names[split]:
            for name in pair:
                verify_pinned(data, name)
    return found_all


_CLEANING = (
    "length_unit",
    "min_length",
    "max_length",
    "max_ratio",
    "max_pieces",
    "errors",
    "drop_duplicates",
    "fraction",
    "max_pairs",
    "valid_fraction",
    "valid_every",
    "columns",
)


def wanted_manifest(data: DataConfig, text: TextConfig, files: dict[str, Any]) -> dict[str, Any]:
    """The part of the manifest that must agree for a prepared folder to be re-used."""
    settings = _plain(asdict(text))
    if text.codes is not None:
        settings["codes"] = sha256(Path(text.codes))
    cleaning = _plain({name: getattr(data, name) for name in _CLEANING})
    if text.kind == TokenizerKind.moses_bpe:  # which tokenise by language
        cleaning["languages"] = [data.source, data.target]
    return {"format": FORMAT, "inputs": files, "text": settings, "clean": cleaning}


def _plain(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value.value if isinstance(value, Enum) else value for name, value in options.items()}


def digests(value: Any) -> Any:
    """Inputs are compared by content, not by name; anything else as it is."""
    if isinstance(value, dict) and "weights" in value:
        return {key: [file["sha256"] if isinstance(file, dict) else file for file in value[key]] for key in value}
    return value


def whole(path: Path, expected: dict[str, Any]) -> bool:
    """Whether a file has the size and checksum that the manifest says."""
    return path.is_file() and path.stat().st_size == expected["bytes"] and sha256(path) == expected["sha256"]


def drawn(data: DataConfig) -> bool:
    """Whether data.seed decides which training pairs are used."""
    weights = [weight for _, weight in training_names(data)]
    return data.fraction < 1 or data.max_pairs is not None or any(weight % 1 for weight in weights)
