"""One or several models that decode together as if they were one.

B sentences · S source length · K beam · V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from convs2s.errors import UserError
from convs2s.model import ConvS2S, DecoderState


class Ensemble:
    """Models whose probabilities are averaged at every step (original: models/ensemble_model.lua).

    The attention is the mean over each model's attention layers, then over the models.
    """

    def __init__(self, models: Sequence[ConvS2S]) -> None:
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
        self.states: list[DecoderState] = []

    @property
    def max_length(self) -> int:
        """Tokens that a sentence may have in every model, </s> included."""
        return min(model.max_length for model in self.models)

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

    def start(self, source: Tensor, beam: int) -> None:
        """Encode source (B, S); rows of a sentence stand side by side: row = b * K + k."""
        self.states = [model.start(model.encode(source), beam) for model in self.models]

    def step(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """The last token of each hypothesis (B, K) -> log-probabilities (B, K, V), attention (B, K, S).

        Half precision comes back as float32, since scores are sums of many log-probabilities.
        """
        steps = [model.step(tokens, state) for model, state in zip(self.models, self.states, strict=True)]
        log_probs = [widen(log_prob) for log_prob, _ in steps]
        attention = [widen(weights) for _, weights in steps]
        if len(steps) == 1:
            return log_probs[0], attention[0]
        mean = torch.stack(log_probs).logsumexp(0) - math.log(len(steps))
        return mean, torch.stack(attention).mean(0)

    def keep(self, sentences: Tensor) -> None:
        """Go on with these sentences only; (B',) indices."""
        for state in self.states:
            state.keep(sentences)

    def reorder(self, rows: Tensor) -> None:
        """Row r continues what row ``rows[r]`` was; (B K,) indices."""
        for state in self.states:
            state.reorder(rows)


def widen(x: Tensor) -> Tensor:
    """Half precision to float32; others as they are."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
