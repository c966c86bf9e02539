"""When the learning rate shrinks and training ends, as the original decides it (torchnet/hooks.lua)."""

from __future__ import annotations

import pytest

from convs2s.config import Annealing, OptimizerConfig
from convs2s.training.annealing import Schedule


def rates(losses: list[float], **options: object) -> tuple[list[float], str | None]:
    """Learning rate after each epoch, and why training ended."""
    config = OptimizerConfig(**options)  # type: ignore[arg-type]
    schedule, reason = Schedule(config.lr), None
    seen = []
    for epoch, loss in enumerate(losses, start=1):
        schedule.end_epoch(epoch, loss, config)
        reason = schedule.ended(config)
        seen.append(schedule.lr)
        if reason:
            break
    return seen, reason


def test_fast_annealing_goes_on_once_it_began() -> None:
    """Fault: the rate stops shrinking when the loss falls again."""
    seen, reason = rates([5.0, 4.0, 4.0, 3.0, 2.0, 1.0, 0.5, 0.4], annealing=Annealing.fast)
    assert seen == pytest.approx([0.25, 0.25, 0.025, 0.0025, 0.00025, 0.000025, 0.0000025])
    assert reason is not None
    assert "optimizer.min_lr" in reason


def test_slow_annealing_asks_every_epoch_against_the_last_epoch_that_did_not_shrink() -> None:
    """Fault: an epoch that shrank the rate becomes what later ones are compared with."""
    seen, reason = rates([5.0, 6.0, 5.5, 4.0, 4.5], annealing=Annealing.slow)
    assert seen == pytest.approx([0.25, 0.025, 0.0025, 0.0025, 0.00025])
    assert reason is None


def test_equal_loss_counts_as_no_progress() -> None:
    """Fault: the comparison is strict (original: previous <= current)."""
    assert rates([3.0, 3.0])[0] == pytest.approx([0.25, 0.025])


def test_no_annealing_before_its_epoch() -> None:
    """Fault: optimizer.min_epoch_to_anneal is ignored, or epochs before it are not remembered."""
    seen, _ = rates([3.0, 4.0, 5.0, 6.0], min_epoch_to_anneal=3)
    assert seen == pytest.approx([0.25, 0.25, 0.025, 0.0025])


def test_forced_annealing() -> None:
    """Fault: optimizer.anneal_after is ignored while the loss still falls."""
    assert rates([5.0, 4.0, 3.0, 2.0], anneal_after=2)[0] == pytest.approx([0.25, 0.025, 0.0025, 0.00025])


def test_a_loss_that_is_no_number_is_not_remembered() -> None:
    """Fault: after a validation loss of nan the next epoch cannot be found worse."""
    assert rates([4.0, float("nan"), 5.0])[0] == pytest.approx([0.25, 0.25, 0.025])


def test_annealing_off() -> None:
    """Fault: optimizer.annealing=none still shrinks the rate."""
    assert rates([1.0, 2.0, 3.0], annealing=Annealing.none)[0] == [0.25] * 3


def test_shrink_and_limit() -> None:
    """Fault: optimizer.shrink or optimizer.min_lr is ignored."""
    seen, reason = rates([1.0, 1.0, 1.0, 1.0], shrink=2.0, min_lr=0.1)
    assert seen == pytest.approx([0.25, 0.125, 0.0625])
    assert reason is not None
