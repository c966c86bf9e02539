"""A run and its directory: what is built before the first update, resumed, logged and saved."""

from __future__ import annotations

import json
import math
import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

import omegaconf
import torch
import yaml
from tqdm import tqdm

from convs2s.config import TrainConfig, to_plain
from convs2s.data.batching import Batch, Indices, cut_batches
from convs2s.data.corpus import check_lengths
from convs2s.data.prepare import Prepared, check_tests, prepare, split_paths
from convs2s.errors import UserError
from convs2s.files import atomic, locked
from convs2s.model import ConvS2S
from convs2s.training import checkpoint
from convs2s.training.annealing import Schedule
from convs2s.training.nag import NAG

# Options that may change between the starts of one run: they say how long and how, not what is trained.
CHANGEABLE = (
    "run_dir",
    "data.root",
    "data.prepared_dir",
    "data.test",
    "data.url",
    "data.sha256",
    "optimizer.anneal_after",
    "optimizer.min_lr",
    "training.max_epochs",
    "training.max_updates",
    "training.log_every",
    "training.save_every",
    "training.keep",
    "training.threads",
    "training.device",
    "training.tensorboard",
    "search",
)


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
    best_loss: float = math.inf  # lowest validation loss, nats per token
    best_epoch: int = 0
    metrics_bytes: int = 0  # length of metrics.jsonl
    finished: str | None = None  # why training ended

    def count(self, batches: int, loss: float, tokens: int) -> None:
        self.batch += batches
        self.update += 1
        self.loss += loss
        self.tokens += tokens


def resolve_device(name: str) -> torch.device:
    """auto, cpu, cuda or cuda:N as a device; UserError where it is not there."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise UserError(f"device={name}: give auto, cpu, cuda or cuda:N") from None
    if device.type == "cuda" and (not torch.cuda.is_available() or (device.index or 0) >= torch.cuda.device_count()):
        raise UserError(f"device={name}: this machine has {torch.cuda.device_count()} CUDA devices; give device=cpu")
    return device


class Run:
    """Everything a training needs, open for as long as it lasts."""

    def __init__(self, config: TrainConfig, data: Prepared) -> None:
        self.config = config
        self.directory = Path(config.run_dir)
        self.data = data
        self.device = resolve_device(config.training.device)
        torch.manual_seed(config.seed)
        sizes = len(data.tokenizers.source.symbols), len(data.tokenizers.target.symbols)
        self.model = ConvS2S(config.model, *sizes).to(self.device)
        self.optimizer = NAG(
            self.model.parameters(),
            config.optimizer.lr,
            config.optimizer.momentum,
            config.optimizer.weight_decay,
            config.optimizer.rescale_velocity,
        )
        self.schedule = Schedule(config.optimizer.lr)
        self.progress = Progress()
        self.batches: list[Indices] = cut_batches(
            data.train.source_lengths,
            data.train.target_lengths,
            sentences=config.training.batch_sentences,
            tokens=config.training.batch_tokens,
            seed=config.seed,
        )
        self.stop_signal: int | None = None
        self.bar: tqdm[Any] | None = None
        self.writer: Any = None
        self._since = (time.perf_counter(), 0, 0.0)  # when, tokens and loss at the last progress line
        self._cleanup = ExitStack()

    # --- opening and closing ---

    @classmethod
    def open(cls, config: TrainConfig) -> Run:
        """Check, prepare and build all that can fail, before the first update; resume where a checkpoint is."""
        directory = Path(config.run_dir)
        with ExitStack() as stack:
            try:
                (directory / "checkpoints").mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise UserError(f"run_dir={directory}: {error.strerror}; give another run_dir") from error
            stack.enter_context(
                locked(directory / ".lock", f"run_dir={directory} is in use by another process; give another run_dir")
            )
            check_same_run(directory, config)
            if config.training.threads is not None:
                torch.set_num_threads(config.training.threads)
            data = prepare(config.data, config.text, config.data.seed, say)
            check_data(data, config)
            run = cls(config, data)
            run.record()
            run.resume()
            if config.training.tensorboard:
                from torch.utils.tensorboard import SummaryWriter  # imported here: it takes a second

                run.writer = SummaryWriter(str(directory / "tensorboard"), purge_step=run.progress.update + 1)
                stack.callback(run.writer.close)
            run._cleanup = stack.pop_all()
        return run

    def __enter__(self) -> Run:
        def note(number: int, frame: FrameType | None) -> None:
            if self.stop_signal is not None:  # the second signal does not wait for the update
                raise KeyboardInterrupt
            self.stop_signal = number

        for number in (signal.SIGINT, signal.SIGTERM):
            self._cleanup.callback(signal.signal, number, signal.signal(number, note))
        count = sum(parameter.numel() for parameter in self.model.parameters())
        say(
            f"{count:,} parameters, {len(self.data.train):,} training pairs in {len(self.batches):,} batches, "
            f"{len(self.data.valid):,} validation pairs, on {self.device}"
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._close_bar()
        self._cleanup.close()

    def record(self) -> None:
        """Write what the run is made of: configuration, versions, revision, data checksums."""
        with atomic(self.directory / "config.yaml") as file:
            yaml.safe_dump(to_plain(self.config), file, sort_keys=False, allow_unicode=True)
        with atomic(self.directory / "environment.json") as file:
            json.dump({**environment(), "data": self.data.manifest}, file, indent=1, ensure_ascii=False)

    def resume(self) -> None:
        """Go on from the last checkpoint, if there is one."""
        path = self.directory / "checkpoints" / "last.pt"
        metrics = self.directory / "metrics.jsonl"
        if path.exists():
            saved = checkpoint.load(path)
            self.model.load_state_dict(saved["model"])
            self.optimizer.load_state_dict(saved["optimizer"])
            self.schedule = Schedule(**saved["schedule"])
            self.progress = Progress(**saved["progress"])
            self.reopen()
            say(f"resuming {path} at epoch {self.progress.epoch}, update {self.progress.update}")
        metrics.touch()
        os.truncate(metrics, self.progress.metrics_bytes)  # lines of updates after the checkpoint are written again

    def reopen(self) -> None:
        """Let a finished run go on where a limit was raised since."""
        progress, training = self.progress, self.config.training
        if progress.finished is None:
            return
        more = {
            "training.max_epochs": progress.epoch <= training.max_epochs,
            "training.max_updates": training.max_updates is None or progress.update < training.max_updates,
            "annealing": self.schedule.lr >= self.config.optimizer.min_lr,
        }
        if any(progress.finished.startswith(limit) and raised for limit, raised in more.items()):
            progress.finished = None

    # --- saving and logging ---

    def save(self, name: str) -> None:
        """Write checkpoints/NAME.pt."""
        checkpoint.save(
            self.directory / "checkpoints" / f"{name}.pt",
            {
                "config": to_plain(self.config),
                "model": self.model.state_dict(),
                "source_vocabulary": self.model.source_vocabulary,
                "target_vocabulary": self.model.target_vocabulary,
                "tokenizers": self.data.tokenizers.state(),
                "optimizer": self.optimizer.state_dict(),
                "schedule": self.schedule.state(),
                "progress": asdict(self.progress),
            },
        )

    def end_epoch(self, valid_loss: float) -> None:
        """Log the epoch, keep the checkpoint if it is the best so far, and set out for the next."""
        progress = self.progress
        epoch, train_loss = progress.epoch, progress.loss / max(1, progress.tokens)
        best = valid_loss < progress.best_loss
        self._close_bar()
        say(
            f"epoch {epoch} · update {progress.update} · train ppl {perplexity(train_loss):.2f} · "
            f"valid ppl {perplexity(valid_loss):.2f}{' (best)' if best else ''} · next lr {self.schedule.lr:g}"
        )
        self.metric(
            kind="epoch",
            epoch=epoch,
            update=progress.update,
            train_loss=train_loss,
            valid_loss=valid_loss,
            valid_perplexity=perplexity(valid_loss),
            next_lr=self.schedule.lr,
        )
        progress.epoch, progress.batch, progress.loss, progress.tokens = epoch + 1, 0, 0.0, 0
        self._since = (time.perf_counter(), 0, 0.0)
        for group in self.optimizer.param_groups:
            group["lr"] = self.schedule.lr
        if best:
            progress.best_loss, progress.best_epoch = valid_loss, epoch
            self.save("best")
        if self.config.training.keep is not None and epoch % self.config.training.keep == 0:
            self.save(f"epoch{epoch}")

    def log_update(self, norm: float, batches: Sequence[Batch]) -> None:
        """A progress line and a metrics line every ``training.log_every`` updates; the bar moves with each."""
        progress = self.progress
        if sys.stderr.isatty():
            if self.bar is None:
                done = progress.batch - len(batches)
                self.bar = tqdm(total=len(self.batches), initial=done, desc=f"epoch {progress.epoch}", leave=False)
            self.bar.update(len(batches))
        if progress.update % self.config.training.log_every:
            return
        then, tokens, loss = self._since
        now = time.perf_counter()
        speed = (progress.tokens - tokens) / (now - then)
        mean = (progress.loss - loss) / max(1, progress.tokens - tokens)
        self._since = (now, progress.tokens, progress.loss)
        lr = self.schedule.lr
        self.metric(kind="train", epoch=progress.epoch, update=progress.update, loss=mean, lr=lr, gradient_norm=norm)
        if self.writer is not None:
            self.writer.add_scalar("train/tokens_per_second", speed, progress.update)
        line = f"ppl {perplexity(mean):.2f} · lr {lr:g} · |g| {norm:.3f} · {speed:,.0f} tokens/s"
        if self.bar is not None:
            self.bar.set_postfix_str(line)
        else:
            say(f"epoch {progress.epoch} · {progress.batch}/{len(self.batches)} · update {progress.update} · {line}")

    def metric(self, **values: Any) -> None:
        """One line of metrics.jsonl, without times (they would differ between equal runs), and TensorBoard scalars."""
        line = json.dumps(values) + "\n"
        with open(self.directory / "metrics.jsonl", "a", encoding="utf-8") as file:
            file.write(line)
        self.progress.metrics_bytes += len(line.encode())
        if self.writer is not None:
            for name, value in values.items():
                if isinstance(value, float):
                    self.writer.add_scalar(f"{values['kind']}/{name}", value, values["update"])

    def _close_bar(self) -> None:
        if self.bar is not None:
            self.bar.close()
            self.bar = None


def say(line: str) -> None:
    """A line for people, on standard error, that leaves a progress bar whole."""
    tqdm.write(line, file=sys.stderr)


def perplexity(loss: float) -> float:
    """exp(loss), infinite where that overflows."""
    return math.exp(loss) if loss < 700 else math.inf


def check_data(data: Prepared, config: TrainConfig) -> None:
    """Refuse, before the first update, sentences beyond the position table, in any split."""
    limit = config.model.max_positions - 2
    for split, corpus in (("train", data.train), ("valid", data.valid)):
        check_lengths(corpus, limit, *split_paths(config.data, split, say))
    check_tests(config.data, data.tokenizers, limit, say)


def check_same_run(directory: Path, config: TrainConfig) -> None:
    """Refuse to go on with a run under another configuration."""
    path = directory / "config.yaml"
    if not (directory / "checkpoints" / "last.pt").exists() or not path.exists():
        return
    try:
        with open(path, encoding="utf-8") as file:
            before = flatten(yaml.safe_load(file))
    except (OSError, yaml.YAMLError) as error:
        raise UserError(f"{path}: unreadable ({error}); restore it, or give another run_dir") from error
    now = flatten(to_plain(config))
    for key in sorted(before.keys() | now.keys()):
        changeable = any(key == name or key.startswith(f"{name}.") for name in CHANGEABLE)
        if not changeable and before.get(key) != now.get(key):
            raise UserError(
                f"run_dir={directory} holds a run with {key}={before.get(key)}, this command says {now.get(key)}: "
                "give another run_dir, or the option as it was"
            )


def flatten(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """{"a": {"b": 1}} -> {"a.b": 1}."""
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, dict):
            flat.update(flatten(value, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def environment() -> dict[str, Any]:
    """Versions, git revision and command of this process."""
    try:
        git = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--abbrev=40"]
        revision = subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        revision = "unknown"
    return {
        "command": " ".join(sys.argv),
        "revision": revision,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "omegaconf": omegaconf.__version__,
        "machine": platform.machine(),
        "threads": torch.get_num_threads(),
    }
