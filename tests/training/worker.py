"""One process of a data-parallel training: worker.py FOLDER RUN OPTIONS [UPDATE], started by torchrun.

With UPDATE, rank 1 dies there once, as if killed.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent))

from runs import tiny_config

from convs2s.training.loop import train
from convs2s.training.run import Run, Stopped


def main() -> None:
    folder, run, options, *death = sys.argv[1:]
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    if death:
        die_once(Path(folder) / "died", int(death[0]))
    try:
        train(tiny_config(Path(folder), run, **json.loads(options)))
    except Stopped as stopped:
        sys.exit(stopped.exit_status)


def die_once(mark: Path, update: int) -> None:
    end_update = Run.end_update

    def end_or_die(self: Run, *arguments: Any) -> None:
        if self.world.rank == 1 and self.progress.update == update and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), 9)
        end_update(self, *arguments)

    Run.end_update = end_or_die  # type: ignore[method-assign]


if __name__ == "__main__":
    main()
