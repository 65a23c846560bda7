"""Any sound file in, mono samples at one rate out, or one clear error.

>>> samples = read_audio("turn on the light.wav")  # (N,) float32, 16 kHz, full scale ±1
"""

from __future__ import annotations

import math
import warnings
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from typing import TYPE_CHECKING, Protocol

import numpy as np

from audio.errors import AudioError, AudioWarning, TooLongError
from audio.identify import is_other_sound, is_wave, refuse
from audio.pcm import HIGHEST_RATE, LOWEST_RATE, Extent, PcmReader, RawFormat
from audio.riff import wave_extent
from audio.sources import Source, Window, opened, unusable
from audio.stored import StoredSamples

if TYPE_CHECKING:
    from collections.abc import Iterator

    import soxr
    from numpy.typing import NDArray

__all__ = [
    "MAX_SECONDS", "SHORTER", "AudioInfo", "AudioWarning", "RawFormat", "audio_info", "read_audio", "read_sound",
    "too_long",
]  # fmt: skip

MAX_SECONDS = 3600.0  # the default limit on the length of what is read
SHORTER = "cut it, read a part (offset, duration) or raise max_seconds"  # the remedy for what is too long
_BLOCK = 1 << 18  # samples (over all channels) decoded at a time: 1 MiB
_LOUD = 16.0  # times full scale (24 dB above): a float file on another scale, most likely
_LOUDEST = 2.0**31  # times full scale: beyond even 32-bit integers written as floats
_BYTES_PER_SECOND = 768_000  # of a pipe whose own rate isn't known: 96 kHz, two channels, 32 bit
_TOLERANCE = 0.1  # s that a compressed file may be shorter than it states, since some formats only estimate it


@dataclass(frozen=True)
class AudioInfo:
    """What a file holds, before any resampling or mixing."""

    sample_rate: int  # Hz
    channels: int
    frames: int  # samples per channel; for WAV those that are there, for compressed formats those stated
    duration: float  # s
    encoding: str  # libsndfile's name: PCM_16, ALAW, VORBIS …
    container: str  # WAV, RF64, FLAC, OGG, MP3 …


class _Reader(Protocol):
    """A decoder: frames of (n, channels) float32, one block after the other."""

    name: str
    sample_rate: int
    channels: int
    frames: int | None  # None: only decoding to the end tells
    encoding: str
    container: str
    warnings: list[str]

    def seek(self, frame: int) -> None: ...
    def read(self, count: int) -> NDArray[np.float32]: ...
    def close(self) -> None: ...


def read_audio(
    source: Source,
    *,
    sample_rate: int = 16000,
    channel: int | None = None,
    offset: float = 0.0,
    duration: float | None = None,
    max_seconds: float = MAX_SECONDS,
    raw: RawFormat | None = None,
) -> NDArray[np.float32]:
    """Mono samples of a sound file, or of a part of it.

    source: a path, the bytes of a file, a binary file object (read from where it stands to its end) or "-", which is
        standard input. WAV in all its dresses, FLAC, Ogg Vorbis and Opus, MP3, AIFF, AU, CAF, Wave64, NIST SPHERE.
    sample_rate: Hz of the result; whatever the file has (4 to 384 kHz) is resampled to it.
    channel: the one to take, from 0; None takes the mean of all.
    offset, duration: s; the part to read. A duration that reaches beyond the end reads what is there.
    max_seconds: what would be longer is refused, before it is decoded where the format states its length.
    raw: what the samples of a file without any header are.
    Returns (N,) float32, full scale ±1, all finite; N = seconds · sample_rate, rounded.
    Raises AudioError, whose one line names the file, the fault and the remedy. Warns with AudioWarning where a file
    holds less than it promises or isn't quite what it should be; its sound is returned all the same.
    Memory is a few blocks beyond the result (a pipe is kept besides, on disk from 32 MiB on); what a header claims
    never counts.
    """
    samples = read_sound(
        source, sample_rate=sample_rate, channel=channel, offset=offset, duration=duration, max_seconds=max_seconds,
        raw=raw, held_seconds=math.inf,
    )  # fmt: skip
    return samples[:]


def read_sound(
    source: Source,
    *,
    sample_rate: int = 16000,
    channel: int | None = None,
    offset: float = 0.0,
    duration: float | None = None,
    max_seconds: float = MAX_SECONDS,
    raw: RawFormat | None = None,
    held_seconds: float,
) -> NDArray[np.float32] | StoredSamples:
    """As read_audio, but what is longer than held_seconds lies on the disk, and a part of it is read when asked for.

    It stays in memory where no temporary file can be made, or where the disk is full.
    """
    _check_request(sample_rate, channel, offset, duration, max_seconds)
    with opened(source, partial(_bound, raw=raw, seconds=max_seconds)) as window, _reader(window, raw) as reader:
        if channel is not None and not 0 <= channel < reader.channels:
            fault = f"no channel {channel}: it has {reader.channels}, counted from 0"
            raise unusable(window.name, fault, "choose another channel, or none to take the mean")
        part = _part(reader, offset, duration, max_seconds)
        samples = _resampled(reader, part, channel, sample_rate, max_seconds=max_seconds, held_seconds=held_seconds)
        for warning in reader.warnings:
            warnings.warn(f"{window.name}: {warning}", AudioWarning, stacklevel=2)
    return samples


def audio_info(source: Source, *, raw: RawFormat | None = None) -> AudioInfo:
    """What a sound file holds, from its header where that can be trusted; only FLAC of unstated length is decoded.

    source, raw: as for read_audio. Raises AudioError and warns as read_audio does, except for what only decoding shows.
    """
    with opened(source, partial(_bound, raw=raw, seconds=MAX_SECONDS)) as window, _reader(window, raw) as reader:
        frames = _counted(reader) if reader.frames is None else reader.frames
        if not frames:
            raise _without_samples(window.name)
        for warning in reader.warnings:
            warnings.warn(f"{window.name}: {warning}", AudioWarning, stacklevel=2)
        duration = frames / reader.sample_rate
        return AudioInfo(reader.sample_rate, reader.channels, frames, duration, reader.encoding, reader.container)


@contextmanager
def _reader(window: Window, raw: RawFormat | None) -> Iterator[_Reader]:
    """The decoder for what the file's first bytes show it to be."""
    head = window.at(0, 4096)
    window.check()
    reader: _Reader
    if raw is not None:
        if is_wave(head) or (is_other_sound(head) and head[0] != 0xFF):  # 0xFF: two samples may look like MP3
            raise unusable(window.name, "has a header, though raw samples were stated", "leave the raw format out")
        if window.size < raw.block:
            raise _without_samples(window.name)
        rest = window.size % raw.block
        warning = (f"ends within a frame; left out the last {rest} of {window.size} bytes",) if rest else ()
        reader = PcmReader(window, Extent(raw, 0, window.size, warnings=warning))
    elif is_wave(head) and (extent := wave_extent(window)) is not None:
        reader = PcmReader(window, extent)
    elif is_wave(head) or is_other_sound(head):
        from audio.libsndfile import SndfileReader  # noqa: PLC0415  3 MB, and a moment, that plain WAV needs not

        reader = SndfileReader(window)
        if not LOWEST_RATE <= reader.sample_rate <= HIGHEST_RATE:
            fault = f"a sample rate of {reader.sample_rate} Hz, outside {LOWEST_RATE} to {HIGHEST_RATE} Hz"
            raise unusable(window.name, fault, "record it again, or resample it")
    else:
        refuse(head, window.name)
    try:
        yield reader
    finally:
        reader.close()


def _check_request(
    sample_rate: int, channel: int | None, offset: float, duration: float | None, max_seconds: float
) -> None:
    """AudioError for settings that no file could meet."""
    for name, whole in (("sample_rate", sample_rate), ("channel", 0 if channel is None else channel)):
        if not isinstance(whole, int) or isinstance(whole, bool):
            raise AudioError(f"{name}: {whole!r}; give a whole number")
    seconds = {"offset": offset, "duration": 1.0 if duration is None else duration, "max_seconds": max_seconds}
    for name, value in seconds.items():
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise AudioError(f"{name}: {value!r}; give seconds")
    if not 1000 <= sample_rate <= HIGHEST_RATE:
        raise AudioError(f"sample_rate: {sample_rate} Hz; give 1000 to {HIGHEST_RATE}")
    if not 0 <= offset < math.inf:
        raise AudioError(f"offset: {offset} s; give 0 or more")
    if duration is not None and not 0 < duration < math.inf:
        raise AudioError(f"duration: {duration} s; give more than 0, or None for all")
    if not max_seconds > 0:
        raise AudioError(f"max_seconds: {max_seconds}; give more than 0")


def _part(reader: _Reader, offset: float, duration: float | None, max_seconds: float) -> tuple[int, int | None]:
    """First frame and number of frames to read (None: to the end, wherever that is)."""
    rate, start = reader.sample_rate, round(offset * reader.sample_rate)
    count = None if duration is None else max(1, round(duration * rate))
    if reader.frames is not None:
        if reader.frames <= 0:
            raise _without_samples(reader.name)
        if start >= reader.frames:
            raise _past_the_end(reader.name, offset, reader.frames / rate)
        count = reader.frames - start if count is None else min(count, reader.frames - start)
    if count is not None and count > max_seconds * rate:
        raise too_long(reader.name, f"{count / rate:,.2f} s", max_seconds)
    return start, count


def _resampled(
    reader: _Reader,
    part: tuple[int, int | None],
    channel: int | None,
    sample_rate: int,
    *,
    max_seconds: float,
    held_seconds: float,
) -> NDArray[np.float32] | StoredSamples:
    """Frames start … start+count, mono, at sample_rate: (N,)."""
    start, count = part
    rate = reader.sample_rate
    resampler = None if rate == sample_rate else _resampler(rate, sample_rate)
    block = max(1, _BLOCK // reader.channels)
    samples = _Samples(
        block if count is None else math.ceil(count * sample_rate / rate) + 1, held_seconds * sample_rate
    )
    done, peak = 0, 0.0
    if start:
        reader.seek(start)
    while count is None or done < count:
        frames = reader.read(block if count is None else min(block, count - done))  # (n, channels)
        if not len(frames):
            break
        mono = _mono(frames, channel)
        peak = max(peak, _peak(mono, reader.name, start + done, rate))
        done += len(mono)
        if done > max_seconds * rate:
            raise too_long(reader.name, f"more than {max_seconds:,g} s", max_seconds)
        samples.append(mono if resampler is None else resampler.resample_chunk(mono))
    if not done:
        if start:
            raise _past_the_end(reader.name, start / rate, None)
        raise _without_samples(reader.name)
    if resampler is not None:
        samples.append(resampler.resample_chunk(np.empty(0, np.float32), last=True))
    if peak > _LOUD:
        reader.warnings.append(
            f"samples reach {peak:,.0f} times full scale; if that is another scale, convert it to 16-bit"
        )
    promised = done if reader.frames is None or count is None else count
    if (promised - done) / rate > _TOLERANCE and not reader.warnings:
        reader.warnings.append(f"it promises {promised / rate:.2f} s of sound, {done / rate:.2f} s are there")
    return samples.all()


def _resampler(rate: int, wanted: int) -> soxr.ResampleStream:
    import soxr  # noqa: PLC0415  what has the model's rate needs none

    return soxr.ResampleStream(rate, wanted, 1, dtype="float32")


class _Samples:
    """An array that is filled from its start: an hour of sound isn't there a second time to be joined."""

    def __init__(self, expected: int, most: float) -> None:
        """expected: samples; as many again are found room for when they come. What isn't filled takes no memory.
        most: samples that are held; all of them lie on the disk where there are more.
        """
        self._most = most
        self._room = np.empty(int(min(expected, most + 1)), np.float32)
        self._filled = 0
        self._stored: StoredSamples | None = None

    def append(self, part: NDArray[np.float32]) -> None:
        """Put it behind what is there."""
        if self._filled + len(part) > self._most and self._store(part):
            self._filled += len(part)
            return
        end = self._filled + len(part)
        if end > len(self._room):
            room = np.empty(max(end, 2 * len(self._room)), np.float32)
            room[: self._filled] = self.held()
            self._room = room
        self._room[self._filled : end] = part
        self._filled = end

    def _store(self, part: NDArray[np.float32]) -> bool:
        """Put it behind what lies on the disk, to which everything moves. False where it has no room, or no place."""
        try:
            if self._stored is None:
                stored = StoredSamples()
                stored.append(self.held())
                self._stored = stored
                self._room = np.empty(0, np.float32)
            self._stored.append(part)
        except OSError:
            if self._stored is not None:
                self._room, self._stored = self._stored[: self._filled], None
            self._most = math.inf
            return False
        return True

    def held(self) -> NDArray[np.float32]:
        """What is in memory, (N,)."""
        return self._room[: self._filled]

    def all(self) -> NDArray[np.float32] | StoredSamples:
        """What is there, (N,)."""
        return self.held() if self._stored is None else self._stored


def _mono(frames: NDArray[np.float32], channel: int | None) -> NDArray[np.float32]:
    """(n, channels) -> (n,): one channel, or the mean of all."""
    if frames.shape[1] == 1:
        return frames[:, 0]
    if channel is not None:
        return np.ascontiguousarray(frames[:, channel])
    with np.errstate(over="ignore", invalid="ignore"):  # what isn't finite is refused afterwards
        mean: NDArray[np.float32] = frames.mean(axis=1)
    return mean


def _peak(mono: NDArray[np.float32], name: str, start: int, rate: int) -> float:
    """Largest magnitude of a block; AudioError where a sample isn't finite, or no sound by any scale."""
    peak = float(np.abs(mono).max())
    if peak <= _LOUDEST:
        return peak
    at = int(np.flatnonzero(~(np.abs(mono) <= _LOUDEST))[0])
    value = float(mono[at])
    what = "not a number (NaN)" if math.isnan(value) else "infinite" if math.isinf(value) else f"{value:.3g}"
    raise unusable(name, f"the sample at {(start + at) / rate:.3f} s is {what}", "write the file again, as 16-bit PCM")


def _counted(reader: _Reader) -> int:
    """Frames of a file that doesn't state its length, by decoding it."""
    frames, block = 0, max(1, _BLOCK // reader.channels)
    while n := len(reader.read(block)):
        frames += n
    return frames


def _bound(head: bytes, name: str, *, raw: RawFormat | None, seconds: float) -> int:
    """How many bytes may come through a pipe that begins with head; AudioError where it isn't sound at all."""
    most = seconds * _BYTES_PER_SECOND
    known, start = raw, 0
    if known is None and is_wave(head):
        with suppress(AudioError):  # long chunks may come before the samples
            extent = wave_extent(Window(BytesIO(head), 0, len(head), name))
            known, start = (extent.format, extent.start) if extent else (None, 0)
    elif known is None and not is_other_sound(head):
        refuse(head, name)
    if known is not None:
        most = min(most, start + seconds * known.sample_rate * known.block + (1 << 20))  # and chunks after the samples
    return int(min(most, 1 << 62))


def _without_samples(name: str) -> AudioError:
    return unusable(name, "only a header, no samples", "record it again")


def _past_the_end(name: str, offset: float, duration: float | None) -> AudioError:
    length = "" if duration is None else f" ({duration:.2f} s)"
    return unusable(name, f"offset {offset:.2f} s lies past the end{length}", "give a smaller one")


def too_long(name: str, length: str, max_seconds: float) -> AudioError:
    """The error for sound that lasts so long."""
    return TooLongError(f"{name}: {length} long, above the limit of {max_seconds:,g} s; {SHORTER}")
