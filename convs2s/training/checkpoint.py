"""Checkpoints: one file that holds all a model needs, of plain types only, with the SHA-256 of its content.

The file is the zip archive that ``torch.save`` writes; its digest stands in the archive's comment, so any program
that reads PyTorch files reads it, and ours notices a single flipped bit.
"""

from __future__ import annotations

import hashlib
import io
import os
import pickle
from pathlib import Path
from typing import Any

import torch

from convs2s.config import ModelConfig, TrainConfig, from_plain
from convs2s.errors import UserError
from convs2s.model import ConvS2S
from convs2s.text.tokenizer import Tokenizers

END_RECORD = b"PK\x05\x06"  # a zip archive ends with this record, 22 bytes where it has no comment
COMMENT = b"sha256:"


def save(path: Path, checkpoint: dict[str, Any]) -> None:
    """Write ``checkpoint`` to ``path``, whole or not at all: a temporary file is flushed to disk and renamed."""
    buffer = io.BytesIO()
    torch.save(checkpoint, buffer)
    content = buffer.getvalue()
    assert content[-22:-18] == END_RECORD
    comment = COMMENT + hashlib.sha256(content[:-2]).hexdigest().encode()
    temporary = path.with_name(path.name + ".tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(content[:-2] + len(comment).to_bytes(2, "little") + comment)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        directory = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise UserError(f"{path}: checkpoint not written ({error.strerror}); the previous one is intact") from error


def load(path: str | Path) -> dict[str, Any]:
    """Read a checkpoint to CPU memory.  Raises UserError when it is missing, damaged, or not one of ours."""
    path = Path(path)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UserError(
            f"checkpoint={path}: {error.strerror}; give the file that training wrote, e.g. checkpoints/best.pt"
        ) from error
    size = 2 + len(COMMENT) + 64
    body, length, comment = content[:-size], content[-size : 2 - size], content[2 - size :]
    if not comment.startswith(COMMENT) or length != (size - 2).to_bytes(2, "little") or body[-20:-16] != END_RECORD:
        raise UserError(f"{path}: not a checkpoint of this program, or cut short")
    if hashlib.sha256(body).hexdigest().encode() != comment[len(COMMENT) :]:
        raise UserError(f"{path}: damaged: its content does not have the SHA-256 it was saved with")
    try:
        checkpoint = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError) as error:
        raise UserError(f"{path}: not a checkpoint of this program ({str(error).splitlines()[0]})") from error
    if not isinstance(checkpoint, dict) or "model" not in checkpoint or "config" not in checkpoint:
        raise UserError(f"{path}: not a checkpoint of this program: model and config are missing")
    return checkpoint


def build_model(checkpoint: dict[str, Any]) -> ConvS2S:
    """The model of a checkpoint, in evaluation mode."""
    config = from_plain(ModelConfig, checkpoint["config"]["model"])
    model = ConvS2S(config, checkpoint["source_vocabulary"], checkpoint["target_vocabulary"])
    model.load_state_dict(checkpoint["model"])
    return model.eval()


def build_tokenizers(checkpoint: dict[str, Any]) -> Tokenizers:
    """The tokenisers that travel in a checkpoint."""
    return Tokenizers.from_state(checkpoint["tokenizers"])


def train_config(checkpoint: dict[str, Any]) -> TrainConfig:
    """The configuration that the checkpoint's run was started with."""
    return from_plain(TrainConfig, checkpoint["config"])
