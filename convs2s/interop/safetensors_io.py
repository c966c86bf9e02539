"""A checkpoint as a folder that other programs read, and back: weights, options and tokenisers, bit for bit.

    model.safetensors   the weights under the names of our state dictionary
    config.json         vocabulary sizes, the composed configuration, names of shared weights, the model's origin
    tokenizers.json     kind and words of each side's tokeniser; SentencePiece models lie beside it (source.model)

The optimiser's state is not part of it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from convs2s.data.storage import sha256
from convs2s.errors import UserError
from convs2s.files import atomic, make_folder, read_json, write_json
from convs2s.training.checkpoint import build_model, build_tokenizers

WEIGHTS, CONFIG, TOKENIZERS = "model.safetensors", "config.json", "tokenizers.json"
FORMAT = 1  # of the folder
KEPT = ("source_vocabulary", "target_vocabulary", "config", "origin", "progress", "averaged")  # in config.json


def write_folder(output: str | Path, checkpoint: dict[str, Any]) -> str:
    """Write the folder; returns a line that says so. UserError where it cannot be written."""
    safetensors = library()
    folder = Path(output)
    make_folder(folder, "output")
    weights, shared = split_shared(checkpoint["model"])
    with atomic(folder / WEIGHTS, "wb") as file:
        file.write(safetensors.torch.save(weights, metadata={"format": "pt"}))
    options = {
        "model_type": "convs2s",
        "architectures": [type(build_model(checkpoint)).__name__],
        "format": FORMAT,
        "shared": shared,
        **{name: checkpoint[name] for name in KEPT if name in checkpoint},
    }
    write_json(folder / CONFIG, options)
    write_json(folder / TOKENIZERS, detach(folder, checkpoint["tokenizers"]))
    count = sum(tensor.numel() for tensor in weights.values())
    return f"{folder / WEIGHTS}: {count:,} weights in {len(weights)} tensors; {CONFIG}, {TOKENIZERS} beside it"


def read_folder(path: str | Path) -> dict[str, Any]:
    """The checkpoint that a folder (or its model.safetensors) was written from, without optimiser.

    Raises UserError for files that are missing, damaged, or do not belong together.
    """
    safetensors = library()
    path = Path(path)
    if not path.exists():
        raise UserError(f"model={path}: no such file or folder; give the folder that to=safetensors wrote")
    folder = path if path.is_dir() else path.parent
    options, tokenizers = (
        read_json(folder / name, "give the folder that to=safetensors wrote") for name in (CONFIG, TOKENIZERS)
    )
    if options.get("model_type") != "convs2s" or options.get("format") != FORMAT:
        raise UserError(f"{folder / CONFIG}: not of a folder that convert.py to=safetensors wrote")
    try:
        weights: dict[str, Tensor] = safetensors.torch.load((folder / WEIGHTS).read_bytes())
        weights |= {name: weights[other] for name, other in options["shared"].items()}
    except OSError as error:
        raise UserError(f"{folder / WEIGHTS}: {error.strerror}; give the folder that to=safetensors wrote") from error
    except (safetensors.SafetensorError, ValueError, KeyError, AttributeError) as error:
        raise UserError(f"{folder / WEIGHTS}: damaged ({error!s:.80})") from error
    checkpoint = {name: options[name] for name in KEPT if name in options}
    checkpoint |= {
        "model": weights,
        "origin": {"format": "safetensors", "files": {WEIGHTS: sha256(folder / WEIGHTS)}, **origin(options)},
    }
    try:
        checkpoint["tokenizers"] = attach(folder, tokenizers)
        build_model(checkpoint)
        sizes = [len(side.symbols) for side in build_tokenizers(checkpoint)]
    except (KeyError, TypeError, AttributeError, ValueError, RuntimeError) as error:
        raise UserError(f"{folder}: its files do not make a model ({error!r:.80})") from error
    if sizes != [checkpoint["source_vocabulary"], checkpoint["target_vocabulary"]]:
        raise UserError(f"{folder / TOKENIZERS}: {sizes} pieces do not belong to this model")
    return checkpoint


def origin(options: dict[str, Any]) -> dict[str, Any]:
    """Where the folder's own model came from, where that is known."""
    return {"before": options["origin"]} if "origin" in options else {}


def split_shared(state: dict[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Each tensor once, contiguous, and for the names of the others the name it has."""
    weights: dict[str, Tensor] = {}
    shared: dict[str, str] = {}
    seen: dict[tuple[Any, ...], str] = {}
    for name, tensor in state.items():
        place = (tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype) if tensor.numel() else (name,)
        if place in seen:
            shared[name] = seen[place]
        else:
            seen[place] = name
            weights[name] = tensor.detach().contiguous().clone()
    return weights, shared


def detach(folder: Path, states: dict[str, Any]) -> dict[str, Any]:
    """The tokenisers' state as JSON takes it; their tensors of bytes become files."""
    plain: dict[str, Any] = {}
    for side, state in states.items():
        plain[side] = None if state is None else {}
        for key, value in (state or {}).items():
            if isinstance(value, Tensor):
                with atomic(folder / f"{side}.{key}", "wb") as file:
                    file.write(value.numpy().tobytes())
                value = {"file": f"{side}.{key}"}
            plain[side][key] = value
    return plain


def attach(folder: Path, states: dict[str, Any]) -> dict[str, Any]:
    """The inverse of ``detach``."""
    whole: dict[str, Any] = {}
    for side, state in states.items():
        whole[side] = None if state is None else {}
        for key, value in (state or {}).items():
            if isinstance(value, dict) and "file" in value:
                if not re.fullmatch(r"\w+\.\w+", str(value["file"])):
                    raise UserError(f"{folder / TOKENIZERS}: {value['file']!r:.80} is no name of a file beside it")
                value = torch.frombuffer(bytearray(read_bytes(folder / value["file"])), dtype=torch.uint8)
            whole[side][key] = value
    return whole


def read_bytes(path: Path) -> bytes:
    """A file of the folder; UserError where it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; give the folder that to=safetensors wrote") from error


def library() -> Any:
    """The safetensors package, which only exports need."""
    try:
        import safetensors.torch
    except ImportError:
        raise UserError("model.safetensors needs safetensors: pip install -e '.[export]'") from None
    return safetensors
