"""Translate a split or take translations from a file, score them, and write down all that the figures depend on."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from convs2s.config import NO_FIGURES, DataConfig, Metric, SearchConfig, TokenizerKind, TrainConfig, flatten, to_plain
from convs2s.data.lines import read_texts
from convs2s.data.opening import plain_name
from convs2s.data.prepare import check_held_out, split_paths
from convs2s.data.storage import sha256
from convs2s.errors import UserError
from convs2s.evaluation.figures import check_references, figures, unknown_words
from convs2s.evaluation.models import block_size, load_models, load_translator
from convs2s.evaluation.perplexity import reference_perplexity, unknown_pieces
from convs2s.evaluation.results import Report, markdown, origin, summary, write
from convs2s.files import atomic, make_folder, real
from convs2s.messages import say
from convs2s.search.translate import Translation, Translator, Warner, blocks, translate_blocks
from convs2s.search.workers import translate_in_workers, worker_device
from convs2s.text.vocabulary import EOS
from convs2s.text.whitespace_tokenizer import remove_joiners
from convs2s.training.checkpoint import load, run_directory, train_config
from convs2s.training.distributed import resolve_device

LONGEST_NAME = 100  # characters of an ensemble's name in a file name


def evaluate_split(
    checkpoint: str | Path | Sequence[str | Path],
    split: str,
    search: SearchConfig,
    *,
    metrics: Sequence[Metric] | None = None,
    output: str | Path | None = None,
    device: torch.device | str = "cpu",
    data: DataConfig | None = None,
    root: str | None = None,
    files: Sequence[str] | None = None,
    language: str | None = None,
) -> Report:
    """Translate a split and score it; returns what is written to OUTPUT/evaluation/NAME.json, a table beside it.

    checkpoint: a file, or several that vote. split: "valid" or one of ``data.test``; raw files are fetched where they
    are missing. metrics: what to score by, by default ``data.metrics``.
    data: the corpus, by default that of the (first) checkpoint's training; root: folder of its raw files, where it has
    moved. files: own source and references, plain or compressed, instead of the split's.
    language: the target's, where it is not ``data.target``.
    output: folder, by default the checkpoint's run directory. OUTPUT/translations/NAME.txt holds a translation a line.
    NAME is the split's (or the source file's) name, followed by the checkpoint's name unless that is "best" and by the
    search options that differ from their defaults, so that no two settings overwrite each other: test.beam10.json.

    References are the raw text, whatever the model's pieces are; joiners of a segmented text (text.joiner) are removed
    from it as from the translations. Such text (text.kind=whitespace) also gets ``bleu_tokenized``, BLEU over its own
    words. Raises UserError for missing or unfit files and options, before anything is translated.
    """
    device = worker_device(str(device)) if search.workers > 1 else str(resolve_device(str(device)))
    paths = [str(path) for path in ([checkpoint] if isinstance(checkpoint, (str, Path)) else checkpoint)]
    first = load(paths[0])
    config = train_config(first)
    data = data or config.data
    if root is not None:
        data = replace(data, root=root)
    if files is None and not data.train:
        raise UserError(f"{paths[0]} knows no data, as converted models do: give source= and reference=")
    if files is None and split == "train":
        raise UserError("split=train: valid and the test splits are scored; give source= and reference= for other text")
    source, *targets = split_paths(data, split, say) if files is None else map(Path, files)
    if split == "valid" and files is None:
        check_held_out(data, first.get("held_out", {}))
    sources, *raw = read_texts(source, *targets)
    references = [[remove_joiners(line, config.text.joiner) for line in text] for text in raw]
    check_references(references)
    folder = run_directory(Path(paths[0])) if output is None else Path(output)
    name = report_name(split if files is None else plain_name(source.name), ensemble_name(paths), search)
    text_path, report_path = folder / "translations" / f"{name}.txt", folder / "evaluation" / f"{name}.json"
    for path in (text_path, report_path):
        make_folder(path.parent, "output")

    models, tokenizers = load_models(paths, device, search.precision)
    start = time.perf_counter()
    ready = Translator(models, tokenizers, search, name=str(source))
    found = translations(ready, partial(load_translator, paths, device, search, name=str(source)), sources)
    seconds = time.perf_counter() - start
    hypotheses = [translation.text for translation in found]
    with atomic(text_path) as file:
        file.writelines(f"{hypothesis}\n" for hypothesis in hypotheses)

    pieces = [[i for i in one.hypothesis.ids if i != EOS] for one in found if one.hypothesis is not None]
    report: Report = {
        "split": split if files is None else None,
        "source": str(source),
        **named_references(targets),
        **figures(
            hypotheses,
            references,
            data.metrics if metrics is None else metrics,
            sources=sources,
            language=language or data.target,
            segmented=config.text.kind == TokenizerKind.whitespace,
            lowercase=config.text.lowercase,
        ),
        "perplexity": reference_perplexity(
            models, tokenizers, list(zip(sources, raw[0], strict=True)), search
        ).as_dict(),
        "unknown": {
            "source": unknown_pieces(tokenizers.source.encode(sources)),
            "output": unknown_pieces(pieces),
        },
        "seconds": round(seconds, 3),
        "sentences_per_second": round(len(hypotheses) / seconds, 3),
        "search": asdict(search),
        **named_checkpoints(paths),
        "translations": str(text_path),
        **origin(),
        "device": device,
        "threads": torch.get_num_threads(),
    }
    write(report_path, report, markdown(report))
    return report | {"report": str(report_path)}


def evaluate_file(
    hypotheses: str,
    references: Sequence[str],
    *,
    metrics: Sequence[Metric],
    source: str | None = None,
    output: str | None = None,
    language: str | None = None,
    segmented: bool = False,
) -> Report:
    """Score translations that exist already; the report is as that of ``evaluate_split``, without what needs a model.

    source: the text they translate; lengths are then its. segmented: both sides are in words between spaces.
    output: folder, by default the translations', or the run's where they lie in RUN/translations. The report is
    OUTPUT/evaluation/FILE.json, FILE with its suffix, so that it is never taken for the model's own.
    """
    path = Path(hypotheses)
    lines, *texts = read_texts(path, *map(Path, references), *([] if source is None else [Path(source)]))
    sources = None if source is None else texts.pop()
    folder = real(path).parent if output is None else Path(output)
    if output is None and folder.name == "translations":
        folder = folder.parent
    report_path = folder / "evaluation" / f"{path.name}.json"
    make_folder(report_path.parent, "output")
    if not any(line.strip() for line in lines):
        say(f"warning: {hypotheses}: every line is blank")
    report: Report = {
        "split": None,
        "source": source,
        **named_references(references),
        "hypotheses": hypotheses,
        **figures(lines, texts, metrics, sources=sources, language=language, segmented=segmented),
        "unknown": {"source": None if sources is None else unknown_words(sources), "output": unknown_words(lines)},
        **origin(),
    }
    write(report_path, report, markdown(report))
    return report | {"report": str(report_path)}


def evaluate_run(config: TrainConfig) -> None:
    """What follows a training: its best checkpoint translates the first test split, and the scores are printed."""
    if not config.data.test:
        print("no test split to score (data.test is empty)")
        return
    checkpoints = Path(config.run_dir) / "checkpoints"
    best = checkpoints / "best.pt"
    if not best.exists():
        say(f"{best} is not there (no epoch was validated, or it was taken away): last.pt is scored")
    report = evaluate_split(
        best if best.exists() else checkpoints / "last.pt",
        next(iter(config.data.test)),
        config.search,
        output=config.run_dir,
        device=config.training.device,
        data=config.data,
    )
    show(report)


def show(report: Report) -> None:
    """The table, then the line that says it in short."""
    print(f"{markdown(report)}\n{summary(report)}")


def translations(ready: Translator, make: partial[Translator], lines: Sequence[str]) -> list[Translation]:
    """The best translation of each line; ``make`` gives each of several workers its own translator."""
    parts, warner = blocks(lines, block_size(ready.config)), Warner(ready.name)
    if ready.config.workers > 1:
        results = translate_in_workers(make, parts, ready.config.workers, warner)
    else:
        results = translate_blocks(ready.translate, parts, warner)
    return [best for best, *_ in results]


def named_references(paths: Sequence[Any]) -> Report:
    more = {"more_references": [str(path) for path in paths[1:]]} if len(paths) > 1 else {}
    return {"reference": str(paths[0]), **more}


def named_checkpoints(paths: Sequence[str]) -> Report:
    """An ensemble's score is none of its members': it has another key."""
    named = [{"path": path, "sha256": sha256(Path(path))} for path in paths]
    return {"checkpoints": named} if len(named) > 1 else {"checkpoint": named[0]}


def ensemble_name(paths: Sequence[str]) -> str:
    """The checkpoint's name, or the runs' of an ensemble: ``a+b+b-last``."""
    if len(paths) == 1:
        return Path(paths[0]).stem
    names = [
        run_directory(Path(path)).name + ("" if Path(path).stem == "best" else f"-{Path(path).stem}") for path in paths
    ]
    name = "+".join(names)
    return name if len(name) <= LONGEST_NAME else f"{len(paths)}-{hashlib.sha256(name.encode()).hexdigest()[:12]}"


def report_name(split: str, checkpoint: str, search: SearchConfig) -> str:
    """The split's name and whatever sets this evaluation apart: ``test``, ``test.last.beam10.lenpen0.6``."""
    parts = [split] + ([] if checkpoint == "best" else [checkpoint])
    plain, chosen = (flatten(to_plain(options)) for options in (SearchConfig(), search))
    for option, value in chosen.items():
        if value != plain[option] and option not in NO_FIGURES:
            if option.endswith("lexicon"):  # a path: others end alike
                shown = f"-{Path(value).stem}-{hashlib.sha256(value.encode()).hexdigest()[:6]}"
            elif isinstance(value, str):
                shown = f"-{value}"
            else:
                shown = f"{value:g}" if float(f"{value:g}") == value else repr(value)
            parts.append(option.replace(".", "_") + shown)
    return ".".join(parts)
