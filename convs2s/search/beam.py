"""Beam search, as the original does it (original: search.lua, models/model.lua "generate").

N sentences at the start · B of them still in the batch · K beam · V vocabulary · S source length · n candidates.
Step t extends the hypotheses by their t-th token; the rows of a step are those of the beam that enters it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from convs2s.config import SearchConfig
from convs2s.errors import UserError
from convs2s.model import ConvS2S
from convs2s.search.ensemble import Ensemble
from convs2s.search.trace import Hypothesis, Trace
from convs2s.text.vocabulary import EOS, PAD, UNK

__all__ = ["Hypothesis", "beam_search", "check_search"]

NEVER = float("-inf")


def check_search(config: SearchConfig) -> None:
    """Refuse settings that cannot work, with a UserError that names the option."""
    for name in ("beam", "nbest", "batch_size", "max_length"):
        if getattr(config, name) < 1:
            raise UserError(f"search.{name}={getattr(config, name)}: must be at least 1")
    for name in ("lenpen", "unkpen", "covpen"):
        if not math.isfinite(getattr(config, name)):
            raise UserError(f"search.{name}={getattr(config, name)}: must be a finite number")
    if config.nbest > config.beam:
        raise UserError(f"search.nbest={config.nbest}: a beam of {config.beam} holds fewer; raise search.beam")
    if not 0 <= config.min_length <= config.max_length:
        raise UserError(
            f"search.min_length={config.min_length}: must be from 0 to search.max_length={config.max_length}"
        )


@torch.inference_mode()
def beam_search(
    models: ConvS2S | Sequence[ConvS2S], source: Tensor, config: SearchConfig, *, attention: bool = False
) -> list[list[Hypothesis]]:
    """The ``config.beam`` best hypotheses of each sentence, best first.

    models: one, or several that vote; whatever mode they are in, they search without dropout.
    source: (N, S) ids with </s>, padded on either side (no padding at all for ``source_padding: original``).
    attention: also return each hypothesis' attention, averaged over layers and models (see ``Hypothesis``).

    A sentence ends when ``beam`` hypotheses have ended with </s>, or at the length limit: ``max_length`` pieces or the
    end of the position table, whichever is first. Fewer than ``beam`` come back only where fewer exist.
    Raises UserError for impossible settings and for a model whose probabilities are not numbers.
    """
    check_search(config)
    ensemble = Ensemble([models] if isinstance(models, ConvS2S) else models)
    with ensemble.evaluating():
        return search(ensemble, source.to(ensemble.device), config, attention)


def search(ensemble: Ensemble, source: Tensor, config: SearchConfig, attention: bool) -> list[list[Hypothesis]]:
    """The loop over steps; arguments as for ``beam_search``."""
    beam, real = config.beam, source != PAD
    longest = min(config.max_length, ensemble.max_length - 1)  # the step after it reads and writes nothing but </s>
    shortest = min(config.min_length, longest)
    ensemble.start(source, beam)
    sentences = torch.arange(len(source), device=source.device)  # (B,) numbers of those still in the batch
    tokens = source.new_full((len(source), beam), EOS)  # (B, K) the start symbol
    scores = ended = coverage = trace = None
    for step in range(1, longest + 2):
        log_probs, weights = ensemble.step(tokens)  # (B, K, V), (B, K, S)
        if scores is None or ended is None or trace is None:
            scores = log_probs.new_full(tokens.shape, NEVER)  # (B, K) cumulative log-probabilities
            scores[:, 0] = 0.0  # before the first step all rows are the same hypothesis: only one counts
            ended = torch.zeros_like(sentences)  # (B,) finished hypotheses
            trace = Trace(len(source), beam, scores)
            coverage = torch.zeros_like(weights) if config.covpen else None  # (B, K, S) attention so far
        constrain(log_probs, config.unkpen, forbid_end=step <= shortest, force_end=step > longest)
        values, rows, tokens = candidates(scores, log_probs)  # (B, n) each, best first

        # Candidates are looked at in order until ``beam`` of them that do not end are found. One that ends is a
        # finished hypothesis if it is met before that and fewer than ``beam`` have finished, and dropped otherwise.
        ends = tokens == EOS
        accepted = (~ends).cumsum(1)  # (B, n) candidates so far that go on
        met = ends & (accepted < beam) & (values > NEVER)
        slot = ended.unsqueeze(1) + met.cumsum(1) - 1
        met &= slot < beam
        final = values / step**config.lenpen
        last = accepted.clamp(max=beam - 1)  # (B, n) row whose attention the original takes where a hypothesis ends
        if coverage is not None:
            final = final + config.covpen * coverage_penalty(
                pick(coverage, rows) + pick(weights, last), real[sentences]
            )
        trace.finish(sentences, torch.where(met, slot, beam), final, rows, last, step)
        ended = ended + met.sum(1)

        next_beam = ends.byte().argsort(dim=1, stable=True)[:, :beam]  # the first K that do not end
        scores, tokens, rows = (x.gather(1, next_beam) for x in (values, tokens, rows))  # (B, K)
        trace.advance(sentences, tokens, rows, weights if attention else None)
        kept = (ended < beam).nonzero().squeeze(1)  # the one place where the host waits for the device
        if len(kept) == 0 or step > longest:
            break
        if coverage is not None:
            coverage = pick(coverage, rows) + weights  # not the rows' own weights: see Hypothesis.original_attention
        if len(kept) < len(sentences):
            ensemble.keep(kept)
            sentences, scores, tokens, rows, ended = (x[kept] for x in (sentences, scores, tokens, rows, ended))
            coverage = None if coverage is None else coverage[kept]
        if beam > 1:
            first = torch.arange(0, len(kept) * beam, beam, device=source.device).unsqueeze(1)  # (B, 1)
            ensemble.reorder((first + rows).flatten())

    results = [] if trace is None else trace.hypotheses(real)
    if not all(results):
        raise UserError(
            "the model's probabilities are not numbers: its training diverged, or the checkpoint is damaged"
        )
    return results


def constrain(log_probs: Tensor, unkpen: float, forbid_end: bool, force_end: bool) -> None:
    """Apply the <unk> penalty and the length limits to (B, K, V), in place."""
    if unkpen:
        log_probs[..., UNK] -= unkpen
    if force_end:
        log_probs[..., :EOS] = NEVER
        log_probs[..., EOS + 1 :] = NEVER
    elif forbid_end:
        log_probs[..., EOS] = NEVER


def candidates(scores: Tensor, log_probs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The best 2 K continuations of each sentence: scores, beam rows and tokens, (B, n) each, best first.

    scores: (B, K) of the hypotheses; log_probs: (B, K, V). 2 K are enough to find K that do not end. Impossible ones
    (score -inf) come last; with a beam beyond the vocabulary they fill rows that no hypothesis has.
    """
    beam, vocabulary = log_probs.shape[1:]
    best, words = log_probs.topk(min(2 * beam, vocabulary), dim=2)  # (B, K, n): no row can contribute more
    values, index = (scores.unsqueeze(2) + best).flatten(1).topk(2 * beam, dim=1)
    return values, index // best.shape[2], words.flatten(1).gather(1, index)


def coverage_penalty(total: Tensor, real: Tensor) -> Tensor:
    """Sum over source positions of log min(1, attention received): (B, n, S), real (B, S) -> (B, n)."""
    return total.clamp(0.0, 1.0).log().masked_fill(~real.unsqueeze(1), 0.0).sum(2)


def pick(x: Tensor, rows: Tensor) -> Tensor:
    """Rows of each sentence: (B, K, S) and (B, n) indices -> (B, n, S)."""
    return x.gather(1, rows.unsqueeze(2).expand(-1, -1, x.shape[2]))
