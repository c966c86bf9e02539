"""Score a checkpoint: python scripts/evaluate.py checkpoint=runs/quickstart/checkpoints/best.pt split=test

Writes translations/ and evaluation/ in the run's directory, or in output=.
"""

from __future__ import annotations

from convs2s.cli import run
from convs2s.config import EvaluateConfig
from convs2s.errors import UserError
from convs2s.evaluation.evaluate import evaluate_split, summary
from convs2s.training.distributed import resolve_device


def main(config: EvaluateConfig) -> None:
    if (config.source is None) != (config.reference is None):
        raise UserError("source= and reference= belong together: give both, or neither to score split=")
    files = None if config.source is None or config.reference is None else (config.source, config.reference)
    report = evaluate_split(
        config.checkpoint,
        config.split,
        config.search,
        output=config.output,
        device=resolve_device(config.device),
        root=config.root,
        files=files,
    )
    print(summary(report))


if __name__ == "__main__":
    run(main, EvaluateConfig, "evaluate")
