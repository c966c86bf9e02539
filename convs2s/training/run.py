"""A run and its directory: built and checked before the first update, resumed, saved, stopped."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from convs2s.config import BestBy, Nonfinite, TrainConfig, flatten, to_plain
from convs2s.data.batching import Batch, cut_batches, padding_share
from convs2s.data.prepare import Prepared, held_out_digests, prepare
from convs2s.errors import UserError
from convs2s.files import locked, remove_leftovers, write_json
from convs2s.messages import say, silent
from convs2s.model import build
from convs2s.model.loss import perplexity
from convs2s.search.selection import batch_selector
from convs2s.training import checkpoint
from convs2s.training.annealing import Schedule
from convs2s.training.checks import (
    as_started,
    check_data,
    check_lexicons,
    check_nothing_lost,
    check_room,
    check_same_start,
    make_directory,
)
from convs2s.training.distributed import World
from convs2s.training.journal import Journal
from convs2s.training.nag import NAG
from convs2s.training.record import check_same_run, unused_options, write_record
from convs2s.training.signals import Stopped, StopSignal
from convs2s.training.update import Outcome, Updater, check_precision, gradient_norms, shape
from convs2s.training.validation import Validation, valid_texts


@dataclass
class Progress:
    """How far a run is; plain numbers, so that a checkpoint can hold it."""

    epoch: int = 1  # the current one
    batch: int = 0  # batches of it that are done
    update: int = 0  # updates in all
    loss: float = 0.0  # summed over the epoch's target tokens, nats
    tokens: int = 0  # target tokens of the epoch
    recent_loss: float = 0.0  # the same since the last progress line
    recent_tokens: int = 0
    skipped: int = 0  # updates in a row that were not applied
    best_loss: float = math.inf  # lowest validation loss, nats per token
    best_bleu: float = -1.0  # highest validation BLEU; -1: none yet
    best_epoch: int = 0  # of best.pt
    metrics_bytes: int = 0  # length of metrics.jsonl


class Run:
    """Everything a training needs, open for as long as it lasts."""

    def __init__(self, config: TrainConfig, world: World, data: Prepared) -> None:
        self.config, self.world, self.data = config, world, data
        self.directory = Path(config.run_dir)
        self.say = say if world.first else silent
        torch.manual_seed(config.seed)
        sizes = len(data.tokenizers.source.symbols), len(data.tokenizers.target.symbols)
        self.model = build(config.model, *sizes).to(world.device)
        options = config.optimizer
        self.optimizer = NAG(
            self.model.parameters(), options.lr, options.momentum, options.weight_decay, options.rescale_velocity
        )
        self.schedule = Schedule(options.lr)
        self.progress = Progress()
        selector = batch_selector(config.training.selection, data.tokenizers)
        self.updater = Updater(self.model, self.optimizer, config.training, options, config.seed, world, selector)
        lengths = data.train.source_lengths, data.train.target_lengths
        self.batches = cut_batches(
            *lengths,
            sentences=config.training.batch_sentences,
            tokens=config.training.batch_tokens,
            seed=config.seed,
            bucketing=config.training.bucketing,
        )
        self.padding_share = padding_share(self.batches, *lengths)
        self.valid_texts = valid_texts(config)
        self.journal: Journal | None = None  # only the first process writes one
        self.stop_signal = StopSignal()
        self.saved_at = time.monotonic()

    @classmethod
    @contextmanager
    def open(cls, config: TrainConfig, world: World) -> Iterator[Run]:
        """Check, prepare and build all that can fail, before the first update; resume where a checkpoint is.

        Raises UserError for what a user can mend.
        """
        directory, training, asked = Path(config.run_dir), config.training, config
        start = None if training.init_from is None else checkpoint.load(training.init_from)
        if start is not None:
            config = as_started(config, checkpoint.train_config(start))
        config.check()
        check_lexicons(config)
        check_precision(training.precision, world.device)
        with ExitStack() as stack:
            if world.first:
                make_directory(directory)
                busy = f"run_dir={directory} is in use by another process; wait for it, or give another run_dir"
                stack.enter_context(locked(directory / ".lock", busy))
                for folder in (directory, directory / "checkpoints"):
                    remove_leftovers(folder)
                check_same_run(directory, config)
            if training.threads is not None:
                torch.set_num_threads(training.threads)
            if training.deterministic:  # cuBLAS reads this when it starts
                os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
            torch.use_deterministic_algorithms(training.deterministic)
            stack.callback(torch.use_deterministic_algorithms, False)
            given = None if start is None else checkpoint.build_tokenizers(start)
            data = prepare(config.data, config.text, say if world.first else silent, given)
            check_data(data, config, say if world.first else silent)
            run = cls(config, world, data)
            if start is not None:
                checkpoint.load_weights(run.model, start, f"training.init_from={training.init_from}")
                if unused := unused_options(asked, config):
                    run.say(f"warning: text and model are those of training.init_from, so not used: {unused}")
            resumed = run.resume()
            if len(set(world.gather((resumed and resumed.name, run.progress.update)))) > 1:
                raise UserError(
                    f"run_dir={directory}: the processes find different checkpoints there; give a folder that all "
                    "machines share"
                )
            count = sum(parameter.numel() for parameter in run.model.parameters())
            if world.first:
                check_room(directory, count)
                for change in write_record(directory, config, data.manifest, count):
                    run.say(f"warning: since the run's last start, {change}")
                run.journal = Journal(directory, run.progress.metrics_bytes, run.progress.update, training.tensorboard)
                stack.callback(run.journal.close)
                if resumed is not None and resumed.name != "last.pt":
                    run.save("last")  # in the place of the damaged one
            stack.enter_context(run.stop_signal.caught(training.stop_signals))
            processes = f" and {world.size - 1} more" if world.size > 1 else ""
            run.say(
                f"{count:,} parameters, {len(data.train):,} training pairs in {len(run.batches):,} batches "
                f"({run.padding_share:.1%} padding), "
                f"{len(data.valid):,} validation pairs, on {world.device}{processes}"
            )
            yield run

    def resume(self) -> Path | None:
        """Go on from the newest whole checkpoint, if there is one; returns which."""
        found = checkpoint.newest(self.directory / "checkpoints", self.say)
        if found is None:
            check_nothing_lost(self.directory)
            return None
        path, saved = found
        check_same_start(self.directory, path, saved, self.config, self.data.tokenizers)
        checkpoint.load_weights(self.model, saved, str(path))
        self.optimizer.load_state_dict(saved["optimizer"])
        self.updater.scaler.load_state_dict(saved["scaler"])
        try:
            self.schedule, self.progress = Schedule(**saved["schedule"]), Progress(**saved["progress"])
        except TypeError:
            raise UserError(
                f"{path}: saved by another version of this program; give another run_dir, and training.init_from to "
                "start from its weights"
            ) from None
        self.say(f"resuming {path} at epoch {self.progress.epoch}, update {self.progress.update}")
        return path

    def over(self) -> str | None:
        """Why training is at its end, None where it is not. A limit that was raised since lets a run go on."""
        progress, training = self.progress, self.config.training
        if reason := self.schedule.ended(self.config.optimizer):
            return reason
        if progress.epoch > training.max_epochs:
            return f"training.max_epochs={training.max_epochs} reached"
        inside = progress.batch < len(self.batches)  # else what is done of the epoch is validated first
        if inside and training.max_updates is not None and progress.update >= training.max_updates:
            return f"training.max_updates={training.max_updates} reached"
        return None

    def save(self, name: str) -> None:
        """Write checkpoints/NAME.pt; only the first process does."""
        self.saved_at = time.monotonic()
        if self.journal is None:
            return
        self.progress.metrics_bytes = self.journal.length
        checkpoint.save(
            self.directory / "checkpoints" / f"{name}.pt",
            {
                "config": to_plain(self.config),
                "model": self.model.state_dict(),
                "source_vocabulary": self.model.source_vocabulary,
                "target_vocabulary": self.model.target_vocabulary,
                "tokenizers": self.data.tokenizers.state(),
                "held_out": held_out_digests(self.data.manifest),
                "optimizer": self.optimizer.state_dict(),
                "scaler": self.updater.scaler.state_dict(),
                "schedule": asdict(self.schedule),
                "progress": asdict(self.progress),
            },
        )

    def end_update(self, outcome: Outcome, batches: Sequence[Batch], consumed: int) -> None:
        """Count an update, log it, save where it is time, and stop where a signal asks for it (on all ranks alike)."""
        progress, training = self.progress, self.config.training
        progress.batch += consumed
        progress.update += 1
        if outcome.applied:
            progress.skipped = 0
            progress.loss += outcome.loss
            progress.tokens += outcome.tokens
            progress.recent_loss += outcome.loss
            progress.recent_tokens += outcome.tokens
        elif outcome.rescaled:
            self.say(f"update {progress.update}: gradients beyond fp16, not applied; they are now scaled by less")
        else:
            progress.skipped += 1
            self.report_nonfinite(outcome, batches)
        if outcome.parts > 1:
            self.say(
                f"update {progress.update}: out of memory, done in {outcome.parts} parts a batch; {shape(batches)}"
            )
        if self.journal is not None:
            group = self.world.size * training.accumulate
            total, done = math.ceil(len(self.batches) / group), math.ceil(progress.batch / group)
            self.journal.advance(progress.epoch, done, total, outcome.tokens)
            if progress.update % training.log_every == 0:
                place = f"epoch {progress.epoch} · {done}/{total} · update {progress.update}"
                values = {
                    "kind": "train",
                    "epoch": progress.epoch,
                    "update": progress.update,
                    "loss": progress.recent_loss / max(1, progress.recent_tokens),
                    "lr": self.schedule.lr,
                    "gradient_norm": outcome.norm,
                }
                self.journal.progress(place, values, gradient_norms(self.model))
        if progress.update % training.log_every == 0:
            progress.recent_loss, progress.recent_tokens = 0.0, 0
        stop = self.stop_signal.anywhere(self.world)
        minutes = (time.monotonic() - self.saved_at) / 60
        if (
            stop
            or (training.save_every is not None and progress.update % training.save_every == 0)
            or (training.save_minutes is not None and minutes >= training.save_minutes)
        ):
            self.save("last")
        if stop:
            raise Stopped(self.stop_signal.number)

    def report_nonfinite(self, outcome: Outcome, batches: Sequence[Batch]) -> None:
        """Write down which sentences gave a loss or gradient that is not finite; stop unless it may be skipped."""
        progress, training = self.progress, self.config.training
        path = self.directory / f"nonfinite-{progress.update}.json"
        own = [[int(line) for line in self.data.train.lines[batch.indices]] for batch in batches]
        lines = [batch for of_process in self.world.gather(own) for batch in of_process]
        if self.world.first:
            report = {
                "update": progress.update,
                "loss": repr(outcome.loss),
                "gradient_norm": repr(outcome.norm),
                "gradient_norms": {part: repr(norm) for part, norm in gradient_norms(self.model)},
                "lines": lines,
            }
            write_json(path, report)
        what = f"update {progress.update}: loss {outcome.loss} or gradient norm {outcome.norm} is not finite"
        self.say(f"{what}; update not applied, sentences in {path}")
        if training.nonfinite == Nonfinite.stop or progress.skipped > training.max_skips:
            raise UserError(
                f"{what}; the last checkpoint is intact, the sentences are in {path}: "
                "give training.nonfinite=skip, or start anew in another run_dir with a lower optimizer.lr"
            )

    def end_epoch(self, valid: Validation) -> None:
        """Anneal, log the epoch, keep the checkpoint if it is the best so far, and set out for the next epoch."""
        progress, training = self.progress, self.config.training
        epoch, train_loss = progress.epoch, progress.loss / max(1, progress.tokens)
        lr, best = self.schedule.lr, self.note_best(valid)
        self.schedule.end_epoch(epoch, valid.loss, self.config.optimizer)
        if self.journal is not None:
            self.journal.close_bar()
            values = {
                "kind": "epoch",
                "epoch": epoch,
                "update": progress.update,
                "lr": lr,
                "train_loss": train_loss,
                "valid_loss": valid.loss,
                "train_perplexity": perplexity(train_loss),
                "valid_perplexity": perplexity(valid.loss),
            }
            self.journal.speed(epoch)
            self.journal.metric(values if valid.bleu is None else {**values, "valid_bleu": valid.bleu})
            self.journal.samples(valid.samples, progress.update)
        bleu = "" if valid.bleu is None else f" · valid BLEU {valid.bleu:.2f}"
        self.say(
            f"epoch {epoch} · update {progress.update} · train ppl {perplexity(train_loss):.2f} · "
            f"valid ppl {perplexity(valid.loss):.2f}{bleu}{' (best)' if best else ''} · next lr {self.schedule.lr:g}"
        )
        progress.epoch, progress.batch, progress.loss, progress.tokens = epoch + 1, 0, 0.0, 0
        for group in self.optimizer.param_groups:
            group["lr"] = self.schedule.lr
        if best:
            self.save("best")
        if training.keep is not None and epoch % training.keep == 0:
            self.save(f"epoch{epoch}")
        self.save("last")
        if self.journal is not None:
            self.journal.restart_clock()
            self.journal.start_epoch()
        if self.stop_signal.anywhere(self.world):  # at the run's end, too: what is left is to translate
            raise Stopped(self.stop_signal.number)

    def end(self, reason: str) -> None:
        """Say why training ended; TensorBoard's table of runs gets the options and the best scores."""
        progress = self.progress
        if progress.batch or not progress.update:  # by max_updates, inside an epoch
            self.save("last")
        if self.journal is not None and progress.best_epoch:
            options = flatten(
                {key: value for key, value in to_plain(self.config).items() if key not in ("data", "run_dir")}
            )
            scores = {"best/valid_loss": progress.best_loss, "best/valid_perplexity": perplexity(progress.best_loss)}
            if progress.best_bleu >= 0:
                scores["best/valid_bleu"] = progress.best_bleu
            self.journal.hyperparameters(options, scores, progress.update)
        best = f"; best epoch {progress.best_epoch}" if progress.best_epoch else ""
        self.say(f"training ended after {progress.update} updates: {reason}{best}")

    def note_best(self, valid: Validation) -> bool:
        """Take note of the current epoch's figures; whether it is the best so far, by training.best_by."""
        progress, by_bleu = self.progress, self.config.training.best_by == BestBy.bleu
        loss_fell = valid.loss < progress.best_loss
        bleu_rose = valid.bleu is not None and valid.bleu > progress.best_bleu
        if loss_fell:
            progress.best_loss = valid.loss
        if valid.bleu is not None and bleu_rose:
            progress.best_bleu = valid.bleu
        best = bleu_rose if by_bleu else loss_fell
        if best:
            progress.best_epoch = progress.epoch
        return best
