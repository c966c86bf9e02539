"""Checkpoints: one file that holds all a model needs, of plain types only, with the SHA-256 of its content.

The file is the zip archive that ``torch.save`` writes; its digest stands in the archive's comment, so any program
that reads PyTorch files reads it, and ours notices a single flipped bit.
"""

from __future__ import annotations

import hashlib
import io
import pickle
from pathlib import Path
from typing import Any

import torch

from convs2s.config import ModelConfig, TrainConfig, from_plain
from convs2s.errors import UserError
from convs2s.files import atomic, real
from convs2s.messages import Log
from convs2s.model import Seq2Seq, build
from convs2s.text.tokenizer import Tokenizers

END_RECORD = b"PK\x05\x06"  # a zip archive ends with this record of 22 bytes, the last two the length of a comment
MARK = b"sha256:"
COMMENT = len(MARK) + 64


def save(path: Path, checkpoint: dict[str, Any]) -> None:
    """Write ``checkpoint`` to ``path``, whole or not at all; UserError where the disk refuses."""
    buffer = io.BytesIO()
    torch.save(checkpoint, buffer)
    content = memoryview(buffer.getvalue())  # of the buffer's own bytes: nothing is copied
    assert bytes(content[-22:-18]) == END_RECORD
    with atomic(path, "wb") as file:
        file.write(content[:-2])
        digest = hashlib.sha256(content[:-2]).hexdigest()
        file.write(COMMENT.to_bytes(2, "little") + MARK + digest.encode())


def load(path: str | Path) -> dict[str, Any]:
    """Read a checkpoint to CPU memory. UserError when it is missing, damaged, or not one of ours.

    Nothing of the file is interpreted before its digest is found right, and then only tensors and plain types are.
    """
    path = Path(path)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UserError(f"checkpoint {path}: {error.strerror}; give the file that training wrote") from error
    body, length, comment = content[: -COMMENT - 2], content[-COMMENT - 2 : -COMMENT], content[-COMMENT:]
    if not comment.startswith(MARK) or length != COMMENT.to_bytes(2, "little") or body[-20:-16] != END_RECORD:
        raise UserError(
            f"checkpoint {path}: not written by this program, or cut short (convert.py reads the authors' files)"
        )
    if hashlib.sha256(body).hexdigest().encode() != comment[len(MARK) :]:
        raise UserError(f"checkpoint {path}: damaged: its content does not have the SHA-256 it was saved with")
    try:
        checkpoint = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError) as error:
        raise UserError(f"checkpoint {path}: not one of this program ({str(error).splitlines()[0]:.100})") from error
    if not isinstance(checkpoint, dict) or not {"model", "config", "tokenizers"} <= checkpoint.keys():
        raise UserError(f"checkpoint {path}: not one of this program: it holds no model, config and tokenisers")
    return checkpoint


def run_directory(path: Path) -> Path:
    """RUN for RUN/checkpoints/best.pt, and otherwise the folder that the checkpoint lies in."""
    folder = real(path).parent
    return folder.parent if folder.name == "checkpoints" else folder


def newest(folder: Path, log: Log) -> tuple[Path, dict[str, Any]] | None:
    """The checkpoint to resume from: last.pt or, where that is damaged, the one with the most updates.

    A damaged file is named to ``log``. None where there is no checkpoint; UserError where none can be gone on with.
    """
    paths = sorted(folder.glob("*.pt"), key=lambda path: path.name != "last.pt")
    found: list[tuple[Path, dict[str, Any]]] = []
    for path in paths:
        try:
            checkpoint = load(path)
        except UserError as error:
            log(f"warning: {error}")
            continue
        if "optimizer" not in checkpoint:  # an average, or converted
            continue
        if path.name == "last.pt":
            return path, checkpoint
        found.append((path, checkpoint))
    if not found:
        if paths:
            raise UserError(
                f"{folder}: no checkpoint is whole and holds a training's state; restore one, or give another run_dir "
                "to start anew"
            )
        return None
    return max(found, key=lambda item: item[1]["progress"]["update"])


def load_weights(model: Seq2Seq, checkpoint: dict[str, Any], name: str) -> None:
    """Put a checkpoint's weights into ``model``; UserError where they do not fit."""
    try:
        model.load_state_dict(checkpoint["model"])
    except RuntimeError as error:
        reason = str(error).splitlines()[1].strip() if "\n" in str(error) else str(error)
        raise UserError(f"{name}: its weights do not fit this model: {reason}") from error


def build_model(checkpoint: dict[str, Any], name: str = "checkpoint") -> Seq2Seq:
    """The model of the checkpoint called ``name``, in evaluation mode; UserError where its parts do not fit."""
    try:
        config = from_plain(ModelConfig, checkpoint["config"]["model"])
        model = build(config, checkpoint["source_vocabulary"], checkpoint["target_vocabulary"])
    except UserError as error:
        raise UserError(f"{name}: {error}") from error
    load_weights(model, checkpoint, name)
    return model.eval()


def build_tokenizers(checkpoint: dict[str, Any]) -> Tokenizers:
    """The tokenisers that travel in a checkpoint."""
    return Tokenizers.from_state(checkpoint["tokenizers"])


def train_config(checkpoint: dict[str, Any]) -> TrainConfig:
    """The configuration that the checkpoint's run was started with."""
    return from_plain(TrainConfig, checkpoint["config"])
