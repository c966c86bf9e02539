"""Which files a split is read from: the names in the configuration, and where they are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from convs2s.config import DataConfig
from convs2s.data.lines import Part, Side
from convs2s.data.opening import MEMBER, plain_name
from convs2s.data.storage import find_file, sha256
from convs2s.errors import UserError

Names = list[tuple[str, str]]  # source and target file; the same one where it holds both sides
Sides = tuple[Side, Side]


def split_names(data: DataConfig) -> dict[str, Names]:
    """The files of "train", "valid" (unless that is held out of the training pairs) and every test split.

    Raises UserError for a split that is not pairs of files or a test split named like another.
    """
    for name in ("train", "valid"):
        if name in data.test:
            raise UserError(f"data.test.{name}: a test split cannot be named {name}")
    if data.valid and held_out(data):
        raise UserError("data.valid names files, so data.valid_fraction and data.valid_every must not be given as well")
    names = {"train": _pairs("data.train", data.train)}
    if not held_out(data):
        names["valid"] = _pairs("data.valid", data.valid)
    return names | {split: _pairs(f"data.test.{split}", files) for split, files in data.test.items()}


def training_names(data: DataConfig) -> list[tuple[Names, float]]:
    """The files of data.train, then those of each of data.extra, with their weights."""
    extra = [(_pairs(f"data.extra[{i}].files", more.files), more.weight) for i, more in enumerate(data.extra)]
    return [(_pairs("data.train", data.train), data.train_weight), *extra]


def held_out(data: DataConfig) -> bool:
    """Whether the validation pairs are taken from the training pairs."""
    return data.valid_fraction > 0 or data.valid_every is not None


def file_names(data: DataConfig) -> list[str]:
    """Every file that the configuration names, each once; for a member of an archive the archive."""
    names = list(split_names(data).values()) + [names for names, _ in training_names(data)]
    return unique([name for pairs in names for pair in pairs for name in pair])


def unique(names: Sequence[str]) -> list[str]:
    """The files or archives that are named, each once."""
    return list(dict.fromkeys(name.partition(MEMBER)[0] for name in names))


def _pairs(option: str, files: Sequence[str]) -> Names:
    if files and all(_holds_both(name) for name in files):
        return [(name, name) for name in files]
    if not files or len(files) % 2:
        raise UserError(
            f"{option} must name two files, [source, target], or one .tsv or .parquet file, not {list(files)}"
        )
    return list(zip(files[::2], files[1::2], strict=True))


def _holds_both(name: str) -> bool:
    return plain_name(name).endswith((".tsv", ".parquet"))


def missing(data: DataConfig, names: Sequence[str]) -> list[str]:
    """Those of the names for which no file, plain or compressed, is in data.root."""
    return [name for name in unique(names) if find_file(Path(data.root) / name) is None]


def located(data: DataConfig, name: str) -> Path:
    """The file of a configured name, plain or compressed. Raises UserError when there is none."""
    name = name.partition(MEMBER)[0]
    path = find_file(Path(data.root) / name)
    if path is None:
        raise UserError(f"{Path(data.root) / name} does not exist; put it there, or set data.root to its folder")
    return path


def sides(data: DataConfig, names: Names) -> Sides:
    """The two texts of some files. Raises UserError for a file that is not there."""
    columns = data.columns or [data.source, data.target]

    def part(name: str, side: int) -> Part:
        column = ""
        if _holds_both(name):
            column = columns[side] if plain_name(name).endswith(".parquet") else str(side + 1)
        return Part(located(data, name), name.partition(MEMBER)[2], column)

    source, target = (Side(tuple(part(pair[side], side) for pair in names)) for side in (0, 1))
    return source, target


def verified(data: DataConfig, name: str) -> str:
    """SHA-256 of the file of a configured name. Raises UserError when data.sha256 pins another."""
    path = located(data, name)
    found = sha256(path)
    pinned = _pin(data, name, path)
    if pinned is not None and found != pinned:
        raise UserError(
            f"{path} has SHA-256 {found}, not {pinned} as data.sha256 says;"
            " remove it to have it fetched again, or drop the pin"
        )
    first = first_seen(data).get(path.name)
    if first is not None and found != first:
        raise UserError(
            f"{path} has SHA-256 {found}, but had {first} when it was fetched ({RECORD}); remove it to have it fetched"
            " again, or remove its line there"
        )
    return found


def verify_pinned(data: DataConfig, name: str) -> None:
    """As ``verified``, but reads the file only if something pins it."""
    path = located(data, name)
    if _pin(data, name, path) is not None or path.name in first_seen(data):
        verified(data, name)


RECORD = "fetched.sha256"  # in data.root: checksums of fetched files as first seen, in the format of sha256sum


def first_seen(data: DataConfig) -> dict[str, str]:
    """SHA-256 of the files that were fetched, by name."""
    try:
        lines = (Path(data.root) / RECORD).read_text("utf-8").split("\n")
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise UserError(f"{Path(data.root) / RECORD}: cannot be read ({error})") from None
    return {name: digest for digest, _, name in (line.partition("  ") for line in lines) if name}


def _pin(data: DataConfig, name: str, path: Path) -> str | None:
    """The pin of a configured name; where its plain or compressed twin is used instead, the twin's own."""
    name = name.partition(MEMBER)[0]
    return data.sha256.get(name if path.name == Path(name).name else str(Path(name).with_name(path.name)))
