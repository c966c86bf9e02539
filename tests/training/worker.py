"""One process of a data-parallel training: worker.py FOLDER RUN OPTIONS [UPDATE [UPDATE]], started by torchrun.

Rank 1 dies once at the first UPDATE, as if killed; at the second, torchrun is told to end, once.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent))

from runs import tiny_config

from convs2s.training.loop import train
from convs2s.training.run import Run
from convs2s.training.signals import Stopped


def main() -> None:
    folder, run, options, *death = sys.argv[1:]
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    if death:
        once(Path(folder) / "died", int(death[0]), lambda run: os.kill(os.getpid(), signal.SIGKILL))
    if len(death) > 1:
        once(Path(folder) / "stopped", int(death[1]), tell_torchrun)
    try:
        train(tiny_config(Path(folder), run, **json.loads(options)))
    except Stopped as stopped:
        sys.exit(stopped.exit_status)


def tell_torchrun(run: Run) -> None:
    """To end, and wait for the signal that it passes on."""
    os.kill(os.getppid(), signal.SIGTERM)
    while not run.stop_signal.number:
        time.sleep(0.01)


def once(mark: Path, update: int, act: Callable[[Run], None]) -> None:
    """Rank 1 acts at the end of that update, unless ``mark`` says that it has."""
    end_update = Run.end_update

    def end_or_act(self: Run, *arguments: Any) -> None:
        if self.world.rank == 1 and self.progress.update == update and not mark.exists():
            mark.touch()
            act(self)
        end_update(self, *arguments)

    Run.end_update = end_or_act  # type: ignore[method-assign]


if __name__ == "__main__":
    main()
