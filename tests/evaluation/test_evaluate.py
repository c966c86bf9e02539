"""Scoring a split: the right text against the right reference, and a report that says what was done."""

from __future__ import annotations

import gzip
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import tiny

from convs2s.config import DataConfig, SearchConfig, TokenizerKind, TrainConfig
from convs2s.errors import UserError
from convs2s.evaluation.evaluate import evaluate_run, evaluate_split, report_name, summary
from convs2s.search.translate import translate_lines

SOURCE = ["ein hund läuft .", "rot haus", "", "ein haus im schnee@@ haus .", "hund"]
SEARCH = SearchConfig(beam=2, min_length=5, max_length=8)  # long enough for 4-grams
DEFAULT = SearchConfig()


class Experiment:
    """A run directory with a checkpoint, and raw files whose references are the model's own translations."""

    def __init__(self, folder: Path, kind: TokenizerKind = TokenizerKind.whitespace, joiner: str = "") -> None:
        self.raw, self.run = folder / "raw", folder / "run"
        self.raw.mkdir()
        test = {"test": ["test.de", "test.en"], "more": ["more.de", "more.en"]}
        self.data = DataConfig(name="tiny", source="de", target="en", root=str(self.raw), test=test)
        self.data.train, self.data.valid = ["train.de", "train.en"], ["valid.de", "valid.en"]
        self.checkpoint = self.run / "checkpoints" / "best.pt"
        model = tiny.save_checkpoint(self.checkpoint, self.data, kind, joiner)
        results = translate_lines([model], tiny.tokenizers(joiner), SOURCE, SEARCH)
        self.translations = [result[0].text for result in results]
        self.write("test", SOURCE, self.translations)
        self.write("valid", SOURCE[:2], ["nothing alike , at all"] * 2)

    def write(self, split: str, source: list[str], target: list[str]) -> None:
        for side, lines in (("de", source), ("en", target)):
            (self.raw / f"{split}.{side}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

    def report(self, name: str) -> Any:
        return json.loads((self.run / "evaluation" / f"{name}.json").read_text(encoding="utf-8"))


@pytest.fixture
def experiment(tmp_path: Path) -> Experiment:
    return Experiment(tmp_path)


NAME = "test.beam2.min_length5.max_length8"


def test_report(experiment: Experiment) -> None:
    """Fault: lines shifted against the references (100 would be less), or figures without their conditions."""
    returned = evaluate_split(experiment.checkpoint, "test", SEARCH)
    report = experiment.report(NAME)
    for metric in ("bleu", "chrf", "bleu_tokenized"):
        assert report[metric]["score"] == pytest.approx(100)
        assert "version:" in report[metric]["signature"]
    assert "tok:13a" in report["bleu"]["signature"]
    assert "tok:none" in report["bleu_tokenized"]["signature"]
    assert report["sentences"] == len(SOURCE)
    assert report["seconds"] > 0
    assert report["sentences_per_second"] > 0
    assert report["search"]["beam"] == 2
    digest = hashlib.sha256(experiment.checkpoint.read_bytes()).hexdigest()
    assert report["checkpoint"] == {"path": str(experiment.checkpoint), "sha256": digest}
    assert report["command"]
    assert {"python", "torch", "sacrebleu", "sentencepiece"} <= report["versions"].keys()
    text = (experiment.run / "translations" / f"{NAME}.txt").read_text(encoding="utf-8")
    assert text.split("\n") == [*experiment.translations, ""]
    assert "BLEU 100.00" in summary(returned)
    assert len(list((experiment.run / "evaluation").iterdir())) == 1


def test_the_split_that_was_asked_for(experiment: Experiment) -> None:
    """Fault: the test split scored under another name."""
    assert evaluate_split(experiment.checkpoint, "valid", DEFAULT)["bleu"]["score"] < 50
    assert experiment.report("valid")["sentences"] == 2
    with pytest.raises(UserError, match="split=dev is none of"):
        evaluate_split(experiment.checkpoint, "dev", SEARCH)


def test_settings_do_not_overwrite_each_other(experiment: Experiment) -> None:
    """Fault: beam 1 overwrites the score of beam 5, the last checkpoint that of the best."""
    assert report_name("test", "best", DEFAULT) == "test"
    assert report_name("test", "last", SearchConfig(beam=10, lenpen=0.6)) == "test.last.beam10.lenpen0.6"
    assert report_name("test", "best", SearchConfig(batch_size=1, nbest=2)) == "test"
    evaluate_split(experiment.checkpoint, "test", DEFAULT)
    evaluate_split(experiment.checkpoint, "test", SearchConfig(beam=1))
    assert experiment.report("test")["search"]["beam"] == 5
    assert experiment.report("test.beam1")["search"]["beam"] == 1


def test_joiners_are_removed_from_both_sides(tmp_path: Path) -> None:
    """Fault: BLEU over pieces: too high, or near zero where only one side is joined."""
    experiment = Experiment(tmp_path, joiner="@@")
    words = [translation.replace("@@ ", "") for translation in experiment.translations]
    assert words == experiment.translations
    pieces = [translation.replace("dog", "d@@ og").replace("house", "hou@@ se") for translation in words]
    assert pieces != words
    experiment.write("test", SOURCE, pieces)
    assert evaluate_split(experiment.checkpoint, "test", SEARCH)["bleu_tokenized"]["score"] == pytest.approx(100)


def test_references_are_raw(tmp_path: Path) -> None:
    """Fault: references encoded and decoded by the model's tokeniser, so that what it cannot spell cannot be missed."""
    experiment = Experiment(tmp_path)
    experiment.write("test", SOURCE, [f"{line} Übermut" for line in experiment.translations])
    report = evaluate_split(experiment.checkpoint, "test", SEARCH)
    assert 30 < report["bleu"]["score"] < 95


def test_plain_text_has_one_bleu(tmp_path: Path) -> None:
    """Fault: a tokenised BLEU of text that is not tokenised stands beside the real one."""
    experiment = Experiment(tmp_path, kind=TokenizerKind.sentencepiece)
    assert "bleu_tokenized" not in evaluate_split(experiment.checkpoint, "test", SEARCH)


def test_own_text_and_own_folder(experiment: Experiment, tmp_path: Path) -> None:
    """Fault: own files ignored for the experiment's; gzip not read; results in the wrong place."""
    files = tmp_path / "news.de.gz", tmp_path / "news.en"
    files[0].write_bytes(gzip.compress("".join(f"{line}\n" for line in SOURCE).encode()))
    files[1].write_text("".join(f"{line}\n" for line in experiment.translations), encoding="utf-8")
    output = tmp_path / "elsewhere"
    own = str(files[0]), str(files[1])
    report = evaluate_split(experiment.checkpoint, "test", SEARCH, output=output, files=own)
    assert report["bleu"]["score"] == pytest.approx(100)
    assert (report["split"], report["source"]) == (None, str(files[0]))
    name = NAME.replace("test", "news.de")
    assert (output / "evaluation" / f"{name}.json").exists()
    assert (output / "translations" / f"{name}.txt").exists()
    assert not (experiment.run / "evaluation").exists()


def test_raw_files_that_have_moved(experiment: Experiment, tmp_path: Path) -> None:
    """Fault: a checkpoint is worth nothing once the data folder has another name."""
    experiment.raw.rename(tmp_path / "moved")
    with pytest.raises(UserError, match=r"test\.de"):
        evaluate_split(experiment.checkpoint, "test", SEARCH)
    report = evaluate_split(experiment.checkpoint, "test", SEARCH, root=str(tmp_path / "moved"))
    assert report["bleu"]["score"] == pytest.approx(100)


def test_a_reference_one_line_short(experiment: Experiment) -> None:
    """Fault: figures misaligned for months; a report left behind by a failed evaluation."""
    experiment.write("test", SOURCE, experiment.translations[:-1])
    with pytest.raises(UserError, match=f"{len(SOURCE)}.*{len(SOURCE) - 1}"):
        evaluate_split(experiment.checkpoint, "test", SEARCH)
    assert not (experiment.run / "evaluation").exists()


def test_after_training(experiment: Experiment, capsys: pytest.CaptureFixture[str]) -> None:
    """Fault: the end of training scores another split, checkpoint or search than the evaluation script."""
    config = TrainConfig(experiment="tiny", run_dir=str(experiment.run), data=experiment.data, search=SEARCH)
    evaluate_run(config)
    at_the_end = experiment.report(NAME)
    assert "BLEU 100.00" in capsys.readouterr().out
    evaluate_split(experiment.checkpoint, "test", SEARCH)
    afterwards = experiment.report(NAME)
    assert at_the_end["bleu"] == afterwards["bleu"]
    config.data.test = {}
    evaluate_run(config)
    assert "no test split" in capsys.readouterr().out
