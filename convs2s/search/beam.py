"""Beam search, as the original does it (original: search.lua, models/model.lua "generate").

B sentences in the batch · K beam · V vocabulary · S source length · n candidates.
The t-th step of a sentence extends its hypotheses by their t-th token; the rows of a step are those of the beam that
enters it.

The device scores the words and picks each sentence's best candidates; which of them end and which go on is decided on
the host, from two small arrays a step. A sentence that is done leaves the batch, and one that waits takes its place:
hypotheses that do not want to end keep no other sentence waiting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from convs2s.config import SearchConfig, Stop
from convs2s.data.batching import pad
from convs2s.errors import UserError
from convs2s.model import Seq2Seq
from convs2s.search.batches import Queue
from convs2s.search.candidates import (
    candidates,
    coverage_penalty,
    length_limits,
    pick,
    stack,
    to_host,
    word_penalties,
)
from convs2s.search.ensemble import Ensemble
from convs2s.search.selection import Selection
from convs2s.search.trace import End, Floats, Hypothesis, Ints, Step, Trace
from convs2s.text.vocabulary import EOS, PAD, UNK

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
    """The ``config.nbest`` best hypotheses of each sentence of a batch, best first.

    models: one, or several that vote; whatever mode they are in, they search without dropout.
    source: (B, S) ids with </s>, padded on either side (no padding at all for ``source_padding: original``).
    attention: also return each hypothesis' attention, averaged over layers and models; layers: of each layer, too
    (see ``Hypothesis``).
    continuations: (V,) True at the pieces that ``config.subwordpen`` is for.
    selection: the words that each sentence may use; null: all.

    A sentence ends when ``beam`` hypotheses have ended with </s>, or at the length limit: ``max_length`` pieces or the
    end of the position table, whichever is first. Fewer than ``nbest`` come back only where fewer exist.
    Raises UserError for impossible settings and for a model whose probabilities are not numbers.
    """
    with searching(models, config, attention, layers, continuations) as search:
        search.admit(source, selection)
        while search.busy:
            search.step()
    return [search.results[number] for number in range(len(source))]


@torch.inference_mode()
def search_sentences(
    models: Seq2Seq | Sequence[Seq2Seq],
    sources: Sequence[Sequence[int]],
    config: SearchConfig,
    *,
    attention: bool = False,
    layers: bool = False,
    continuations: Tensor | None = None,
    select: Callable[[Sequence[Sequence[int]]], Selection] | None = None,
) -> list[list[Hypothesis]]:
    """As ``beam_search``, for any number of sentences, of which ``config.batch_size`` are in the batch at most.

    sources: ids with </s>, in any order; one without ids has no hypothesis.
    select: chooses the words of some sentences, which then have the batch for themselves.
    """
    entered: list[int] = []  # the sentences in the order in which they came into the batch
    with searching(models, config, attention, layers, continuations) as search:
        lengths = list(map(len, sources))
        queue = Queue(lengths, config.batch_size, config.batch_tokens, search.ensemble.unpadded)
        while True:
            while not (search.busy and select) and (group := queue.take(search.sentences, search.width)):
                entered += group
                chosen = [sources[i] for i in group]
                search.admit(pad(chosen), None if select is None else select(chosen))
            if not search.busy:
                break
            search.step()
    results: list[list[Hypothesis]] = [[] for _ in sources]
    for number, i in enumerate(entered):
        results[i] = search.results[number]
    return results


@contextmanager
def searching(
    models: Seq2Seq | Sequence[Seq2Seq],
    config: SearchConfig,
    attention: bool,
    layers: bool,
    continuations: Tensor | None,
) -> Iterator[Search]:
    """A search with its models ready."""
    config.check()
    ensemble = Ensemble([models] if isinstance(models, Seq2Seq) else models, config.average)
    with ensemble.evaluating():
        yield Search(ensemble, config, attention or layers, layers, continuations)


@dataclass
class Batch:
    """The sentences in the batch."""

    numbers: Ints  # (B,) in the order in which they came in, counted from 0
    ages: Ints  # (B,) steps that they have taken
    limits: Ints  # (B,) pieces that a translation may have before its </s>
    widths: Ints  # (B,) source positions up to the last that is no padding
    tokens: Ints  # (B, K) the last of each hypothesis
    scores: Floats  # (B, K) its log-probability

    def select(self, which: Bools) -> Batch:
        return Batch(*(array[which] for array in vars(self).values()))

    def join(self, other: Batch) -> Batch:
        return Batch(*map(np.concatenate, zip(vars(self).values(), vars(other).values(), strict=True)))


class Search:
    """A batch that sentences come into and leave when they are done."""

    def __init__(
        self, ensemble: Ensemble, config: SearchConfig, attention: bool, layers: bool, continuations: Tensor | None
    ) -> None:
        self.ensemble, self.config, self.continuations = ensemble, config, continuations
        self.attention, self.layers = attention, layers
        self.entered = 0
        self.batch: Batch | None = None
        self.real = torch.empty(0, 0)  # (B, S) what is no padding in the source
        self.coverage: Tensor | None = None  # (B, K, S) attention so far
        self.penalties: Tensor | None = None  # (V,) what is subtracted from each word's log-probability
        self.vocabulary: Ints | None = None  # (V,) ids of the words that are scored, where these are not all
        self.words = 0  # V
        self.trace = Trace()
        self.ends: dict[int, list[End]] = {}  # by number, of the sentences in the batch
        self.results: dict[int, list[Hypothesis]] = {}  # by number, of those that are done

    @property
    def busy(self) -> bool:
        return self.batch is not None

    @property
    def sentences(self) -> int:
        """B."""
        return 0 if self.batch is None else len(self.batch.numbers)

    @property
    def width(self) -> int:
        """S."""
        return 0 if self.batch is None else self.real.shape[1]

    def admit(self, source: Tensor, selection: Selection | None = None) -> None:
        """Take sentences in, (B', S) ids padded on either side; with a selection, only where no others are."""
        config, ensemble = self.config, self.ensemble
        source = source.to(ensemble.device)
        real = source != PAD  # (B', S)
        columns, shape = real.cpu().numpy(), (len(source), config.beam)
        scores = np.full(shape, NEVER, np.float32)
        scores[:, 0] = 0.0  # before the first step all rows are the same hypothesis: only one counts
        fresh = Batch(
            self.entered + np.arange(len(source)),
            np.zeros(len(source), np.int64),
            length_limits(config, columns.sum(1), ensemble.max_target_length),
            columns.shape[1] - columns[:, ::-1].argmax(1),
            np.full(shape, EOS),
            scores,
        )
        self.entered += len(source)
        self.ends.update((int(number), []) for number in fresh.numbers)
        if self.batch is not None:
            ensemble.join(source)
            self.batch = self.batch.join(fresh)
            self.real = stack(self.real, real)
            if self.coverage is not None:
                self.coverage = stack(self.coverage, self.coverage.new_zeros(*shape, self.width))
            return
        ensemble.start(source, config.beam, selection)
        self.batch, self.real, self.coverage = fresh, real, None
        self.penalties = word_penalties(config, self.continuations, selection, source.device)
        self.vocabulary = None if selection is None else selection.ids.numpy()
        self.words = ensemble.models[0].target_vocabulary if self.vocabulary is None else len(self.vocabulary)

    def step(self) -> None:
        """Extend every hypothesis by a word."""
        config, ensemble, batch, beam = self.config, self.ensemble, self.batch, self.config.beam
        assert batch is not None
        batch.ages += 1
        log_probs, weights = ensemble.step(torch.from_numpy(batch.tokens).to(ensemble.device))  # (B, K, V)
        self.constrain(log_probs, batch)
        values, index = candidates(torch.from_numpy(batch.scores).to(log_probs).unsqueeze(2), log_probs)
        best, position = to_host(values, index)  # (B, n), best first; the one place where the host waits
        rows, words = np.divmod(position, log_probs.shape[2])
        del log_probs
        mean = layers = None
        if self.attention or config.covpen:
            mean = ensemble.mean_attention(weights, batch.tokens.shape)  # (B, K, S)
        if self.layers:
            layers = torch.stack([layer for model in weights for layer in model])

        # Candidates are looked at in order until ``beam`` of them that do not end are found. One that ends is a
        # finished hypothesis if it is met before that.
        ends = words == EOS
        accepted = (~ends).cumsum(1)  # (B, n) candidates so far that go on
        original_rows = np.minimum(accepted, beam - 1)  # whose attention the original takes where one ends
        final = best / (batch.ages[:, None] ** config.lenpen).astype(best.dtype)
        if mean is not None and config.covpen:
            self.coverage = torch.zeros_like(mean) if self.coverage is None else self.coverage
            total = pick(self.coverage, rows) + pick(mean, original_rows)
            final = final + config.covpen * coverage_penalty(total, self.real).cpu().numpy()
        met = ends & (accepted < beam) & (best > NEVER)
        self.finish(batch, met, final, rows, original_rows)

        following = np.argsort(ends, axis=1, kind="stable")[:, :beam]  # the first K that do not end
        best, words, rows = (np.take_along_axis(x, following, 1) for x in (best, words, rows))  # (B, K)
        self.trace.steps.append(Step(batch.numbers, words, rows, mean if self.attention else None, layers))
        if self.coverage is not None and mean is not None:
            self.coverage = pick(self.coverage, rows) + mean  # not the rows' own: see Hypothesis.original_attention
        batch.tokens, batch.scores = self.ids(words), best
        going_on = self.going_on(batch)
        places = going_on.nonzero()[0]  # (B',)
        parents = torch.from_numpy((places[:, None] * beam + rows[places]).reshape(-1)).to(ensemble.device)  # (B' K,)
        if len(places) == len(going_on):
            if beam > 1:
                ensemble.reorder(parents)
            return
        self.leave(batch, ~going_on)
        if len(places):
            self.keep(batch.select(going_on), torch.from_numpy(places).to(ensemble.device), parents)
        else:
            self.batch = None
            self.trace.keep(0)

    def leave(self, batch: Batch, done: Bools) -> None:
        """Read the hypotheses of the sentences that are done, (B,)."""
        for place in done.nonzero()[0]:
            number, real = int(batch.numbers[place]), self.real[place] if self.attention else None
            ends, age = self.ends.pop(number), int(batch.ages[place])
            found = self.trace.read(number, age, ends, self.config.nbest, real, self.vocabulary)
            if not found:
                raise UserError(
                    "the model's probabilities are not numbers: its training diverged, or the checkpoint is damaged"
                )
            self.results[number] = found

    def keep(self, batch: Batch, kept: Tensor, parents: Tensor) -> None:
        """Go on with these sentences only; kept (B',), parents (B' K,): their places and rows in what was the batch."""
        self.batch, width = batch, int(batch.widths.max())
        self.ensemble.keep(kept, parents, width)
        self.trace.keep(int(batch.ages.max()))
        self.real = self.real[kept, :width]
        self.coverage = None if self.coverage is None else self.coverage[kept, :, :width]

    def ids(self, words: Ints) -> Ints:
        """Numbers of words among those that are scored -> ids. A row that no hypothesis has gets any."""
        words = np.minimum(words, self.words - 1)
        return words if self.vocabulary is None else self.vocabulary[words]

    def constrain(self, log_probs: Tensor, batch: Batch) -> None:
        """Apply penalties and length limits to (B, K, V), in place."""
        if self.penalties is not None:
            log_probs[..., : len(self.penalties)] -= self.penalties.to(log_probs.dtype)
        elif self.config.unkpen:
            log_probs[..., UNK] -= self.config.unkpen
        last = batch.ages > batch.limits  # the step after a sentence's longest: nothing but </s>
        early = (batch.ages <= self.config.min_length) & ~last
        if early.any():
            may = torch.from_numpy(np.where(early, NEVER, 0.0)).to(log_probs)
            log_probs[..., EOS] += may.unsqueeze(1)
        if last.any():
            over = torch.from_numpy(last.nonzero()[0]).to(log_probs.device)
            end = log_probs[over, :, EOS]
            log_probs[over] = NEVER
            log_probs[over, :, EOS] = end

    def finish(self, batch: Batch, met: Bools, final: Floats, rows: Ints, original: Ints) -> None:
        """Note the hypotheses that end at this step; (B, n) each."""
        unlimited = self.config.stop == Stop.optimal
        for sentence, place in zip(*met.nonzero(), strict=True):
            ends = self.ends[int(batch.numbers[sentence])]
            if unlimited or len(ends) < self.config.beam:
                at = sentence, place
                ends.append(End(float(final[at]), int(batch.ages[sentence]), int(rows[at]), int(original[at])))

    def going_on(self, batch: Batch) -> Bools:
        """Which sentences are not done, (B,)."""
        config = self.config
        live: Bools = batch.limits >= batch.ages
        ends = [self.ends[int(number)] for number in batch.numbers]
        if config.stop == Stop.original:
            waiting: Bools = live & np.array([len(of_sentence) < config.beam for of_sentence in ends])
            return waiting
        # What goes on can only lose log-probability; at best it loses none and takes the most favourable length.
        lengths = batch.limits + 1 if config.lenpen > 0 else batch.ages + 1
        best = batch.scores[:, 0]
        bounds = best / lengths.astype(best.dtype) ** config.lenpen
        for place, of_sentence in enumerate(ends):
            if len(of_sentence) >= config.nbest:
                last = sorted(end.score for end in of_sentence)[-config.nbest]
                live[place] &= bool(bounds[place] > last)
        alive: Bools = live & (best > NEVER)
        return alive
