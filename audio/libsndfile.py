"""Everything that isn't plain WAV, read through libsndfile: FLAC, Ogg Vorbis and Opus, MP3, AIFF and the like."""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

import numpy as np
import soundfile

from audio.cut_short import cut_short
from audio.identify import is_other_sound
from audio.sources import CONVERT, unusable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray

    from audio.sources import Window

_UNKNOWN = 1 << 60  # libsndfile's length of a stream that doesn't state any is 2^63 - 1
_RUN_UP = 0.5  # s: what lossy decoders need to hear before they are exact
_LAST_PAGE = 10.0  # s: an Ogg page is shorter; libsndfile's seeks into the last one of Vorbis land 1 ms off
_BLOCK = 1 << 14  # frames skipped at a time
_FIRST_PAGE = b"OggS\0\2"  # of an Ogg recording
_HEADER = 512  # bytes: with fewer no such file has both a header and sound
_SEARCHED = 1 << 17  # bytes, two pages
_LONGEST_FRAME = 1441  # bytes, of MP3


class Sequential(soundfile.SoundFile):  # type: ignore[misc]  # soundfile has no type stubs
    """A SoundFile that doesn't seek after every read, as soundfile does otherwise.

    That would fail at the end of FLAC without a stated length, and makes libmpg123 print to standard error.
    """

    def seekable(self) -> bool:
        """Never."""
        return False


class SndfileReader:
    """Frames of a file that libsndfile decodes, as they are asked for."""

    def __init__(self, window: Window) -> None:
        window.seek(0)
        try:
            with _uninterrupted(), _quiet():
                self._file = Sequential(window)
        except soundfile.LibsndfileError as error:
            window.check()
            if window.size < _HEADER:
                raise unusable(window.name, "damaged: cut off within its header", "record or copy it again") from None
            raise unusable(window.name, f"can't be decoded ({_reason(error)})", CONVERT) from None
        self._window = window
        self._frame = 0
        self._damaged = False
        self.name = window.name
        self.sample_rate = int(self._file.samplerate)
        self.channels = int(self._file.channels)
        stated = int(self._file.frames)
        self.frames: int | None = stated if stated < _UNKNOWN else None
        self.encoding = str(self._file.subtype)
        self.container = str(self._file.format)
        at = window.tell()
        warning = cut_short(window, self.container, self.frames)
        window.seek(at)
        self.warnings: list[str] = [] if warning is None else [warning]

    def _hushed(self) -> AbstractContextManager[None]:
        return _quiet() if self.container == "MP3" else nullcontext()

    def close(self) -> None:
        """Free the decoder."""
        self._file.close()

    def seek(self, frame: int) -> None:
        """Let the next read start at this frame; what comes before is decoded only as far as the format needs it."""
        landing = frame
        if self.container == "MP3":
            landing = 0  # exact only from the start, and quick enough: an hour takes about a second
        elif self.container == "OGG":
            landing = max(0, frame - round(_RUN_UP * self.sample_rate))
            if self.encoding == "VORBIS" and self.frames is not None:
                landing = max(0, min(landing, self.frames - round(_LAST_PAGE * self.sample_rate)))
        if landing:
            try:
                with _uninterrupted(), self._hushed():
                    self._frame = int(self._file.seek(landing))
            except soundfile.LibsndfileError as error:
                self._window.check()
                fault = (
                    f"damaged or shorter: can't be read from {landing / self.sample_rate:.2f} s on ({_reason(error)})"
                )
                raise unusable(self.name, fault, "give a smaller offset, or copy the file again") from None
        while self._frame < frame and len(self.read(min(_BLOCK, frame - self._frame))):
            pass

    def read(self, count: int) -> NDArray[np.float32]:
        """Up to count frames: (n, channels), full scale ±1; n = 0 at the end."""
        if self._damaged:
            return np.empty((0, self.channels), np.float32)
        block = np.full((count, self.channels), np.nan, np.float32)
        try:
            with _uninterrupted(), self._hushed():
                read = self._file.read(out=block)
        except soundfile.LibsndfileError as error:
            self._damaged = True
            missing = np.isnan(block).any(axis=1)  # frames that the decoder didn't reach
            read = block[: int(missing.argmax()) if missing.any() else count]
            at = (self._frame + len(read)) / self.sample_rate
            self.warnings.append(f"damaged at {at:.2f} s ({_reason(error)}); read up to there")
        self._window.check()
        self._frame += len(read)
        if len(read) < count or self._frame == self.frames:
            self._check_rest()
        return read  # type: ignore[no-any-return]  # soundfile has no type stubs

    def _check_rest(self) -> None:
        """Warn where another recording follows the one that libsndfile has read to its end."""
        at = self._window.tell()
        rest = self._window.at(at, 1 << 16)  # an Ogg page isn't longer
        self._window.seek(at)
        if (
            self.container == "OGG"
        ):  # it has read the first page of what follows; what is cut short has other pages left
            before = max(1, at - _SEARCHED)
            follows = _FIRST_PAGE in self._window.at(before, at - before) + rest
            self._window.seek(at)
        else:  # and the padding of a very short MP3 begins like a recording
            follows = self.container == "MP3" and is_other_sound(rest) and len(rest) > 2 * _LONGEST_FRAME
        warning = "another recording follows the first in it and is left out; split the file, or convert it with ffmpeg"
        if follows and warning not in self.warnings:
            self.warnings.append(warning)


@contextmanager
def _quiet() -> Iterator[None]:
    """Send what C code writes to standard error nowhere: libmpg123 comments on every damaged frame there.

    In the main thread only, since whatever other threads write meanwhile is lost too.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    try:
        kept = os.dup(2)
    except OSError:  # there is no standard error
        yield
        return
    if sys.stderr is not None:
        sys.stderr.flush()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    os.close(nowhere)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Hold Ctrl-C back for one call of libsndfile.

    It reads the window through callbacks from C, nearly the only Python that runs meanwhile: an exception raised there
    is printed with its traceback and lost, the sound cut short, and the program goes on.
    """
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield  # only the main thread is interrupted, and only by a handler
        return
    held: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _frame: held.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if held:
            signal.raise_signal(signal.SIGINT)


def _reason(error: soundfile.LibsndfileError) -> str:
    return str(error.error_string).removeprefix("Error : ").rstrip(". \n")
