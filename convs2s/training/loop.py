"""The training loop: epochs of updates, each epoch followed by validation, annealing and a checkpoint.

All that decides an update is a function of the seed and of what the checkpoint holds, so a stopped run goes on as if
it had never stopped: the data order follows from (seed, epoch), the dropout masks from (seed, update, rank).
"""

from __future__ import annotations

from contextlib import closing

import torch

from convs2s.config import TrainConfig
from convs2s.data.batching import Batch, collate, epoch_order, rank_share
from convs2s.data.parallel import ahead
from convs2s.errors import UserError
from convs2s.training.distributed import connected
from convs2s.training.run import Run
from convs2s.training.validation import padded_left, validate


def train(config: TrainConfig) -> None:
    """Train until a stop rule holds; resumes what ``run_dir`` holds. Under torchrun, one of several processes.

    Raises Stopped after a stop signal, with the current update finished and saved, and UserError for what a user can
    mend, before the first update wherever possible.
    """
    try:
        with connected(config.training.device) as world, Run.open(config, world) as run:
            while (reason := run.over()) is None:
                if train_epoch(run):
                    run.save("last")  # whatever happens while it is validated
                    run.end_epoch(validate(run))
            run.end(reason)
    except BrokenPipeError:  # who read our messages has gone
        raise
    except OSError as error:  # a full disk, a directory that vanished
        place = error.filename or f"run_dir={config.run_dir}"
        raise UserError(f"{place}: {error.strerror or error}; mend it, and the same command goes on") from error


def train_epoch(run: Run) -> bool:
    """The rest of the current epoch, update by update; False where training.max_updates ended it before its end."""
    training, progress, world = run.config.training, run.progress, run.world
    left = padded_left(run.config.model)
    order = epoch_order(len(run.batches), run.config.seed, progress.epoch)
    group = world.size * training.accumulate  # batches of an update, over all processes

    def share(start: int) -> list[Batch]:
        """This process' batches of the update that begins with the epoch's batch number ``start``."""
        numbers = rank_share(order, start, group, world.rank, world.size)
        batches = [collate(run.data.train, run.batches[n], *left) for n in numbers]
        if world.device.type != "cuda":
            return batches
        torch.cuda.set_device(world.device)  # of this thread
        return [batch.pinned() for batch in batches]

    starts = range(progress.batch, len(order), group)
    with closing(ahead(share, starts, training.prefetch)) as prepared:
        for start, batches in prepared:
            if training.max_updates is not None and progress.update >= training.max_updates:
                return False
            outcome = run.updater(batches, progress.update)
            run.end_update(outcome, batches, min(group, len(order) - start))
    return True
