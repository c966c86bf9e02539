"""Train a model, then translate and score the test split with its best checkpoint.

The same command resumes a stopped run. Several processes: torchrun --nproc-per-node N scripts/train.py ...
"""

from __future__ import annotations

import os
import sys

from convs2s.cli import run
from convs2s.config import TrainConfig
from convs2s.evaluation.evaluate import evaluate_run
from convs2s.training.loop import train
from convs2s.training.signals import Stopped


def main(config: TrainConfig) -> None:
    try:
        train(config)
    except Stopped as stopped:
        print(stopped, file=sys.stderr)
        sys.exit(stopped.exit_status)
    if os.environ.get("RANK", "0") == "0":
        evaluate_run(config)


if __name__ == "__main__":
    run(main, TrainConfig, "train")
