"""An independent, slow beam search, written from a description of the Lua program (search.lua) alone.

One sentence at a time, plain Python lists, the whole prefix computed again at every step, no cache.

Where the description is silent: a forbidden token is no candidate; a hypothesis of L tokens needs L positions, so
``max_length`` is cut to what the position table holds; <pad> is a token like any other.

Attention: the description says that the row which the original stores for the </s> step is that of beam row j,
j = number of accepted candidates + 1, not of the hypothesis' own row. golden/search.json shows that the same holds at
*every* step (rows equal to 3e-7 when done so; up to 0.63 away, with another argmax in 15 hypotheses, when only the
</s> step is treated so).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from convs2s.config import Average, SearchConfig, Stop
from convs2s.model import ConvS2S

UNK, EOS = 0, 2

# prefixes (each with </s> in front) -> log-probabilities of the next token (rows, V), attention of the step (rows, S)
Scorer = Callable[[list[list[int]]], tuple[Tensor, Tensor]]


class Found(NamedTuple):
    ids: list[int]
    score: float
    attention: list[list[float]]  # a row per token: that of the beam row which the token was drawn from
    stored: list[list[float]]  # a row per token, as the original stores it


class Row(NamedTuple):
    ids: list[int]
    total: float
    attention: list[list[float]]
    stored: list[list[float]]


def model_scorer(models: Sequence[ConvS2S], source: list[int], average: Average = Average.probabilities) -> Scorer:
    """Probabilities (or their logarithms) and attention (over the layers first) averaged over the models."""

    @torch.no_grad()
    def score(prefixes: list[list[int]]) -> tuple[Tensor, Tensor]:
        inputs = torch.tensor(prefixes)
        repeated = torch.tensor([source] * len(prefixes))
        probabilities, attention = [], []
        for model in models:
            probabilities.append(model(repeated, inputs)[:, -1].exp())
            layers = model.decode(model.encode(repeated), inputs).attention
            attention.append(torch.stack([layer[:, -1] for layer in layers]).mean(0))
        mean = torch.stack(probabilities)
        if average == Average.probabilities:
            return mean.mean(0).log(), torch.stack(attention).mean(0)
        geometric = mean.log().mean(0).exp()
        return (geometric / geometric.sum(-1, keepdim=True)).log(), torch.stack(attention).mean(0)

    return score


def final_score(total: float, stored: list[list[float]], config: SearchConfig) -> float:
    """cumulative / step^lenpen + covpen * sum_s log(clamp(sum_t a_ts, 0, 1))."""
    score = total / len(stored) ** config.lenpen
    if config.covpen:
        for column in zip(*stored, strict=True):
            covered = min(1.0, sum(column))
            score += config.covpen * (math.log(covered) if covered > 0 else -math.inf)
    return score


def slow_beam_search(
    score: Scorer, config: SearchConfig, longest: int, source_length: int = 0, continued: Sequence[bool] = ()
) -> list[Found]:
    """All ``beam`` hypotheses, best first; ``longest``: tokens that the position table allows, </s> included.

    source_length: tokens of the source, </s> included; continued: the pieces that subwordpen is for.
    """
    max_length = min(int(config.max_length_ratio * source_length) + config.max_length, longest - 1)
    rows = [Row([], 0.0, [], [])]
    finished: list[Found] = []
    step = 0
    while not done(finished, rows, step, max_length, config):
        step += 1
        assert step <= max_length + 1
        log_probabilities, attention = score([[EOS, *row.ids] for row in rows])
        candidates = []
        for k, row in enumerate(rows):
            for token, value in enumerate(log_probabilities[k].tolist()):
                if token == EOS and step <= config.min_length:
                    continue
                if token != EOS and step == max_length + 1:
                    continue
                penalty = config.unkpen if token == UNK else 0.0
                if config.subwordpen and continued[token]:
                    penalty += config.subwordpen
                candidates.append((row.total + value - penalty, k, token))
        candidates.sort(key=lambda candidate: -candidate[0])
        survivors: list[Row] = []
        for total, k, token in candidates[: 2 * config.beam]:
            if len(survivors) == config.beam:
                break
            own = [*rows[k].attention, attention[k].tolist()]
            stored = [*rows[k].stored, attention[min(len(survivors), len(rows) - 1)].tolist()]  # the quirk
            if token != EOS:
                survivors.append(Row([*rows[k].ids, token], total, own, stored))
            elif config.stop == Stop.optimal or len(finished) < config.beam:
                finished.append(Found([*rows[k].ids, EOS], final_score(total, stored, config), own, stored))
        if survivors:
            survivors += [survivors[-1]] * (config.beam - len(survivors))
        rows = survivors
    return sorted(finished, key=lambda found: -found.score)


def done(finished: list[Found], rows: list[Row], step: int, max_length: int, config: SearchConfig) -> bool:
    """Has the search ended before another step?"""
    if config.stop == Stop.original:
        return len(finished) >= config.beam
    if step > max_length or not rows:
        return True
    if len(finished) < config.nbest:
        return False
    # a hypothesis that goes on ends with at most its present log-probability, after any number of tokens that is left
    hopes = [row.total / length**config.lenpen for row in rows for length in range(step + 1, max_length + 2)]
    return max(hopes) <= sorted((found.score for found in finished), reverse=True)[config.nbest - 1]


def slow_search(
    models: Sequence[ConvS2S], source: list[int], config: SearchConfig, continued: Sequence[bool] = ()
) -> list[Found]:
    """The slow search with models."""
    longest = min(model.max_target_length for model in models)
    return slow_beam_search(model_scorer(models, source, config.average), config, longest, len(source), continued)
