"""The attention of one sentence pair, by pieces and by words, ready to be drawn, written down and compared.

L layers that attend · T target pieces · S source pieces, </s> included on both sides.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from convs2s.config import SearchConfig
from convs2s.data.corpus import over_long
from convs2s.errors import UserError
from convs2s.model import Seq2Seq
from convs2s.search.pieces import Joints
from convs2s.search.translate import translate_lines
from convs2s.text.tokenizer import Tokenizers
from convs2s.text.vocabulary import EOS, SPECIALS

Floats = NDArray[np.floating]
USED = 0.1  # a source word counts as used from this share of a target word's attention on


@dataclass
class Side:
    """A sentence in pieces and in words; </s> is the last of both."""

    pieces: list[str]
    words: list[str]
    spans: list[range]  # which pieces make each word

    @classmethod
    def of(cls, pieces: Sequence[str], joints: Joints) -> Side:
        spans = joints.words(pieces)
        words = ["".join(joints.surface(pieces[i]) for i in span) for span in spans]
        return cls(list(pieces), words, spans)


@dataclass
class Attention:
    """Who looked where. Rows of ``weights`` are distributions over the source: row t led to target piece t."""

    line: int  # from 1
    source: Side
    target: Side
    text: str  # the translation, plain
    layers: list[int]  # numbers of the decoder layers that attend, from 1
    weights: Floats  # (L, T, S)

    @property
    def average(self) -> Floats:
        """(T, S)"""
        average: Floats = self.weights.mean(0)
        return average

    def by_words(self, weights: Floats) -> Floats:
        """(T, S) -> (target words, source words): a source word has the sum of its pieces' weights, a target word the
        mean of its pieces' rows, so that a row still sums to one."""
        rows = np.stack([weights[span.start : span.stop].mean(0) for span in self.target.spans])
        return np.stack([rows[:, span.start : span.stop].sum(1) for span in self.source.spans], 1)

    def used(self) -> list[list[tuple[str, float]]]:
        """For each target word the source words it used, most used first, and the share of its attention they had."""
        result = []
        for row in self.by_words(self.average):
            order = [int(i) for i in (-row).argsort(kind="stable") if row[i] >= USED]
            result.append([(self.source.words[i], float(row[i])) for i in order])
        return result

    def links(self, weights: Floats) -> set[tuple[int, int]]:
        """The alignment that ``weights`` (T, S) say: each target word with its most attended source word, </s> left
        out on both sides."""
        words = self.by_words(weights)[:-1, :-1]
        return {(int(s), t) for t, s in enumerate(words.argmax(1))} if words.shape[1] else set()

    def as_json(self) -> dict[str, Any]:
        """Plain numbers, four decimals; the form is described in scripts/plot_attention.py."""
        return {
            "line": self.line,
            "text": self.text,
            "layers": self.layers,
            "source": self.source.pieces,
            "target": self.target.pieces,
            "attention": self.weights.astype(np.float64).round(4).tolist(),
            "average": self.average.astype(np.float64).round(4).tolist(),
            "source_words": self.source.words,
            "target_words": self.target.words,
            "words": self.by_words(self.average).astype(np.float64).round(4).tolist(),
        }


class Reader:
    """Lines -> their attention, by one model; None for a line without a piece."""

    def __init__(self, model: Seq2Seq, tokenizers: Tokenizers) -> None:
        """Raises UserError for a model without attention."""
        self.model, self.tokenizers = model, tokenizers
        self.joints = Joints(tokenizers.source), Joints(tokenizers.target)
        self.layers = [n for n, attends in enumerate(model.config.decoder.attending(), start=1) if attends]
        if not self.layers:
            raise UserError("no layer of this model attends (model.decoder.attention=[]): there is nothing to draw")

    def found(self, lines: Sequence[str], config: SearchConfig, name: str) -> Iterator[Attention | None]:
        """Of the translations that a search finds."""
        results = translate_lines([self.model], self.tokenizers, lines, config, name=name, attention=True, layers=True)
        for number, (line, (best, *_)) in enumerate(zip(lines, results, strict=True), start=1):
            if best.hypothesis is None or best.hypothesis.layers is None:
                yield None
                continue
            target = [self.tokenizers.target.symbols[i] for i in best.hypothesis.ids]
            weights = best.hypothesis.layers.float().numpy()
            yield self.attention(number, self.tokenizers.source.pieces(line), target, best.text, weights)

    @torch.inference_mode()
    def given(self, lines: Sequence[str], targets: Sequence[str], name: str) -> Iterator[Attention | None]:
        """Of translations that exist already (forced decoding). Raises UserError for a line that is too long."""
        device = next(self.model.parameters()).device
        for number, (line, text) in enumerate(zip(lines, targets, strict=True), start=1):
            (source,), (target,) = self.tokenizers.source.encode([line]), self.tokenizers.target.encode([text])
            if not source or not target:
                yield None
                continue
            limits = self.model.max_source_length, self.model.max_target_length
            for ids, limit, side in zip((source, target), limits, ("source", "target"), strict=True):
                if len(ids) >= limit:
                    raise over_long(f"{name}, line {number}, {side}", len(ids) + 1, limit, "leave the pair out")
            encoded = self.model.encode(torch.tensor([[*source, EOS]], device=device))
            decoded = self.model.decode(encoded, torch.tensor([[EOS, *target]], device=device))
            weights = torch.cat(decoded.attention).float().cpu().numpy()  # (L, T, S)
            pieces = self.tokenizers.target.pieces(text)
            yield self.attention(number, self.tokenizers.source.pieces(line), [*pieces, SPECIALS[EOS]], text, weights)

    def attention(
        self, number: int, source: Sequence[str], target: Sequence[str], text: str, weights: Floats
    ) -> Attention:
        sides = Side.of([*source, SPECIALS[EOS]], self.joints[0]), Side.of(target, self.joints[1])
        return Attention(number, *sides, text, self.layers, weights)
