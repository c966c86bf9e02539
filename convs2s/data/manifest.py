"""What a prepared folder was made of: the inputs and settings that must agree for it to be used again."""

from __future__ import annotations

from dataclasses import asdict
from enum import Enum
from pathlib import Path
from typing import Any

from convs2s.config import DataConfig, TextConfig, TokenizerKind
from convs2s.data.sources import Names, located, split_names, training_names, unique, verified, verify_pinned
from convs2s.data.storage import sha256
from convs2s.errors import UserError

FORMAT = 2  # raise it when the arrays or their meaning change: older folders are then rebuilt


def inputs(data: DataConfig) -> dict[str, Any]:
    """Files and checksums of what is encoded, weights included; the test splits' pins are checked on the way."""
    names = split_names(data)
    digests: dict[str, str] = {}

    def described(pairs: Names) -> list[dict[str, str]]:
        found = []
        for name in unique([name for pair in pairs for name in pair]):
            if name not in digests:
                digests[name] = verified(data, name)
            found.append({"file": located(data, name).name, "sha256": digests[name]})
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
    if text.kind is TokenizerKind.moses_bpe:  # which tokenise by language
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
    return path.is_file() and path.stat().st_size == expected["bytes"] and sha256(path) == expected["sha256"]


def drawn(data: DataConfig) -> bool:
    """Whether data.seed decides which training pairs are used."""
    weights = [weight for _, weight in training_names(data)]
    return data.fraction < 1 or data.max_pairs is not None or any(weight % 1 for weight in weights)


def check_options(data: DataConfig) -> None:
    """Refuse options that cannot work. Errors: UserError that names the option."""
    written = {f"{split}.{language}" for split in ("train", "valid", "test") for language in (data.source, data.target)}
    if data.generate and not {*data.train, *data.valid} <= written:
        raise UserError("data.train or data.valid names own files, but data=quickstart writes its own: add data=files")
    if data.min_length < 0 or data.max_length < max(1, data.min_length):
        raise UserError(
            f"data.max_length={data.max_length} must be at least 1 and at least data.min_length={data.min_length}"
        )
    if data.max_ratio < 1:
        raise UserError(f"data.max_ratio={data.max_ratio} must be at least 1, or it drops every pair")
    if not 0 <= data.valid_fraction < 1:
        raise UserError(f"data.valid_fraction={data.valid_fraction} must be at least 0 and below 1")
    if data.valid_fraction > 0 and data.valid_every is not None:
        raise UserError("data.valid_fraction and data.valid_every are two ways to hold out validation pairs: give one")
    if not 0 < data.fraction <= 1:
        raise UserError(f"data.fraction={data.fraction} must lie above 0 and at most at 1")
    for name, least in (("valid_every", 2), ("max_pairs", 1), ("workers", 0), ("max_pieces", 1)):
        value = getattr(data, name)
        if value is not None and value < least:
            raise UserError(f"data.{name}={value} must be at least {least}, or null")
    weights = {"data.train_weight": data.train_weight}
    weights |= {f"data.extra[{i}].weight": more.weight for i, more in enumerate(data.extra)}
    for option, weight in weights.items():
        if not 0 <= weight <= 255:
            raise UserError(f"{option}={weight} must be at least 0 and at most 255")
