"""Splits from the Hugging Face hub and from sacrebleu: the real libraries on local files, and what is said offline."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from convs2s.config import DataConfig, ExtraConfig, HubConfig
from convs2s.data.download import fetch
from convs2s.data.sources import RECORD, file_names, missing, verified
from convs2s.errors import UserError

pyarrow = pytest.importorskip("pyarrow")
datasets = pytest.importorskip("datasets")
parquet = pytest.importorskip("pyarrow.parquet")

ROWS = [{"de": f"Satz\n{i}", "en": f"sentence {i}"} for i in range(25)]


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reaches for the network."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", True)


@pytest.fixture
def data(tmp_path: Path) -> DataConfig:
    """A translation set in two parquet files, as WMT's lie on the hub; the test split from sacrebleu."""
    served = tmp_path / "served"
    served.mkdir()
    for i in range(2):
        table = pyarrow.table({"translation": ROWS[15 * i : 15 * i + 15]})
        parquet.write_table(table, served / f"train-0000{i}-of-00002.parquet")
    return DataConfig(
        name="wmt",
        source="en",
        target="de",
        root=str(tmp_path / "raw = ü"),
        train=["train.en", "train.de"],
        valid_fraction=0.01,
        test={"newstest2014": ["newstest2014.en", "newstest2014.de"]},
        hub=HubConfig(name="parquet", files={"train": str(served / "train-*.parquet")}, splits={"train": "train"}),
        sacrebleu={"newstest2014": "wmt14/full"},
    )


def lines(data: DataConfig, name: str) -> list[str]:
    return (Path(data.root) / name).read_text("utf-8").split("\n")[:-1]


def test_a_split_of_the_hub_becomes_text(data: DataConfig) -> None:
    """Fault: languages swapped, a line end inside a sentence that shifts the rest, shards out of order or left out."""
    said: list[str] = []
    fetch(data, ["train.en", "train.de"], said.append)
    assert lines(data, "train.en") == [row["en"] for row in ROWS]
    assert lines(data, "train.de") == [row["de"].replace("\n", " ") for row in ROWS]
    assert "fetching train from parquet on the Hugging Face hub (" in said[1]
    assert f"{data.root}/train.de" in said[1]
    assert "wrote 25 pairs of train" in said[2]
    assert missing(data, file_names(data)) == ["newstest2014.en", "newstest2014.de"]
    (Path(data.root) / "train.de").write_text("other\n")
    with pytest.raises(UserError, match=r"train\.de has SHA-256 .* but had"):
        verified(data, "train.de")
    assert (Path(data.root) / RECORD).exists()


def test_the_revision_is_asked_for(data: DataConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault: a pinned revision of a data set is ignored, and the text is whatever is newest."""
    builder, asked = datasets.load_dataset_builder, []

    def noted(*arguments: Any, revision: str | None, **options: Any) -> Any:
        asked.append(revision)
        return builder(*arguments, **options)

    monkeypatch.setattr(datasets, "load_dataset_builder", noted)
    fetch(replace(data, hub=replace(data.hub, revision="4d1b")), ["train.en", "train.de"], lambda _: None)
    assert asked == ["4d1b"]


def test_columns_of_other_sets(data: DataConfig, tmp_path: Path) -> None:
    """Fault: only sets with a column `translation` (Gigaword has document and summary), or an unclear error."""
    path = tmp_path / "served" / "summaries.parquet"
    parquet.write_table(pyarrow.table({"document": ["d", None], "summary": ["s", "t"]}), path)
    hub = replace(data.hub, files={"train": str(path)})
    fetch(replace(data, source="document", target="summary", hub=hub), ["train.en"], lambda _: None)
    assert (lines(data, "train.en"), lines(data, "train.de")) == (["d", ""], ["s", "t"])
    (Path(data.root) / "train.de").unlink()
    for wrong, found in ((hub, "document, summary"), (data.hub, "de, en")):
        with pytest.raises(UserError, match=f"has no columns en and fr, only {found}; give data.columns"):
            fetch(replace(data, target="fr", hub=wrong), ["train.en", "train.de"], lambda _: None)


@pytest.mark.parametrize("name", ["nobody/nothing", "parquet"])
def test_offline_the_message_says_which_files_to_put_where(data: DataConfig, name: str) -> None:
    """Fault: the hub library's traceback; a folder that looks as if something had been fetched."""
    hub = HubConfig(name=name, config="de-en" if "/" in name else None, splits={"train": "train"})
    with pytest.raises(UserError, match=r"cannot fetch .* on the Hugging Face hub") as caught:
        fetch(replace(data, hub=hub), ["train.en", "train.de"], lambda _: None)
    assert f"put train.en, train.de into {data.root}" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert missing(data, ["train.en"]) == ["train.en"]


def test_without_the_library(data: DataConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault: a traceback where the extra is not installed."""
    monkeypatch.setitem(__import__("sys").modules, "datasets", None)
    with pytest.raises(UserError, match=r"pip install -e '\.\[hub\]'; or put train\.en, train\.de into"):
        fetch(data, ["train.en", "train.de"], lambda _: None)


def test_sacrebleus_test_sets(data: DataConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault: source and reference swapped, another test set, U+2028 taken for a line end."""
    source, reference = tmp_path / "source", tmp_path / "reference"
    source.write_text("one\u2028\ntwo\n", "utf-8")
    reference.write_text("eins\nzwei\n", "utf-8")
    asked: list[tuple[str, str]] = []

    def give(path: Path, asked_for: tuple[str, str]) -> str:
        asked.append(asked_for)
        return str(path)

    monkeypatch.setattr("sacrebleu.get_source_file", lambda *key: give(source, key))
    monkeypatch.setattr("sacrebleu.get_reference_files", lambda *key: [give(reference, key)])
    fetch(data, ["newstest2014.en", "newstest2014.de"], lambda _: None)
    assert asked == [("wmt14/full", "en-de")] * 2
    assert lines(data, "newstest2014.en") == ["one\u2028", "two"]
    assert lines(data, "newstest2014.de") == ["eins", "zwei"]


def test_sacrebleu_offline_or_without_the_set(data: DataConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault: sacrebleu ending the program when it cannot download, and a set it does not have for these languages."""

    def ends(*_: str) -> str:
        raise SystemExit(1)

    monkeypatch.setattr("sacrebleu.get_source_file", ends)
    with pytest.raises(UserError, match=r"cannot fetch wmt14/full en-de; put newstest2014\.en, newstest2014\.de into"):
        fetch(data, ["newstest2014.en", "newstest2014.de"], lambda _: None)
    with pytest.raises(UserError, match=r"newstest2014=wmt16: sacrebleu has no such test set for en-fr"):
        fetch(
            replace(data, target="fr", sacrebleu={"newstest2014": "wmt16"}),
            ["newstest2014.en", "newstest2014.de"],
            lambda _: None,
        )


def test_what_cannot_be_fetched_is_named_before_the_rest_is(data: DataConfig) -> None:
    """Fault: gigabytes fetched before it is said that another file is missing that no hub has."""
    more = replace(data, extra=[ExtraConfig(["bt.en", "bt.de"])])
    with pytest.raises(UserError, match=r"bt\.en does not exist; put bt\.en, bt\.de into"):
        fetch(more, file_names(more), lambda _: None)
    assert missing(data, ["train.en"]) == ["train.en"]


def test_nothing_is_written_outside_the_data_folder(data: DataConfig, tmp_path: Path) -> None:
    """Fault: a configured name that leads out of data.root."""
    escaping = replace(data, train=["../train.en", "../train.de"])
    with pytest.raises(UserError, match=r"\.\./train\.en: only plain files inside data\.root"):
        fetch(escaping, ["../train.en", "../train.de"], lambda _: None)
    assert not (tmp_path / "train.en").exists()
