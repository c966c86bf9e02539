"""A run and its directory: built and checked before the first update, resumed, saved, stopped."""

from __future__ import annotations

import json
import math
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from convs2s.config import TrainConfig, to_plain
from convs2s.data.batching import Batch, cut_batches
from convs2s.data.corpus import check_lengths
from convs2s.data.prepare import Prepared, check_tests, prepare, split_paths
from convs2s.errors import UserError
from convs2s.files import atomic, locked
from convs2s.model import Seq2Seq, build
from convs2s.search.selection import batch_selector
from convs2s.training import checkpoint
from convs2s.training.annealing import Schedule
from convs2s.training.distributed import World
from convs2s.training.journal import Journal, perplexity, say, silent
from convs2s.training.nag import NAG
from convs2s.training.record import check_same_run, write_record
from convs2s.training.update import Outcome, Updater, check_precision


class Stopped(Exception):  # noqa: N818 - not an error
    """Training stopped by a signal, with all that was done saved."""

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}; the same command goes on from here")
        self.exit_status = 128 + number


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
    best_epoch: int = 0
    metrics_bytes: int = 0  # length of metrics.jsonl
    finished: str | None = None  # why training ended


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
        self.updater = Updater(self.model, self.optimizer, config.training, options, config.seed, world)
        self.updater.selector = batch_selector(config.training.selection, data.tokenizers)
        self.batches = cut_batches(
            data.train.source_lengths,
            data.train.target_lengths,
            sentences=config.training.batch_sentences,
            tokens=config.training.batch_tokens,
            seed=config.seed,
        )
        self.journal: Journal | None = None  # only the first process writes one
        self.stop_signal = 0
        self.saved_at = time.monotonic()

    @classmethod
    @contextmanager
    def open(cls, config: TrainConfig, world: World) -> Iterator[Run]:
        """Check, prepare and build all that can fail, before the first update; resume where a checkpoint is."""
        directory, training = Path(config.run_dir), config.training
        start = None if training.init_from is None else checkpoint.load(training.init_from)
        if start is not None:
            config = as_started(config, checkpoint.train_config(start))
        for part in (config.model, config.optimizer, training):
            part.check()
        check_precision(training.precision, world.device)
        with ExitStack() as stack:
            if world.first:
                make_directory(directory)
                busy = f"run_dir={directory} is in use by another process; wait for it, or give another run_dir"
                stack.enter_context(locked(directory / ".lock", busy))
                check_same_run(directory, config)
            if training.threads is not None:
                torch.set_num_threads(training.threads)
            torch.use_deterministic_algorithms(training.deterministic)
            stack.callback(torch.use_deterministic_algorithms, False)
            given = None if start is None else checkpoint.build_tokenizers(start)
            data = prepare(config.data, config.text, config.data.seed, say if world.first else silent, given)
            check_data(data, config, say if world.first else silent)
            run = cls(config, world, data)
            if start is not None:
                checkpoint.load_weights(run.model, start, f"training.init_from={training.init_from}")
            resumed = run.resume()
            if world.first:
                for change in write_record(directory, config, data.manifest):
                    run.say(f"warning: since the run's last start, {change}")
                run.journal = Journal(directory, run.progress.metrics_bytes, run.progress.update, training.tensorboard)
                stack.callback(run.journal.close)
                if resumed is not None and resumed.name != "last.pt":
                    run.save("last")  # in the place of the damaged one
            run.catch_signals(stack)
            count = sum(parameter.numel() for parameter in run.model.parameters())
            processes = f" and {world.size - 1} more" if world.size > 1 else ""
            run.say(
                f"{count:,} parameters, {len(data.train):,} training pairs in {len(run.batches):,} batches, "
                f"{len(data.valid):,} validation pairs, on {world.device}{processes}"
            )
            yield run

    def catch_signals(self, stack: ExitStack) -> None:
        """Note a stop signal for the end of the current update; a second one interrupts at once."""

        def note(number: int, frame: FrameType | None) -> None:
            if self.stop_signal:
                raise KeyboardInterrupt
            self.stop_signal = number

        for name in self.config.training.stop_signals:
            try:
                number = signal.Signals[name]
                stack.callback(signal.signal, number, signal.signal(number, note))
            except (KeyError, OSError):
                raise UserError(f"training.stop_signals: {name} is no signal that can be caught; try SIGTERM") from None

    def resume(self) -> Path | None:
        """Go on from the newest whole checkpoint, if there is one; returns which."""
        found = checkpoint.newest(self.directory / "checkpoints", self.say)
        if found is None:
            return None
        path, saved = found
        checkpoint.load_weights(self.model, saved, str(path))
        self.optimizer.load_state_dict(saved["optimizer"])
        self.updater.scaler.load_state_dict(saved["scaler"])
        self.schedule = Schedule(**saved["schedule"])
        self.progress = Progress(**saved["progress"])
        if self.progress.finished is not None and self.limit_raised(self.progress.finished):
            self.progress.finished = None
        self.say(f"resuming {path} at epoch {self.progress.epoch}, update {self.progress.update}")
        return path

    def limit_raised(self, finished: str) -> bool:
        """Whether what ended the run no longer would."""
        progress, training = self.progress, self.config.training
        more = {
            "training.max_epochs": progress.epoch <= training.max_epochs,
            "training.max_updates": training.max_updates is None or progress.update < training.max_updates,
            "annealing": self.schedule.lr >= self.config.optimizer.min_lr,
        }
        return any(finished.startswith(limit) and raised for limit, raised in more.items())

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
                "optimizer": self.optimizer.state_dict(),
                "scaler": self.updater.scaler.state_dict(),
                "schedule": self.schedule.state(),
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
        stop = int(max(self.world.sum([self.stop_signal])))
        minutes = (time.monotonic() - self.saved_at) / 60
        if (
            stop
            or (training.save_every is not None and progress.update % training.save_every == 0)
            or (training.save_minutes is not None and minutes >= training.save_minutes)
        ):
            self.save("last")
        if stop:
            raise Stopped(self.stop_signal or int(signal.SIGTERM))

    def report_nonfinite(self, outcome: Outcome, batches: Sequence[Batch]) -> None:
        """Write down which sentences gave a loss or gradient that is not finite; stop unless it may be skipped."""
        progress, training = self.progress, self.config.training
        path = self.directory / f"nonfinite-{progress.update}.json"
        if self.world.first:
            lines = [[int(line) for line in self.data.train.lines[batch.indices]] for batch in batches]
            report = {
                "update": progress.update,
                "loss": repr(outcome.loss),
                "gradient_norm": repr(outcome.norm),
                "gradient_norms": {part: repr(norm) for part, norm in gradient_norms(self.model)},
                "lines": lines,
            }
            with atomic(path) as file:
                json.dump(report, file, indent=1)
        what = f"update {progress.update}: loss {outcome.loss} or gradient norm {outcome.norm} is not finite"
        self.say(f"{what}; update not applied, sentences in {path}")
        if training.nonfinite.value == "stop" or progress.skipped > training.max_skips:
            raise UserError(
                f"{what}; the last checkpoint is intact, the sentences are in {path}: "
                "lower optimizer.lr, or give training.nonfinite=skip"
            )

    def end_epoch(self, valid_loss: float) -> None:
        """Anneal, log the epoch, keep the checkpoint if it is the best so far, and set out for the next epoch."""
        progress, training = self.progress, self.config.training
        epoch, train_loss = progress.epoch, progress.loss / max(1, progress.tokens)
        lr, best = self.schedule.lr, valid_loss < progress.best_loss
        reason = self.schedule.end_epoch(epoch, valid_loss, self.config.optimizer)
        if self.journal is not None:
            self.journal.close_bar()
            self.journal.metric(
                {
                    "kind": "epoch",
                    "epoch": epoch,
                    "update": progress.update,
                    "lr": lr,
                    "train_loss": train_loss,
                    "valid_loss": valid_loss,
                    "train_perplexity": perplexity(train_loss),
                    "valid_perplexity": perplexity(valid_loss),
                }
            )
        self.say(
            f"epoch {epoch} · update {progress.update} · train ppl {perplexity(train_loss):.2f} · "
            f"valid ppl {perplexity(valid_loss):.2f}{' (best)' if best else ''} · next lr {self.schedule.lr:g}"
        )
        progress.epoch, progress.batch, progress.loss, progress.tokens = epoch + 1, 0, 0.0, 0
        if best:
            progress.best_loss, progress.best_epoch = valid_loss, epoch
        for group in self.optimizer.param_groups:
            group["lr"] = self.schedule.lr
        if reason is None and epoch >= training.max_epochs:
            reason = f"training.max_epochs={training.max_epochs} reached"
        progress.finished = reason
        if best:
            self.save("best")
        if training.keep is not None and epoch % training.keep == 0:
            self.save(f"epoch{epoch}")
        self.save("last")
        if self.journal is not None:
            self.journal.restart_clock()
        if self.world.sum([self.stop_signal])[0] and reason is None:
            raise Stopped(self.stop_signal or int(signal.SIGTERM))


def as_started(config: TrainConfig, before: TrainConfig) -> TrainConfig:
    """A fine-tuning's configuration: text and model are those of the checkpoint, but for this run's dropout."""
    dropout = {name: value for name, value in vars(config.model).items() if name.startswith("dropout")}
    return replace(config, text=before.text, model=replace(before.model, **dropout))


def make_directory(directory: Path) -> None:
    """The run's directory, made and writable, or a UserError."""
    try:
        (directory / "checkpoints").mkdir(parents=True, exist_ok=True)
        (directory / ".lock").touch()
    except OSError as error:
        raise UserError(f"run_dir={directory}: {error.strerror}; give another run_dir") from error


def check_data(data: Prepared, config: TrainConfig, log: Any) -> None:
    """Refuse, before the first update, sentences beyond the position table, in any split."""
    limit = config.model.max_positions - 2
    for split, corpus in (("train", data.train), ("valid", data.valid)):
        check_lengths(corpus, limit, *split_paths(config.data, split, log))
    check_tests(config.data, data.tokenizers, limit, log)


def gradient_norms(model: Seq2Seq) -> Iterator[tuple[str, float]]:
    """The 2-norm of the present gradient of each part of the model: encoder.layers.0, decoder.output, ..."""
    parts: dict[str, float] = {}
    for name, parameter in model.named_parameters():
        if parameter.grad is not None:
            part = ".".join(name.split(".")[: 3 if ".layers." in name else 2])
            parts[part] = parts.get(part, 0.0) + float(parameter.grad.square().sum())
    return ((part, math.sqrt(square)) for part, square in parts.items())


def shape(batches: Sequence[Batch]) -> str:
    """The shapes of some batches, for messages."""
    return ", ".join(f"{b.sentences} x {b.source.shape[1]} + {b.target.shape[1]}" for b in batches) or "none here"
