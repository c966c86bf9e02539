"""The card of a model, README.md of the folder that is handed on: only what the run's own records say.

What no record says reads "not run" or "not recorded"; scores count only where they were measured with these weights.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from convs2s.config import (
    NO_FIGURES,
    Architecture,
    ModelConfig,
    SearchConfig,
    TokenizerKind,
    TrainConfig,
    flatten,
    to_plain,
)
from convs2s.data.storage import sha256
from convs2s.files import atomic
from convs2s.training.checkpoint import run_directory, train_config

NOT_RECORDED = "not recorded"
METRICS = {
    "bleu": "BLEU",
    "bleu_tokenized": "BLEU, tokenised",
    "chrf": "chrF",
    "ter": "TER",
}  # others by their own name
ALWAYS = ("beam", "lenpen", "max_length")  # search options that every score names; others where they are not defaults
KINDS = {
    Architecture.convs2s: (
        "ConvS2S",
        "A convolutional sequence-to-sequence model (Gehring et al. 2017, arXiv 1705.03122)",
    ),
    Architecture.lstm_attention: (
        "LSTM with attention",
        "A recurrent encoder-decoder with attention and input feeding (Luong et al. 2015, arXiv 1508.04025), a "
        "contrast to ConvS2S",
    ),
}


def write_card(output: str | Path, checkpoint: dict[str, Any], path: Path | None) -> str:
    """Write OUTPUT/README.md; returns a line that says so."""
    card = Path(output) / "README.md"
    with atomic(card) as file:
        file.write(model_card(checkpoint, path))
    return f"{card}: the model's card"


def model_card(checkpoint: dict[str, Any], path: Path | None) -> str:
    """The card's Markdown. path: the checkpoint's file; None: it has no run.

    The run's records lie in RUN for RUN/checkpoints/best.pt, and for any other file beside it.
    """
    config = train_config(checkpoint)
    kind, what = KINDS[config.model.architecture]
    run = None if path is None else run_directory(path)
    environment = read_record(run / "environment.json") if run else {}
    parts = [
        *front_matter(config),
        f"# {kind} {config.data.source} → {config.data.target}: {config.experiment}",
        "",
        f"{what}. This card was generated "
        "from the run's records; what they do not hold is called not run or not recorded.",
        "",
        "## Model",
        "",
        *model_lines(config.model, checkpoint),
        "",
        "## Use",
        "",
        "```",
        "python scripts/convert.py from=safetensors model=THIS_FOLDER output=runs/received",
        "python scripts/translate.py checkpoint=runs/received/checkpoints/best.pt input=FILE",
        "```",
        "",
        f"Input: {input_form(config)}",
        "",
        "## Data",
        "",
        *data_lines(config, environment.get("data", {})),
        "",
        "## Recipe",
        "",
        *recipe_lines(config, checkpoint, environment),
        "",
        "## Scores",
        "",
        *score_lines(run, path),
        "",
        "## Limits",
        "",
        *limit_lines(config, environment.get("data", {})),
        "",
    ]
    return "\n".join(parts)


def front_matter(config: TrainConfig) -> list[str]:
    """The YAML head by which a hub files the model."""
    sides = dict.fromkeys((config.data.source, config.data.target))
    languages = [f"- {json.dumps(side)}" for side in sides if len(side) in (2, 3)]  # codes, not "source" or "summary"
    head = ["language:", *languages, "tags:", "- translation"] if languages else ["tags:"]
    return ["---", "library_name: convs2s", *head, "- convs2s", "---", ""]


def model_lines(model: ModelConfig, checkpoint: dict[str, Any]) -> list[str]:
    """Sizes and options of the network."""
    shared = {(tensor.data_ptr(), tensor.numel()) for tensor in checkpoint["model"].values()}
    sizes = f"{checkpoint['source_vocabulary']:,} source and {checkpoint['target_vocabulary']:,} target pieces"
    stacks = {}
    for name, side in (("encoder", model.encoder), ("decoder", model.decoder)):
        stacks[name] = ", ".join(f"{layer.repeat} x ({layer.channels}, width {layer.kernel})" for layer in side.layers)
        stacks[name] += "" if side.positions else ", without positions"
        stacks[name] += "" if side.residuals is None else f", residuals from {side.residuals} layers back"
    attending = model.decoder.attending()
    options = {
        name: value
        for name, value in to_plain(model).items()
        if name not in ("encoder", "decoder", "embedding", "output_embedding", "bottleneck")
        and not name.startswith("dropout")
    }
    return [
        f"- {sum(count for _, count in shared):,} parameters; {sizes}",
        f"- encoder: {stacks['encoder']}",
        f"- decoder: {stacks['decoder']}; attention in {sum(attending)} of {len(attending)} layers",
        f"- embeddings {model.embedding}, output embedding {model.output_embedding}, bottleneck {model.bottleneck}",
        f"- {', '.join(f'{name}={value}' for name, value in options.items() if value is not None)}",
    ]


def input_form(config: TrainConfig) -> str:
    """What the text must look like."""
    if config.text.kind != TokenizerKind.whitespace:
        return f"raw text, one sentence a line; its {config.text.kind.value} tokeniser is inside."
    mark = f", with subwords marked by `{config.text.joiner}`" if config.text.joiner else ""
    return f"text segmented like the training text, words separated by spaces{mark}, one sentence a line."


def data_lines(config: TrainConfig, manifest: dict[str, Any]) -> list[str]:
    """Corpus, counts and files."""
    if not manifest:
        return [f"- languages: {config.data.source} → {config.data.target}; corpus, files and counts: {NOT_RECORDED}"]
    lines = [f"- corpus: {config.data.name} ({config.data.source} → {config.data.target})"]
    for split, counts in manifest.get("splits", {}).items():
        dropped = ", ".join(f"{number:,} {rule}" for rule, number in counts.get("dropped", {}).items() if number)
        tokens = counts.get("tokens", {})
        lines.append(
            f"- {split}: {counts['pairs']:,} of {counts['pairs_read']:,} pairs (dropped: {dropped or 'none'}), "
            f"{tokens.get('source', 0):,} source and {tokens.get('target', 0):,} target pieces"
        )
    for split, files in manifest.get("inputs", {}).items():
        lines += [
            f"- {split} file {file['file']}, SHA-256 `{file['sha256']}`"
            for file in (files if isinstance(files, list) else [])
            if isinstance(file, dict) and "sha256" in file
        ]
    return lines


def recipe_lines(config: TrainConfig, checkpoint: dict[str, Any], environment: dict[str, Any]) -> list[str]:
    """How the weights came about."""
    if "origin" in checkpoint and "progress" not in checkpoint:
        return [*origin_lines(checkpoint["origin"]), f"- training: {NOT_RECORDED}"]
    optimizer, training = config.optimizer, config.training
    batches = f"{training.batch_tokens:,} tokens" if training.batch_tokens else f"{training.batch_sentences} sentences"
    progress = checkpoint.get("progress", {})
    rates = {place: config.model.rate(place) for place in ("source", "target", "hidden", "output")}
    dropout = f"{rates['source']}" if len(set(rates.values())) == 1 else ", ".join(f"{p} {r}" for p, r in rates.items())
    lines = [
        f"- NAG, lr {optimizer.lr}, momentum {optimizer.momentum}, gradients normalised by "
        f"{optimizer.normalize.value} and clipped at {optimizer.clip}, annealing {optimizer.annealing.value}, "
        f"divided by {optimizer.shrink} down to {optimizer.min_lr}",
        f"- batches of {batches}, accumulated {training.accumulate}, processes: "
        f"{environment.get('processes', NOT_RECORDED)}; dropout {dropout}; seed {config.seed}; "
        f"{training.precision.value}",
    ]
    if "averaged" in checkpoint:
        names = ", ".join(f"`{name}`" for name in checkpoint["averaged"])
        lines.append(f"- these weights: the mean of {len(checkpoint['averaged'])} checkpoints of the run, {names}")
    else:
        lines.append(f"- these weights: after update {progress.get('update', NOT_RECORDED)}")
    if training.init_from is not None:
        lines.insert(0, f"- fine-tuned from `{training.init_from}`")
    records = ("command", "revision", "python", "torch", "machine", "gpu")
    return [*lines, *(f"- {name}: `{environment.get(name, NOT_RECORDED) or 'none'}`" for name in records)]


def origin_lines(origin: dict[str, Any] | None) -> Iterator[str]:
    """What a model was converted from, the last conversion first."""
    while origin is not None:
        files = ", ".join(f"{name} (SHA-256 `{digest}`)" for name, digest in origin["files"].items())
        yield f"- converted from {origin['format']}: {files}"
        origin = origin.get("before")


def score_lines(run: Path | None, path: Path | None) -> list[str]:
    """A table of the run's evaluations of these very weights."""
    rows = list(score_rows(run / "evaluation", sha256(path))) if run and path else []
    if not rows:
        return ["not run"]
    return ["| text | score | signature | search |", "|---|---|---|---|", *rows]


def score_rows(folder: Path, digest: str) -> Iterator[str]:
    """A row for each score of the checkpoint with this SHA-256."""
    for file in sorted(folder.glob("*.json")):
        report = read_record(file)
        if report.get("checkpoint", {}).get("sha256") != digest:
            continue
        text = f"{report.get('split') or Path(report['source']).name}, {report['sentences']:,} sentences"
        settings = ", ".join(search_options(report.get("search", {})))
        for name, found in report.items():
            if isinstance(found, dict) and found.get("score") is not None and "signature" in found:
                signature = found["signature"].replace("|", "\\|")  # a bar would end the table's cell, even in code
                yield f"| {text} | {METRICS.get(name, name)} {found['score']:.2f} | `{signature}` | {settings} |"


def search_options(search: dict[str, Any]) -> Iterator[str]:
    """What a score's search was, as far as it counts."""
    plain = flatten(to_plain(SearchConfig()))
    for name, value in flatten(search).items():
        if name in ALWAYS or (name not in NO_FIGURES and value != plain.get(name)):
            yield f"{name} {value}"


def limit_lines(config: TrainConfig, manifest: dict[str, Any]) -> list[str]:
    """What the model was not made for, or not tried on."""
    limits = config.model.max_source_length, config.model.max_target_length
    longest = manifest.get("splits", {}).get("train", {}).get("longest", {})
    seen = f"{longest['source']} and {longest['target']} pieces" if longest else NOT_RECORDED
    domain = f"trained on {config.data.name} only" if manifest else f"training text {NOT_RECORDED}"
    if manifest and config.training.init_from is not None:
        domain = f"trained on {config.data.name}, after what {config.training.init_from} was trained on"
    return [
        f"- source sentences up to {limits[0]} pieces, translations up to {limits[1]}, `</s>` included",
        f"- longest source and target sentence in training: {seen}",
        f"- {domain}; tests on text of other domains: not run",
        "- sentences are translated one by one, without context; bias and toxicity tests: not run",
    ]


def read_record(path: Path) -> dict[str, Any]:
    """A JSON record of a run; {} where there is none."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
