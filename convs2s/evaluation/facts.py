"""The conditions of a run in words, so that they can be laid beside those of a published figure.

Each fact is a short name and a text; paper.yaml and peers.yaml use the same names and the same wording.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from convs2s.config import Annealing, LayerConfig, OptimizerConfig, TextConfig, TokenizerKind, TrainConfig, to_plain

# Options that say where, how fast and how loudly a run ran: runs that differ in nothing else are seeds of one another.
PLACE = {
    "": ["run_dir", "seed", "search"],
    "data": ["root", "prepared_dir", "url", "sha256", "workers", "test", "metrics"],
    "training": [
        "log_every",
        "save_every",
        "save_minutes",
        "keep",
        "threads",
        "device",
        "stop_signals",
        "tensorboard",
        "samples",
        "validation_bleu",
        "prefetch",
        "split_tokens",
        "convolution",
        "nonfinite",
        "max_skips",
    ],
}


def what_counts(config: TrainConfig) -> dict[str, Any]:
    """The configuration without the options of PLACE, as plain types."""
    plain = to_plain(config)
    for group, names in PLACE.items():
        for name in names:
            (plain[group] if group else plain).pop(name, None)
    return plain


def training_facts(config: TrainConfig, epochs: int) -> dict[str, str]:
    """What a run trained, and how; ``epochs``: those that it has done."""
    model, optimizer, training = config.model, config.optimizer, config.training
    encoder, decoder = model.encoder.layers, model.decoder.layers
    attention = [number for number, attends in enumerate(model.decoder.attending(), start=1) if attends]
    return {
        "architecture": str(to_plain(model).get("architecture", "convs2s")),
        "data": data(config),
        "vocabulary": vocabulary(config.text),
        "vocabulary selection": "yes" if training.selection.lexicon is not None else "no",
        "encoder": stack(encoder),
        "decoder": stack(decoder),
        **{f"{side} layers": str(sum(layer.repeat for layer in of)) for side, of in sides(encoder, decoder)},
        **{f"{side} channels": several(layer.channels for layer in of) for side, of in sides(encoder, decoder)},
        **{f"{side} kernel": several(layer.kernel for layer in of) for side, of in sides(encoder, decoder)},
        "embedding": str(model.embedding),
        "positions": positions(model.encoder.positions, model.decoder.positions),
        "attention": ", ".join(map(str, attention)) or "none",
        "attention layers": "all" if all(model.decoder.attending()) else f"{len(attention)}",
        "dropout": f"{model.dropout:g}",
        "batch": batch(config),
        "optimiser": f"NAG {optimizer.lr:g}, momentum {optimizer.momentum:g}, clip {optimizer.clip:g}",
        "annealing": annealing(optimizer),
        "last rate": f"{optimizer.min_lr:g}",
        "precision": training.precision.value,
        "epochs": str(epochs),
    }


def report_facts(report: Mapping[str, Any]) -> dict[str, str]:
    """How a file of evaluation/ was translated."""
    search, facts = report.get("search"), {}
    if isinstance(search, dict):
        facts["beam"] = str(search.get("beam"))
        facts["length penalty"] = f"{float(search.get('lenpen', 1)):g}"
        facts["shortest output"] = str(search.get("min_length"))
        facts["longest output"] = str(search.get("max_length"))
        unknown = search.get("unknown")
        facts["unknown words"] = "replaced" if isinstance(unknown, dict) and unknown.get("replace") else "as they are"
    facts["models"] = str(len(report.get("checkpoints", [None])))
    if "device" in report:
        facts["device"] = f"CPU ({report.get('threads')} threads)" if report["device"] == "cpu" else report["device"]
    return facts


def test_set(config: TrainConfig, report: Mapping[str, Any]) -> str:
    """The name of what was translated, with the direction: "newstest2014 en-de", "multi30k test de-en"."""
    name = report.get("split") or report.get("source") or report.get("hypotheses") or "unknown text"
    split = str(name).rpartition("/")[2]
    own = split in ("test", "valid") or split.startswith("test_")
    return f"{config.data.name + ' ' if own else ''}{split} {config.data.source}-{config.data.target}"


def sides(encoder: Sequence[LayerConfig], decoder: Sequence[LayerConfig]) -> list[tuple[str, Sequence[LayerConfig]]]:
    return [("encoder", encoder), ("decoder", decoder)]


def stack(layers: Sequence[LayerConfig]) -> str:
    """4 × (256, 3) + 1 × (512, 3): layers × (channels, kernel)."""
    alike = groupby(layers, key=lambda layer: (layer.channels, layer.kernel))
    return " + ".join(
        f"{sum(layer.repeat for layer in group)} × ({channels}, {kernel})" for (channels, kernel), group in alike
    )


def several(values: Any) -> str:
    return ", ".join(str(value) for value in sorted(set(values)))


def data(config: TrainConfig) -> str:
    text = f"{config.data.name} {config.data.source}-{config.data.target}"
    if config.data.fraction != 1.0:
        text += f", {100 * config.data.fraction:g} % of the pairs"
    if config.data.max_pairs is not None:
        text += f", at most {config.data.max_pairs:,} pairs"
    return text


def vocabulary(text: TextConfig) -> str:
    joint = "joint " if text.joint else ""
    if text.kind == TokenizerKind.sentencepiece:
        return f"{text.vocabulary_size:,} {joint}SentencePiece pieces"
    if text.kind == TokenizerKind.whitespace:
        words = "words of the segmented text" + (", joiners removed" if text.join_input else "")
    else:
        words = f"{joint}BPE, {text.merges:,} merges" if text.merges else "words"
    if text.min_frequency > 1:
        words += f", seen {text.min_frequency} times or more"
    if text.max_target_words is not None and text.max_target_words != text.max_words:
        source = "all" if text.max_words is None else f"{text.max_words:,}"
        words += f", at most {source} at the source and {text.max_target_words:,} at the target"
    elif text.max_words is not None:
        words += f", at most {text.max_words:,} a side"
    return words + (", lower-cased" if text.lowercase else "")


def batch(config: TrainConfig) -> str:
    training = config.training
    size = (
        f"{training.batch_sentences:,} sentences"
        if training.batch_tokens is None
        else f"{training.batch_tokens:,} tokens"
    )
    return size if training.accumulate == 1 else f"{training.accumulate} × {size}"


def positions(source: bool, target: bool) -> str:
    if source and target:
        return "source and target"
    return "source only" if source else "target only" if target else "none"


def annealing(optimizer: OptimizerConfig) -> str:
    if optimizer.annealing == Annealing.none:
        return "none"
    if optimizer.anneal_after is not None:
        return f"after {optimizer.anneal_after} epochs, whatever the validation loss"
    return "when the validation loss stops falling" + (", slow" if optimizer.annealing == Annealing.slow else "")
