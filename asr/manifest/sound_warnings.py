"""What `audio.reading` warns of, kept for the row that it concerns."""

from __future__ import annotations

import threading
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING

from audio.reading import AudioWarning

if TYPE_CHECKING:
    from collections.abc import Iterator

_of_thread = threading.local()


@contextmanager
def recorded_warnings() -> Iterator[None]:
    """AudioWarnings of the block go to `heard` and not to standard error, in whichever thread they arise.

    Not to be entered in two threads at a time: Python keeps one way to show warnings for all of them.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("always", AudioWarning)
        others = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *place: object, **named: object) -> None:
            if issubclass(category, AudioWarning):
                _messages().append(str(message))
            else:
                others(message, category, *place, **named)  # type: ignore[arg-type]  # as it came

        warnings.showwarning = show
        yield


def heard() -> list[str]:
    """The different warnings in this thread since the last call."""
    messages = list(dict.fromkeys(_messages()))
    _messages().clear()
    return messages


def _messages() -> list[str]:
    if not hasattr(_of_thread, "messages"):
        _of_thread.messages = []
    messages: list[str] = _of_thread.messages
    return messages
