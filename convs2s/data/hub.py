"""Splits from the Hugging Face hub (``datasets``) and test sets from sacrebleu, written to data.root as text.

The libraries fetch, check, resume and draw progress bars; we write one line a sentence, source and target side by side.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from convs2s.config import DataConfig
from convs2s.data.opening import SUFFIXES
from convs2s.errors import UserError
from convs2s.files import atomic
from convs2s.messages import Log

_ROWS = 10_000  # in memory at a time


def fetch_split(data: DataConfig, split: str, files: Sequence[str], hint: str, log: Log) -> None:
    """Write the source and target file of a split that data.hub provides.

    Raises UserError with ``hint`` (which files to put where) when the hub or ``datasets`` is not to be had.
    """
    try:
        import datasets
    except ImportError:
        raise UserError(f"data.hub needs datasets: pip install -e '.[hub]'; or {hint}") from None
    hub = data.hub
    given: dict[str, Any] = {"name": hub.config, "revision": hub.revision}
    if hub.files:
        given["data_files"] = dict(hub.files)
    cache = str(Path(data.root) / "hub")
    place = f"{hub.name}{f' ({hub.config})' if hub.config else ''} on the Hugging Face hub"
    log(f"asking for {place}")
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # it would announce every retry over two lines
    try:
        builder = datasets.load_dataset_builder(hub.name, cache_dir=cache, **given)
        size = builder.info.download_size
        log(
            f"fetching {split} from {place} ({f'{size / 1e6:,.0f} MB' if size else 'size unknown'},"
            f" kept in {cache}) to {', '.join(str(Path(data.root) / name) for name in files)}"
        )
        builder.download_and_prepare()
        rows = builder.as_dataset(split=hub.splits[split])
    except Exception as error:  # whatever the library and the network raise
        reason = " ".join(str(error).split())[:300]
        raise UserError(f"cannot fetch {place} ({type(error).__name__}: {reason}); {hint}") from None
    columns = data.columns or [data.source, data.target]
    count = _write(data.root, files, _pairs(rows, columns, place))
    log(f"wrote {count:,} pairs of {split}; {cache} may be removed")


def _pairs(rows: Any, columns: Sequence[str], place: str) -> Iterator[tuple[Any, Any]]:
    """The two columns of a data set, or the two fields of its column ``translation``."""
    names = list(rows.column_names)
    nested = "translation" in names and not set(columns) <= set(names)
    for start in range(0, len(rows), _ROWS):
        batch = rows[start : start + _ROWS]
        try:
            if nested:
                yield from ((row[columns[0]], row[columns[1]]) for row in batch["translation"])
            else:
                yield from zip(batch[columns[0]], batch[columns[1]], strict=True)
        except KeyError:
            found = ", ".join(sorted(batch["translation"][0])) if nested else ", ".join(names)
            raise UserError(
                f"{place} has no columns {' and '.join(columns)}, only {found}; give data.columns=[SOURCE,TARGET]"
            ) from None


def fetch_sacrebleu(data: DataConfig, split: str, files: Sequence[str], hint: str, log: Log) -> None:
    """Write the source and reference file of a test split that sacrebleu knows; it checks them against its checksums.

    Raises UserError with ``hint`` when sacrebleu has no such set for the languages, or cannot fetch it.
    """
    import sacrebleu

    name, pair = data.sacrebleu[split], f"{data.source}-{data.target}"
    sets = sacrebleu.get_available_testsets()
    if name not in sets or pair not in sacrebleu.get_langpairs_for_testset(name):
        raise UserError(f"data.sacrebleu.{split}={name}: sacrebleu has no such test set for {pair}")
    log(f"fetching {split} ({name} {pair}, some MB) with sacrebleu to {Path(data.root)}")
    try:
        paths = [sacrebleu.get_source_file(name, pair), sacrebleu.get_reference_files(name, pair)[0]]
        texts = [Path(path).read_text("utf-8").split("\n")[:-1] for path in paths]
    except SystemExit:  # sacrebleu ends the program when it is offline
        raise UserError(f"sacrebleu cannot fetch {name} {pair}; {hint}") from None
    except Exception as error:
        raise UserError(
            f"sacrebleu cannot fetch {name} {pair} ({' '.join(str(error).split())[:300]}); {hint}"
        ) from None
    if len(texts[0]) != len(texts[1]):
        raise UserError(f"sacrebleu's {name} {pair} has {len(texts[0])} sources but {len(texts[1])} references")
    _write(data.root, files, zip(*texts, strict=True))


def _write(root: str, files: Sequence[str], pairs: Iterable[tuple[Any, Any]]) -> int:
    """Both files, whole or not at all; line ends inside a sentence become spaces, null an empty line."""
    count = 0
    Path(root).mkdir(parents=True, exist_ok=True)
    for name in files:
        if Path(name).is_absolute() or ".." in Path(name).parts or Path(name).suffix in SUFFIXES:
            raise UserError(f"{name}: only plain files inside data.root are written; name it so in the configuration")
    with ExitStack() as stack:
        outputs = [stack.enter_context(atomic(Path(root) / name)) for name in files]
        for pair in pairs:
            for output, text in zip(outputs, pair, strict=True):
                output.write(f"{'' if text is None else str(text)}".replace("\n", " ") + "\n")
            count += 1
    return count
