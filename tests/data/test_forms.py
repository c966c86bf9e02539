"""Every form in which text may lie in data.root reads like plain files; damaged ones are refused by name."""

from __future__ import annotations

import gzip
import io
import lzma
import os
import tarfile
import zipfile
from pathlib import Path

import pytest

from convs2s.config import DataConfig
from convs2s.data.lines import Part, Side, read_lines, read_pairs
from convs2s.data.sources import sides, split_names
from convs2s.errors import UserError

SOURCE, TARGET = ["ein Hund", "", "ä\u2028ö"], ["a dog", "x", "y"]
RAW = "".join(f"{line}\n" for line in SOURCE).encode()


def zstd(raw: bytes) -> bytes:
    return pytest.importorskip("zstandard").ZstdCompressor(write_checksum=True).compress(raw)


COMPRESSIONS = {".gz": gzip.compress, ".xz": lzma.compress, ".zst": zstd}


@pytest.mark.parametrize("suffix", COMPRESSIONS)
def test_compressed_files(tmp_path: Path, suffix: str) -> None:
    """Fault: a form that is read as bytes, by its suffix only, or up to its first frame."""
    pack = COMPRESSIONS[suffix]
    (tmp_path / f"a{suffix}").write_bytes(pack(RAW))
    (tmp_path / "misnamed").write_bytes(pack(RAW[:9]) + pack(RAW[9:]))
    assert list(read_lines(tmp_path / f"a{suffix}")) == SOURCE
    assert list(read_lines(tmp_path / "misnamed")) == SOURCE


@pytest.mark.parametrize("suffix", COMPRESSIONS)
@pytest.mark.parametrize("damage", ["short", "inside"])
def test_damaged_compressed_files(tmp_path: Path, suffix: str, damage: str) -> None:
    """Fault: the lines before the damage taken for the whole file, or a traceback."""
    raw = COMPRESSIONS[suffix](os.urandom(3000).hex().encode())
    half = len(raw) // 2
    path = tmp_path / f"a{suffix}"
    path.write_bytes(raw[:-5] if damage == "short" else raw[:half] + bytes(40) + raw[half + 40 :])
    with pytest.raises(UserError, match=rf"a\{suffix}: damaged (gzip|xz|zstd) file"):
        list(read_lines(path))


def config(root: Path, *train: str, **options: object) -> DataConfig:
    return DataConfig(root=str(root), source="de", target="en", train=list(train), valid=["v", "v"], **options)  # type: ignore[arg-type]


def pairs(data: DataConfig) -> list[tuple[str, str]]:
    return list(read_pairs(*sides(data, split_names(data)["train"])))


WANTED = list(zip(SOURCE, TARGET, strict=True))


@pytest.mark.parametrize("name", ["p.tsv", "p.tsv.gz"])
@pytest.mark.parametrize("more", ["", "\tthird"])
def test_tab_separated(tmp_path: Path, name: str, more: str) -> None:
    """Fault: columns swapped, a third column joined to the second, CR of a CRLF file kept in the target."""
    raw = "".join(f"{source}\t{target}{more}\r\n" for source, target in WANTED).encode()
    (tmp_path / name).write_bytes(gzip.compress(raw) if name.endswith("gz") else raw)
    assert pairs(config(tmp_path, name)) == WANTED


def test_tab_separated_line_without_tab(tmp_path: Path) -> None:
    """Fault: a pair whose target is empty, or an index error."""
    (tmp_path / "p.tsv").write_text("a\tb\nc d\n")
    with pytest.raises(UserError, match=r"p\.tsv, line 2: no tab"):
        pairs(config(tmp_path, "p.tsv"))


def write_parquet(path: Path, columns: dict[str, list[object]]) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.table(columns), path, row_group_size=2)


def test_parquet_of_translations(tmp_path: Path) -> None:
    """Fault: languages by position, null as "None", a line end inside a sentence that shifts all later lines."""
    rows = [{"en": "a\ndog", "de": "ein\nHund"}, {"en": None, "de": "x"}, {"en": "y", "de": "ä\u2028"}]
    write_parquet(tmp_path / "p.parquet", {"translation": rows})
    assert pairs(config(tmp_path, "p.parquet")) == [("ein Hund", "a dog"), ("x", ""), ("ä\u2028", "y")]
    assert pairs(config(tmp_path, "p.parquet", columns=["en", "de"]))[2] == ("y", "ä\u2028")


def test_parquet_of_two_columns_in_several_files(tmp_path: Path) -> None:
    """Fault: only the translation schema, or two shards taken for source and target."""
    for i in range(2):
        write_parquet(tmp_path / f"{i}.parquet", {"document": [f"d{i}", "e"], "summary": [f"s{i}", "t"]})
    found = pairs(config(tmp_path, "0.parquet", "1.parquet", columns=["document", "summary"]))
    assert found == [("d0", "s0"), ("e", "t"), ("d1", "s1"), ("e", "t")]
    with pytest.raises(UserError, match=r"0\.parquet has no column de, only document, summary; give data\.columns"):
        pairs(config(tmp_path, "0.parquet"))


def test_damaged_parquet(tmp_path: Path) -> None:
    """Fault: a traceback from Arrow."""
    pytest.importorskip("pyarrow")
    (tmp_path / "p.parquet").write_bytes(b"PAR1 and so on")
    with pytest.raises(UserError, match=r"p\.parquet: damaged parquet file"):
        pairs(config(tmp_path, "p.parquet"))


def archive(path: Path, members: dict[str, bytes]) -> None:
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as file:
            for name, raw in members.items():
                file.writestr(name, raw)
        return
    with tarfile.open(path, "w:gz") as tar:
        for name, raw in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(raw)
            tar.addfile(info, io.BytesIO(raw))


@pytest.mark.parametrize("name", ["c.tgz", "c.zip"])
def test_archives_are_read_by_member(tmp_path: Path, name: str) -> None:
    """Fault: an archive that is unpacked, so that its member "../evil" is written outside the data folder."""
    target = "".join(f"{line}\n" for line in TARGET).encode()
    archive(tmp_path / name, {"../evil": b"x", "c/train.de": RAW, "c/train.en.gz": gzip.compress(target)})
    before = sorted(tmp_path.rglob("*"))
    data = config(tmp_path, f"{name}::c/train.de", f"{name}::c/train.en.gz")
    assert pairs(data) == WANTED
    assert sorted(tmp_path.rglob("*")) == before
    assert not (tmp_path.parent / "evil").exists()
    with pytest.raises(UserError, match=r"has no member c/none; it holds \.\./evil, c/train\.de"):
        pairs(config(tmp_path, f"{name}::c/none", f"{name}::c/none"))


def test_archives_that_cannot_be_read(tmp_path: Path) -> None:
    """Fault: a stack trace for an encrypted member, a message of five lines for a file that is no archive."""
    path = tmp_path / "c.zip"
    archive(path, {"a": RAW})
    raw = bytearray(path.read_bytes())
    raw[6] |= 1  # the local header's mark of encryption, and the directory's
    raw[raw.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(raw)
    (tmp_path / "c.tgz").write_bytes(b"no archive " * 99)
    for name, message in (
        ("c.zip", r"c\.zip::a: .*encrypted.*; unpack it"),
        ("c.tgz", r"damaged archive file \(.*\); f"),
    ):
        with pytest.raises(UserError, match=message) as refusal:
            pairs(config(tmp_path, f"{name}::a", f"{name}::a"))
        assert "\n" not in str(refusal.value)
        assert ":)" not in str(refusal.value)


def test_iwslts_forms(tmp_path: Path) -> None:
    """Fault: titles lost or talk ids kept in the training text, tags in the test text, ’ unlike the authors' '."""
    tagged = (
        "<url>http://x</url>\n<keywords>a, b</keywords>\n<talkid>1</talkid>\n<title>Der Titel</title>\n"
        "<description>Worum es geht</description>\nEin Satz.\n Noch einer \n"
    )
    (tmp_path / "train.tags.de-en.de").write_text(tagged, "utf-8")
    assert list(read_lines(tmp_path / "train.tags.de-en.de")) == [
        "Der Titel",
        "Worum es geht",
        "Ein Satz.",
        " Noch einer ",
    ]
    xml = '<?xml?>\n<mteval>\n<title>T</title>\n<seg id="1"> So geht’s </seg>\n<seg id="2">   </seg>\n</mteval>\n'
    (tmp_path / "x.xml.gz").write_bytes(gzip.compress(xml.encode()))
    assert list(read_lines(tmp_path / "x.xml.gz")) == ["So geht's", ""]


def test_texts_of_several_files(tmp_path: Path) -> None:
    """Fault: two files whose unequal counts cancel out; a line number that counts from the first file's start."""
    for name, count in (("a.de", 3), ("a.en", 3), ("b.de", 2), ("b.en", 2), ("c.en", 1)):
        (tmp_path / name).write_text("".join(f"{name} {i}\n" for i in range(count)))
    found = pairs(config(tmp_path, "a.de", "a.en", "b.de", "b.en"))
    assert found[2:4] == [("a.de 2", "a.en 2"), ("b.de 0", "b.en 0")]
    with pytest.raises(UserError, match=r"a\.de has 3 lines but .*b\.en has 2"):
        pairs(config(tmp_path, "a.de", "b.en", "b.de", "a.en"))
    side = Side((Part(tmp_path / "a.de"), Part(tmp_path / "b.de")))
    assert side.place(3) == (str(tmp_path / "a.de"), 3)
    assert side.place(4) == (str(tmp_path / "b.de"), 1)
    assert str(side) == f"{tmp_path / 'a.de'} and 1 more"


def test_where_sides_part_ways(tmp_path: Path) -> None:
    """Fault: counts without a hint where to look."""
    (tmp_path / "a").write_text("1\n2\n\n4\n5\n")
    (tmp_path / "b").write_text("1\n2\n3\n4\n")
    with pytest.raises(
        UserError, match=r"a goes on alone from line 5; the first blank line against text is \S*a, line 3"
    ):
        list(read_pairs(tmp_path / "a", tmp_path / "b"))
