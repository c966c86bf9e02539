"""The training loop: epochs of updates, each epoch followed by validation, annealing and a checkpoint.

All that decides an update is a function of the seed and of what the checkpoint holds, so a stopped run goes on as if
it had never stopped: the data order follows from (seed, epoch), the dropout masks from (seed, update).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from convs2s.config import Normalize, OptimizerConfig, SourcePadding, TrainConfig
from convs2s.data.batching import Batch, bucket_batches, collate, cut_batches, epoch_order
from convs2s.data.corpus import Corpus
from convs2s.errors import UserError
from convs2s.model import ConvS2S
from convs2s.training.nag import clip_gradients
from convs2s.training.run import Run, Stopped, say


def train(config: TrainConfig) -> Run:
    """Train until a stop rule holds, then return the run; resumes what ``run_dir`` holds.

    Raises Stopped after SIGINT or SIGTERM, with the update finished and saved.
    """
    with Run.open(config) as run:
        progress, training = run.progress, config.training
        while not progress.finished:
            if not train_epoch(run):
                break
            loss = validate(run.model, run.data.valid, config)
            reason = run.schedule.end_epoch(progress.epoch, loss, config.optimizer)
            run.end_epoch(loss)
            progress.finished = reason or (
                f"training.max_epochs={training.max_epochs} reached" if progress.epoch > training.max_epochs else None
            )
            run.save("last")
        say(f"training ended after {progress.update} updates: {progress.finished}")
        return run


def train_epoch(run: Run) -> bool:
    """The rest of the current epoch: forward, backward, update, for every batch or group of accumulated batches.

    Returns False where training.max_updates ended it before its end.
    """
    config, progress, model = run.config, run.progress, run.model
    left = config.model.source_padding == SourcePadding.original
    order = epoch_order(len(run.batches), config.seed, progress.epoch)
    while progress.batch < len(order):
        if config.training.max_updates is not None and progress.update >= config.training.max_updates:
            progress.finished = f"training.max_updates={config.training.max_updates} reached"
            run.save("last")
            return False
        numbers = order[progress.batch : progress.batch + config.training.accumulate]
        batches = [collate(run.data.train, run.batches[number], left) for number in numbers]
        loss, norm = update(model, run.optimizer, batches, config, progress.update)
        progress.count(len(batches), loss, sum(batch.tokens for batch in batches))
        run.log_update(norm, batches)
        if run.stop_signal is not None:
            run.save("last")
            raise Stopped(run.stop_signal)
        if config.training.save_every is not None and progress.update % config.training.save_every == 0:
            run.save("last")
    return True


def update(
    model: ConvS2S, optimizer: torch.optim.Optimizer, batches: Sequence[Batch], config: TrainConfig, number: int
) -> tuple[float, float]:
    """One update from one or more batches: the summed loss (nats) and the gradient norm before renormalisation."""
    torch.manual_seed(config.seed * 1_000_003 + number)  # the dropout masks of update ``number``
    model.train()
    optimizer.zero_grad()
    device = next(model.parameters()).device
    total = 0.0
    for batch in batches:
        loss = model.loss(batch.source.to(device), batch.target_input.to(device), batch.target.to(device))
        loss.backward()  # type: ignore[no-untyped-call]
        total += loss.item()
    norm = normalize(model, batches, config.optimizer)
    if not math.isfinite(total) or not math.isfinite(norm):
        raise UserError(
            f"update {number + 1}: loss {total} and gradient norm {norm} are not finite; "
            "the last checkpoint is intact: try a lower optimizer.lr or optimizer.clip"
        )
    optimizer.step()
    return total, norm


def normalize(model: ConvS2S, batches: Sequence[Batch], config: OptimizerConfig) -> float:
    """Divide the summed gradients and renormalise them (original: ResumableDPOptimEngine); returns the norm between."""
    tokens, sentences = sum(batch.tokens for batch in batches), sum(batch.sentences for batch in batches)
    divisor = {Normalize.tokens: tokens, Normalize.sentences: sentences, Normalize.none: 1}[config.normalize]
    if divisor != 1:
        torch._foreach_mul_([p.grad for p in model.parameters() if p.grad is not None], 1.0 / divisor)
    return clip_gradients(model.parameters(), config.clip * (sentences if config.normalize == Normalize.none else 1))


@torch.no_grad()
def validate(model: ConvS2S, corpus: Corpus, config: TrainConfig) -> float:
    """Negative log-likelihood of a corpus in nats per target token, </s> included."""
    model.eval()
    device = next(model.parameters()).device
    left = config.model.source_padding == SourcePadding.original
    cut = bucket_batches if left else cut_batches
    batches = cut(
        corpus.source_lengths,
        corpus.target_lengths,
        sentences=config.training.batch_sentences,
        tokens=config.training.batch_tokens,
    )
    loss, tokens = 0.0, 0
    for indices in batches:
        batch = collate(corpus, indices, left)
        loss += model.loss(batch.source.to(device), batch.target_input.to(device), batch.target.to(device)).item()
        tokens += batch.tokens
    return loss / tokens
