"""Runs beside the published figures: means, intervals, what differs, what may not be compared, what is refused."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from synthetic_runs import BPE, FORCED, write_run
from synthetic_runs import report as scored

from convs2s.config import CompareConfig
from convs2s.errors import UserError
from convs2s.evaluation.compare import NOT_RUN, NOT_SCORED, Comparison, Line, compare
from convs2s.evaluation.document import sections
from convs2s.evaluation.markdown import MARK, markdown, renewed
from convs2s.evaluation.measures import measurements
from convs2s.evaluation.page import page
from convs2s.evaluation.paper import PAPER, PEERS, read
from convs2s.evaluation.plots import plots
from convs2s.evaluation.report import FIGURES, own_command, report
from convs2s.evaluation.run_record import find_runs, read_run
from convs2s.evaluation.speed import find_benchmarks

ROOT = Path(__file__).resolve().parents[2]
# Our seeds of the original's training: their means are 5.8 and 6.0 after the last epoch.
CURVES = {1: [16.0, 9.6, 7.5, 6.7, 6.1, 5.7], 2: [16.0, 9.8, 7.5, 6.7, 6.1, 5.8], 3: [16.0, 9.7, 7.5, 6.7, 6.1, 5.9]}
WORDS = {
    **BPE,
    "text.join_input": True,
    "text.min_frequency": 3,
    "model.embedding": 128,
    "model.encoder.layers": [{"channels": 128, "kernel": 3, "repeat": 2}],
    "model.decoder.layers": [{"channels": 128, "kernel": 3, "repeat": 2}],
    "training.batch_tokens": None,
    "training.batch_sentences": 32,
    "training.max_epochs": 6,
    "optimizer.annealing": "none",
}


SMALL = {
    "model.encoder.layers": [{"channels": 128, "kernel": 3, "repeat": 3}],
    "model.decoder.layers": [{"channels": 128, "kernel": 3, "repeat": 5}],
}


def compared(*directories: Path) -> Comparison:
    return compare([read_run(directory) for directory in directories])


def lines(comparison: Comparison, system: str, metric: str, table: str = "") -> list[Line]:
    found = [line for line in comparison.lines if line.row.system == system and line.metric == metric]
    return [line for line in found if table in ("", line.table.name)]


def forced(folder: Path, seed: int, bleu: float, **options: Any) -> Path:
    """A run of 17 epochs, as fairseq's."""
    return write_run(
        folder,
        "multi30k_bpe_de_en",
        seed,
        options={**FORCED, **options},
        perplexities=[100.0 - 5 * epoch for epoch in range(16)] + [6.5],
        reports={
            "test": scored(bleu=bleu - 2, bleu_tokenized=bleu),
            "test.beam10": scored(beam=10, bleu_tokenized=39.0),
        },
    )


def test_without_runs_nothing_was_run() -> None:
    """Fault: a figure of ours where nothing was run, a published figure left out, or a failure."""
    comparison = compare([])
    published = [row for path in (PEERS, PAPER) for table in read(path).tables for row in table.rows]
    assert len(comparison.lines) == sum(len(row.values) for row in published)
    for line in comparison.lines:
        assert line.state == (NOT_RUN if line.row.experiment else "–")
        assert (line.ours, line.difference, line.differs) == (None, None, ())
        assert (line.command != "") == (line.row.experiment is not None)
    assert [result.group for result in comparison.curves] == [None, None]
    assert not any(one.run for one in comparison.ablations)
    assert not any(one.figures for one in comparison.contrast)
    assert not any(measured for result in comparison.speeds for measured in result.ours)
    assert comparison.others == []


def test_seeds_become_mean_interval_and_difference(tmp_path: Path) -> None:
    """Fault: a seed counted twice or left out, a sign turned, a beam's score in another beam's line."""
    comparison = compared(forced(tmp_path / "a", 1, 39.0), forced(tmp_path / "b", 2, 40.0, **{"training.threads": 3}))
    (line,) = lines(comparison, "fairseq fconv, 17 epochs, beam 5", "bleu_tokenized")
    assert line.ours is not None
    assert line.ours.mean == pytest.approx(39.5)
    assert line.ours.std == pytest.approx(0.70711, abs=1e-5)
    # Student's t with one degree of freedom: 12.706 * 0.70711 / sqrt(2)
    assert (line.ours.low, line.ours.high) == pytest.approx((33.147, 45.853), abs=1e-3)
    assert line.difference == pytest.approx(0.26)
    assert line.differs == ("longest output: 500 (published: 200)", "seeds: 2 (published: 1)")
    assert line.command == "python scripts/train.py experiment=multi30k_bpe_de_en data.root=DIR seed=1"
    (line,) = lines(comparison, "fairseq fconv, 17 epochs, beam 10", "bleu_tokenized")
    assert line.difference == pytest.approx(-0.18)
    (line,) = lines(comparison, "fairseq fconv, 17 epochs", "valid_perplexity")
    assert line.difference == pytest.approx(0.18)
    (line,) = lines(comparison, "fairseq fconv, 17 epochs, beam 1", "bleu_tokenized")
    assert line.state == NOT_SCORED
    assert line.command.endswith("evaluate.py checkpoint=runs/multi30k_bpe_de_en/checkpoints/best.pt search.beam=1")
    (line,) = lines(comparison, "fairseq fconv, beside ours run to convergence", "bleu_tokenized")
    assert line.state == NOT_RUN


def test_other_conditions_are_named_and_not_averaged(tmp_path: Path) -> None:
    """Fault: runs of other batches, data or dropout are averaged, or pass for the published conditions."""
    other = {"training.batch_tokens": 2000, "data.max_pairs": 1000, "model.dropout": 0.1}
    comparison = compared(forced(tmp_path / "a", 1, 39.0), forced(tmp_path / "b", 1, 30.0, **other))
    found = lines(comparison, "fairseq fconv, 17 epochs, beam 5", "bleu_tokenized")
    assert [line.ours.mean for line in found if line.ours] == [39.0, 30.0]
    assert found[0].differs == ("longest output: 500 (published: 200)",)
    assert found[1].differs == (
        "data: multi30k_bpe de-en, at most 1,000 pairs (published: multi30k_bpe de-en)",
        "dropout: 0.1 (published: 0.2)",
        "batch: 2,000 tokens (published: 4,000 tokens)",
        "longest output: 500 (published: 200)",
    )
    assert found[1].difference == pytest.approx(-9.24)  # the same test set and metric
    perplexity = lines(comparison, "fairseq fconv, 17 epochs", "valid_perplexity")
    assert [line.comparable for line in perplexity] == [True, False]  # of other data


def test_other_metrics_and_test_sets_are_said_and_not_subtracted(tmp_path: Path) -> None:
    """Fault: BLEU of Multi30k set against BLEU of newstest, or 13a against multi-bleu, as if they were alike."""
    raw = {"data.name": "multi30k", "data.source": "de", "data.target": "en", "data.test": {"test": ["a", "b"]}}
    tutorial = write_run(
        tmp_path / "raw", "multi30k_de_en", options=raw, perplexities=[8.0], reports={"test": scored(bleu=36.0)}
    )
    small = write_run(
        tmp_path / "small",
        "multi30k_ablation",
        options={**raw, **SMALL, "model.encoder.positions": False},
        perplexities=[9.0],
        reports={"test": scored(bleu=33.0, bleu_paper=34.0)},
    )
    comparison = compared(tutorial, small)
    (line,) = lines(comparison, "a popular tutorial", "bleu_lowercased")
    assert line.group is not None
    assert (line.comparable, line.difference) == (False, None)
    assert line.differs[0] == "metric: BLEU, detokenised (13a) (published: BLEU, tokenised, lower-cased)"
    (line,) = lines(comparison, "target only", "bleu_paper", "table 4")
    assert line.ours is not None
    assert (line.ours.mean, line.difference) == (34.0, None)
    assert line.differs[0] == "test set: multi30k test de-en (published: newstest2014 en-de)"
    (line,) = lines(comparison, "target only", "valid_perplexity", "table 4")
    assert (line.comparable, line.difference) == (False, None)
    shown = markdown(sections(comparison, plots(comparison)), "command", "figures")
    assert re.search(
        r"\| target only \| BLEU as in the paper \(Moses words\) \| 21.30 \| 34.00 \(not comparable\) \|", shown
    )


def test_the_originals_curve_is_judged_epoch_by_epoch(tmp_path: Path) -> None:
    """Fault: the largest difference is taken of one seed, of the last epoch, or without the worst epoch."""
    runs = [
        write_run(tmp_path / str(seed), "original_curve", seed, options=WORDS, perplexities=curve)
        for seed, curve in CURVES.items()
    ]
    comparison = compared(*runs)
    result = next(result for result in comparison.curves if result.curve.experiment == "original_curve")
    assert {epoch: interval.mean for epoch, interval in result.ours.items()} == pytest.approx(
        {1: 16.0, 2: 9.7, 3: 7.5, 4: 6.7, 5: 6.1, 6: 5.8}
    )
    worst = abs(3 * 6.7 / (6.64 + 6.89 + 6.73) - 1)  # of the fourth epoch
    assert result.largest == pytest.approx(worst)
    shown = markdown(sections(comparison, plots(comparison)), "command", "figures")
    assert f"Largest relative difference of the means: {100 * worst:.1f} %, within the bound of 4 %." in shown
    assert "![original program: validation perplexity by epoch](figures/curve_original_program.svg)" in shown


def test_the_same_seed_twice_is_refused(tmp_path: Path) -> None:
    """Fault: a run and its copy make an interval."""
    with pytest.raises(UserError) as refused:
        compared(forced(tmp_path / "a", 1, 39.0), forced(tmp_path / "b", 1, 39.0))
    assert str(refused.value).startswith(f"{tmp_path / 'a'} and {tmp_path / 'b'} are both seed 1 of")


DAMAGE = [
    ("config.yaml", "a: [", "config.yaml: cannot be read"),
    ("config.yaml", "no_such_option: 1", "config.yaml: configuration: "),
    ("config.yaml", "", "config.yaml: "),
    ("metrics.jsonl", '{"kind": "train"}\n{"kind": "epoch", "epoch"', "metrics.jsonl, line 2: damaged"),
    ("metrics.jsonl", '{"kind": "epoch", "epoch": 1}\n', "metrics.jsonl, line 1: damaged"),
    ("metrics.jsonl", '{"kind": "epoch", "epoch": 1, "valid_perplexity": 0.2}\n', "metrics.jsonl, line 1: damaged"),
    (
        "metrics.jsonl",
        '{"kind": "epoch", "epoch": 1, "valid_perplexity": Infinity}\n',
        "metrics.jsonl, line 1: validation without a finite figure; leave this run out",
    ),
    ("evaluation/test.json", '{"search": {"lenpen": "high"}}', "evaluation/test.json: damaged"),
    ("metrics.jsonl", None, "metrics.jsonl: cannot be read"),
    ("environment.json", "[]", "environment.json: cannot be read"),
    ("speed.json", "[1]", "speed.json: damaged"),
    ("evaluation/test.json", "{", "evaluation/test.json: cannot be read"),
]


@pytest.mark.parametrize(("name", "content", "message"), DAMAGE, ids=[f"{d[0]}-{i}" for i, d in enumerate(DAMAGE)])
def test_a_damaged_run_is_refused_in_one_line(name: str, content: str | None, message: str, tmp_path: Path) -> None:
    """Fault: a damaged file ends in a stack trace, or its run passes for one that says less."""
    run = forced(tmp_path / "run", 1, 39.0)
    (run / name).unlink(missing_ok=True)
    if content is not None:
        (run / name).write_text(content, "utf-8")
    with pytest.raises(UserError) as refused:
        measurements(read_run(run))
    assert f"{run}/{message}" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_runs_are_found_by_folder_and_pattern(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault: a folder that is no run is passed over in silence; a pattern takes files; a sweep's runs are not found."""
    monkeypatch.chdir(tmp_path)
    names = ["results/a", "results/sweep/b", "results/sweep/c"]
    Path("results/benchmarks").mkdir(parents=True)  # speeds: no runs, and not foreign
    for seed, name in enumerate(names):
        write_run(tmp_path / name, "quickstart", seed)
    Path("results/README.md").write_text("", "utf-8")
    assert find_runs([]) == []
    with pytest.raises(UserError, match=r"^runs: nothing/\* matches nothing; mend it, or leave it out"):
        find_runs(["nothing/*"])
    for patterns in (["results"], ["results/*"], ["results/sweep", "results/a"], [f"{tmp_path}/results/*"]):
        assert [path.resolve() for path in find_runs(patterns)] == [tmp_path / name for name in names]
    write_run(tmp_path / "bracketed/attention[5]", "quickstart", 1)  # a name and no pattern
    assert find_runs(["bracketed/attention[5]"]) == find_runs(["bracketed"]) == [Path("bracketed/attention[5]")]
    Path("results/foreign").mkdir()
    with pytest.raises(UserError, match=r"^runs: results/foreign: not a run directory \(no config.yaml\)"):
        find_runs(["results/*"])
    with pytest.raises(UserError, match=r"^runs: results/absent: there is no such folder"):
        find_runs(["results/absent"])


def test_a_mistake_on_the_command_line_is_one_line(tmp_path: Path) -> None:
    """Fault: a folder that is no run ends in a stack trace, status 0, or half-written files."""
    (tmp_path / "foreign").mkdir()
    script = [sys.executable, str(ROOT / "scripts" / "compare.py")]
    options = [f"runs=[{tmp_path}/foreign]", f"output={tmp_path}/out"]
    failed = subprocess.run([*script, *options], capture_output=True, text=True)
    assert failed.returncode == 1
    assert failed.stderr.startswith(f"error: runs: {tmp_path}/foreign: not a run directory")
    assert len(failed.stderr.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_a_document_is_a_file() -> None:
    """Fault: document=/dev/full, which has no end, is read until memory is full."""
    with pytest.raises(UserError, match="document=/dev/full: no file; name one"):
        report(CompareConfig(document="/dev/full"))


def test_kept_runs_say_the_same_and_nothing_of_the_machine(tmp_path: Path) -> None:
    """Fault: a committed result names a folder of the machine, loses a figure, or is another on the second copy."""
    run = forced(tmp_path / "seed 1", 1, 39.0)
    (run / "speed.json").write_text('[{"epoch": 1, "tokens": 900, "seconds": 2.0}]', "utf-8")
    (run / "attention").mkdir()
    (run / "attention" / "line1.svg").write_text("<svg/>", "utf-8")
    report(CompareConfig(runs=[str(run)], keep=str(tmp_path / "kept")))
    kept = tmp_path / "kept" / "multi30k_bpe_de_en-seed1"
    files = {str(path.relative_to(kept)): path.read_text("utf-8") for path in kept.rglob("*") if path.is_file()}
    assert set(files) == {
        "attention/line1.svg",
        "config.yaml",
        "environment.json",
        "evaluation/test.beam10.json",
        "evaluation/test.json",
        "metrics.jsonl",
        "speed.json",
    }
    for name, content in files.items():
        assert str(tmp_path) not in content, name
        assert "/opt" not in content, name
    assert '"kind": "train"' not in files["metrics.jsonl"]
    assert json.loads(files["evaluation/test.json"])["checkpoint"]["path"] == (
        "runs/multi30k_bpe_de_en-seed1/checkpoints/best.pt"
    )
    before, after = compared(run), compared(kept)
    assert [line.ours for line in before.lines] == [line.ours for line in after.lines]
    assert [line.command for line in before.lines] == [line.command for line in after.lines]
    report(CompareConfig(runs=[str(kept)], keep=str(kept.parent)))
    assert files == {str(path.relative_to(kept)): path.read_text("utf-8") for path in kept.rglob("*") if path.is_file()}
    with pytest.raises(UserError, match="holds another run"):
        report(CompareConfig(runs=[str(forced(tmp_path / "other" / "seed1", 2, 39.0))], keep=str(kept.parent)))


def test_the_files_of_a_comparison(tmp_path: Path) -> None:
    """Fault: a CSV that does not parse, a line of it lost, a chart that a document shows and nobody wrote."""
    run = forced(tmp_path / "run", 1, 39.0)
    output, document = tmp_path / "out", tmp_path / "doc" / "RESULTS.md"
    report(CompareConfig(runs=[str(run)], output=str(output), document=str(document)))
    with (output / "results.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    beside = [row for row in rows if row["published"] and not row["table"].startswith("speed")]
    assert len(beside) == len(compared(run).lines)
    assert [row["state"] for row in rows if row["table"] == "contrast"] == ["not run", "not run"]
    (row,) = [row for row in rows if row["system"] == "fairseq fconv, 17 epochs, beam 5"]
    assert (row["published"], row["ours"], row["seeds"]) == ("39.24", "39.0", "1")
    assert float(row["difference"]) == pytest.approx(-0.24)
    assert row["signature"] == "nrefs:1|of:bleu_tokenized"
    for path in (output / "results.md", document):
        links = re.findall(r"\]\(([^)]+\.svg)\)", path.read_text("utf-8"))
        assert links
        assert all((path.parent / link).exists() for link in links)


def test_results_md_is_what_the_committed_results_give(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault: RESULTS.md was typed by hand, or is older than the results or the generator."""
    monkeypatch.chdir(ROOT)
    config = CompareConfig(runs=["results/*"], document="RESULTS.md")
    comparison = compare([read_run(path) for path in find_runs(config.runs)], find_benchmarks(config.benchmarks))
    written = Path("RESULTS.md").read_text("utf-8")
    drawn = plots(comparison)
    assert written == markdown(sections(comparison, drawn), own_command(config), FIGURES)
    for plot in drawn:
        assert not plot.ours or (Path(FIGURES) / f"{plot.name}.svg").read_text("utf-8") == plot.svg
    # And the sections that stand in a document written by hand.
    asking = Path("docs/attention.md").read_text("utf-8")
    assert len(MARK.findall(asking)) == 6
    command = own_command(replace(config, document="docs/attention.md"))
    assert asking == renewed(asking, sections(comparison, drawn), command, "docs/attention.md")


MARKED = """# By hand

<!-- compare.py: Runs -->
old
<!-- compare.py: end -->

Between.

<!-- compare.py: Learning curves -->
<!-- compare.py: end -->
The end.
"""


def test_a_document_gets_the_sections_that_it_asks_for(tmp_path: Path) -> None:
    """Fault: a word by hand is lost, old figures stay, a second writing adds lines, or a lost mark empties the file."""
    run, document = forced(tmp_path / "run", 1, 39.0), tmp_path / "notes.md"
    document.write_text(MARKED, "utf-8")
    for _ in range(2):
        report(CompareConfig(runs=[str(run)], document=str(document)))
        written = document.read_text("utf-8")
        by_hand = re.sub(
            r"(<!-- compare.py: [^e].*? -->).*?(?=<!-- compare.py: end)", r"\1\n", written, flags=re.DOTALL
        )
        assert by_hand == MARKED.replace("old\n", "")
        assert written.count("| run | seed | epochs |") == 1
        assert written.count("not by hand") == 2
    assert not (tmp_path / "docs").exists()  # no charts
    for old, new, message in (
        ("compare.py: Runs", "compare.py: Run", "line 3: there is no section 'Run'; the nearest is 'Runs'"),
        ("old\n<!-- compare.py: end -->", "", "line 3: no <!-- compare.py: end --> follows before the next mark"),
        ("<!-- compare.py: end -->\nThe", "The", "line 9: no <!-- compare.py: end --> follows"),
    ):
        damaged = MARKED.replace(old, new)
        document.write_text(damaged, "utf-8")
        with pytest.raises(UserError) as refused:
            report(CompareConfig(runs=[str(run)], document=str(document)))
        assert f"document: {document}, {message}" in str(refused.value)
        assert document.read_text("utf-8") == damaged


def test_names_and_texts_are_escaped(tmp_path: Path) -> None:
    """Fault: a name of a run or an option breaks the page or the table, or runs in a browser."""
    name = "<script>alert(1)</script>|`*_x_&"
    run = write_run(tmp_path / "run", name, perplexities=[5.0])
    (run / "attention").mkdir()
    (run / "attention" / 'line"<b>.svg').write_text("<svg onload='alert(1)'/>", "utf-8")
    comparison = compared(run)
    document = sections(comparison, plots(comparison))
    html = page(document, f"compare {name}")
    assert "<script>alert" not in html
    assert "onload" not in html
    assert html.count("<script>") == 1
    rows = [line for line in markdown(document, "c", "f").splitlines() if "alert" in line and line.startswith("|")]
    assert rows
    for row in rows:
        assert len(re.findall(r"(?<!\\)\|", row)) in (7, 9)  # the columns of "Runs" and of "Other runs"
