"""Average checkpoints of one run: python scripts/average.py 'checkpoints=[A,B,C]' output=FILE"""

from __future__ import annotations

from pathlib import Path

from convs2s.cli import run
from convs2s.config import AverageConfig
from convs2s.errors import UserError
from convs2s.files import check_outputs
from convs2s.training.average import average
from convs2s.training.checkpoint import load, save


def main(config: AverageConfig) -> None:
    check_outputs({"output": config.output}, {"checkpoints": config.checkpoints})
    path = Path(config.output)
    if path.exists() and "optimizer" in load(path):
        raise UserError(f"output={path}: holds a training's state, which would be lost; give another name")
    mean = average(config.checkpoints)
    save(path, mean)
    print(f"{path}: mean of {len(mean['averaged'])} checkpoints")


if __name__ == "__main__":
    run(main, AverageConfig, "average")
