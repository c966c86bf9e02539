"""What cannot work is refused in one line before any work, and nothing is left half done; all in this process."""

from __future__ import annotations

import errno
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hydra import compose, initialize_config_dir
from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException
from runs import tiny_config, trained, write_corpus

from convs2s.cli import one_line, one_line_failures, plain, quiet_interrupt, register
from convs2s.config import (
    Annealing,
    AverageConfig,
    BenchmarkDataConfig,
    BenchmarkGenerateConfig,
    BenchmarkTrainConfig,
    ConvertConfig,
    Destination,
    LexiconConfig,
    Origin,
    PlotAttentionConfig,
    ScoreConfig,
    SearchConfig,
    SelectionConfig,
    TokenizerKind,
    TrainConfig,
    TranslateConfig,
)
from convs2s.errors import UserError
from convs2s.evaluation.evaluate import evaluate_split
from convs2s.files import atomic, check_outputs
from convs2s.options import CONFIGS
from convs2s.training import checkpoint
from convs2s.training.average import average
from convs2s.training.checks import check_lexicons, make_directory

SCRIPTS = Path(__file__).resolve().parents[1] / "scripts"

MISREAD = {
    "foo": "foo: cannot be read; write name=value",
    "run_dir='a": "run_dir='a: cannot be read; write name=value",
    "seed=1,2": "seed=1,2: several values; write a list as [A, B], one text in inner quotes",
    "data.train=foo": "data.train=foo: a list is wanted, written [A, B]",
    "data.test=[a,b]": "data.test=[a,b]: named entries are wanted, written {NAME: VALUE}",
    "model.encoder.layers=[{channels: x, kernel: 3}]": "layers=[{channels: x, kernel: 3}]: Value 'x' of type 'str'",
    "model.encoder.layers=[{kernel: 3}]": "model.encoder.layers[0].channels must be given: complete that entry",
}


@pytest.mark.parametrize("override", MISREAD)
def test_a_misread_override_says_how_to_write_it(override: str) -> None:
    """Fault: a parser's words, a library's types or half an override, where the user needs the right form."""
    register(TrainConfig, "train")
    with initialize_config_dir(str(CONFIGS), version_base="1.3"):
        try:
            plain(TrainConfig, compose("train", [override]))
        except UserError as error:
            message = str(error)
        except (HydraException, OmegaConfBaseException) as error:
            message = one_line(error, TrainConfig)
    assert MISREAD[override] in message
    assert "\n" not in message


IMPOSSIBLE: dict[str, tuple[dict[str, Any], str]] = {
    "seed": ({"seed": -1}, "seed=-1 must be at least 0"),
    "large number": ({"search__beam": 1 << 40}, f"search.beam={1 << 40} must be at most 2147483647"),
    "workers": ({"data__workers": 5000}, "data.workers=5000 must be at most 1024"),
    "coverage": (
        {"text__kind": TokenizerKind.sentencepiece, "text__character_coverage": 0.5},
        "text.character_coverage=0.5 must be at least 0.98 and at most 1",
    ),
    "joiner": (
        {"text__kind": TokenizerKind.sentencepiece, "text__joiner": "@@"},
        "text.joiner= is for text.kind=whitespace or moses_bpe: leave it out",
    ),
    "data seed": ({"data__seed": -1}, "data.seed=-1 must be at least 0"),
    "metrics": ({"data__metrics": []}, "data.metrics=[] is empty: name one or more of bleu, chrf, ter, rouge"),
    "columns": ({"data__columns": ["de"]}, "data.columns must name two columns, [source, target], not ['de']"),
    "large seed": ({"seed": 1 << 31}, "and below 2147483648"),
    "bottleneck": ({"model__bottleneck": -1}, "model.bottleneck=-1 must be at least 0"),
    "weight norm": ({"model__weight_norm_eps": -1.0}, "model.weight_norm_eps=-1.0 must be at least 0"),
    "rate": ({"optimizer__lr": float("nan")}, "optimizer.lr=nan must be a finite number"),
    "infinite rate": ({"optimizer__lr": float("inf")}, "optimizer.lr=inf must be a finite number"),
    "momentum": ({"optimizer__momentum": 1.0}, "optimizer.momentum=1.0 must be below 1"),
    "shrink": ({"optimizer__shrink": 1.0}, "optimizer.shrink=1.0 must be above 1"),
    "no folder": ({"data__root": ""}, "data.root is empty: give a value"),
    "one side": ({"data__target": "a"}, "data.source and data.target are both a: a corpus has two sides"),
    "annealing": (
        {"optimizer__anneal_after": 3, "optimizer__annealing": Annealing.none},
        "optimizer.anneal_after needs optimizer.annealing=fast or slow",
    ),
    "signal": ({"training__stop_signals": ["SIGKILL"]}, "training.stop_signals: SIGKILL is no signal that can be"),
    "no signal": ({"training__stop_signals": ["SIGFOO"]}, "training.stop_signals: SIGFOO is no signal that can be"),
    "beam": ({"search__beam": 0, "training__samples": 0}, "search.beam=0 must be at least 1"),
    "words": ({"training__selection__lexicon": "none"}, "training.selection.lexicon=none: there is no such file"),
    "selection": ({"search__selection__lexicon": "none"}, "search.selection.lexicon=none: there is no such file"),
    "common": ({"search__selection__common": -1}, "search.selection.common=-1 must be at least 0"),
    "unused": ({"search__unknown__lexicon": "none"}, "is for search.unknown.replace=true: give both, or neither"),
}


@pytest.mark.parametrize("case", IMPOSSIBLE)
def test_values_that_cannot_work_are_refused_first(case: str, tmp_path: Path) -> None:
    """Fault: found out in the network's constructor, after preparing for hours, after training, or never."""
    options, message = IMPOSSIBLE[case]

    def check() -> None:
        config = tiny_config(tmp_path, **options)
        config.check()
        check_lexicons(config)

    with pytest.raises(UserError) as refusal:
        check()
    assert message in str(refusal.value)


def test_a_run_has_a_directory_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault: an empty run_dir= fills the folder that the command runs in."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="run_dir is the folder that the command runs in"):
        make_directory(Path(""))
    assert not list(tmp_path.iterdir())


def test_preparing_refuses_what_training_would(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Fault: gigabytes fetched and encoded for a model that cannot be, or whose table is too short for the text."""
    main = runpy.run_path(str(SCRIPTS / "prepare.py"))["main"]
    with pytest.raises(UserError, match=r"model\.bottleneck=-1 must be at least 0"):
        main(tiny_config(tmp_path, model__bottleneck=-1))
    assert not (tmp_path / "prepared").exists()
    with pytest.raises(UserError, match="but the model takes at most 3; shorten it"):
        main(tiny_config(tmp_path, model__max_positions=5))
    main(tiny_config(tmp_path))
    assert (
        capsys.readouterr().out
        == f"{tmp_path}/prepared: 50 training and 12 validation pairs, vocabularies of 15 and 15\n"
    )


def test_an_average_takes_no_trainings_place(tmp_path: Path) -> None:
    """Fault: output=last.pt, and the state that a run would go on from is gone."""
    trained(tiny_config(tmp_path))
    folder = tmp_path / "run" / "checkpoints"
    before = (folder / "last.pt").read_bytes()
    main = runpy.run_path(str(SCRIPTS / "average.py"))["main"]
    with pytest.raises(UserError, match=r"last\.pt: holds a training's state, which would be lost"):
        main(AverageConfig([str(folder / "best.pt")], str(folder / "last.pt")))
    assert (folder / "last.pt").read_bytes() == before
    for _ in range(2):  # an average may be made anew
        main(AverageConfig([str(folder / "best.pt")], str(folder / "mean.pt")))


def test_a_pipe_is_left_to_who_translates_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault: a bar that wants to know how many lines there are empties the pipe first, or waits for ever."""
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    progress = runpy.run_path(str(SCRIPTS / "translate.py"))["progress"]
    assert list(progress([1, 2], TranslateConfig("x", str(tmp_path / "pipe")))) == [1, 2]


def test_held_out_pairs_of_another_preparation_are_no_validation(tmp_path: Path) -> None:
    """Fault: another run prepared the folder anew, and half of what is scored as validation was trained on."""
    options: dict[str, Any] = {"data__valid": [], "training__max_updates": 1, "training__samples": 0}
    first = tiny_config(tmp_path, data__valid_fraction=0.2, **options)
    trained(first)
    path = Path(first.run_dir) / "checkpoints" / "last.pt"
    checkpoint.save(tmp_path / "mean.pt", average([str(path)]))
    search = SearchConfig(beam=1, max_length=3)
    assert evaluate_split(path, "valid", search)["sentences"] > 3
    trained(tiny_config(tmp_path, "other", data__valid_every=2, **options))
    for one in (path, tmp_path / "mean.pt"):
        with pytest.raises(
            UserError, match=r"valid\.source\.txt holds other pairs than those held out from this model"
        ):
            evaluate_split(one, "valid", search)
    assert evaluate_split(path, "test", search)["sentences"] == 5


def test_what_follows_training_has_its_place(tmp_path: Path) -> None:
    """Fault: after days of training, translations/ turns out to be a file."""
    (tmp_path / "translations").touch()
    with pytest.raises(UserError, match="translations is a file: remove it, or give another run_dir"):
        make_directory(tmp_path)


OWN: list[tuple[str, Any, str]] = [
    ("translate", TranslateConfig(checkpoint="x", attention_layers=True), "attention_layers=true needs a place"),
    (
        "translate",
        TranslateConfig(checkpoint="x", attention="a.txt", attention_layers=True),
        "add attention=FILE.npz or FILE.jsonl",
    ),
    ("translate", TranslateConfig("x", output="a", attention="./a"), "attention=./a is the file of output=, too"),
    ("translate", TranslateConfig(["y", "x"], output="./x"), "output=./x is the file of checkpoint=, too"),
    ("translate", TranslateConfig("x", "text", "text"), "output=text is the file of input=, too: give another name"),
    (
        "translate",
        TranslateConfig("x", attention="l", search=SearchConfig(selection=SelectionConfig("l"))),
        "attention=l is the file of search.selection.lexicon=, too",
    ),
    ("translate", TranslateConfig("x", search=SearchConfig(lenpen=1e3)), "search.lenpen=1000.0 must be at least -10"),
    ("score", ScoreConfig("x", "s", "t", output="t"), "output=t is the file of target=, too"),
    ("score", ScoreConfig("x", "s", "t", search=SearchConfig(beam=0)), "search.beam=0 must be at least 1"),
    ("lexicon", LexiconConfig("s", "t", output="s"), "output=s is the file of source=, too"),
    ("lexicon", LexiconConfig("s", "t", output="o", alignment_output="o"), "alignment_output=o is the file of output="),
    ("average", AverageConfig(["x", "y"], "y"), "output=y is the file of checkpoints=, too"),
    ("benchmark_generate", BenchmarkGenerateConfig(checkpoint="x", output="x"), "output=x is the file of checkpoint="),
    (
        "plot_attention",
        PlotAttentionConfig("x", search=SearchConfig(workers=2)),
        "search.workers= has no effect on what",
    ),
    (
        "plot_attention",
        PlotAttentionConfig("x", target="t", search=SearchConfig(beam=1)),
        "search.beam= has no effect on what is drawn: leave it out",
    ),
    (
        "convert",
        ConvertConfig(Origin.fairseq_lua, model_="m", output="o", codes="c"),
        "codes= is for from=fairseq_py: leave it out",
    ),
    (
        "convert",
        ConvertConfig(to=Destination.onnx, model_="m", output="o", joiner="@@"),
        "joiner= is for from=fairseq_lua and fairseq_py: leave it out",
    ),
    (
        "convert",
        ConvertConfig(Origin.fairseq_py, model_="m", output="o", codes="c", joiner="@@"),
        "joiner= is for text that is segmented already, not for codes=",
    ),
    ("benchmark_generate", BenchmarkGenerateConfig(max_length=7), "max_length= is for checkpoint=, as random models"),
    ("benchmark_generate", BenchmarkGenerateConfig("x", vocabulary=[9, 9]), "vocabulary= is for a random model, not"),
    ("plot_attention", PlotAttentionConfig("x", formats=[]), "formats=[] is empty: name one or more of png, svg"),
    ("benchmark_train", BenchmarkTrainConfig(output="/none/x"), "output=/none/x cannot be written"),
    ("benchmark_generate", BenchmarkGenerateConfig(output="/none/x"), "output=/none/x cannot be written"),
    ("benchmark_data", BenchmarkDataConfig(output="/"), "output=/ cannot be written"),
    ("average", AverageConfig([], "x"), "checkpoints=[] is empty"),
    ("benchmark_train", BenchmarkTrainConfig(models=[]), "models=[] is empty: name one or more"),
    ("benchmark_train", BenchmarkTrainConfig(sentences=0), "sentences=0 must be at least 1"),
    ("benchmark_train", BenchmarkTrainConfig(threads=0), "threads=0 must be at least 1"),
    ("benchmark_generate", BenchmarkGenerateConfig(repeat=0), "repeat=0 must be at least 1"),
    ("benchmark_generate", BenchmarkGenerateConfig(beams=[0]), "beams=[0]: give one or more numbers"),
    ("benchmark_generate", BenchmarkGenerateConfig(batches=[]), "batches=[]: give one or more numbers"),
    ("benchmark_generate", BenchmarkGenerateConfig(vocabulary=[9, 1]), "vocabulary=[9, 1]: give two sizes"),
    ("benchmark_data", BenchmarkDataConfig(batch_tokens=0), "batch_tokens=0 must be at least 1"),
]


@pytest.mark.parametrize(("name", "config", "message"), OWN, ids=[message for _, _, message in OWN])
def test_scripts_refuse_options_of_their_own(name: str, config: Any, message: str) -> None:
    """Fault: a stack trace for a nought, an option without effect, two outputs in one file, or a file that cannot be
    written and is found out after all the work."""
    with pytest.raises(UserError) as refusal:
        runpy.run_path(str(SCRIPTS / f"{name}.py"))["main"](config)
    assert message in str(refusal.value)


def test_another_vocabulary_is_refused_by_every_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault: models of two vocabularies vote or are averaged, or a shape error says so deep inside."""
    monkeypatch.chdir(tmp_path)
    write_corpus(tmp_path / "raw")
    write_corpus(tmp_path / "raw2")
    for path in (tmp_path / "raw2").iterdir():
        path.write_text(path.read_text("utf-8").replace("w", "v"), "utf-8")
    options: dict[str, Any] = {"training__max_updates": 0, "training__samples": 0}
    trained(tiny_config(tmp_path, "one", **options))
    moved = {"data__root": str(tmp_path / "raw2"), "data__prepared_dir": str(tmp_path / "prepared2")}
    trained(tiny_config(tmp_path, "two", **options, **moved))
    one, two = (str(tmp_path / run / "checkpoints" / "last.pt") for run in ("one", "two"))
    refused = [
        ("translate", TranslateConfig(checkpoint=[one, two]), "two/checkpoints/last.pt: its source vocabulary is not"),
        ("average", AverageConfig([one, two], "mean.pt"), "another vocabulary than"),
    ]
    for name, config, message in refused:
        with pytest.raises(UserError) as refusal:
            runpy.run_path(str(SCRIPTS / f"{name}.py"))["main"](config)
        assert message in str(refusal.value)
    assert not (tmp_path / "mean.pt").exists()
    with pytest.raises(UserError, match=r"holds a run with data\.name=tiny, this command says other"):
        trained(tiny_config(tmp_path, "one", **options, data__name="other"))


def test_a_folder_that_is_a_file_is_told(tmp_path: Path) -> None:
    """Fault: clearing up fails, too, and hides what was wrong behind the name of a temporary file."""
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="file/out: not written"), atomic(tmp_path / "file" / "out"):
        pass


@pytest.mark.parametrize("name", ["/mnt/log", None])
def test_a_disk_that_fails_anywhere_is_one_line(name: str | None, capsys: pytest.CaptureFixture[str]) -> None:
    """Fault: a stack trace where standard output, or a file that nobody thought of, goes to a full disk."""
    with pytest.raises(SystemExit) as end, one_line_failures(TrainConfig):
        raise OSError(errno.ENOSPC, "No space left on device", name)
    assert end.value.code == 1
    assert capsys.readouterr().err == f"error: {name or 'standard input or output'}: No space left on device\n"


def test_memory_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Fault: a stack trace where an option asks for more memory than there is."""
    with pytest.raises(SystemExit) as end, one_line_failures(TrainConfig):
        raise MemoryError
    assert end.value.code == 1
    assert capsys.readouterr().err.startswith("error: out of memory: a lower search.beam")


def test_what_the_dead_left_is_cleared_up(tmp_path: Path) -> None:
    """Fault: each killed translation leaves a hidden file for ever; or files of living processes, and others', go."""
    dead = subprocess.Popen(["true"])
    dead.wait()
    for name in (f".out.{dead.pid}.tmp", f".out.{os.getppid()}.tmp", ".out.mine.tmp", f".other.{dead.pid}.tmp"):
        (tmp_path / name).touch()
    with atomic(tmp_path / "out") as file:
        file.write("whole")
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"out", f".out.{os.getppid()}.tmp", ".out.mine.tmp", f".other.{dead.pid}.tmp"}


def test_links_that_go_round_in_circles(tmp_path: Path) -> None:
    """Fault: a stack trace about a loop, on some versions of Python."""
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    check_outputs({"output": str(tmp_path / "out")}, {"input": [str(tmp_path / "loop")]})
    with pytest.raises(UserError, match="loop/out cannot be written: it is a folder, or its folder does not exist"):
        check_outputs({"output": str(tmp_path / "loop" / "out")}, {})


CONFIGURATIONS = {
    "a: [1": r"own\.yaml, line 1: expected ',' or '\]', .*; mend the file",
    "seed: 1\n\tx: 2": r"own\.yaml, line 2: found character '\\t' that cannot start any token; mend the file",
    "5": r"is no configuration \(Invalid loaded object type: int\); mend it",
    "defaults: 5": r"is no configuration \(.*\); mend it",
    "a: &a [*a]": r"line 1: found undefined alias|is no configuration|found recursive",
}


@pytest.mark.parametrize("content", CONFIGURATIONS)
def test_a_configuration_of_ones_own_with_a_mistake(
    content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Fault: a hundred lines of a parser's trace, where the file's line is known."""
    (tmp_path / "own.yaml").write_text(content, "utf-8")
    words = ["translate.py", "--config-dir", str(tmp_path), "--config-name", "own"]
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit) as end:
        runpy.run_path(str(SCRIPTS / "translate.py"), run_name="__main__")
    assert end.value.code == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert re.search(CONFIGURATIONS[content], line), line


def test_ctrl_c_while_packages_load_is_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    """Fault: a stack trace of somebody's imports for a key press in the first seconds."""
    quiet_interrupt(KeyboardInterrupt, KeyboardInterrupt(), None)
    assert capsys.readouterr().err == ""
    quiet_interrupt(ValueError, ValueError("a fault of ours"), None)
    assert "a fault of ours" in capsys.readouterr().err
