"""Average checkpoints of one run: python scripts/average.py 'checkpoints=[A,B,C]' output=FILE"""

from __future__ import annotations

from pathlib import Path

from convs2s.cli import run
from convs2s.config import AverageConfig
from convs2s.files import check_outputs
from convs2s.training.average import average
from convs2s.training.checkpoint import save


def main(config: AverageConfig) -> None:
    check_outputs({"output": config.output}, {"checkpoints": config.checkpoints})
    save(Path(config.output), average(config.checkpoints))
    print(f"{config.output}: mean of {len(set(config.checkpoints))} checkpoints")


if __name__ == "__main__":
    run(main, AverageConfig, "average")
