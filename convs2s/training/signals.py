"""Stop signals: noted when they come, answered at the end of an update, with all that was done saved."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from types import FrameType

from convs2s.training.distributed import World


class Stopped(Exception):  # noqa: N818 - not an error
    """Training stopped by a signal (0: one that another process got)."""

    def __init__(self, number: int) -> None:
        number = number or int(signal.SIGTERM)
        super().__init__(f"stopped by {signal.Signals(number).name}; the same command goes on from here")
        self.exit_status = 128 + number


class StopSignal:
    """The first stop signal that this process got; ``number`` is 0 before."""

    def __init__(self) -> None:
        self.number = 0

    @contextmanager
    def caught(self, names: Sequence[str]) -> Iterator[None]:
        """While this lasts, signals of these names are noted; a second one interrupts at once."""

        def note(number: int, frame: FrameType | None) -> None:
            if self.number:
                raise KeyboardInterrupt
            self.number = number

        with ExitStack() as stack:
            for name in names:
                number = signal.Signals[name]
                if number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN:  # nohup
                    continue
                stack.callback(signal.signal, number, signal.signal(number, note))
            yield

    def anywhere(self, world: World) -> bool:
        """Whether any process got one; all of them ask, and all get the same answer."""
        return world.sum([self.number])[0] > 0
