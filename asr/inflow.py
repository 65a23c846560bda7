"""Bytes of a sound as they come, in blocks of any size, made into mono samples at 16 kHz."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol

import numpy as np
import soxr
from numpy.typing import NDArray

from asr.errors import AudioError
from asr.source import LOUD
from audio.ogg_opus import OggOpusStream
from audio.pcm import decode
from audio.vad import RATE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from audio.pcm import RawFormat

Array = NDArray[np.float32]

LARGEST_BLOCK = 1 << 12  # bytes of samples without a header that are decoded at a time


class Inflow(Protocol):
    """What makes samples of bytes."""

    @property
    def warning(self) -> str | None:
        """What is odd about the sound, though it is taken."""
        ...

    def feed(self, data: bytes) -> Iterator[Array]:
        """Mono samples at 16 kHz that these bytes complete, in blocks (N,); what they begin waits for the next.

        A block is made when it's asked for. Raises AudioError where the bytes are no sound.
        """
        ...

    def finish(self) -> Iterator[Array]:
        """The last samples, now that no more bytes come; those of half a frame are dropped."""
        ...


class PcmInflow:
    """Samples without a header."""

    def __init__(self, form: RawFormat, name: str, *, remedy: str = "give 16-bit PCM") -> None:
        """name: of the sound, in messages. remedy: what they advise for samples on another scale."""
        self._form = form
        self._rest = b""
        self._mixer = _Mixer(form.sample_rate, name, remedy)

    @property
    def warning(self) -> str | None:
        """What is odd about the sound, though it is taken."""
        return self._mixer.warning

    def feed(self, data: bytes) -> Iterator[Array]:
        """Mono samples at 16 kHz, in blocks (N,); AudioError where some are not finite."""
        data = self._rest + data
        whole = len(data) // self._form.block * self._form.block
        self._rest = data[whole:]
        size = max(1, LARGEST_BLOCK // self._form.block) * self._form.block
        for at in range(0, whole, size):
            with np.errstate(invalid="ignore"):  # what is not a number is refused by the mixer
                frames = decode(data[at : min(at + size, whole)], self._form)
            yield self._mixer.mix(frames.reshape(-1, self._form.channels))

    def finish(self) -> Iterator[Array]:
        """The last samples; the bytes of half a frame are dropped."""
        yield self._mixer.mix(np.zeros((0, 1), np.float32), last=True)


class OpusInflow:
    """Opus in Ogg."""

    def __init__(self, name: str) -> None:
        """name: of the sound, in messages."""
        self._name = name
        self._stream = OggOpusStream(name)
        self._mixer: _Mixer | None = None

    @property
    def warning(self) -> str | None:
        """What is odd about the sound, though it is taken."""
        return None if self._mixer is None else self._mixer.warning

    def feed(self, data: bytes) -> Iterator[Array]:
        """Mono samples at 16 kHz, in blocks (N,); AudioError for what is no Opus, and for damage."""
        return map(self._mix, self._stream.feed(data))

    def finish(self) -> Iterator[Array]:
        """The last samples."""
        yield from map(self._mix, self._stream.finish())
        if self._mixer is not None:
            yield self._mixer.mix(np.zeros((0, 1), np.float32), last=True)

    def _mix(self, frames: Array) -> Array:
        if self._mixer is None:
            self._mixer = _Mixer(self._stream.sample_rate, self._name, "encode it anew")
        return self._mixer.mix(frames)


class _Mixer:
    """Frames of any rate -> mono at 16 kHz, on the right scale."""

    def __init__(self, rate: int, name: str, remedy: str) -> None:
        self._resampler = None if rate == RATE else soxr.ResampleStream(rate, RATE, 1, dtype="float32")
        self._name, self._remedy = name, remedy
        self.warning: str | None = None

    def mix(self, frames: Array, *, last: bool = False) -> Array:
        """(N, channels) -> (M,); last: with what the resampler still holds."""
        with np.errstate(invalid="ignore"):
            peak = float(np.abs(frames).max(initial=0.0))
        if not math.isfinite(peak):
            raise AudioError(f"{self._name}: some samples are not finite; {self._remedy}")
        if peak > LOUD:
            if self.warning is None:
                fault = f"samples reach {peak:.3g} times full scale and are clipped"
                self.warning = f"{self._name}: {fault}; if that is another scale, {self._remedy}"
            frames = np.clip(frames, -1, 1)
        samples: Array = frames.mean(axis=1, dtype=np.float32)
        return samples if self._resampler is None else self._resampler.resample_chunk(samples, last=last)
