"""Ablations and the recurrent contrast: which run stands where, and whether the paper's directions hold, by rule."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Any

import pytest
from synthetic_runs import BPE, write_run
from synthetic_runs import report as scored

from convs2s.config import CompareConfig
from convs2s.evaluation.ablations import Ablation, verdict
from convs2s.evaluation.chapters import contrast_section, direction
from convs2s.evaluation.compare import Comparison, compare
from convs2s.evaluation.contrast import SYSTEMS
from convs2s.evaluation.document import sections
from convs2s.evaluation.paper import PAPER, Claim, read
from convs2s.evaluation.plots import plots
from convs2s.evaluation.report import report
from convs2s.evaluation.run_record import read_run
from convs2s.evaluation.section import Section
from convs2s.options import CONFIGS

SMALL = {
    "model.encoder.layers": [{"channels": 128, "kernel": 3, "repeat": 3}],
    "model.decoder.layers": [{"channels": 128, "kernel": 3, "repeat": 5}],
}
SHALLOW = [{"channels": 128, "kernel": 3, "repeat": 1}]
DEEP = [{"channels": 128, "kernel": 3, "repeat": 9}]
NOWHERE = {"model.encoder.positions": False, "model.decoder.positions": False}


def run(folder: Path, bleu: float, perplexity: float = 7.0, seed: int = 1, **options: Any) -> Path:
    """A run of the experiment that serves all ablations at a laptop's scale."""
    return write_run(
        folder,
        "multi30k_ablation",
        seed,
        options={**BPE, **SMALL, **options},
        perplexities=[perplexity + 1, perplexity],
        reports={"test": scored(bleu=bleu - 1, bleu_paper=bleu, sentences_per_second=80.0)},
        speed=2500.0,
        parameters=5_100_000,
    )


def compared(*directories: Path) -> Comparison:
    return compare([read_run(directory) for directory in directories])


def of(comparison: Comparison, name: str) -> list[Ablation]:
    return [one for one in comparison.ablations if one.table.name == name]


def document(comparison: Comparison) -> dict[str, Section]:
    """The ablations' sections by what they are of."""
    titles = {one.title.partition(":")[0]: one for one in sections(comparison, plots(comparison))}
    return {title.removeprefix("Ablation, "): one for title, one in titles.items() if title.startswith("Ablation, ")}


def test_every_claim_is_the_papers() -> None:
    """Fault: we ask of our runs what the paper's own figures do not show, or a sweep that is not there is named."""
    tables = [table for table in read(PAPER).tables if table.claims]
    assert [table.name for table in tables] == [
        *("table 4", "table 5", "table 7", "table 8", "figure 2, encoder", "figure 2, decoder")
    ]
    for table in tables:
        one = Ablation(table, {})
        for claim in table.claims:
            assert any(verdict(claim, metric, one.published(metric)).holds for metric in one.metrics), claim
        assert table.scaled is not None
        assert (CONFIGS / "experiment" / f"{table.scaled.sweep}.yaml").exists()


BEST, WORST, CHAIN = ["a", "others"], ["others", "b"], ["a", "c", "b"]
JUDGED = [
    (BEST, "bleu_paper", {"a": 3.0, "b": 1.0, "c": 2.0}, True),
    (BEST, "valid_perplexity", {"a": 3.0, "b": 4.0, "c": 2.0}, False),
    (BEST, "valid_perplexity", {"a": 1.0, "b": 4.0, "c": 2.0}, True),
    (BEST, "bleu_paper", {"a": 2.0, "c": 2.0}, False),  # as good is not better
    (BEST, "bleu_paper", {"b": 1.0, "c": 2.0}, None),
    (BEST, "bleu_paper", {"a": 1.0}, None),
    (WORST, "bleu_paper", {"a": 3.0, "b": 1.0, "c": 2.0}, True),
    (WORST, "bleu_paper", {"a": 3.0, "b": 2.5, "c": 2.0}, False),
    (CHAIN, "bleu_paper", {"a": 3.0, "b": 1.0, "c": 2.0}, True),
    (CHAIN, "bleu_paper", {"a": 3.0, "b": 2.5, "c": 2.0}, False),
    (CHAIN, "bleu_paper", {"a": 3.0, "b": 2.5, "d": 9.0}, True),  # what was not run is passed over
]


@pytest.mark.parametrize(("order", "metric", "figures", "holds"), JUDGED)
def test_claims_are_judged_by_rule(order: list[str], metric: str, figures: dict[str, float], holds: bool) -> None:
    """Fault: a high perplexity is good, a tie is a win, or a row that was not run counts."""
    found = verdict(Claim("x", order), metric, figures)
    assert found.holds is holds
    assert bool(found.against) == (holds is False)


def test_runs_stand_in_the_rows_that_they_are_of(tmp_path: Path) -> None:
    """Fault: a run stands in a table whose rows differ in something else, or of other training among the rest."""
    comparison = compared(
        run(tmp_path / "base", 38.0),
        run(tmp_path / "three", 38.5, **{"model.decoder.attention": [1, 2, 3]}),
        run(tmp_path / "last", 30.0, **{"model.decoder.attention": [5]}),
        run(tmp_path / "nowhere", 37.0, **NOWHERE),
        run(tmp_path / "deep", 39.0, **{"model.encoder.layers": DEEP}),
        run(tmp_path / "dropped", 20.0, **{"model.dropout": 0.5, "model.encoder.layers": SHALLOW}),
    )
    standing = {
        (one.table.name, system, number): [member.run.directory.name for member in group.members]
        for number, one in enumerate(comparison.ablations)
        for system, group in one.figures.get("bleu_paper", {}).items()
    }
    assert standing == {
        ("table 4", "source and target", 0): ["base"],
        ("table 4", "none", 0): ["nowhere"],
        ("table 5", "1, 2, 3, 4, 5", 1): ["base"],
        ("table 5", "1, 2, 3", 1): ["three"],
        ("table 5", "5", 1): ["last"],
        ("table 7", "kernel 3, 9 layers", 2): ["deep"],
        ("table 8", "kernel 3, 5 layers", 3): ["base"],
        ("figure 2, encoder", "1 layer", 5): ["dropped"],
        ("figure 2, encoder", "3 layers", 4): ["base"],
        ("figure 2, encoder", "9 layers", 4): ["deep"],
        ("figure 2, decoder", "5 layers", 6): ["base"],
    }
    for one in comparison.ablations:
        assert one.figures.get("valid_perplexity", {}).keys() == one.figures.get("bleu_paper", {}).keys()
    drawn = {plot.name: plot for plot in plots(comparison) if plot.ours}
    assert set(drawn) >= {
        "table_4_bleu_paper_ours",
        "table_5_valid_perplexity_ours",
        "figure_2_encoder_bleu_paper_ours",
    }
    assert "multi30k_bpe test de-en, ours" in drawn["table_5_bleu_paper_ours"].title


def test_the_sentence_of_a_table(tmp_path: Path) -> None:
    """Fault: "holds" where it does not, one seed passes for several, or a figure of the paper for ours."""
    comparison = compared(
        run(tmp_path / "base", 38.0, 7.0),
        run(tmp_path / "three", 38.5, 7.2, **{"model.decoder.attention": [1, 2, 3]}),
        run(tmp_path / "first", 36.0, 7.9, **{"model.decoder.attention": [1]}),
        run(tmp_path / "last", 30.0, 9.0, **{"model.decoder.attention": [5]}),
        run(tmp_path / "shallow", 33.0, 8.0, **{"model.encoder.layers": SHALLOW}),
        run(tmp_path / "deep", 39.0, 7.1, **{"model.encoder.layers": DEEP}),
    )
    (one,) = of(comparison, "table 5")
    assert direction(one) == (
        "The paper's directions in our runs (one seed; 5 of the 6 that could be asked hold). "
        "Attention in all five layers is best: by perplexity it holds, by BLEU it does not hold "
        "(“1, 2, 3, 4, 5” (38.00) is no better than “1, 2, 3” (38.50)); "
        "Attention in the last layer alone is worst: by perplexity it holds, by BLEU it holds; "
        "The first three layers do better than the first alone: by perplexity it holds, by BLEU it holds."
    )
    found = document(comparison)
    shown = found["table 5"]
    assert shown.headings[1:] == ["perplexity, paper", "perplexity, ours", "BLEU, paper", "BLEU, ours"]
    assert shown.rows == [
        ["1, 2, 3, 4, 5", "6.65", "7.00", "21.63", "38.00"],
        ["1, 2, 3", "6.95", "7.20", "21.36", "38.50"],
        ["1", "7.15", "7.90", "21.26", "36.00"],
        ["5", "7.66", "9.00", "20.24", "30.00"],
    ]
    assert "Not run: 1, 2, 3, 4; 1, 2; 1, 3, 5; 2; 3; 4." in shown.words[0]
    assert "BLEU as in the paper (Moses words) on multi30k_bpe test de-en; one seed." in shown.words[0]
    assert shown.words[-1] == "python scripts/train.py experiment=multi30k_ablation data.root=DIR seed=1"
    depth = found["figure 2, encoder"]
    assert depth.headings[1:] == ["perplexity, ours", "BLEU, paper", "BLEU, ours"]  # none was published
    assert "Up to nine layers, depth helps: by perplexity it does not hold" in depth.words[1]
    assert "by BLEU it holds." in depth.words[1]
    kernels = found["table 7"]
    assert kernels.rows[0][0] == "kernel 3"
    assert kernels.rows[0][kernels.headings.index("9 layers, BLEU, ours")] == "39.00"
    assert kernels.rows[0][kernels.headings.index("9 layers, BLEU, paper")] == "21.17"
    assert kernels.rows[1][kernels.headings.index("9 layers, BLEU, ours")] == "not run"
    nothing = found["table 4"]
    assert [row[0] for row in nothing.rows] == ["source and target"]
    assert nothing.words[1] == (
        "The paper's directions in our runs (one seed; 0 of the 0 that could be asked hold). Position embeddings on "
        "both sides are best: not run; The source's matter more than the target's: not run; None at all is worst: "
        "not run."
    )


def test_several_seeds_are_averaged(tmp_path: Path) -> None:
    """Fault: the figure of one seed stands for several."""
    runs = [run(tmp_path / f"base{seed}", 37.0 + seed, 7.0, seed) for seed in (1, 2)]
    last = [run(tmp_path / f"last{s}", 30.0, 9.0, s, **{"model.decoder.attention": [5]}) for s in (1, 2)]
    comparison = compared(*runs, *last)
    assert document(comparison)["table 5"].rows[0] == [
        "1, 2, 3, 4, 5",
        "6.65",
        "7.00 ± 0.00",
        "21.63",
        "38.50 ± 0.71",
    ]
    assert "(means of 2 seeds or more; " in direction(of(comparison, "table 5")[0])


def lstm(folder: Path) -> Path:
    options = {
        **BPE,
        "model.architecture": "lstm_attention",
        "model.encoder.layers": [{"channels": 256, "kernel": 1, "repeat": 1}],
        "model.decoder.layers": [{"channels": 256, "kernel": 1, "repeat": 1}],
    }
    reports = {
        "test": scored(bleu=34.0, bleu_tokenized=35.0, sentences_per_second=40.0),
        "test.beam10": scored(beam=10, bleu_tokenized=36.0, sentences_per_second=20.0),
    }
    return write_run(
        folder, "multi30k_lstm_attention", options=options, perplexities=[9.0], reports=reports, speed=1250.0
    )


def test_the_recurrent_contrast(tmp_path: Path) -> None:
    """Fault: an ablated model or another beam stands for ConvS2S, a figure in another's column, a silence for a 0."""
    base = run(tmp_path / "base", 38.0)
    ablated = run(tmp_path / "last", 30.0, **{"model.decoder.attention": [5]})
    shown = contrast_section(compared(ablated).contrast)
    assert [row[1:5] for row in shown.rows] == [["not run"] * 4] * 2
    assert [row[-1] for row in shown.rows] == [system.command for system in SYSTEMS]
    comparison = compared(base, ablated, lstm(tmp_path / "lstm"))
    shown = contrast_section(comparison.contrast)
    columns = dict(zip(shown.headings, zip(*shown.rows, strict=True), strict=True))
    assert columns["system"] == ("ConvS2S, 3 + 5 layers of (128, 3)", "LSTM with attention, 1 + 1 layers of 256")
    assert columns["parameters"] == ("5,100,000", "not recorded")
    assert columns["perplexity"] == ("7.00", "9.00")
    assert columns["BLEU"] == ("38.00", "35.00")
    assert columns["sentences/s in translation"] == ("80.0", "40.0")
    assert columns["on"] == ("CPU (2 threads)", "CPU (2 threads)")
    assert columns["command"][1].startswith("python scripts/train.py experiment=multi30k_lstm_attention ")
    assert not comparison.others  # it has a place of its own


def test_they_are_in_every_file(tmp_path: Path) -> None:
    """Fault: a section is in the page and not in the table for programs, or the other way round."""
    runs = [str(run(tmp_path / "base", 38.0)), str(lstm(tmp_path / "lstm"))]
    runs.append(str(run(tmp_path / "shallow", 33.0, 8.0, **{"model.encoder.layers": SHALLOW})))
    report(CompareConfig(runs=runs, benchmarks=[], output=str(tmp_path / "out")))
    for name in ("results.md", "results.html"):
        text = (tmp_path / "out" / name).read_text("utf-8")
        for words in ("ConvS2S and an LSTM with attention", "The paper's directions in our runs"):
            assert words in text or words.replace("'", "&#x27;") in text, (name, words)
    with (tmp_path / "out" / "results.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    contrast = {(row["system"][:4], row["metric"]): row["ours"] for row in rows if row["table"] == "contrast"}
    assert contrast["Conv", "parameters"] == "5100000"
    assert contrast["LSTM", "bleu_tokenized"] == "35.0"
    depth = [row for row in rows if row["table"] == "figure 2, encoder" and row["metric"] == "valid_perplexity"]
    assert {(row["system"], row["ours"]) for row in depth} == {("1 layer", "8.0"), ("3 layers", "7.0")}
    assert all(re.match("python scripts/", row["command"]) for row in depth)
