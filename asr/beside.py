"""Two things at once, where a second thread is free."""

from __future__ import annotations

from concurrent.futures import Future
from threading import Thread
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

Answer = TypeVar("Answer")


def beside(task: Callable[[], Answer]) -> Future[Answer]:
    """Begin a task in a thread of its own; the future has its answer, or raises what it raised.

    The thread dies with the task, so that nothing is left to be closed, or lost in a fork. Starting one takes less
    than a tenth of a millisecond.
    """
    future: Future[Answer] = Future()

    def run() -> None:
        try:
            future.set_result(task())
        except BaseException as error:  # noqa: BLE001  whoever waits for the answer is to have it
            future.set_exception(error)

    Thread(target=run, name="beside", daemon=True).start()
    return future
