"""What goes to standard error: one line each, whatever happens."""

from __future__ import annotations

import os
import sys
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING

from asr.errors import CepstraError
from audio.errors import AudioWarning

if TYPE_CHECKING:
    from collections.abc import Iterator

TRACEBACK = "CEPSTRA_TRACEBACK"  # this variable of the environment, set to anything, shows where an error comes from

_OPTIONS = {
    "read a part (offset, duration) or raise max_seconds": "or raise --max-seconds",
    "samples without a header need their format stated": "samples without a header need --raw",
    "leave the raw format out": "leave --raw out",
    "choose another channel, or none": "choose another --channel, or none",
}


def complain(message: str) -> None:
    """One line on standard error, if there is one."""
    if sys.stderr is not None:  # it is None where the shell closed it
        sys.stderr.write(f"cepstra: {in_one_line(message)}\n")


def in_one_line(text: str) -> str:
    """Anyone's text as one line, none of which can move the cursor. What no encoding holds is left to the stream."""
    return "".join(
        c if c.isprintable() or "\ud800" <= c <= "\udfff" else " " if c.isspace() else "\N{REPLACEMENT CHARACTER}"
        for c in " ".join(text.splitlines())
    )


@contextmanager
def naming(option: str) -> Iterator[None]:
    """Errors in the block are about the value of that option, and say so first; "" leaves them as they are."""
    try:
        yield
    except CepstraError as error:
        if not option:
            raise
        raise CepstraError(f"{option} {error}") from error


def in_options(message: str) -> str:
    """A message of the library, whose advice is meant for Python, in the options of `cepstra transcribe`."""
    for advice, option in _OPTIONS.items():
        message = message.replace(advice, option)
    return message


@contextmanager
def one_line_warnings() -> Iterator[None]:
    """Sound that isn't quite as it should be is said in one line; warnings of other kinds stay as they are."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", AudioWarning)
        others = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *place: object, **named: object) -> None:
            if issubclass(category, AudioWarning):
                complain(f"warning: {message}")
            else:
                others(message, category, *place, **named)  # type: ignore[arg-type]  # as it came

        warnings.showwarning = show
        yield


def explain(error: Exception) -> None:
    """Say in one line what ended the program; raises the error again where a traceback is wanted."""
    if os.environ.get(TRACEBACK):
        raise error
    if isinstance(error, CepstraError):
        complain(str(error))
    elif isinstance(error, MemoryError):
        complain("there is not enough memory for this; give it less at a time, or close other programs")
    elif isinstance(error, OSError):
        # What has no name is nearly always standard output: a full disk, a terminal that is gone
        where = "the output can't be written" if error.filename is None else error.filename
        complain(f"{where}: {error.strerror or error}; check folder, permissions and space")
    else:
        what = f"{type(error).__name__}: {error}".strip(": ")
        complain(f"a fault in Cepstra itself ({what}); please report it, with what {TRACEBACK}=1 shows")
