"""Fetch, check, clean and encode the text of an experiment: python scripts/prepare.py experiment=multi30k_de_en."""

from __future__ import annotations

from pathlib import Path

from convs2s.cli import run
from convs2s.config import TrainConfig
from convs2s.data.prepare import prepare
from convs2s.messages import say
from convs2s.training.checks import check_data


def main(config: TrainConfig) -> None:
    config.check()
    prepared = prepare(config.data, config.text)
    check_data(prepared, config, say)
    source, target = prepared.manifest["vocabulary"]
    print(
        f"{Path(config.data.prepared_dir).absolute()}: {len(prepared.train):,} training and"
        f" {len(prepared.valid):,} validation pairs, vocabularies of {source:,} and {target:,}"
    )


if __name__ == "__main__":
    run(main, TrainConfig, "train")
