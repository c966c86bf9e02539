"""Translate text, one sentence a line: python scripts/translate.py checkpoint=runs/NAME/checkpoints/best.pt input=FILE

Without input= it reads standard input, without output= it writes to standard output; at a terminal it answers line by
line. Raw text in, plain text out: the n-th line belongs to the n-th line, blank for blank. search.nbest=N or
scores=true writes a tab-separated table with a head. checkpoint=[FILE,FILE] lets several models vote.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

from tqdm import tqdm

from convs2s.cli import files, run
from convs2s.config import TranslateConfig
from convs2s.data.opening import SUFFIXES
from convs2s.errors import UserError
from convs2s.evaluation.models import block_size, load_translator
from convs2s.files import check_outputs
from convs2s.messages import say
from convs2s.search.output import HEADER, open_attention, output_lines
from convs2s.search.streams import open_output, read_blocks
from convs2s.search.translate import Block, Translation, Translator, Warner, translate_blocks
from convs2s.search.workers import translate_in_workers, worker_device
from convs2s.training.checkpoint import build_tokenizers, load


def main(config: TranslateConfig) -> None:
    if config.attention_layers and Path(config.attention or "").suffix not in (".npz", ".jsonl"):
        raise UserError("attention_layers=true needs a place to write them: add attention=FILE.npz or FILE.jsonl")
    config.search.check()
    paths = files("checkpoint", config.checkpoint)
    check_outputs(
        {"output": config.output, "attention": config.attention},
        {"checkpoint": paths, "input": [config.input]}
        | {name: [path] for name, path in config.search.lexicons().items()},
    )
    name = "standard input" if config.input == "-" else config.input
    terminal = config.input == "-" and sys.stdin.isatty()
    workers = 1 if terminal else config.search.workers  # with several, the first answer comes after some lines
    if workers > 1:  # models are loaded in the workers
        make = partial(translator, replace(config, device=worker_device(config.device)), paths, name)
        tokenizers = None if config.attention is None else build_tokenizers(load(paths[0]))
    else:
        ready = translator(config, paths, name)
        tokenizers = ready.tokenizers
    if terminal:
        say("one sentence a line; end with Ctrl-D")
    with ExitStack() as stack:
        write = stack.enter_context(open_output(config.output))
        write_attention = None
        if config.attention is not None and tokenizers is not None:
            opened = open_attention(config.attention, tokenizers, config.attention_layers)
            write_attention = stack.enter_context(opened)
        kept: list[str] = []  # source lines that are waiting for their translation
        lines: Iterable[list[str]] = read_blocks(config.input, 1 if terminal else block_size(config.search))
        lines = remember(prompted(lines) if terminal else lines, kept if write_attention else None)
        warner = Warner(name)
        if workers > 1:
            results = translate_in_workers(make, lines, workers, warner)
        else:
            results = translate_blocks(forgiving(ready) if terminal else ready.translate, lines, warner)
        table = config.scores or config.search.nbest > 1
        if table:
            write(HEADER)
        for number, translations in enumerate(progress(results, config), start=1):
            for line in output_lines(number, translations, table):
                write(line)
            if write_attention is not None:
                write_attention(number, kept.pop(0), translations)


def translator(config: TranslateConfig, paths: Sequence[str], name: str) -> Translator:
    """Models and search, ready for lines; each worker process makes its own."""
    attention = config.attention is not None
    layers = config.attention_layers and attention
    return load_translator(paths, config.device, config.search, name=name, attention=attention, layers=layers)


def forgiving(ready: Translator) -> Callable[[Sequence[str], int], Block]:
    """At a terminal a line that cannot be translated is explained, and the next one is waited for."""

    def translate(lines: Sequence[str], first: int) -> Block:
        try:
            return ready.translate(lines, first)
        except UserError as error:
            say(f"error: {error}")
            return ready.translate([""] * len(lines), first)

    return translate


def prompted(blocks: Iterable[list[str]]) -> Iterator[list[str]]:
    """Ask for each line, on standard error."""
    waiting = iter(blocks)
    while True:
        print("> ", end="", file=sys.stderr, flush=True)
        block = next(waiting, None)
        if block is None:
            print(file=sys.stderr)
            return
        yield block


def remember(blocks: Iterable[list[str]], kept: list[str] | None) -> Iterator[list[str]]:
    """The blocks as they are, their lines also appended to ``kept``."""
    for block in blocks:
        if kept is not None:
            kept.extend(block)
        yield block


def progress(results: Iterable[list[Translation]], config: TranslateConfig) -> Iterable[list[Translation]]:
    """A bar on standard error while a file is translated, where that is a terminal."""
    if config.input == "-":
        return results
    total = None
    path = Path(config.input)
    if sys.stderr.isatty() and path.is_file() and path.suffix not in SUFFIXES:  # a pipe is read once
        with path.open("rb") as file:
            total = sum(block.count(b"\n") for block in iter(partial(file.read, 1 << 20), b""))
    bar: Iterable[list[Translation]] = tqdm(results, total=total, unit=" lines", disable=None, file=sys.stderr)
    return bar


if __name__ == "__main__":
    run(main, TranslateConfig, "translate")
