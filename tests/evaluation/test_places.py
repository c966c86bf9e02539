"""What of a machine may not get into a document."""

from __future__ import annotations

from pathlib import Path

import pytest

from convs2s.config import DataConfig, TrainConfig
from convs2s.evaluation.places import Places, kept_name

RUN = TrainConfig(experiment="table5", run_dir="/disk/my runs/last", data=DataConfig(root="../raw/m30k"))
TEXTS = [
    ("/disk/my runs/last/checkpoints/best.pt", "runs/table5-last/checkpoints/best.pt"),
    ("../raw/m30k/test.de.gz", "DIR/test.de.gz"),
    ("../raw/m30k", "DIR"),
    ("../raw/m30k2/test.de", "DIR/test.de"),
    ("/disk/a b/secret", "DIR/secret"),
    ("source=/disk/a b/secret", "source=DIR/secret"),
    ("~/models/a.pt", "DIR/a.pt"),
    ("checkpoint=[/a/b.pt,/c/d.pt]", "checkpoint=[DIR/b.pt,DIR/d.pt]"),
    ("data/multi30k", "data/multi30k"),
    ("https://example.org/a/b", "https://example.org/a/b"),
    ("nrefs:1|case:mixed|smooth:exp", "nrefs:1|case:mixed|smooth:exp"),
    ("6.5 / 7", "6.5 / 7"),
    ("", ""),
]


@pytest.mark.parametrize(("text", "wanted"), TEXTS)
def test_paths_are_written_as_documents_write_them(text: str, wanted: str) -> None:
    """Fault: a path of the machine is left, or a text that is none is changed."""
    places = Places(Path("/disk/my runs/last"), RUN)
    assert places.text(text) == wanted
    assert places.tree({"a": [text, 1], "b": None}) == {"a": [wanted, 1], "b": None}
    assert places.text(wanted) == wanted


def test_commands_can_be_copied() -> None:
    """Fault: a list without quotes, a folder of the machine, or a command that changes when it is cleaned again."""
    places = Places(Path("/disk/my runs/last"), RUN)
    written = (
        "/opt/convs2s/scripts/train.py experiment=table5 model.decoder.attention=[1, 2] run_dir=/disk/my runs/last "
        "data.root=../raw/m30k data.prepared_dir=/disk/p seed=1 -m"
    )
    clean = "python scripts/train.py experiment=table5 'model.decoder.attention=[1, 2]' data.root=DIR seed=1 -m"
    assert places.command(written) == clean
    assert places.command(clean) == clean
    assert places.command("") == ""
    assert kept_name(Path("runs/table5/layers-[1, 2, 3]-seed1"), RUN) == "table5-layers-1,2,3-seed1"
    assert kept_name(Path("results/table5-layers-1,2,3-seed1"), RUN) == "table5-layers-1,2,3-seed1"
