"""Beam search, as the original does it (original: search.lua, models/model.lua "generate").

N sentences at the start · B of them still in the batch · K beam · V vocabulary · S source length · n candidates.
Step t extends the hypotheses by their t-th token; the rows of a step are those of the beam that enters it.

The device scores the words and picks each sentence's best candidates; which of them end and which go on is decided on
the host, from two small arrays a step.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from convs2s.config import SearchConfig, Stop
from convs2s.errors import UserError
from convs2s.model import Seq2Seq
from convs2s.model.incremental import GROUP
from convs2s.search.ensemble import Ensemble
from convs2s.search.selection import Selection
from convs2s.search.settings import check_search
from convs2s.search.trace import End, Floats, Hypothesis, Ints, Trace
from convs2s.text.vocabulary import EOS, PAD, UNK

__all__ = ["Hypothesis", "beam_search", "check_search"]

NEVER = float("-inf")
Bools = npt.NDArray[np.bool_]


@torch.inference_mode()
def beam_search(
    models: Seq2Seq | Sequence[Seq2Seq],
    source: Tensor,
    config: SearchConfig,
    *,
    attention: bool = False,
    layers: bool = False,
    continuations: Tensor | None = None,
    selection: Selection | None = None,
) -> list[list[Hypothesis]]:
    """The ``config.nbest`` best hypotheses of each sentence, best first.

    models: one, or several that vote; whatever mode they are in, they search without dropout.
    source: (N, S) ids with </s>, padded on either side (no padding at all for ``source_padding: original``).
    attention: also return each hypothesis' attention, averaged over layers and models; layers: of each layer, too
    (see ``Hypothesis``).
    continuations: (V,) True at the pieces that ``config.subwordpen`` is for.
    selection: the words that each sentence may use; null: all.

    A sentence ends when ``beam`` hypotheses have ended with </s>, or at the length limit: ``max_length`` pieces or the
    end of the position table, whichever is first. Fewer than ``nbest`` come back only where fewer exist.
    Raises UserError for impossible settings and for a model whose probabilities are not numbers.
    """
    check_search(config)
    ensemble = Ensemble([models] if isinstance(models, Seq2Seq) else models, config.average)
    with ensemble.evaluating():
        source = source.to(ensemble.device)
        penalties = word_penalties(config, continuations, selection, source.device)
        return Search(ensemble, source, config, penalties, selection).run(attention or layers, layers)


class Search:
    """One batch's search."""

    def __init__(
        self,
        ensemble: Ensemble,
        source: Tensor,
        config: SearchConfig,
        penalties: Tensor | None,
        selection: Selection | None,
    ) -> None:
        self.ensemble, self.config, self.penalties = ensemble, config, penalties
        self.real = source != PAD
        self.trace = Trace(len(source))
        self.limits = length_limits(config, self.real.sum(1).cpu().numpy(), ensemble.max_target_length)  # (N,)
        # Ids of the words that are scored, where these are not all, and their number.
        self.vocabulary: Ints | None = None if selection is None else selection.ids.numpy()
        self.words = ensemble.models[0].target_vocabulary if self.vocabulary is None else len(self.vocabulary)
        ensemble.start(source, config.beam, selection)

    def run(self, attention: bool, layers: bool) -> list[list[Hypothesis]]:
        """Every step until all sentences have ended."""
        config, trace, ensemble = self.config, self.trace, self.ensemble
        beam, device = config.beam, self.real.device
        numbers = np.arange(trace.sentences)  # (B,) sentences still in the batch
        tokens = torch.full((len(numbers), beam), EOS, device=device)  # (B, K) the start symbol
        scores = torch.full((len(numbers), beam, 1), NEVER, device=device)  # (B, K, 1) cumulative log-probabilities
        scores[:, 0] = 0.0  # before the first step all rows are the same hypothesis: only one counts
        coverage: Tensor | None = None  # (B, K, S) attention so far
        for step in range(1, int(self.limits.max()) + 2):
            log_probs, weights = ensemble.step(tokens)  # (B, K, V)
            self.constrain(log_probs, step, numbers)
            values, index = candidates(scores.to(log_probs.dtype), log_probs)  # (B, n) each, best first
            best, position = to_host(values, index)  # the one place where the host waits for the device
            rows, words = np.divmod(position, log_probs.shape[2])
            del log_probs
            mean = ensemble.mean_attention(weights, tokens) if attention or config.covpen else None  # (B, K, S)
            if mean is not None and attention:
                trace.attention.append(mean)
            if layers:
                trace.layers.append(torch.stack([layer for model in weights for layer in model]))

            # Candidates are looked at in order until ``beam`` of them that do not end are found. One that ends is a
            # finished hypothesis if it is met before that.
            ends = words == EOS
            accepted = (~ends).cumsum(1)  # (B, n) candidates so far that go on
            original_rows = np.minimum(accepted, beam - 1)  # whose attention the original takes where one ends
            final = best / np.asarray(step**config.lenpen, best.dtype)
            if mean is not None and config.covpen:
                coverage = torch.zeros_like(mean) if coverage is None else coverage
                total = pick(coverage, rows) + pick(mean, original_rows)
                final = final + config.covpen * coverage_penalty(total, self.real[numbers]).cpu().numpy()
            met = ends & (accepted < beam) & (best > NEVER)
            self.finish(numbers, met, final, rows, original_rows, step)

            following = np.argsort(ends, axis=1, kind="stable")[:, :beam]  # the first K that do not end
            best = np.take_along_axis(best, following, 1)  # (B, K)
            words, rows = (np.take_along_axis(x, following, 1) for x in (words, rows))
            trace.advance(numbers, words, rows)
            going_on = self.going_on(numbers, best, step)
            if not going_on.any():
                break
            if coverage is not None and mean is not None:
                coverage = pick(coverage, rows) + mean  # not the rows' own: see Hypothesis.original_attention
            if not going_on.all():
                kept = torch.from_numpy(going_on.nonzero()[0]).to(device)
                ensemble.keep(kept)
                numbers, best = numbers[going_on], best[going_on]
                words, rows = words[going_on], rows[going_on]
                coverage = None if coverage is None else coverage[kept]
            if beam > 1:
                first = np.arange(0, len(numbers) * beam, beam)[:, None]  # (B, 1)
                ensemble.reorder(torch.from_numpy((first + rows).reshape(-1)).to(device))
            tokens = torch.from_numpy(self.ids(words)).to(device)
            scores = torch.from_numpy(best).to(device).unsqueeze(2)

        results = trace.hypotheses(self.real, config.nbest, self.vocabulary)
        if not all(results):
            raise UserError(
                "the model's probabilities are not numbers: its training diverged, or the checkpoint is damaged"
            )
        return results

    def ids(self, words: Ints) -> Ints:
        """Numbers of words among those that are scored -> ids. A row that no hypothesis has gets any."""
        words = np.minimum(words, self.words - 1)
        return words if self.vocabulary is None else self.vocabulary[words]

    def constrain(self, log_probs: Tensor, step: int, numbers: Ints) -> None:
        """Apply penalties and length limits to (B, K, V), in place."""
        if self.penalties is not None:
            log_probs[..., : len(self.penalties)] -= self.penalties.to(log_probs.dtype)
        elif self.config.unkpen:
            log_probs[..., UNK] -= self.config.unkpen
        limits = self.limits[numbers]
        if step <= self.config.min_length:
            ending: float | Tensor = NEVER
            if step > limits.min():
                may = torch.from_numpy(np.where(step > limits, 0.0, NEVER)).to(log_probs)
                ending = log_probs[..., EOS] + may.unsqueeze(1)
            log_probs[..., EOS] = ending
        if step > limits.min():  # at the step after a sentence's longest, nothing but </s>
            over = torch.from_numpy((step > limits).nonzero()[0]).to(log_probs.device)
            end = log_probs[over, :, EOS]
            log_probs[over] = NEVER
            log_probs[over, :, EOS] = end

    def finish(self, numbers: Ints, met: Bools, final: Floats, rows: Ints, original: Ints, step: int) -> None:
        """Note the hypotheses that end at this step; (B, n) each."""
        unlimited = self.config.stop == Stop.optimal
        for sentence, place in zip(*met.nonzero(), strict=True):
            ends = self.trace.ends[numbers[sentence]]
            if unlimited or len(ends) < self.config.beam:
                at = sentence, place
                ends.append(End(float(final[at]), step, int(rows[at]), int(original[at])))

    def going_on(self, numbers: Ints, best: Floats, step: int) -> Bools:
        """Which sentences are not done; best: (B, K) cumulative log-probabilities of what would go on."""
        config = self.config
        live = self.limits[numbers] >= step
        ends = [self.trace.ends[number] for number in numbers]
        if config.stop == Stop.original:
            short: Bools = live & np.array([len(of_sentence) < config.beam for of_sentence in ends])
            return short
        # What goes on can only lose log-probability; at best it loses none and takes the most favourable length.
        lengths = self.limits[numbers] + 1 if config.lenpen > 0 else np.full(len(numbers), step + 1)
        bounds = best[:, 0] / lengths.astype(best.dtype) ** config.lenpen
        for place, of_sentence in enumerate(ends):
            if len(of_sentence) >= config.nbest:
                last = sorted(end.score for end in of_sentence)[-config.nbest]
                live[place] &= bool(bounds[place] > last)
        alive: Bools = live & (best[:, 0] > NEVER)
        return alive


def length_limits(config: SearchConfig, lengths: Ints, table: int) -> Ints:
    """Words that a translation of each source, of (N,) tokens with </s>, may have before its own </s>."""
    limits = np.floor(config.max_length_ratio * lengths + 1e-9).astype(np.int64) + config.max_length
    capped: Ints = np.minimum(limits, table - 1)
    return capped


def word_penalties(
    config: SearchConfig, continuations: Tensor | None, selection: Selection | None, device: torch.device
) -> Tensor | None:
    """What is subtracted from each word's log-probability, (V,); None where that is nothing, or only for <unk>."""
    if not config.subwordpen:
        return None
    if continuations is None:
        raise ValueError("search.subwordpen needs to know which pieces are continued")
    penalties = continuations.double() * config.subwordpen
    penalties[UNK] += config.unkpen
    return (penalties if selection is None else penalties[selection.ids]).to(device)


def candidates(scores: Tensor, log_probs: Tensor) -> tuple[Tensor, Tensor]:
    """The best 2 K continuations of each sentence: scores and k * V + word, (B, n) each, best first.

    scores: (B, K, 1) of the hypotheses; log_probs: (B, K, V). 2 K are enough to find K that do not end. Impossible ones
    (score -inf) come last; with a beam beyond the vocabulary they fill rows that no hypothesis has.

    The n best words stand in the n groups of words with the best maxima: only those are sorted.
    """
    batch, beam, vocabulary = log_probs.shape
    groups = log_probs.view(batch, -1, GROUP)  # (B, K V / GROUP, GROUP)
    maxima = (groups.amax(2).view(batch, beam, -1) + scores).view(batch, -1)  # (B, K V / GROUP)
    count = min(2 * beam, maxima.shape[1])
    chosen = maxima.topk(count, dim=1, sorted=False).indices  # (B, count)
    of_rows = scores.view(batch, beam).gather(1, chosen // (vocabulary // GROUP)).unsqueeze(2)
    words = groups.gather(1, chosen.unsqueeze(2).expand(-1, -1, GROUP)) + of_rows  # (B, count, GROUP)
    values, index = words.view(batch, -1).topk(2 * beam, dim=1)
    return values, chosen.gather(1, index // GROUP) * GROUP + index % GROUP


def to_host(values: Tensor, index: Tensor) -> tuple[Floats, Ints]:
    """Both as arrays, in one transfer."""
    if values.device.type == "cpu":
        return values.numpy(), index.numpy()
    both = torch.stack([values.double(), index.double()]).cpu().numpy()
    return both[0].astype(np.float64 if values.dtype == torch.float64 else np.float32), both[1].astype(np.int64)


def coverage_penalty(total: Tensor, real: Tensor) -> Tensor:
    """Sum over source positions of log min(1, attention received): (B, n, S), real (B, S) -> (B, n)."""
    return total.clamp(0.0, 1.0).log().masked_fill(~real.unsqueeze(1), 0.0).sum(2)


def pick(x: Tensor, rows: Ints) -> Tensor:
    """Rows of each sentence: (B, K, S) and (B, n) indices -> (B, n, S)."""
    index = torch.from_numpy(np.ascontiguousarray(rows)).to(x.device)
    return x.gather(1, index.unsqueeze(2).expand(-1, -1, x.shape[2]))
