"""Measure training: python scripts/benchmark.py train output=FILE

For each model and precision: target tokens a second on a synthetic batch without padding, the machine's matrix product
rate in the same run (the yardstick), tokens a second per unit of it, the share of it that is reached, peak memory
(of the process so far: one model and precision a run gives its own). A batch of 4,000 target tokens of the paper's
en-de model: models=[en_de_paper] sentences=160
"""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path

import torch
import yaml

from convs2s.cli import run
from convs2s.config import BenchmarkTrainConfig, ModelConfig, TrainingConfig, check_minimum, from_plain
from convs2s.errors import UserError
from convs2s.files import check_place, write_json
from convs2s.model import build
from convs2s.options import CONFIGS
from convs2s.training.benchmark import Shape, measure
from convs2s.training.distributed import resolve_device

# The shapes on which peers were measured, and the contrast; file in configs/model, sentences, vocabularies.
MODELS = {
    "iwslt": ("base", 128, (7072, 5208)),
    "ablation_small": ("ablation_small", 32, (7072, 5208)),
    "lstm_attention_small": ("lstm_attention_small", 32, (7072, 5208)),
    "en_de_paper": ("en_de", 96, (40000, 40000)),
    "en_de_release": ("en_de_release", 96, (40000, 40000)),
}


def main(config: BenchmarkTrainConfig) -> None:
    check_minimum("", config, dict.fromkeys(("sentences", "length", "repeat", "threads"), 1))
    for name in ("models", "precisions"):
        if not getattr(config, name):
            raise UserError(f"{name}=[] is empty: name one or more")
    if config.output is not None:
        check_place(config.output, "output")
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    device, rows = resolve_device(config.device), []
    for name in config.models:
        if name not in MODELS:
            raise UserError(f"models: {name} is none of {', '.join(MODELS)}")
        file, sentences, vocabularies = MODELS[name]
        options = yaml.safe_load((CONFIGS / "model" / f"{file}.yaml").read_text("utf-8"))
        for precision in config.precisions:
            torch.manual_seed(1)
            model = build(from_plain(ModelConfig, {**options, "dropout": 0.2}), *vocabularies).to(device)
            shape = Shape(config.sentences or sentences, config.length, config.length, vocabularies)
            training = TrainingConfig(precision=precision, convolution=config.convolution, compile=config.compile)
            row = measure(name, model, shape, training, device, config.repeat)
            rows.append(asdict(row))
            print(
                f"{name} · {row.precision} · {row.parameters:,} parameters · {row.tokens_per_second:,.0f} tokens/s · "
                f"yardstick {row.yardstick_gflops:.1f} GFLOP/s · {row.tokens_per_second_per_gflops:.2f} tokens/s per "
                f"GFLOP/s · share {row.peak_share:.2f} · {row.peak_gib:.2f} GiB · padding {row.padding_share:.1%} · "
                f"{row.convolution}",
                flush=True,
            )
    if config.output is not None:
        found = {
            "options": sys.argv[1:],
            "device": str(device),
            "threads": torch.get_num_threads(),
            "sentences": config.sentences,
            "train": rows,
        }
        write_json(Path(config.output), found)


if __name__ == "__main__":
    run(main, BenchmarkTrainConfig, "benchmark_train")
