"""Ctrl-C while a decoder reads through callbacks from C, where Python would print the exception and go on."""

import io
import os
import signal
import warnings
from contextlib import suppress

import numpy as np
import pytest
import soundfile

from audio.errors import AudioError, AudioWarning
from audio.reading import read_audio


class Interrupted(io.BytesIO):
    """A file during whose nth read somebody presses Ctrl-C."""

    def __init__(self, data: bytes, nth: int) -> None:
        super().__init__(data)
        self.left = nth

    def read(self, size: int | None = -1, /) -> bytes:
        self.left -= 1
        if self.left == 0:
            signal.raise_signal(signal.SIGINT)
        return super().read(size)


def encoded(container: str) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, np.random.default_rng(0).normal(0, 0.1, 16000 * 20), 16000, format=container)
    return file.getvalue()


@pytest.mark.parametrize("container", ["FLAC", "OGG", "MP3"])
def test_ctrl_c_ends_reading_wherever_it_comes(container: str, capfd: pytest.CaptureFixture[str]) -> None:
    data = encoded(container)
    whole = Interrupted(data, 0)
    read_audio(whole)
    reads = -whole.left
    for nth in {1, 2, 3, reads // 2, reads}:
        with pytest.raises(KeyboardInterrupt):
            read_audio(Interrupted(data, nth))
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert capfd.readouterr() == ("", "")


def test_a_handler_of_the_callers_own_is_called_once_the_decoder_is_done() -> None:
    calls: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _frame: calls.append(number))
    try:
        samples = read_audio(Interrupted(encoded("FLAC"), 2))
    finally:
        signal.signal(signal.SIGINT, before)
    assert (len(samples), calls) == (16000 * 20, [signal.SIGINT])


def test_an_ignored_signal_stays_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert len(read_audio(Interrupted(encoded("FLAC"), 2))) == 16000 * 20
    finally:
        signal.signal(signal.SIGINT, before)


def test_what_the_decoder_says_of_damage_is_our_one_warning(capfd: pytest.CaptureFixture[str]) -> None:
    """libmpg123 writes to standard error by itself, a line and more for each damaged frame."""
    rng = np.random.default_rng(0)
    damaged = bytearray(encoded("MP3"))
    for place in rng.integers(0, len(damaged), 300):
        damaged[place] = rng.integers(256)
    with warnings.catch_warnings(), suppress(AudioError):
        warnings.simplefilter("ignore", AudioWarning)
        read_audio(bytes(damaged))
    os.write(2, b"still here")  # standard error is whole again
    assert capfd.readouterr().err == "still here"
