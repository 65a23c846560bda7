"""Ctrl-C while a decoder reads through callbacks from C, where Python would print the exception and go on."""

import io
import signal

import numpy as np
import pytest
import soundfile

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
