"""Checkpoints -> models and tokenisers that are ready to translate."""

from __future__ import annotations

from collections.abc import Sequence

from convs2s.config import SearchConfig, SearchPrecision
from convs2s.errors import UserError
from convs2s.model import Seq2Seq
from convs2s.search.translate import CHUNK, Translator
from convs2s.text.tokenizer import Tokenizers
from convs2s.training.checkpoint import build_model, build_tokenizers, load
from convs2s.training.distributed import resolve_device


def load_models(
    checkpoints: Sequence[str], device: str, precision: SearchPrecision
) -> tuple[list[Seq2Seq], Tokenizers]:
    """The models, folded for inference, and the tokenisers that they share.

    Raises UserError for checkpoints that cannot be read or whose vocabularies differ, and for a device that is not
    there or does not know the precision.
    """
    place = resolve_device(device)
    if precision == SearchPrecision.int8 and place.type != "cpu":
        raise UserError("search.precision=int8 is for the CPU: give device=cpu, or search.precision=bf16")
    models: list[Seq2Seq] = []
    shared: Tokenizers | None = None
    for path in checkpoints:
        checkpoint = load(path)
        tokenizers = build_tokenizers(checkpoint)
        shared = shared or tokenizers
        for side in ("source", "target"):
            if getattr(tokenizers, side).symbols != getattr(shared, side).symbols:
                raise UserError(
                    f"{path}: its {side} vocabulary is not that of {checkpoints[0]}; models that translate together "
                    "must come from runs with the same tokenisers"
                )
        model = build_model(checkpoint, str(path)).to(place)
        model.fold(precision)
        models.append(model)
    assert shared is not None
    return models, shared


def load_translator(
    checkpoints: Sequence[str],
    device: str,
    search: SearchConfig,
    *,
    name: str = "input",
    attention: bool = False,
    layers: bool = False,
) -> Translator:
    """What ``load_models`` reads as a translator; a worker process can be asked for it."""
    models, tokenizers = load_models(checkpoints, device, search.precision)
    return Translator(models, tokenizers, search, name=name, attention=attention, layers=layers)


def block_size(search: SearchConfig) -> int:
    """Lines to sort and translate together: fewer where they are shared among workers."""
    return CHUNK if search.workers == 1 else min(CHUNK, 8 * search.batch_size)
