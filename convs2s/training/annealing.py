"""When the learning rate shrinks and training ends (paper, sec. 4.2; original: torchnet/hooks.lua, onCheckpoint)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from convs2s.config import Annealing, OptimizerConfig


@dataclass
class Schedule:
    """The learning rate and what decides about it; plain numbers, so that a checkpoint can hold it."""

    lr: float
    annealing: bool = False
    previous_loss: float | None = None  # validation loss of the last epoch that did not shrink the rate

    def end_epoch(self, epoch: int, valid_loss: float, config: OptimizerConfig) -> None:
        """Take note of an epoch's validation loss.

        ``epoch`` counts from 1. "fast" shrinks after every epoch once the loss has not fallen; "slow" asks anew
        each epoch.
        """
        if config.annealing != Annealing.none and epoch >= config.min_epoch_to_anneal:
            stalled = self.previous_loss is not None and self.previous_loss <= valid_loss
            forced = config.anneal_after is not None and epoch >= config.anneal_after
            if self.annealing or stalled or forced:
                self.lr /= config.shrink
                self.annealing = config.annealing == Annealing.fast
                return
        if math.isfinite(valid_loss):
            self.previous_loss = valid_loss

    def ended(self, config: OptimizerConfig) -> str | None:
        """Why training is at its end, None where it is not: the rate has shrunk below ``optimizer.min_lr``."""
        if self.lr >= min(config.lr, config.min_lr):
            return None
        return f"annealing ended: lr {self.lr:.1e} is below optimizer.min_lr={config.min_lr:.1e}"
