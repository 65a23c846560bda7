"""Ctrl-C and SIGTERM while a training lasts: what was learnt is kept, and the exit code says what came."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from asr.errors import TrainingError
from asr.training.console import rank

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

HEARD = (signal.SIGINT, signal.SIGTERM)


class SignalledError(TrainingError):
    """A signal ended the training. exit_code: 130 for SIGINT, 143 for SIGTERM, as shells have it."""

    def __init__(self, message: str, number: int) -> None:
        super().__init__(message)
        self.exit_code = 128 + number


class Signals:
    """While a step is being trained the first signal is remembered, and the next one interrupts; else each interrupts.

    told: the signal that came first.
    """

    def __init__(self) -> None:
        self.told: int | None = None
        self.patient = False  # whether somebody looks at `told` soon

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Hear both signals within this block, in the main thread; in others they are for whoever started them."""
        before = {number: signal.getsignal(number) for number in HEARD}
        self.listen()
        try:
            yield
        finally:
            if threading.current_thread() is threading.main_thread():
                for number, handler in before.items():
                    signal.signal(number, handler)

    def listen(self) -> None:
        """Hear them from here on: also after somebody else has put a handler in our place."""
        if threading.current_thread() is threading.main_thread():
            for number in HEARD:
                signal.signal(number, self._hear)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        del frame
        first = self.told is None
        self.told = self.told or number
        if not (first and self.patient):
            raise KeyboardInterrupt
        if rank() == 0:
            os.write(2, b"\nstopping after this step; once more stops at once\n")  # print might be what is interrupted
