"""Measure translation: python scripts/benchmark.py generate checkpoint=FILE input=FILE output=FILE

Prints, for each batch size, beam and precision, sentences and target tokens a second, seconds a step, peak memory and
the share of the machine's matrix product rate that is reached. Without checkpoint= a random model of model= is
measured, on random sentences where there is no input= either.
"""

from __future__ import annotations

import platform
import sys
from itertools import islice
from pathlib import Path

import torch

from convs2s.cli import run
from convs2s.config import BenchmarkGenerateConfig, SearchPrecision, check_minimum, refuse_given
from convs2s.data.corpus import over_long
from convs2s.data.lines import read_lines
from convs2s.errors import UserError
from convs2s.evaluation.models import load_models
from convs2s.files import check_outputs, write_json
from convs2s.model import Seq2Seq
from convs2s.model import build as build_model
from convs2s.search.benchmark import Speed, as_json, measure, random_sources, spread
from convs2s.text.tokenizer import Tokenizers
from convs2s.text.vocabulary import EOS
from convs2s.training.distributed import resolve_device


def main(config: BenchmarkGenerateConfig) -> None:
    check_minimum("", config, dict.fromkeys(("sentences", "single_sentences", "max_length", "repeat", "threads"), 1))
    for name in ("batches", "beams"):
        if min(getattr(config, name), default=0) < 1:
            raise UserError(f"{name}={getattr(config, name)}: give one or more numbers, each at least 1")
    if config.checkpoint is None:
        refuse_given(config, ["max_length"], "is for checkpoint=, as random models translate to the source's length")
    else:
        refuse_given(config, ["vocabulary", "model"], "is for a random model, not for checkpoint=")
    check_outputs({"output": config.output}, {"checkpoint": [config.checkpoint], "input": [config.input]})
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    rows, parameters = [], 0
    print(f"{torch.get_num_threads()} threads, torch {torch.__version__}, {platform.machine()}")
    print(Speed.HEADER)
    for precision in config.precisions:
        model, tokenizers = build(config, precision)
        parameters = sum(parameter.numel() for parameter in model.parameters())
        sources = read_sources(config, tokenizers, model)
        for batch in config.batches:
            chosen = spread(sources, config.single_sentences if batch == 1 else config.sentences)
            for beam in config.beams:
                speed = measure(
                    model,
                    chosen,
                    batch,
                    beam,
                    precision,
                    config.repeat,
                    config.max_length,
                    forced_length=config.checkpoint is None,
                )
                rows.append(speed)
                print(speed.line(), flush=True)
    if config.output is not None:
        found = {
            "options": sys.argv[1:],
            "device": str(resolve_device(config.device)),
            "threads": torch.get_num_threads(),
            "checkpoint": config.checkpoint,
            "parameters": parameters,
            "input": config.input,
            "generate": [as_json(row) for row in rows],
        }
        write_json(Path(config.output), found)


def build(config: BenchmarkGenerateConfig, precision: SearchPrecision) -> tuple[Seq2Seq, Tokenizers | None]:
    """The model to measure, folded, and its tokenisers; None for a random model. Raises UserError for bad sizes."""
    if config.checkpoint is not None:
        models, tokenizers = load_models([config.checkpoint], config.device, precision)
        return models[0], tokenizers
    if len(config.vocabulary) != 2 or min(config.vocabulary) < 4:
        raise UserError(f"vocabulary={config.vocabulary}: give two sizes, of source and target, each at least 4")
    torch.manual_seed(1)
    model = build_model(config.model, *config.vocabulary).eval().to(resolve_device(config.device))
    model.fold(precision)
    return model, None


def read_sources(config: BenchmarkGenerateConfig, tokenizers: Tokenizers | None, model: Seq2Seq) -> list[list[int]]:
    """Ids with </s> of the first lines of input=, blank ones left out, or of random sentences.

    Raises UserError for a sentence that is longer than the model takes, and where there is none.
    """
    if config.input is None:
        sources = random_sources(config.sentences, model.source_vocabulary)
        longest = max(map(len, sources))
        if longest > model.max_source_length:
            raise over_long("random sentences", longest, model.max_source_length, "raise model.max_positions")
        return sources
    if tokenizers is None:
        raise UserError("input= needs checkpoint=, whose tokeniser segments it")
    lines = list(islice(read_lines(config.input), config.sentences))
    sources = []
    for number, ids in enumerate(tokenizers.source.encode(lines), start=1):
        if len(ids) >= model.max_source_length:
            place = f"{config.input}, line {number}"
            raise over_long(place, len(ids) + 1, model.max_source_length, "leave the line out")
        if ids:
            sources.append([*ids, EOS])
    if not sources:
        raise UserError(f"input={config.input} holds no text")
    return sources


if __name__ == "__main__":
    run(main, BenchmarkGenerateConfig, "benchmark_generate")
