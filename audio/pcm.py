"""Samples that lie in a file one after the other: linear PCM, floats and the two telephone laws."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from audio.errors import AudioError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from audio.sources import Window

# libsndfile's names, since soundfile's users know them; U8 and S8 say what 8-bit zero is, the other integers are signed
Encoding = Literal["PCM_U8", "PCM_S8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE", "ALAW", "ULAW"]

WIDTH: dict[Encoding, int] = {  # bytes per sample
    "PCM_U8": 1,
    "PCM_S8": 1,
    "PCM_16": 2,
    "PCM_24": 3,
    "PCM_32": 4,
    "FLOAT": 4,
    "DOUBLE": 8,
    "ALAW": 1,
    "ULAW": 1,
}
LOWEST_RATE, HIGHEST_RATE = 4_000, 384_000  # Hz; below is no speech, above is no recorder but a damaged header


@dataclass(frozen=True)
class RawFormat:
    """What samples without any header are; nothing in such a file can tell."""

    encoding: Encoding
    sample_rate: int  # Hz
    channels: int = 1  # interleaved
    endianness: Literal["little", "big"] = "little"

    def __post_init__(self) -> None:
        if self.encoding not in get_args(Encoding):
            raise AudioError(f"raw format: unknown encoding {self.encoding!r}; use one of {', '.join(WIDTH)}")
        if not LOWEST_RATE <= self.sample_rate <= HIGHEST_RATE:
            raise AudioError(f"raw format: {self.sample_rate} Hz; use {LOWEST_RATE} to {HIGHEST_RATE} Hz")
        if not 1 <= self.channels <= 0xFFFF:
            raise AudioError(f"raw format: {self.channels} channels; use 1 to {0xFFFF}")
        if self.endianness not in ("little", "big"):
            raise AudioError(f"raw format: unknown endianness {self.endianness!r}; use little or big")

    @property
    def block(self) -> int:
        """Bytes per frame (one sample of every channel)."""
        return WIDTH[self.encoding] * self.channels


@dataclass(frozen=True)
class Extent:
    """Where in a file the samples lie, and what they are."""

    format: RawFormat
    start: int  # byte of the first sample
    size: int  # bytes of samples that are really there
    container: str = "RAW"
    warnings: tuple[str, ...] = ()


class PcmReader:
    """Frames of an Extent, decoded as they are asked for."""

    def __init__(self, window: Window, extent: Extent) -> None:
        self.name = window.name
        self.sample_rate = extent.format.sample_rate
        self.channels = extent.format.channels
        self.frames: int | None = extent.size // extent.format.block
        self.encoding: str = extent.format.encoding
        self.container = extent.container
        self.warnings = list(extent.warnings)
        self._window = window
        self._extent = extent
        self._frame = 0

    def close(self) -> None:
        """Nothing to free."""

    def seek(self, frame: int) -> None:
        """Let the next read start at this frame."""
        self._frame = frame

    def read(self, count: int) -> NDArray[np.float32]:
        """Up to count frames: (n, channels), full scale ±1; n = 0 at the end."""
        extent, block = self._extent, self._extent.format.block
        begin = self._frame * block
        data = self._window.at(extent.start + begin, max(0, min(count * block, extent.size - begin)))
        self._window.check()
        n = len(data) // block
        self._frame += n
        return decode(data[: n * block], extent.format).reshape(n, self.channels)


def decode(data: bytes, form: RawFormat) -> NDArray[np.float32]:
    """Bytes of whole samples -> (n,) float32. Integers are divided by their full scale: 16-bit by 32768.

    Exact for up to 24 bits; 32-bit integers and 64-bit floats are rounded to the nearest float32.
    """
    order = "<" if form.endianness == "little" else ">"
    if form.encoding == "PCM_U8":
        return (np.frombuffer(data, np.uint8).astype(np.float32) - 128) / np.float32(128)
    if form.encoding in ("ALAW", "ULAW"):
        table = _alaw() if form.encoding == "ALAW" else _ulaw()
        return table[np.frombuffer(data, np.uint8)]
    if form.encoding in ("FLOAT", "DOUBLE"):
        with np.errstate(over="ignore"):  # beyond float32 is infinite, which the caller refuses
            return np.frombuffer(data, f"{order}f{WIDTH[form.encoding]}").astype(np.float32)
    if form.encoding == "PCM_24":
        padded = np.zeros((len(data) // 3, 4), np.uint8)  # each sample becomes the upper three bytes of a 32-bit one
        where = slice(1, 4) if order == "<" else slice(0, 3)
        padded[:, where] = np.frombuffer(data, np.uint8).reshape(-1, 3)
        return padded.view(f"{order}i4").reshape(-1).astype(np.float32) * np.float32(2.0**-31)
    width = WIDTH[form.encoding]
    return np.frombuffer(data, f"{order}i{width}").astype(np.float32) * np.float32(2.0 ** (1 - 8 * width))


@lru_cache(maxsize=1)
def _alaw() -> NDArray[np.float32]:
    """(256,) the values of A-law bytes (ITU-T G.711, 13 bits, scaled to 16)."""
    code = np.arange(256) ^ 0x55  # every other bit is sent inverted
    segment, step = (code >> 4) & 7, code & 15
    magnitude = np.where(segment == 0, (step << 4) + 8, ((step << 4) + 0x108) << np.maximum(segment - 1, 0))
    return (np.where(code & 0x80, magnitude, -magnitude) / 32768).astype(np.float32)


@lru_cache(maxsize=1)
def _ulaw() -> NDArray[np.float32]:
    """(256,) the values of µ-law bytes (ITU-T G.711, 14 bits, scaled to 16)."""
    code = ~np.arange(256) & 0xFF  # sent inverted
    magnitude = ((((code & 15) << 3) + 0x84) << ((code >> 4) & 7)) - 0x84
    return (np.where(code & 0x80, -magnitude, magnitude) / 32768).astype(np.float32)
