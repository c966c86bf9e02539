"""Measure the data's way: python scripts/benchmark.py data [output=FILE]

Prints how long one of several ranks takes to cut the largest corpus into an epoch's batches, and how many lines a
second one core reads, encodes with SentencePiece and writes; each with its peak memory, in a process of its own.
"""

from __future__ import annotations

import multiprocessing
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from convs2s.cli import run
from convs2s.config import BenchmarkDataConfig, check_minimum
from convs2s.data.batching import cut_batches, epoch_order, rank_share
from convs2s.data.builtin.splits import generate
from convs2s.data.encode import encode_texts
from convs2s.data.lines import Part, Side, read_pairs
from convs2s.data.storage import find_file
from convs2s.errors import UserError
from convs2s.files import check_place, write_json
from convs2s.search.benchmark import peak_gib
from convs2s.text.sentencepiece_tokenizer import SentencePieceTokenizer
from convs2s.text.tokenizer import Tokenizers

Pairs = list[tuple[str, str]]


def main(config: BenchmarkDataConfig) -> None:
    if len(config.lines) != 2 or min(*config.lines, config.pairs, config.ranks) < 1:
        raise UserError("give two numbers of lines, and at least one of each: lines=[SMALL,LARGE] pairs=N ranks=N")
    check_minimum("", config, {"batch_tokens": 1, "vocabulary_size": 5, "seed": 0})
    if config.output is not None:
        check_place(config.output, "output")
    cut = alone(batching, config)
    print(
        f"{config.pairs:,} pairs, rank 1 of {config.ranks}, {cut['batches']:,} batches in all: first epoch"
        f" {cut['first_epoch_seconds']:.1f} s, second {cut['second_epoch_seconds']:.1f} s,"
        f" peak {cut['peak_gib']:.2f} GiB",
        flush=True,
    )
    small, large = (alone(encoding, config, lines) for lines in config.lines)
    for lines, figures in zip(config.lines, (small, large), strict=True):
        print(
            f"{lines:,} lines of {figures['text']}: read, encoded and written at {figures['lines_per_second']:,.0f}"
            f" lines/s on one core, peak {figures['peak_gib']:.2f} GiB",
            flush=True,
        )
    if config.output is not None:
        found = {
            "batching_36m": {name: cut[name] for name in ("first_epoch_seconds", "second_epoch_seconds", "peak_gib")},
            "encoding": {
                "lines_per_second": large["lines_per_second"],
                "peak_gib_small": small["peak_gib"],
                "peak_gib_large": large["peak_gib"],
            },
            "conditions": {"pairs": config.pairs, "ranks": config.ranks, "lines": config.lines, "text": large["text"]},
        }
        write_json(Path(config.output), found)


def alone(measure: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
    """What a new process measures, with its peak memory in GiB."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        figures = pool.submit(measure, *arguments).result()
        return figures | {"peak_gib": pool.submit(peak_gib, torch.device("cpu")).result()}


def batching(config: BenchmarkDataConfig) -> dict[str, Any]:
    """An epoch's batches for the first of the ranks, index by index, twice."""
    lengths = draw_lengths(config.pairs, config.seed)
    start = time.perf_counter()
    batches = cut_batches(*lengths, sentences=1, tokens=config.batch_tokens, seed=config.seed)
    seconds = []
    for epoch in (1, 2):
        read = 0
        order = epoch_order(len(batches), config.seed, epoch)
        for start_of_update in range(0, len(order), config.ranks):
            for number in rank_share(order, start_of_update, config.ranks, 0, config.ranks):
                read += len(batches[number])
        assert read > 0
        seconds.append(time.perf_counter() - start)
        start = time.perf_counter()
    return {"batches": len(batches), "first_epoch_seconds": seconds[0], "second_epoch_seconds": seconds[1]}


def draw_lengths(count: int, seed: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Lengths like WMT14 en-fr's in BPE pieces, </s> included: log-normal, a mean of about 30, at most 175 words."""
    generator = np.random.default_rng(seed)
    source, target = np.empty(count, np.int32), np.empty(count, np.int32)
    for first in range(0, count, 1 << 20):
        part = slice(first, min(count, first + (1 << 20)))
        size = part.stop - part.start
        logarithms = generator.normal(3.2, 0.65, size)
        source[part] = np.clip(np.exp(logarithms), 1, 220).astype(np.int32) + 1
        ratio = np.exp(generator.normal(0.1, 0.2, size))
        target[part] = np.clip(np.exp(logarithms) * ratio, 1, 250).astype(np.int32) + 1
    return source, target


def encoding(config: BenchmarkDataConfig, lines: int) -> dict[str, Any]:
    """Read, encode and write ``lines`` lines in this process; the vocabulary is learnt before."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        base, text = base_pairs(config)
        tokenizer = SentencePieceTokenizer.train(
            (line for side in zip(*base, strict=True) for line in side),
            vocabulary_size=config.vocabulary_size,
            log=lambda _: None,
        )
        paths = [folder / "source", folder / "target"]
        with paths[0].open("w", encoding="utf-8") as source, paths[1].open("w", encoding="utf-8") as target:
            for pair in varied(base, lines // 2, config.seed):
                source.write(f"{pair[0]}\n")
                target.write(f"{pair[1]}\n")
        texts = Side((Part(paths[0]),)), Side((Part(paths[1]),))
        start = time.perf_counter(), time.process_time()
        written = encode_texts(folder, "train", texts, Tokenizers(tokenizer, tokenizer))
        # The cores' own time counts where more than one was at work.
        seconds = max(time.perf_counter() - start[0], time.process_time() - start[1])
    assert written["pairs"] == lines // 2
    return {"lines_per_second": lines // 2 * 2 / seconds, "text": text}


def base_pairs(config: BenchmarkDataConfig) -> tuple[Pairs, str]:
    """Some ten thousand pairs, and what they are."""
    paths = [find_file(Path(config.root) / f"train.{language}") for language in ("de", "en")]
    if paths[0] is not None and paths[1] is not None:
        return list(read_pairs(paths[0], paths[1])), "Multi30k"
    return generate([20_000, 1, 1], config.seed)[0], "the built-in corpus"


def varied(base: Pairs, count: int, seed: int) -> Iterator[tuple[str, str]]:
    """``count`` pairs: the base over and over, later rounds with a word unseen so far in every sixth line."""
    draw = random.Random(seed)

    def vary(line: str) -> str:
        words = line.split(" ")
        place = draw.randrange(len(words))
        words[place] = f"{words[place]}{draw.choice(words).lower()}{draw.randrange(100)}"
        return " ".join(words)

    for number in range(count):
        pair = base[number % len(base)]
        yield pair if number < len(base) or number % 6 else (vary(pair[0]), vary(pair[1]))


if __name__ == "__main__":
    run(main, BenchmarkDataConfig, "benchmark_data")
