"""What a run tells: progress for people, metrics.jsonl and speed.json for programs, TensorBoard as a view of them."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from convs2s.files import atomic
from convs2s.messages import say
from convs2s.model.loss import perplexity
from convs2s.training.validation import Sample


def quoted(line: str) -> str:
    """A line as TensorBoard's Markdown shows it unchanged."""
    return "".join(f"\\{sign}" if sign in "\\`*_{}[]()<>#+-.!|~&" else sign for sign in line)


class Journal:
    """Writes a run's metrics.jsonl and TensorBoard events, and shows its progress.

    metrics.jsonl holds no times, so that equal runs write equal files; speed.json does, an entry an epoch.
    """

    def __init__(self, directory: Path, length: int, update: int, tensorboard: bool) -> None:
        """``length``: bytes of metrics.jsonl that count; what a stopped run wrote beyond its checkpoint is cut off."""
        self.path = directory / "metrics.jsonl"
        self.path.touch()
        os.truncate(self.path, min(length, self.path.stat().st_size))
        self.length = self.path.stat().st_size
        self.bar: tqdm[Any] | None = None
        self.writer: Any = None
        if tensorboard:
            from torch.utils.tensorboard import SummaryWriter  # imported here: it takes a second

            self.writer = SummaryWriter(str(directory / "tensorboard"), purge_step=update + 1)
        self.restart_clock()
        self.start_epoch()

    def restart_clock(self) -> None:
        """Speed is measured from here."""
        self.then, self.tokens = time.perf_counter(), 0

    def start_epoch(self) -> None:
        """An epoch, or what a stopped run left of it, is timed from here."""
        self.epoch_start, self.epoch_seconds, self.epoch_tokens = time.perf_counter(), 0.0, 0

    def speed(self, epoch: int) -> None:
        """Target tokens of the epoch and seconds of its updates, both since the last start, into speed.json.

        Validation does not count. An epoch that is trained anew takes the place of what was written of it.
        """
        if not self.epoch_tokens:  # resumed at the epoch's end
            return
        path = self.path.with_name("speed.json")
        try:
            epochs = [one for one in json.loads(path.read_text(encoding="utf-8")) if one["epoch"] < epoch]
        except (OSError, ValueError, KeyError, TypeError):
            epochs = []
        epochs.append({"epoch": epoch, "tokens": self.epoch_tokens, "seconds": round(self.epoch_seconds, 3)})
        with atomic(path) as file:
            file.write("[\n" + ",\n".join(json.dumps(one) for one in epochs) + "\n]\n")

    def metric(self, values: dict[str, Any]) -> None:
        """One line of metrics.jsonl; its numbers as TensorBoard scalars named kind/name, by update."""
        line = json.dumps(values) + "\n"
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(line)
        self.length += len(line)
        if self.writer is not None:
            for name, value in values.items():
                if isinstance(value, float):
                    self.writer.add_scalar(f"{values['kind']}/{name}", value, values["update"])

    def samples(self, samples: Sequence[Sample], update: int) -> None:
        """Translations as texts samples/1, 2, ... and, of those that have it, the attention as a picture, by update."""
        if self.writer is None:
            return
        from convs2s.training.picture import picture

        for number, sample in enumerate(samples, start=1):
            rows = {"source": sample.source, "reference": sample.reference, "translation": sample.translation}
            text = "\n\n".join(f"**{name}:** {quoted(line)}" for name, line in rows.items())
            self.writer.add_text(f"samples/{number}", text, update)
            if sample.attention is not None:
                drawn = picture(sample.attention, sample.source_pieces, sample.target_pieces)
                self.writer.add_image(f"attention/{number}", drawn, update, dataformats="HW")
        self.writer.flush()

    def hyperparameters(self, options: dict[str, Any], scores: dict[str, float], update: int) -> None:
        """The run's options and final scores for TensorBoard's table of runs, in the same events as all else."""
        if self.writer is None:
            return
        from torch.utils.tensorboard.summary import hparams

        plain = {
            key: value if isinstance(value, (bool, int, float, str)) else str(value) for key, value in options.items()
        }
        for summary in hparams(plain, scores):  # type: ignore[no-untyped-call]
            self.writer.file_writer.add_summary(summary)
        for name, score in scores.items():
            self.writer.add_scalar(name, score, update)

    def advance(self, epoch: int, done: int, total: int, tokens: int) -> None:
        """An update is done: ``done`` of the epoch's ``total`` updates."""
        self.tokens += tokens
        self.epoch_tokens += tokens
        self.epoch_seconds = time.perf_counter() - self.epoch_start
        if sys.stderr.isatty():
            if self.bar is None:
                self.bar = tqdm(total=total, initial=done - 1, desc=f"epoch {epoch}", leave=False)
            self.bar.update(1)

    def progress(self, place: str, values: dict[str, Any], norms: Iterable[tuple[str, float]]) -> None:
        """A progress line and the metrics of the updates since the last one."""
        speed = self.tokens / max(1e-9, time.perf_counter() - self.then)
        self.restart_clock()
        self.metric(values)
        if self.writer is not None:
            self.writer.add_scalar("train/tokens_per_second", speed, values["update"])
            for part, norm in norms:
                self.writer.add_scalar(f"gradient_norm/{part}", norm, values["update"])
        line = (
            f"loss {values['loss']:.3f} · ppl {perplexity(values['loss']):.2f} · lr {values['lr']:g} · "
            f"|g| {values['gradient_norm']:.3f} · {speed:,.0f} tokens/s"
        )
        if self.bar is not None:
            self.bar.set_postfix_str(line)
        else:
            say(f"{place} · {line}")

    def close_bar(self) -> None:
        """The epoch's progress bar has done its work."""
        if self.bar is not None:
            self.bar.close()
            self.bar = None

    def close(self) -> None:
        """Nothing more is written."""
        self.close_bar()
        if self.writer is not None:
            self.writer.close()
