"""One or several models that decode together as if they were one.

B sentences · S source length · K beam · V vocabulary, filled up to a multiple of GROUP.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor

from convs2s.config import Average, SourcePadding
from convs2s.errors import UserError
from convs2s.model import Seq2Seq, State
from convs2s.model.incremental import GROUP
from convs2s.search.selection import Selection


class Ensemble:
    """Models whose probabilities are averaged at every step (original: models/ensemble_model.lua).

    ``average``: of the probabilities, as the original, or of their logarithms, renormalised. The attention is the mean
    over each model's attention layers, then over the models.
    """

    def __init__(self, models: Sequence[Seq2Seq], average: Average = Average.probabilities) -> None:
        """Raises UserError when the models' vocabularies differ in size."""
        if not models:
            raise ValueError("beam search needs a model")
        for side in ("source_vocabulary", "target_vocabulary"):
            sizes = [getattr(model, side) for model in models]
            if len(set(sizes)) > 1:
                raise UserError(
                    f"the models' {side.replace('_', ' ')} sizes differ: {sizes}; an ensemble must share them"
                )
        self.models = list(models)
        self.average = average
        self.states: list[State] = []
        self.mask: Tensor | None = None  # (B, 1, V) -inf at words that a sentence may not use

    @property
    def max_source_length(self) -> int:
        """Tokens that a source may have in every model, </s> included."""
        return min(model.max_source_length for model in self.models)

    @property
    def max_target_length(self) -> int:
        """Likewise of a target."""
        return min(model.max_target_length for model in self.models)

    @property
    def unpadded(self) -> bool:
        """Whether a model lets padding change its results, so that only sources of equal length may be encoded
        together."""
        return any(model.config.source_padding == SourcePadding.original for model in self.models)

    @property
    def device(self) -> torch.device:
        """Where the weights are, and the source has to be."""
        return next(self.models[0].parameters()).device

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """Dropout off for the duration, whatever mode the models are in."""
        training = [model for model in self.models if model.training]
        for model in training:
            model.eval()
        try:
            yield
        finally:
            for model in training:
                model.train()

    def start(self, source: Tensor, beam: int, selection: Selection | None = None) -> None:
        """Encode source (B, S); rows of a sentence stand side by side: row = b * K + k."""
        vocabulary = None if selection is None else selection.ids.to(source.device)
        self.beam = beam
        self.states = [model.start(model.encode(source), beam, vocabulary) for model in self.models]
        self.mask = None
        if selection is not None:
            mask = torch.where(selection.allowed.to(source.device), 0.0, float("-inf"))  # (B, V')
            filled = F.pad(mask, (0, -mask.shape[1] % GROUP))
            self.mask = filled.unsqueeze(1)  # (B, 1, V)

    def join(self, source: Tensor) -> None:
        """More sentences, (B', S), behind those that are there; not where words are selected."""
        for model, state in zip(self.models, self.states, strict=True):
            state.join(model.start(model.encode(source), self.beam))

    def step(self, tokens: Tensor) -> tuple[Tensor, list[list[Tensor]]]:
        """The last token of each hypothesis (B, K) -> log-probabilities (B, K, V), each layer's attention (B, K, S) by
        model.

        Half precision comes back as float32, since scores are sums of many log-probabilities.
        """
        log_probs, attention = [], []
        for model, state in zip(self.models, self.states, strict=True):
            logits, weights = model.raw_step(tokens, state)
            if self.mask is not None:
                logits.view(*tokens.shape, -1).add_(self.mask)
            log_probs.append(logits.log_softmax(-1, dtype=widened(logits.dtype)))
            attention.append(weights)
        return self.combine(log_probs).view(*tokens.shape, -1), attention

    def combine(self, log_probs: list[Tensor]) -> Tensor:
        """One distribution from the models', (..., V) each; of probabilities any part will do."""
        if len(log_probs) == 1:
            return log_probs[0]
        if self.average == Average.probabilities:
            return torch.stack(log_probs).logsumexp(0) - math.log(len(log_probs))
        return torch.stack(log_probs).mean(0).log_softmax(-1)

    def mean_attention(self, attention: list[list[Tensor]], rows: tuple[int, ...]) -> Tensor:
        """Averaged over layers and models, (B, K, S), for rows (B, K); zeros where nothing attends."""
        means = [torch.stack(layers).mean(0) for layers in attention if layers]
        if not means:
            dtype = widened(next(self.models[0].parameters()).dtype)
            return torch.zeros(*rows, self.states[0].width, dtype=dtype, device=self.device)
        mean = means[0] if len(means) == 1 else torch.stack(means).mean(0)
        return mean.to(widened(mean.dtype))

    def keep(self, sentences: Tensor, rows: Tensor, width: int) -> None:
        """Go on with these sentences only, (B',) indices, and rows, (B' K,); sources then end before ``width``."""
        for state in self.states:
            state.keep(sentences, rows, width)
        if self.mask is not None:
            self.mask = self.mask[sentences]

    def reorder(self, rows: Tensor) -> None:
        """Row r continues what row ``rows[r]`` was; (B K,) indices."""
        for state in self.states:
            state.reorder(rows)


def widened(dtype: torch.dtype) -> torch.dtype:
    """float32 for half precision; others as they are."""
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype
