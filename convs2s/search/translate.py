"""Lines of text in, translations out: in order, one for one, however long the input.

B sentences · S source length.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice

import torch
from torch import Tensor

from convs2s.config import SearchConfig, SourcePadding
from convs2s.errors import UserError
from convs2s.model import ConvS2S
from convs2s.search.beam import beam_search, check_search
from convs2s.search.trace import Hypothesis
from convs2s.text.tokenizer import Tokenizers
from convs2s.text.vocabulary import EOS, PAD, UNK

CHUNK = 10_000  # lines read, sorted by length and translated before the next are read
MANY_UNKNOWN = 0.2  # share of <unk> among the source pieces from which on a warning is due


@dataclass
class Translation:
    """One translation of a line."""

    text: str  # plain text, never with a line end in it
    score: float = 0.0
    hypothesis: Hypothesis | None = None  # None where the line had no pieces


def to_stderr(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


def translate_lines(
    models: Sequence[ConvS2S],
    tokenizers: Tokenizers,
    lines: Iterable[str],
    config: SearchConfig,
    *,
    name: str = "input",
    chunk: int = CHUNK,
    attention: bool = False,
    warn: Callable[[str], None] = to_stderr,
) -> Iterator[list[Translation]]:
    """For each line, in order, its ``config.nbest`` best translations (fewer where fewer exist), best first.

    A line without a piece, a blank one above all, gives one empty translation. Memory is bounded by ``chunk`` lines.
    name: what the lines come from, for messages; warn: told once when much of the source is unknown to the model.
    Raises UserError for a line longer than the models take, with its number, and for impossible search settings.
    """
    check_search(config)
    limit = min(model.max_length for model in models)
    exact = any(model.config.source_padding == SourcePadding.original for model in models)
    lines = iter(lines)
    first, pieces, unknown, warned = 1, 0, 0, False
    while block := list(islice(lines, chunk)):
        sources = [[*ids, EOS] if ids else [] for ids in tokenizers.source.encode(block)]
        for number, source in enumerate(sources, first):
            if len(source) > limit:
                raise UserError(
                    f"{name}, line {number}: {len(source)} pieces, </s> included, but the model takes at most {limit}; "
                    "split the line"
                )
        pieces += sum(map(len, sources))
        unknown += sum(source.count(UNK) for source in sources)
        if unknown > MANY_UNKNOWN * pieces and not warned:
            warned = True
            warn(
                f"warning: {name}: {unknown:,} of {pieces:,} pieces are unknown to the model; "
                "is this the model's source language, written and segmented like its training text?"
            )
        results = [[Translation("")] for _ in block]
        for batch in length_batches([len(source) for source in sources], config.batch_size, exact):
            found = beam_search(models, pad([sources[i] for i in batch]), config, attention=attention)
            for i, hypotheses in zip(batch, found, strict=True):
                results[i] = [
                    Translation(one_line(tokenizers.target.decode(hypothesis.ids)), hypothesis.score, hypothesis)
                    for hypothesis in hypotheses[: config.nbest]
                ]
        yield from results
        first += len(block)


def length_batches(lengths: Sequence[int], sentences: int, exact: bool) -> Iterator[list[int]]:
    """Indices of at most ``sentences`` sentences of about equal length, longest first; those of length 0 left out.

    exact: only sentences of the same length meet, so that no source is padded (as the original evaluates).
    """
    order = sorted((i for i, length in enumerate(lengths) if length), key=lambda i: (-lengths[i], i))
    for _, group in groupby(order, key=lambda i: lengths[i] if exact else None):
        while batch := list(islice(group, sentences)):
            yield batch


def pad(sources: Sequence[Sequence[int]]) -> Tensor:
    """(B, S) ids, padded on the right."""
    longest = max(map(len, sources))
    return torch.tensor([[*source, *[PAD] * (longest - len(source))] for source in sources])


def one_line(text: str) -> str:
    """A piece may spell a line end (byte fallback); the n-th output line would no longer be the n-th input's."""
    return text.replace("\n", " ")


def output_lines(number: int, translations: Sequence[Translation], nbest: int) -> Iterator[str]:
    """What is written for input line ``number`` (from 1), without line ends.

    nbest = 1: the text. nbest > 1: one line a translation, best first: line number, score and text, tab separated; a
    blank line gives a single one with an empty text.
    """
    if nbest == 1:
        yield translations[0].text
        return
    for translation in translations:
        yield f"{number}\t{translation.score:.6f}\t{translation.text}"
