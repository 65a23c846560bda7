"""What can be wrong with the sound of a row: one file is opened once for all rows that name it."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from asr.errors import AudioError
from asr.manifest.check_text import Finding
from asr.manifest.sound_warnings import heard
from audio.reading import AudioInfo, audio_info, read_audio

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from asr.manifest.check_settings import SoundLimits
    from asr.manifest.records import Utterance

WHOLE_SECONDS = 300.0  # files up to here are decoded once and cut; of longer ones only the rows' stretches are decoded
MOST_CHANNELS = 8  # each is looked at for clipping, which their mean may hide; of more than these only the mean is
FULL_SCALE = 0.97  # a plateau at or above this is clipping (A-law and µ-law end at 0.98)
PLATEAU = 3  # equal samples in a row at the extreme that make one
LEVEL_WINDOW = 0.05  # seconds over which loudness is measured
LAST_BIT = 2**-15  # what never exceeds it is silence in 16 bits


@dataclass
class RowSound:
    """What was found out about one row's sound."""

    findings: list[Finding] = field(default_factory=list)
    digest: bytes | None = None  # of the samples as 16 bits; None: unreadable, or silence


class _Sound(NamedTuple):
    """A file, decoded if it is short enough."""

    path: Path
    info: AudioInfo
    channels: list[NDArray[np.float32]]  # each (N,); empty: too long to be held
    seconds: float


def examine(path: Path, utterances: Sequence[Utterance], limits: SoundLimits) -> list[RowSound]:
    """Examines one file for all rows that name it, in their order; to be called within `recorded_warnings`."""
    rows = [RowSound() for _ in utterances]
    try:
        sound = _decoded(path)
    except AudioError as error:
        return [RowSound([_unusable(path, error)]) for _ in utterances]
    for row, utterance in zip(rows, utterances, strict=True):
        row.findings += check_times(utterance, sound.seconds, limits.duration_tolerance, alone=len(rows) == 1)
        if utterance.offset >= sound.seconds or utterance.duration <= 0:
            continue
        try:
            channels = _stretch(sound, utterance, limits.duration_tolerance)
        except AudioError as error:
            row.findings.append(_unusable(path, error))
            continue
        row.findings += check_level(channels, sound.info.sample_rate, limits)
        row.digest = digest(channels)
    for message in heard():
        problem, _, remedy = message.removeprefix(f"{path}: ").partition("; ")
        remedy = remedy or "record or copy it again"
        rows[0].findings.append(Finding("audio_filepath", "damaged-audio", problem, remedy, "warning"))
    return rows


def check_times(utterance: Utterance, seconds: float, tolerance: float, *, alone: bool) -> Iterator[Finding]:
    """Offset and duration against a file of `seconds`. alone: no other row names the file."""
    end = utterance.offset + utterance.duration
    if utterance.duration <= 0:
        remedy = f"write {seconds - utterance.offset:.3f}" if utterance.offset < seconds else "mend it"
        yield Finding("duration", "wrong-duration", "is 0 s", remedy)
    elif utterance.offset and utterance.offset >= seconds:
        problem = f"starts at {utterance.offset:g} s, but the file ends at {seconds:.3f} s"
        yield Finding("offset", "past-end", problem, "mend offset and duration")
    elif utterance.offset and end > seconds + tolerance:
        problem = f"reaches to {end:g} s, but the file ends at {seconds:.3f} s"
        yield Finding("offset", "past-end", problem, f"write a duration of {seconds - utterance.offset:.3f} at most")
    elif not utterance.offset and (end > seconds + tolerance or (alone and end < seconds - tolerance)):
        problem = f"is {utterance.duration:g} s, but the file lasts {seconds:.3f} s"
        yield Finding("duration", "wrong-duration", problem, f"write {seconds:.3f} (`cepstra manifest import` does)")


def check_level(channels: Sequence[NDArray[np.float32]], rate: int, limits: SoundLimits) -> Iterator[Finding]:
    """Silence and clipping. channels: each (N,) at `rate` Hz, full scale ±1."""
    peak = max(float(np.abs(channel).max()) for channel in channels)
    if peak <= LAST_BIT:
        yield Finding("audio_filepath", "silence", "holds digital silence", "record it again, or take the row out")
        return
    level = 20 * math.log10(max(loudest(mean_of(channels), rate), 1e-9))
    if level < limits.silence_dbfs:
        problem = f"near silence: the loudest 50 ms reach {level:.0f} dBFS"
        remedy = "listen whether anything is said; if so, record it louder"
        yield Finding("audio_filepath", "near-silence", problem, remedy, "warning")
    share = max(map(clipped, channels))
    if share > limits.clipped_share:
        problem = f"clipping: {share:.1%} of the samples stand at full scale"
        yield Finding("audio_filepath", "clipping", problem, "record it at a lower level", "warning")


def loudest(samples: NDArray[np.float32], rate: int) -> float:
    """RMS of the loudest 50 ms of (N,) samples at `rate` Hz, the windows half overlapping."""
    half = max(1, round(LEVEL_WINDOW * rate / 2))
    power = np.add.reduceat(np.square(samples, dtype=np.float64), np.arange(0, len(samples), half))
    pairs = power[:-1] + power[1:] if len(power) > 1 else power
    # a shorter last window counts as if the rest of it were silent, so a click at the end is no speech
    return math.sqrt(float(pairs.max()) / (2 * half))


def clipped(samples: NDArray[np.float32]) -> float:
    """Share of (N,) samples that stand on a plateau at the extreme near full scale, or beyond full scale."""
    beyond = np.abs(samples) > 1.0
    count = np.count_nonzero(beyond)
    for extreme in (float(samples.max()), float(samples.min())):
        if FULL_SCALE <= abs(extreme) <= 1.0:
            at = np.concatenate(([0], (samples == extreme).astype(np.int8), [0]))
            edges = np.flatnonzero(np.diff(at))
            lengths = edges[1::2] - edges[::2]
            count += int(lengths[lengths >= PLATEAU].sum())
    return float(count) / len(samples)


def digest(channels: Sequence[NDArray[np.float32]]) -> bytes | None:
    """The same for the same sound in another container; None for silence. channels: each (N,)."""
    samples = np.rint(mean_of(channels) * 32768).astype(np.int32)
    return hashlib.blake2b(samples.tobytes(), digest_size=16).digest() if samples.any() else None


def mean_of(channels: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
    """(N,) of several (N,)."""
    if len(channels) == 1:
        return channels[0]
    mean: NDArray[np.float32] = np.mean(channels, axis=0, dtype=np.float32)
    return mean


def _decoded(path: Path) -> _Sound:
    info = audio_info(path)
    if info.duration > WHOLE_SECONDS:
        return _Sound(path, info, [], info.duration)
    channels = _read(path, info)
    return _Sound(path, info, channels, len(channels[0]) / info.sample_rate)


def _stretch(sound: _Sound, utterance: Utterance, tolerance: float) -> list[NDArray[np.float32]]:
    """Each channel (N,) of the row's part of the file."""
    if not sound.channels:
        return _read(sound.path, sound.info, utterance.offset, utterance.duration)
    rate, end = sound.info.sample_rate, utterance.offset + utterance.duration
    start = min(round(utterance.offset * rate), len(sound.channels[0]) - 1)
    # a duration that is rounded to the hundredth must not make another digest of the same file
    stop = len(sound.channels[0]) if end > sound.seconds - tolerance else round(end * rate)
    return [channel[start : max(stop, start + 1)] for channel in sound.channels]


def _read(path: Path, info: AudioInfo, offset: float = 0.0, duration: float | None = None) -> list[NDArray[np.float32]]:
    """Each channel (N,) at the file's own rate; beyond MOST_CHANNELS just their mean."""
    wanted = range(info.channels) if 1 < info.channels <= MOST_CHANNELS else (None,)
    return [
        read_audio(path, sample_rate=info.sample_rate, channel=channel, offset=offset, duration=duration)
        for channel in wanted
    ]


def _unusable(path: Path, error: AudioError) -> Finding:
    problem, _, remedy = str(error).removeprefix(f"{path}: ").rpartition("; ")
    if path.exists():
        return Finding(
            "audio_filepath", "unreadable-audio", f"{path}: {problem or remedy}", remedy or "record it again"
        )
    remedy = "mend the path (relative ones start at the manifest's folder)"
    if "\\" in path.name:
        remedy = "write / in paths, not \\"
    return Finding("audio_filepath", "missing-audio", f"{path}: no such file", remedy)
