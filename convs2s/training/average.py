"""The mean of several checkpoints of one model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from convs2s.errors import UserError
from convs2s.files import real
from convs2s.training.checkpoint import build_tokenizers, load


def average(paths: Sequence[str]) -> dict[str, Any]:
    """A checkpoint with the mean of the weights of several; the rest is that of the first name, but for its training.

    Sums are taken in float64 and in the order of the names, so that the result depends on the set of files alone.
    Raises UserError for fewer than one checkpoint and for checkpoints of different models or vocabularies.
    """
    if not paths:
        raise UserError("checkpoints=[] is empty: name the checkpoints to average")
    names = sorted({real(path): path for path in paths}.values())  # ./a.pt is a.pt
    total: dict[str, torch.Tensor] = {}
    first: dict[str, Any] = {}
    for path in names:
        checkpoint = load(path)
        weights = checkpoint["model"]
        if not first:
            first, total = checkpoint, {name: weight.double() for name, weight in weights.items()}
            continue
        shapes = {name: weight.shape for name, weight in weights.items()}
        if shapes != {name: weight.shape for name, weight in total.items()}:
            raise UserError(f"{path}: another model than {names[0]}; average checkpoints of one run")
        if checkpoint["tokenizers"].keys() != first["tokenizers"].keys() or symbols(checkpoint) != symbols(first):
            raise UserError(f"{path}: another vocabulary than {names[0]}; average checkpoints of one run")
        for name, weight in weights.items():
            total[name] += weight
    kept = ("config", "source_vocabulary", "target_vocabulary", "tokenizers", "held_out")
    mean = {name: (weight / len(names)).to(first["model"][name].dtype) for name, weight in total.items()}
    return {**{key: first[key] for key in kept if key in first}, "model": mean, "averaged": names}


def symbols(checkpoint: dict[str, Any]) -> list[list[str]]:
    """The vocabularies of a checkpoint."""
    return [list(tokenizer.symbols) for tokenizer in build_tokenizers(checkpoint)]
