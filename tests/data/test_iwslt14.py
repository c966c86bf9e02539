"""The IWSLT14 recipe from the organisers' files to the corpus, step by step as the authors' preparation does it."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir

from convs2s.cli import plain, register
from convs2s.config import TrainConfig
from convs2s.data.lines import read_lines, read_pairs
from convs2s.data.prepare import prepare, split_paths
from convs2s.options import CONFIGS

pytest.importorskip("sacremoses")
SETS = ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012")


@pytest.fixture
def config(tmp_path: Path) -> TrainConfig:
    """experiment=iwslt14_de_en data=iwslt14_raw on small files of the same form: 70 sentences, two a test set."""
    register(TrainConfig, "train")
    options = ["experiment=iwslt14_de_en", "data=iwslt14_raw", f"data.root={tmp_path}", "text.merges=60"]
    with initialize_config_dir(str(CONFIGS), version_base="1.3"):
        config = plain(TrainConfig, compose("train", [*options, f"data.prepared_dir={tmp_path / 'prepared'}"]))
    for language, word in (("de", "Satz"), ("en", "sentence")):
        lines = [f"{word} Nr. {i}, usw." if i != 5 else word + " x" * (9 if language == "de" else 1) for i in range(70)]
        tags = "<url>u</url>\n<talkid>1</talkid>\n<title>Titel</title>\n" + "".join(f"{line}\n" for line in lines)
        (tmp_path / f"train.tags.de-en.{language}").write_text(tags, "utf-8")
        for name in SETS:
            segments = "".join(f'<seg id="{i}"> {word}’s {name} {i}. </seg>\n' for i in (1, 2))
            path = tmp_path / f"IWSLT14.{name}.de-en.{language}.xml.gz"
            path.write_bytes(gzip.compress(f"<mteval>\n<doc>\n{segments}</doc>\n</mteval>\n".encode()))
    return config


def test_the_recipe(config: TrainConfig) -> None:
    """Fault: titles lost, cleaning after the split, other pairs than every 23rd held out, case kept, sets reordered."""
    prepared = prepare(config.data, config.text, lambda _: None)
    # 71 pairs with the title; number 7 (9 words against 2) is over the ratio of 1.5; 70 are left, 3 of them held out.
    assert prepared.manifest["splits"]["train"]["pairs_read"] == 71
    assert prepared.manifest["splits"]["train"]["dropped"]["ratio"] == 1
    held = list(read_pairs(*split_paths(config.data, "valid")))
    assert [pair[0] for pair in held] == ["Satz Nr. 22, usw.", "Satz Nr. 45, usw.", "Satz Nr. 68, usw."]
    assert len(prepared.train) == 67
    both = prepared.tokenizers
    assert both.source.decode(prepared.train.source(1).tolist()) == "satz nr. 0, usw."
    assert both.source.decode(prepared.valid.source(0).tolist()) == "satz nr. 22, usw."
    assert both.source.symbols == both.target.symbols
    tests = list(read_pairs(*split_paths(config.data, "test")))
    assert [pair[1] for pair in tests] == [f"sentence's {name} {i}." for name in SETS for i in (1, 2)]


def test_fixed_codes_are_used_and_their_change_noticed(config: TrainConfig, tmp_path: Path) -> None:
    """Fault: text.codes ignored, or a corpus of other codes used again."""
    codes = tmp_path / "codes"
    codes.write_text("#version: 0.2\ns a\n", "utf-8")
    text = replace(config.text, codes=str(codes))
    said: list[str] = []
    prepared = prepare(config.data, text, said.append)
    assert prepared.tokenizers.source.pieces("Satz")[0] == "sa@@"
    said.clear()
    prepare(config.data, text, said.append)
    assert said == []
    codes.write_text("#version: 0.2\nt z</w>\n", "utf-8")
    assert prepare(config.data, text, said.append).tokenizers.source.pieces("Satz")[-1] == "tz"
    assert "other text: preparing again" in said[0]
    assert list(read_lines(codes))[1] == "t z</w>"
