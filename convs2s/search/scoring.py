"""Forced decoding: the log-probability that models give to translations that exist already.

B sentences · S source length · T target length · V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from convs2s.config import Average, SearchConfig
from convs2s.data.batching import pad
from convs2s.data.corpus import over_long
from convs2s.model import Seq2Seq
from convs2s.model.loss import perplexity
from convs2s.search.batches import length_batches
from convs2s.search.ensemble import Ensemble, widened
from convs2s.search.translate import CHUNK, blocks
from convs2s.text.tokenizer import Tokenizers
from convs2s.text.vocabulary import EOS

HEADER = "line\tscore\tlog_probability\ttokens\tperplexity"


@dataclass
class Score:
    """A pair's figures: natural logarithms of each target piece's probability, </s> included."""

    tokens: list[float]
    lenpen: float

    @property
    def log_probability(self) -> float:
        """Of the whole target, in nats."""
        return sum(self.tokens)

    @property
    def score(self) -> float:
        """As a search ranks it: log-probability / length ** lenpen."""
        return self.log_probability / float(len(self.tokens) ** self.lenpen)

    @property
    def perplexity(self) -> float:
        """Of a target token, </s> included; inf beyond the largest float."""
        return perplexity(-self.log_probability / len(self.tokens))

    def line(self, number: int) -> str:
        """A row under HEADER."""
        figures = f"{self.score:.6f}\t{self.log_probability:.6f}\t{len(self.tokens)}\t{self.perplexity:.4f}"
        return f"{number}\t{figures}"


def score_lines(
    models: Sequence[Seq2Seq],
    tokenizers: Tokenizers,
    pairs: Iterable[tuple[str, str]],
    config: SearchConfig,
    *,
    name: str = "input",
) -> Iterator[Score]:
    """For each pair of lines, in order, how probable the models find the second given the first.

    Of the search's options lenpen, average, batch_size and batch_tokens count. Raises UserError for a line longer than
    the models take, with its number.
    """
    config.check()
    ensemble = Ensemble(models, config.average)
    limits = ensemble.max_source_length, ensemble.max_target_length
    first = 1
    for block in blocks(pairs, CHUNK):
        sides = [
            [[*ids, EOS] for ids in tokenizer.encode([pair[side] for pair in block])]
            for side, tokenizer in enumerate(tokenizers)
        ]
        for side, limit, what in zip(sides, limits, ("source", "target"), strict=True):
            for number, ids in enumerate(side, first):
                if len(ids) > limit:
                    raise over_long(f"{name}, line {number}, {what}", len(ids), limit, "leave the pair out")
        results: list[Score | None] = [None] * len(block)
        # Memory is that of the longer side, where batches of equal sources are not asked for.
        lengths = [len(pair[0]) if ensemble.unpadded else max(map(len, pair)) for pair in zip(*sides, strict=True)]
        for batch in length_batches(lengths, config.batch_size, config.batch_tokens, ensemble.unpadded):
            source, target = ([side[i] for i in batch] for side in sides)
            for i, tokens in zip(batch, log_probabilities(ensemble, source, target), strict=True):
                results[i] = Score(tokens, config.lenpen)
        yield from (result for result in results if result is not None)
        first += len(block)


@torch.inference_mode()
def log_probabilities(
    ensemble: Ensemble, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
) -> list[list[float]]:
    """The natural logarithm of the probability of every token of each target, </s> included; ids with </s>.

    Returns a list for each target, as long as the target.
    """
    source, target = pad(sources).to(ensemble.device), pad(targets).to(ensemble.device)
    shifted = torch.cat([target.new_full((len(target), 1), EOS), target[:, :-1]], 1)  # (B, T)
    found: list[Tensor] = []
    with ensemble.evaluating():
        for model in ensemble.models:
            logits = model.logits(source, shifted)
            found.append(logits.log_softmax(-1, dtype=widened(logits.dtype)))
            if len(ensemble.models) == 1 or ensemble.average == Average.probabilities:
                found[-1] = found[-1].gather(2, target.unsqueeze(2))  # the others need every word to be renormalised
    chosen = found[0] if len(found) == 1 else ensemble.combine(found)
    if chosen.shape[2] > 1:
        chosen = chosen.gather(2, target.unsqueeze(2))
    return [row[: len(ids)].tolist() for row, ids in zip(chosen.squeeze(2).cpu(), targets, strict=True)]
