"""The command line: help, overrides, and what a mistake looks like."""

from __future__ import annotations

import shlex
import subprocess
import sys
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from runs import assert_same_state, metrics, tiny_config, trained

from convs2s.config import EvaluateConfig, TrainConfig, TranslateConfig
from convs2s.options import options
from convs2s.training import checkpoint

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = {"prepare": TrainConfig, "train": TrainConfig, "translate": TranslateConfig, "evaluate": EvaluateConfig}


def script(name: str, *arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "scripts" / f"{name}.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", cwd=cwd)


def leaves(schema: type[Any]) -> int:
    hints = get_type_hints(schema)
    return sum(leaves(hints[f.name]) if is_dataclass(hints[f.name]) else 1 for f in fields(schema))


@pytest.mark.parametrize("name", SCRIPTS)
def test_help_shows_every_option_with_its_meaning(name: str) -> None:
    """Fault: an option has no help text, or --help leaves it out."""
    shown = script(name, "--help")
    assert shown.returncode == 0
    listed = list(options(SCRIPTS[name]))
    assert len(listed) == leaves(SCRIPTS[name])
    for option, default, meaning, _ in listed:
        assert f"  {option}={default}\n      {meaning}\n" in shown.stdout
        assert len(meaning) > 10, option


MISTAKES = [
    (("optimizer.lrr=1",), "error: there is no option optimizer.lrr; did you mean optimizer.lr?"),
    (("data.rot=x",), "error: there is no option data.rot; did you mean data.root?"),
    (("trainig.max_epochs=3",), "error: there is no option trainig; did you mean training?"),
    (("optimizer.lr=fast",), "error: optimizer.lr=fast: Value 'fast' of type 'str' could not be converted to Float"),
    (("text.kind=bpe",), "error: text.kind=bpe: Invalid value 'bpe', expected one of"),
    (("experiment=multi30k",), "error: experiment=multi30k: there is no such choice, only"),
    (("model=huge",), "error: model=huge: there is no such choice, only ablation, ablation_small, base,"),
    (("model.encoder.layers=[{channels: 8, width: 3}]",), "model.encoder.layers: there is no option width in it"),
    (("model.encoder.layers=[{channels: 8",), "error:"),
    (
        ("data.test={more: [a, b]}",),
        "error: data.test.more is a new entry: write it with a plus, +data.test.more=VALUE",
    ),
    (("++training.max_epoch=1",), "error: there is no option training.max_epoch; did you mean training.max_epochs?"),
    (("+data.tset.x=[a, b]",), "error: there is no option data.tset; did you mean data.test?"),
    (("+colour=red",), "error: there is no option colour; --help lists them"),
    (("data.train=[a, b]",), "but data.train, valid or test names files: add data=files for the files"),
    (("--fast",), "error: there is no flag --fast; options are written name=value, --help lists them"),
    (("data.train=[nö.txt,b]",), 'cannot be read; write name=value, and lists as --help shows: ["größe 1.txt",b.txt]'),
    (("model.decoder.attention=[4]",), "error: model.decoder.attention: there is no layer 4"),
    (("model.dropout=1.5",), "error: model.dropout_source (or model.dropout)=1.5 must be at least 0"),
    (("search=null",), "error: search=null: there is no such choice, only beam, greedy"),
    (("training.device=tpu",), "error: training.device=tpu: give auto, cpu, cuda or cuda:N"),
    (("training.precision=fp16", "training.device=cpu"), "error: training.precision=fp16 needs a GPU"),
]


@pytest.mark.parametrize(("arguments", "message"), MISTAKES, ids=[arguments[0] for arguments, _ in MISTAKES])
def test_a_mistake_is_one_line(arguments: tuple[str, ...], message: str, tmp_path: Path) -> None:
    """Fault: a mistake ends in a stack trace, in Hydra's several lines, in status 0, or in a run directory."""
    small = ("data.generate=[20, 5, 5]", "text.vocabulary_size=200", "model=small")
    failed = script("train", *small, *arguments, cwd=tmp_path)
    assert failed.returncode == 1, failed.stderr
    last = failed.stderr.splitlines()[-1]
    assert last.startswith("error: ")
    assert message in last
    assert "Traceback" not in failed.stderr
    assert not list(tmp_path.glob("runs/*/checkpoints/*"))


@pytest.mark.parametrize("name", ["translate", "evaluate"])
def test_a_missing_value_is_named(name: str) -> None:
    """Fault: an option that must be given shows up as ??? deep inside."""
    failed = script(name)
    assert failed.returncode == 1
    assert failed.stderr.startswith("error: checkpoint must be given: add checkpoint=VALUE to the command")
    assert len(failed.stderr.splitlines()) == 1


@pytest.mark.parametrize("name", ["translate", "evaluate"])
def test_a_missing_checkpoint_is_named(name: str, tmp_path: Path) -> None:
    """Fault: a path typed wrong ends in a stack trace."""
    failed = script(name, f"checkpoint={tmp_path}/none.pt")
    assert failed.returncode == 1
    assert failed.stderr.startswith("error: ")
    assert f"{tmp_path}/none.pt: No such file or directory" in failed.stderr
    assert len(failed.stderr.splitlines()) == 1


@pytest.mark.parametrize(("closed", "status"), [("<&-", 1), (">&-", 1), ("2>&-", 0), (">&- --help", 1)])
def test_a_closed_stream_fails_as_a_file_would(closed: str, status: int, tmp_path: Path) -> None:
    """Fault: a trace about None, a lost translation with status 0, or text in a file that got the stream's number."""
    config = tiny_config(tmp_path, training__max_updates=0)
    trained(config)
    program = [sys.executable, ROOT / "scripts" / "translate.py", f"checkpoint={config.run_dir}/checkpoints/last.pt"]
    command = f"echo w1 w2 | {shlex.join(map(str, program))} search.max_length=3 {closed}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == status
    errors = [line for line in done.stderr.splitlines() if not line.startswith("warning: ")]
    assert errors == ["error: standard input or output: Bad file descriptor"] * status
    assert len(done.stdout.splitlines()) == 1 - status


def test_a_path_with_spaces_and_signs(tmp_path: Path) -> None:
    """Fault: a folder with =, blanks, commas or letters beyond ASCII cannot be named on the command line."""
    folder = tmp_path / "größe = 1, zwei (3)"
    arguments = (f"data.root={folder}/raw", f'data.prepared_dir="{folder}/prepared"')
    prepared = script("prepare", "data.generate=[20, 5, 5]", "text.vocabulary_size=200", *arguments, cwd=tmp_path)
    assert prepared.returncode == 0, prepared.stderr
    assert (folder / "prepared" / "manifest.json").exists()
    assert (folder / "raw" / "train.en").exists()


def test_a_sweep_gives_each_run_its_directory(tmp_path: Path) -> None:
    """Fault: the runs of a sweep write into one directory, cannot be told apart by its name, or -m must come first."""
    tiny = ("data.generate=[20, 5, 5]", "text.vocabulary_size=200", "model=small", "training.max_updates=1")
    fast = ("search.max_length=3", "search.beam=1", "training.tensorboard=false", "run_dir=runs/sweep")
    done = script("train", *tiny, "-m", *fast, "seed=1,2", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    runs = sorted(path.name for path in (tmp_path / "runs" / "sweep").iterdir())
    assert len(runs) == 2
    assert [("seed=1" in runs[0]), ("seed=2" in runs[1])] == [True, True]
    for run in runs:
        assert (tmp_path / "runs" / "sweep" / run / "checkpoints" / "last.pt").exists()
        assert (tmp_path / "runs" / "sweep" / run / "evaluation" / "test.last.beam1.max_length3.json").exists()


def test_a_run_is_repeated_from_its_own_configuration(tmp_path: Path) -> None:
    """Fault: config.yaml lacks something that a run depends on, or is accepted with keys that no option has."""
    first = tiny_config(tmp_path, search__max_length=3)
    one = trained(first)
    repeat = ("--config-dir", first.run_dir, "--config-name", "config", f"run_dir={tmp_path / 'again'}")
    done = script("train", *repeat, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "outputs").exists()  # Hydra's own records
    other = checkpoint.load(tmp_path / "again" / "checkpoints" / "last.pt")
    for part in ("model", "optimizer", "progress", "tokenizers"):
        assert_same_state(other[part], one[part], part)
    assert (tmp_path / "again" / "metrics.jsonl").read_text("utf-8") == metrics(first)
    config = Path(first.run_dir) / "config.yaml"
    config.write_text(config.read_text("utf-8") + "colour: red\n", "utf-8")
    refused = script("train", *repeat, cwd=tmp_path)
    assert refused.returncode == 1
    assert refused.stderr.strip() == "error: there is no option colour; --help lists them"
