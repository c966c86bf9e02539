"""Translate a split with a checkpoint, score it, and write down everything that the figures depend on."""

from __future__ import annotations

import json
import platform
import sys
import time
from dataclasses import asdict, replace
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from convs2s.config import DataConfig, SearchConfig, TokenizerKind, TrainConfig
from convs2s.data.lines import read_pairs
from convs2s.data.prepare import split_paths
from convs2s.data.storage import sha256
from convs2s.errors import UserError
from convs2s.evaluation.scores import Score, bleu, chrf
from convs2s.files import atomic
from convs2s.search.translate import to_stderr, translate_lines
from convs2s.text.whitespace_tokenizer import remove_joiners
from convs2s.training.checkpoint import build_model, build_tokenizers, load, train_config
from convs2s.training.distributed import resolve_device

Report = dict[str, Any]


def evaluate_split(
    checkpoint: str | Path,
    split: str,
    search: SearchConfig,
    *,
    output: str | Path | None = None,
    device: torch.device | str = "cpu",
    data: DataConfig | None = None,
    root: str | None = None,
    files: tuple[str, str] | None = None,
) -> Report:
    """Translate a split and score it; returns what is written to OUTPUT/evaluation/NAME.json.

    split: "valid" or one of ``data.test``; raw files are fetched where they are missing.
    data: the corpus, by default that of the checkpoint's training; root: folder of its raw files, where it has moved.
    files: own source and reference text, plain or .gz, instead of the split's.
    output: folder, by default the checkpoint's run directory. OUTPUT/translations/NAME.txt holds a translation a line.
    NAME is the split's (or the source file's) name, followed by the checkpoint's name unless that is "best" and by the
    search options that differ from their defaults, so that no two settings overwrite each other: test.beam10.json.

    References are the raw text, whatever the model's pieces are; joiners of a segmented text (text.joiner) are removed
    from it as from the translations. Such text (text.kind=whitespace) also gets ``bleu_tokenized``, BLEU over its own
    words. Raises UserError for missing or unfit files and options, before anything is translated.
    """
    checkpoint = Path(checkpoint)
    saved = load(checkpoint)
    config = train_config(saved)
    data = data or config.data
    if root is not None:
        data = replace(data, root=root)
    if files is None and not data.train:
        raise UserError(f"{checkpoint} knows no data, as converted models do: give source= and reference=")
    paths = split_paths(data, split, to_stderr) if files is None else (Path(files[0]), Path(files[1]))
    pairs = list(read_pairs(*paths))
    references = [remove_joiners(reference, config.text.joiner) for _, reference in pairs]
    folder = run_directory(checkpoint) if output is None else Path(output)
    name = report_name(split if files is None else paths[0].name.removesuffix(".gz"), checkpoint.stem, search)
    text_path, report_path = folder / "translations" / f"{name}.txt", folder / "evaluation" / f"{name}.json"
    for path in (text_path, report_path):
        make_folder(path.parent)

    model = build_model(saved).to(device)
    model.fold(search.precision)
    start = time.perf_counter()
    lines = (source for source, _ in pairs)
    tokenizers = build_tokenizers(saved)
    hypotheses = [best.text for best, *_ in translate_lines([model], tokenizers, lines, search, name=str(paths[0]))]
    seconds = time.perf_counter() - start

    scores = {"bleu": bleu(hypotheses, references), "chrf": chrf(hypotheses, references)}
    if config.text.kind == TokenizerKind.whitespace:
        scores["bleu_tokenized"] = bleu(hypotheses, references, tokenize="none")
    report: Report = {
        "split": split if files is None else None,
        "source": str(paths[0]),
        "reference": str(paths[1]),
        **{metric: as_dict(score) for metric, score in scores.items()},
        "sentences": len(hypotheses),
        "seconds": round(seconds, 3),
        "sentences_per_second": round(len(hypotheses) / seconds, 3),
        "search": asdict(search),
        "checkpoint": {"path": str(checkpoint), "sha256": sha256(checkpoint)},
        "translations": str(text_path),
        "command": sys.argv,
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "device": str(device),
        "threads": torch.get_num_threads(),
        "machine": platform.machine(),
        "versions": {"python": platform.python_version()}
        | {package: version(package) for package in ("torch", "sacrebleu", "sentencepiece")},
    }
    with atomic(text_path) as file:
        file.writelines(f"{hypothesis}\n" for hypothesis in hypotheses)
    with atomic(report_path) as file:
        json.dump(report, file, indent=1, ensure_ascii=False)
        file.write("\n")
    return report | {"report": str(report_path)}


def evaluate_run(config: TrainConfig) -> None:
    """What follows a training: its best checkpoint translates the first test split, and the scores are printed."""
    if not config.data.test:
        print("no test split to score (data.test is empty)")
        return
    checkpoints = Path(config.run_dir) / "checkpoints"
    best = checkpoints / "best.pt"  # not there when training stopped before its first validation
    report = evaluate_split(
        best if best.exists() else checkpoints / "last.pt",
        next(iter(config.data.test)),
        config.search,
        output=config.run_dir,
        device=resolve_device(config.training.device),
        data=config.data,
    )
    print(summary(report))


def summary(report: Report) -> str:
    """One line for people."""
    figures = [f"BLEU {report['bleu']['score']:.2f}", f"chrF {report['chrf']['score']:.2f}"]
    if "bleu_tokenized" in report:
        figures.insert(1, f"tokenised BLEU {report['bleu_tokenized']['score']:.2f}")
    search = report["search"]
    return (
        f"{report['split'] or report['source']}: {' · '.join(figures)} · beam {search['beam']} · "
        f"{report['sentences']:,} sentences in {report['seconds']:.1f} s · {report['report']}"
    )


def as_dict(score: Score) -> dict[str, Any]:
    return {key: value for key, value in score._asdict().items() if value != ""}


def run_directory(checkpoint: Path) -> Path:
    """RUN for RUN/checkpoints/best.pt, and otherwise the folder that the checkpoint lies in."""
    folder = checkpoint.resolve().parent
    return folder.parent if folder.name == "checkpoints" else folder


def report_name(split: str, checkpoint: str, search: SearchConfig) -> str:
    """The split's name and whatever sets this evaluation apart: ``test``, ``test.last.beam10.lenpen0.6``."""
    parts = [split] + ([] if checkpoint == "best" else [checkpoint])
    plain, chosen = (flat(asdict(options)) for options in (SearchConfig(), search))
    for option, value in chosen.items():
        if value != plain[option] and option not in ("nbest", "batch_size", "batch_tokens", "workers"):  # no figure's
            shown = f"{value:g}" if isinstance(value, (int, float)) else "-" + Path(getattr(value, "value", value)).stem
            parts.append(f"{option}{shown}")
    return ".".join(parts)


def flat(options: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Options of nested groups as group_option."""
    result: dict[str, Any] = {}
    for option, value in options.items():
        result |= flat(value, f"{prefix}{option}_") if isinstance(value, dict) else {f"{prefix}{option}": value}
    return result


def make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{folder}: cannot be made ({error.strerror}); give another output=") from error
