"""Translate text, one sentence a line: python scripts/translate.py checkpoint=runs/NAME/checkpoints/best.pt input=FILE

Without input= it reads standard input, without output= it writes to standard output. Raw text in, plain text out: the
n-th line belongs to the n-th line, blank for blank. search.nbest=N writes N lines a sentence: line number, score and
text, tab separated.
"""

from __future__ import annotations

import sys

from convs2s.cli import run
from convs2s.config import TranslateConfig
from convs2s.search.streams import open_output, read_input
from convs2s.search.translate import CHUNK, output_lines, translate_lines
from convs2s.training.checkpoint import build_model, build_tokenizers, load
from convs2s.training.run import resolve_device


def main(config: TranslateConfig) -> None:
    checkpoint = load(config.checkpoint)
    model = build_model(checkpoint).to(resolve_device(config.device))
    model.fold()
    name = "standard input" if config.input == "-" else config.input
    chunk = 1 if config.input == "-" and sys.stdin.isatty() else CHUNK  # at a terminal, an answer after every line
    with open_output(config.output) as write:
        results = translate_lines(
            [model], build_tokenizers(checkpoint), read_input(config.input), config.search, name=name, chunk=chunk
        )
        for number, translations in enumerate(results, start=1):
            for line in output_lines(number, translations, config.search.nbest):
                write(line)


if __name__ == "__main__":
    run(main, TranslateConfig, "translate")
