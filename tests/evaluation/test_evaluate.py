"""Scoring a split: the right text against the right reference, and a report that says what was done."""

from __future__ import annotations

import gzip
import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import tiny
from helpers import pad, shift

from convs2s.config import DataConfig, Metric, SearchConfig, TokenizerKind, TrainConfig
from convs2s.errors import UserError
from convs2s.evaluation import evaluate
from convs2s.evaluation.evaluate import ensemble_name, evaluate_run, evaluate_split, report_name
from convs2s.evaluation.models import load_models
from convs2s.evaluation.results import summary
from convs2s.model import ConvS2S
from convs2s.search.translate import Translation, Translator, Warner, translate_blocks, translate_lines
from convs2s.text.vocabulary import EOS, UNK
from convs2s.training import checkpoint

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
    for metric in ("bleu", "chrf", "bleu_tokenized", "bleu_paper"):
        assert report[metric]["score"] == pytest.approx(100)
        assert "version:" in report[metric]["signature"]
    assert "tok:13a" in report["bleu"]["signature"]
    assert "tok:none" in report["bleu_tokenized"]["signature"]
    assert report["bleu_paper"]["signature"].endswith("words:as-written")
    assert report["ter"]["score"] == 0
    assert report["length_ratio"] == 1
    assert (report["sentences"], report["blank"]) == (len(SOURCE), 1)
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
    assert returned == {**report, "report": str(experiment.run / "evaluation" / f"{NAME}.json")}
    table = (experiment.run / "evaluation" / f"{NAME}.md").read_text(encoding="utf-8")
    for shown in ("| BLEU ", "| perplexity ", "| BLEU as in the paper", "`nrefs:1|case:mixed", "Command: `python "):
        assert shown in table
    assert len(list((experiment.run / "evaluation").iterdir())) == 2


def test_the_split_that_was_asked_for(experiment: Experiment) -> None:
    """Fault: the test split scored under another name."""
    assert evaluate_split(experiment.checkpoint, "valid", DEFAULT)["bleu"]["score"] < 50
    assert experiment.report("valid")["sentences"] == 2
    with pytest.raises(UserError, match="split=dev is none of"):
        evaluate_split(experiment.checkpoint, "dev", SEARCH)
    with pytest.raises(UserError, match="split=train: valid and the test splits are scored"):
        evaluate_split(experiment.checkpoint, "train", SEARCH)


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


def figures(report: dict[str, Any]) -> dict[str, Any]:
    """What must not depend on when, where and how fast a split is scored."""
    about = ("seconds", "sentences_per_second", "search", "command", "date", "threads", "device", "report")
    return {key: value for key, value in report.items() if key not in about}


def test_after_training(experiment: Experiment, capsys: pytest.CaptureFixture[str]) -> None:
    """Fault: the end of training scores another split, checkpoint, search or metric than the evaluation script."""
    experiment.data.metrics = [Metric.bleu, Metric.ter]
    config = TrainConfig(experiment="tiny", run_dir=str(experiment.run), data=experiment.data, search=SEARCH)
    evaluate_run(config)
    at_the_end = experiment.report(NAME)
    assert "BLEU 100.00" in capsys.readouterr().out
    saved = checkpoint.load(experiment.checkpoint)
    saved["config"]["data"]["metrics"] = ["bleu", "ter"]
    checkpoint.save(experiment.checkpoint, saved)
    evaluate_split(experiment.checkpoint, "test", SEARCH)
    afterwards = experiment.report(NAME)
    assert at_the_end.pop("checkpoint") != afterwards.pop("checkpoint")
    assert figures(at_the_end) == figures(afterwards)
    assert "chrf" not in afterwards
    config.data.test = {}
    evaluate_run(config)
    assert "no test split" in capsys.readouterr().out


def test_a_batch_changes_no_figure(experiment: Experiment) -> None:
    """Fault: padding leaks: BLEU 9 at one batch size and 24 at another."""
    experiment.write("test", SOURCE, ["a dog runs .", "red house", "", "a house in snow@@ .", "dog"])
    found = [
        figures(evaluate_split(experiment.checkpoint, "test", SearchConfig(batch_size=size, max_length=8)))
        for size in (1, 128)
    ]
    perplexities = [report.pop("perplexity") for report in found]
    assert found[0] == found[1]
    assert 0 < found[0]["bleu"]["score"] < 100
    assert perplexities[0]["score"] == pytest.approx(perplexities[1]["score"], rel=1e-5)
    assert perplexities[0]["tokens"] == perplexities[1]["tokens"]


def test_perplexity_is_the_training_loss(experiment: Experiment) -> None:
    """Fault: another sum than training minimises: </s> left out, averaged by sentence, over the translations."""
    source, target = ["ein hund läuft .", "rot haus", "", "ein " * 20], ["a dog cat .", "red house .", "dog", "a"]
    experiment.write("test", source, target)
    search = SearchConfig(max_length=8, long_lines="cut")  # type: ignore[arg-type]
    report = evaluate_split(experiment.checkpoint, "test", search)
    models, tokenizers = load_models([str(experiment.checkpoint)], "cpu", search.precision)
    ids = [
        [[*line, EOS] for line in side.encode(text[:2])]
        for side, text in zip(tokenizers, (source, target), strict=True)
    ]
    assert UNK in ids[1][0]  # "cat"
    tokens = sum(map(len, ids[1]))
    loss = models[0].loss(pad(ids[0], False), pad(shift(ids[1]), False), pad(ids[1], False)).item()
    assert report["perplexity"] == {"score": pytest.approx(math.exp(loss / tokens)), "tokens": tokens, "left_out": 2}


def test_unknown_shares(experiment: Experiment) -> None:
    """Fault: </s> counted among the pieces, sides exchanged, a share of lines."""
    experiment.write("test", ["ein hund läuft nicht", "", "zwei"], ["x", "", "y"])
    report = evaluate_split(experiment.checkpoint, "test", SEARCH)
    assert report["unknown"] == {"source": 2 / 5, "output": 0}


def test_bleu_by_length(experiment: Experiment) -> None:
    """Fault: sentences in the wrong bucket, or a bucket scored against others' references."""
    long = " ".join(["hund"] * 11)
    experiment.write("test", [*SOURCE, long], [*experiment.translations, "nothing alike , at all"])
    found = evaluate_split(experiment.checkpoint, "test", SEARCH)["length_buckets"]
    assert found["of"] == "source"
    assert [(bucket["words"], bucket["sentences"]) for bucket in found["buckets"]] == [("0-10", 5), ("11-20", 1)]
    assert found["buckets"][0]["bleu"] == pytest.approx(100)
    assert found["buckets"][1]["bleu"] < 20


def other_model(experiment: Experiment, path: Path) -> ConvS2S:
    """A checkpoint like the experiment's with other weights."""
    made = tiny.model(seed=9).float()
    saved = checkpoint.load(experiment.checkpoint)
    path.parent.mkdir(parents=True)
    checkpoint.save(path, {**saved, "model": made.state_dict()})
    return made


def test_an_ensemble(experiment: Experiment, tmp_path: Path) -> None:
    """Fault: only the first model votes, or its report is overwritten by the ensemble's."""
    second = tmp_path / "other" / "checkpoints" / "best.pt"
    models = [tiny.model().float(), other_model(experiment, second)]
    report = evaluate_split([experiment.checkpoint, second], "test", SEARCH)
    expected = [best.text for best, *_ in translate_lines(models, tiny.tokenizers(), SOURCE, SEARCH)]
    assert expected != experiment.translations
    name = NAME.replace("test", "test.run+other")
    text = (experiment.run / "translations" / f"{name}.txt").read_text(encoding="utf-8")
    assert text.split("\n") == [*expected, ""]
    assert [one["path"] for one in report["checkpoints"]] == [str(experiment.checkpoint), str(second)]
    assert "checkpoint" not in report
    alone = evaluate_split(experiment.checkpoint, "test", SEARCH)["perplexity"]["score"]
    assert report["perplexity"]["score"] != pytest.approx(alone, rel=1e-3)
    assert ensemble_name(["a/checkpoints/best.pt", "b/checkpoints/last.pt"]) == "a+b-last"
    assert len(ensemble_name([f"run{i:03}/checkpoints/best.pt" for i in range(40)])) < 20


def test_workers(experiment: Experiment, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault: search.workers ignored by evaluation; a worker that cannot load the models, as here in this process."""
    seen: list[int] = []

    def in_this_process(
        make: Callable[[], Translator], parts: Iterable[Sequence[str]], workers: int, warner: Warner
    ) -> Iterator[list[Translation]]:
        seen.append(workers)
        return translate_blocks(make().translate, parts, warner)

    monkeypatch.setattr(evaluate, "translate_in_workers", in_this_process)
    search = SearchConfig(beam=2, min_length=5, max_length=8, batch_size=2, workers=3)
    report = evaluate_split(experiment.checkpoint, "test", search)
    assert seen == [3]
    assert report["bleu"]["score"] == pytest.approx(100)
    assert report["report"].endswith(f"{NAME}.json")


def test_several_references(experiment: Experiment, tmp_path: Path) -> None:
    """Fault: all but the first reference forgotten."""
    paths = [tmp_path / name for name in ("source", "one", "two")]
    texts = [SOURCE, ["x"] * len(SOURCE), experiment.translations]
    for path, lines in zip(paths, texts, strict=True):
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    report = evaluate_split(experiment.checkpoint, "test", SEARCH, files=list(map(str, paths)))
    assert report["bleu"]["score"] == pytest.approx(100)
    assert "nrefs:2" in report["bleu"]["signature"]
    assert (report["reference"], report["more_references"]) == (str(paths[1]), [str(paths[2])])
