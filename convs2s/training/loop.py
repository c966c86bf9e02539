"""The training loop: epochs of updates, each epoch followed by validation, annealing and a checkpoint.

All that decides an update is a function of the seed and of what the checkpoint holds, so a stopped run goes on as if
it had never stopped: the data order follows from (seed, epoch), the dropout masks from (seed, update, rank).
"""

from __future__ import annotations

import torch

from convs2s.config import ModelConfig, SourcePadding, TargetPadding, TrainConfig
from convs2s.data.batching import bucket_batches, collate, cut_batches, epoch_order
from convs2s.training.distributed import connected
from convs2s.training.run import Run


def train(config: TrainConfig) -> None:
    """Train until a stop rule holds; resumes what ``run_dir`` holds.  Under torchrun, one of several processes.

    Raises Stopped after a stop signal, with the current update finished and saved, and UserError for what a user can
    mend, before the first update wherever possible.
    """
    with connected(config.training.device) as world, Run.open(config, world) as run:
        while run.progress.finished is None:
            if train_epoch(run):
                run.end_epoch(validate(run))
        run.say(f"training ended after {run.progress.update} updates: {run.progress.finished}")


def train_epoch(run: Run) -> bool:
    """The rest of the current epoch, update by update; False where training.max_updates ended it before its end."""
    training, progress, world = run.config.training, run.progress, run.world
    left = padded_left(run.config.model)
    order = epoch_order(len(run.batches), run.config.seed, progress.epoch)
    group = world.size * training.accumulate  # batches of an update, over all processes
    while progress.batch < len(order):
        if training.max_updates is not None and progress.update >= training.max_updates:
            progress.finished = f"training.max_updates={training.max_updates} reached"
            run.save("last")
            return False
        numbers = order[progress.batch : progress.batch + group]
        batches = [collate(run.data.train, run.batches[n], *left) for n in numbers[world.rank :: world.size]]
        outcome = run.updater(batches, progress.update)
        run.end_update(outcome, batches, len(numbers))
    return True


@torch.no_grad()
def validate(run: Run) -> float:
    """Negative log-likelihood of the validation pairs in nats per target token, </s> included."""
    corpus, training, world = run.data.valid, run.config.training, run.world
    left = padded_left(run.config.model)
    cut = bucket_batches if left[0] else cut_batches
    batches = cut(
        corpus.source_lengths,
        corpus.target_lengths,
        sentences=training.batch_sentences,
        tokens=training.batch_tokens,
    )
    run.model.eval()
    loss, tokens = 0.0, 0
    for indices in batches[world.rank :: world.size]:
        batch = collate(corpus, indices, *left)
        with run.updater.autocast():
            loss += run.model.loss(*run.updater.arguments(batch, training=False)).item()
        tokens += batch.tokens
    total, count = world.sum([loss, tokens])
    return total / count


def padded_left(model: ModelConfig) -> tuple[bool, bool]:
    """Whether sources and targets are padded on the left."""
    return model.source_padding == SourcePadding.original, model.target_padding == TargetPadding.left
