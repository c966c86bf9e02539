"""Lay runs beside the paper: python scripts/compare.py runs='[runs/multi30k_de_en]' output=comparison

For every figure of the paper's tables and of other programs: theirs, ours as the mean over seeds, the difference, its
interval, the conditions that differ, and the command; then the ablations, an LSTM with attention beside ConvS2S, and
speeds. output= gets results.md, results.csv and results.html, a page with sortable tables, learning curves, ablation
plots and attention maps that needs no network. document= writes the Markdown alone (RESULTS.md), with its charts under
docs/figures beside it, or the sections that a document asks for (docs/attention.md). benchmarks= are speeds that
scripts/benchmark.py measured. keep= copies runs and benchmarks in the form in which results are committed: without
checkpoints and machine paths.
"""

from __future__ import annotations

from convs2s.cli import run
from convs2s.config import CompareConfig
from convs2s.evaluation.report import report


def main(config: CompareConfig) -> None:
    report(config)


if __name__ == "__main__":
    run(main, CompareConfig, "compare")
