"""scripts/evaluate.py on text that exists already, and what it refuses, in this process."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

from convs2s.config import EvaluateConfig, Metric, SearchConfig
from convs2s.errors import UserError

SCRIPT = Path(__file__).parents[2] / "scripts" / "evaluate.py"
MAIN = runpy.run_path(str(SCRIPT))["main"]
REFERENCE = ["The dog, it runs in the snow.", "A red house stands here!", "Nobody knows why 67 men sing."]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "argv", ["pytest"])
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "ref", REFERENCE)
    write(tmp_path / "out", [REFERENCE[0], "The red house stood here .", "<unk> knows why men sing."])
    return tmp_path


def write(path: Path, lines: list[str]) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def script(*arguments: str) -> None:
    sys.argv = ["scripts/evaluate.py", *arguments]
    runpy.run_path(str(SCRIPT), run_name="__main__")


def refused(**options: Any) -> str:
    """What the script's main says before it ends, without Hydra's delay."""
    with pytest.raises(UserError) as refusal:
        MAIN(EvaluateConfig(**options))
    message = str(refusal.value)
    assert "\n" not in message
    return message


def report(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def test_a_file_of_outputs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Fault: translations of another program cannot be scored, or are scored without saying how."""
    script("hypotheses=out", "reference=ref", "source=ref", "language=en")
    found = report(folder / "evaluation" / "out.json")
    assert {"bleu", "bleu_paper", "chrf", "ter"} <= found.keys()
    assert "bleu_tokenized" not in found
    assert "perplexity" not in found
    assert 30 < found["bleu"]["score"] < 80
    assert found["unknown"] == {"source": 0, "output": 1 / 18}
    assert found["length_buckets"]["of"] == "source"
    command = [str(SCRIPT), "hypotheses=out", "reference=ref", "source=ref", "language=en"]
    assert found["command"] == command
    table = (folder / "evaluation" / "out.md").read_text(encoding="utf-8")
    assert f"Command: `python {' '.join(command)}`" in table
    assert "| BLEU as in the paper" in table
    printed = capsys.readouterr().out
    assert printed.startswith(table)
    assert printed.splitlines()[-1].startswith("out: BLEU ")


def test_words_are_taken_as_they_are(folder: Path) -> None:
    """Fault: tokenised outputs tokenised once more: not the known multi-bleu figure."""
    write(folder / "words.ref", ["a b c d", "d e f ."])
    write(folder / "translations" / "words", ["a b c d .", "d e f ."])
    script("hypotheses=translations/words", "reference=words.ref", "segmented=true", "metrics=[bleu]")
    found = report(folder / "evaluation" / "words.json")  # in the run, not in its translations
    assert found["bleu_paper"]["details"].startswith("88.9/85.7/80.0/66.7 (BP = 1.000")
    assert found["bleu_paper"]["score"] == pytest.approx(100 * (8 / 9 * 6 / 7 * 4 / 5 * 2 / 3) ** 0.25)
    assert found["bleu_tokenized"]["score"] == pytest.approx(found["bleu_paper"]["score"])
    assert not {"chrf", "ter"} & found.keys()


def test_summaries(folder: Path) -> None:
    """Fault: ROUGE is there for Python only."""
    pytest.importorskip("rouge_score")
    script("hypotheses=out", "reference=[ref,ref]", "metrics=[rouge]", "output=scores")
    found = report(folder / "scores" / "evaluation" / "out.json")
    assert 50 < found["rouge1_recall75"]["score"] < 100
    assert "nrefs:2" in found["rougeL_f1"]["signature"]
    assert "bleu" not in found


def test_systems(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Fault: Hydra's lists and mappings do not reach the comparison."""
    quick = ("reference=ref", "metrics=[bleu]", "samples=20", "trials=20", "language=en")
    write(folder / "third", ["x"] * 3)
    script("systems={one: [out,ref], two: third}", *quick, "output=here")
    printed = capsys.readouterr().out
    assert "one: ref" in printed
    assert "| one " in printed
    assert printed.splitlines()[-1] == "here/significance.json"
    found = report(folder / "here" / "significance.json")
    assert [row["file"] for row in found["runs"]] == ["out", "ref", "third"]
    write(folder / "th|rd", ["x"] * 3)
    script('systems=[out,"th|rd"]', *quick)
    assert "| th\\|rd " in capsys.readouterr().out  # two columns otherwise


def test_blank_translations(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Fault: a program that wrote nothing divides by zero, or passes without a word."""
    write(folder / "blank", ["", " ", ""])
    script("hypotheses=blank", "reference=ref", "language=en")
    found = report(folder / "evaluation" / "blank.json")
    assert {found[name]["score"] for name in ("bleu", "bleu_paper", "chrf")} == {0}
    assert found["blank"] == 3
    assert "warning: blank: every line is blank" in capsys.readouterr().err


ONE_LINE = [
    ("A small red house stands here!", "A small red house stands here!", 100),
    ("house", "house", 0),  # one word: no pair of words to count; multi-bleu is 0, though nothing is wrong
    ("", "A small red house stands here!", 0),
    ("A red house", "A small red house stands here!", 0),
]


@pytest.mark.parametrize(("hypothesis", "reference", "paper"), ONE_LINE)
def test_a_file_of_one_line(folder: Path, hypothesis: str, reference: str, paper: float) -> None:
    """Fault: a single, short or blank line divides by 0, is NaN, or cannot be tested for significance."""
    (folder / "one").write_text(hypothesis or "\n", "utf-8")  # no line end
    (folder / "one.ref").write_text(reference, "utf-8")
    options = {"reference": "one.ref", "language": "en"}
    MAIN(EvaluateConfig(hypotheses="one", metrics=[Metric.bleu, Metric.chrf, Metric.ter, Metric.rouge], **options))
    found = report(folder / "evaluation" / "one.json")
    assert (found["sentences"], found["blank"]) == (1, int(not hypothesis))
    assert found["bleu_paper"]["score"] == pytest.approx(paper)
    for name in ("bleu", "chrf", "ter", "rouge2_recall75", "rougeL_f1"):
        score = found[name]["score"]
        assert score is None or 0 <= score <= 100.001, name  # None: rouge-score is not installed
    systems = {"systems": ["one", "one.ref"], "samples": 10, "trials": 10}
    MAIN(EvaluateConfig(**systems, metrics=[Metric.bleu], output="compared", **options))
    for row in report(folder / "compared" / "significance.json")["runs"]:
        assert 0 <= row["bleu"]["score"] <= 100.001


def test_a_refusal_is_one_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Fault: a user's mistake ends in a stack trace or in status 0."""
    with pytest.raises(SystemExit) as ended:
        script("hypotheses=out", "reference=none")
    assert ended.value.code == 1
    assert capsys.readouterr().err == "error: none: cannot be read (No such file or directory)\n"


def test_files_that_do_not_fit(folder: Path) -> None:
    """Fault: scores of the lines up to the shorter file's end, a stack trace, or a report left behind."""
    write(folder / "short", REFERENCE[:2])
    (folder / "empty").write_bytes(b"")
    (folder / "latin").write_bytes(b"one\nt\xe4\nthree\n")
    write(folder / "blank", [""] * 3)
    for hypotheses, reference, message in (
        ("short", "ref", "short has 2 lines but ref has 3"),
        ("out", "short", "out has 3 lines but short has 2"),
        ("empty", "ref", "empty has 0 lines but ref has 3"),
        ("empty", "empty", "empty and empty are empty"),
        ("none", "ref", "none: cannot be read (No such file or directory)"),
        ("latin", "ref", "latin, line 2, byte 2: 0xe4 is not UTF-8"),
        ("out", ["ref", "short"], "out has 3 lines but short has 2"),
        ("out", "blank", "every reference is blank"),
    ):
        assert message in refused(hypotheses=hypotheses, reference=reference)
    assert "out has 3 lines but short has 2" in refused(hypotheses="out", reference="ref", source="short")
    assert not list(folder.glob("evaluation/*"))


def test_options_that_do_not_fit(folder: Path) -> None:
    """Fault: an option that is silently ignored."""
    out = {"hypotheses": "out", "reference": "ref"}
    systems = {"systems": ["out", "ref"], "reference": "ref"}
    cases: list[tuple[dict[str, Any], str]] = [
        ({}, "checkpoint must be given"),
        ({**out, "checkpoint": "x.pt"}, "checkpoint= and hypotheses= do not go together"),
        ({**out, **systems}, "hypotheses= and systems= do not go together"),
        ({"hypotheses": "out"}, "hypotheses= needs reference="),
        ({"systems": ["out", "ref"]}, "systems= needs reference="),
        ({**systems, "systems": ["out"]}, "at least two different files"),
        ({**systems, "source": "ref"}, "source= is for checkpoint= and hypotheses="),
        ({**systems, "metrics": [Metric.rouge]}, "leave rouge out"),
        ({**out, "metrics": []}, "metrics=[] is empty: name one or more of bleu"),
        ({**out, "split": "valid"}, "split= is for checkpoint=, not for hypotheses="),
        ({**out, "search": SearchConfig(beam=1)}, "search= is for checkpoint=, not for hypotheses="),
        ({**out, "samples": 3}, "samples= is for systems=, not for hypotheses="),
        ({**out, "reference": 3}, "reference=3: give a file"),
        ({"checkpoint": "x.pt", "segmented": True}, "segmented= is for hypotheses=, not for checkpoint="),
        ({"checkpoint": "x.pt", "source": "ref"}, "source= and reference= belong together"),
        ({"checkpoint": "x.pt"}, "x.pt: No such file or directory"),
    ]
    for options, message in cases:
        assert message in refused(**options), options
    assert not (folder / "evaluation").exists()
