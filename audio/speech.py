"""How loud sound is, and where it pauses (numpy only).

Long audio is cut at its quietest places, so that words stay whole and memory stays flat however long the clip is.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Protocol

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from audio.errors import AudioError

Array = NDArray[np.float32]
Energies = NDArray[np.float64]


class Sound(Protocol):
    """Samples, (N,) float32: an array, or what lies elsewhere and gives parts of it."""

    def __len__(self) -> int: ...
    def __getitem__(self, part: slice, /) -> Array: ...


_AT_ONCE = 1 << 12  # frames
FRAME_SECONDS = 0.01  # energies are taken over this much; cuts fall on the borders
PAUSE_SECONDS = 0.3  # a pause that separates phrases; shorter silences also stand inside words ("eight two", "stop")
GAP_SECONDS = 0.05  # the place in the pause, or between two words run together, is found this exactly
LEVEL_RANGE_DB = 20.0  # frames this far below the loudest count as pauses when the level of speech is measured

# What is quiet between phrases lies below a level between floor and peak of the sound around it. Chosen on words
# and digits played one after the other, alone and in 10 and 20 dB of noise, by the errors of a small model.
AROUND_SECONDS = 7  # to either side, whole seconds: a floor may drift, and people speak at different distances
CONTRAST_DB = (
    8.0  # sound must stand out by this much from the floor; where nothing does, nothing tells speech from noise
)
QUIET_SHARE = 0.35  # of the way from the floor to the peak, in dB
DEEPEST_DB = 50.0  # below the peak: no room is more silent than that, only a muted microphone


def pieces(
    samples: Array, sample_rate: int, *, max_seconds: float = 30.0, min_seconds: float = 1.0
) -> list[tuple[int, int]]:
    """Cut long audio at the quietest pauses: [(start, end), ...] in samples, end exclusive.

    samples: (N,) mono; sample_rate in Hz. No piece is longer than max_seconds nor, where something is cut, shorter than
    min_seconds. The pieces follow each other without gap or overlap and cover all N samples; a clip no longer than
    max_seconds is one piece, also an empty one. Each cut is looked for in the second half of what a piece may hold,
    so there are never more than 2 N / max + 1 pieces. Time is O(N), memory a tenth of the samples.
    Raises AudioError for limits that no cutting can satisfy.
    """
    if samples.ndim != 1:
        raise AudioError(f"cutting at pauses: samples have shape {samples.shape}; mix them down to one channel first")
    frame = max(1, round(sample_rate * FRAME_SECONDS))
    limits = _Limits(max_seconds, min_seconds, frame, sample_rate)
    if len(samples) <= limits.most:
        return [(0, len(samples))]
    return limits.cut(frame_energies(samples, frame), len(samples))


class _Limits:
    """How long pieces may be."""

    def __init__(self, max_seconds: float, min_seconds: float, frame: int, sample_rate: int) -> None:
        """Raises AudioError where no cutting can satisfy them. frame: samples."""
        if not frame / sample_rate <= min_seconds <= max_seconds / 2 - frame / sample_rate:
            raise AudioError(
                f"cutting at pauses: min_seconds {min_seconds:g} and max_seconds {max_seconds:g} leave no room for a "
                "cut; use a min_seconds of at least 0.01 and below half of max_seconds"
            )
        self.most = max_seconds * sample_rate  # samples
        self._frame = frame
        # In frames, and rounded to the safe side
        self._longest = math.floor(self.most) // frame
        self._shortest = math.ceil(min_seconds * sample_rate / frame)

    def cut(self, energies: Energies, length: int) -> list[tuple[int, int]]:
        """As `pieces`, for so many samples whose frames have these energies."""
        if length <= self.most:
            return [(0, length)]
        frame, longest, shortest = self._frame, self._longest, self._shortest
        pauses = _smooth(energies, max(1, round(PAUSE_SECONDS / FRAME_SECONDS)))
        gaps = _smooth(energies, max(1, round(GAP_SECONDS / FRAME_SECONDS)))
        reach = round(PAUSE_SECONDS / FRAME_SECONDS / 2)
        cuts = [0]
        while length - cuts[-1] * frame > self.most:
            first = cuts[-1] + max(shortest, longest // 2)
            last = min(cuts[-1] + longest, length // frame - shortest)  # leaves min_seconds for the last piece
            coarse = first + _quietest(pauses[first : last + 1])
            low, high = max(first, coarse - reach), min(last, coarse + reach)
            cuts.append(low + _quietest(gaps[low : high + 1]))
        return list(pairwise([cut * frame for cut in cuts] + [length]))


def phrases(
    samples: Sound,
    sample_rate: int,
    *,
    max_seconds: float = 10.0,
    pause_seconds: float = 0.5,
    margin_seconds: float = 0.3,
) -> list[tuple[int, int]]:
    """What lies between the pauses of a long recording: [(start, end), ...] in samples, in order, end exclusive.

    samples: (N,) mono, or what gives parts of it; sample_rate in Hz. A pause is pause_seconds or more of quiet;
    margin_seconds of it stay with the phrase on either side, the rest belongs to none. A phrase longer than max_seconds
    is cut further, at its quietest places. Where nothing stands out from the rest, all of it counts as sound. Time is
    O(N), memory a tenth of the samples. Raises AudioError as pieces does.
    """
    frame = max(1, round(sample_rate * FRAME_SECONDS))
    limits = _Limits(max_seconds, 1.0, frame, sample_rate)
    energies = frame_energies(samples, frame)  # (T,)
    sounding = _sounding(energies)
    edges = np.flatnonzero(np.diff(np.concatenate([[0], sounding.astype(np.int8), [0]])))
    starts, ends = edges[::2], edges[1::2]
    apart = starts[1:] - ends[:-1] >= round(pause_seconds / FRAME_SECONDS)
    starts, ends = starts[np.append(True, apart)[: len(starts)]], ends[np.append(apart, True)[: len(ends)]]
    middles, margin = (ends[:-1] + starts[1:]) // 2, round(margin_seconds / FRAME_SECONDS)
    starts = np.maximum(starts - margin, np.append(0, middles)[: len(starts)])
    ends = np.minimum(ends + margin, np.append(middles, len(sounding))[: len(ends)])
    found: list[tuple[int, int]] = []
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        last = len(samples) if end == len(sounding) else end * frame
        inside = limits.cut(energies[start:end], last - start * frame)
        found += [(start * frame + first, start * frame + stop) for first, stop in inside]
    return found


def _sounding(energies: Energies) -> NDArray[np.bool_]:
    """Which frames stand out from the quiet around them: (T,) -> (T,)."""
    if not len(energies):
        return np.zeros(0, bool)
    levels = 10 * np.log10(np.maximum(_smooth(energies, round(GAP_SECONDS / FRAME_SECONDS))[1:], 1e-9))  # dBFS
    second = round(1 / FRAME_SECONDS)
    seconds = np.pad(levels, (0, -len(levels) % second), mode="edge").reshape(-1, second)
    low, high = np.percentile(seconds, [10, 95], axis=1)  # of each second
    around = 2 * AROUND_SECONDS + 1
    peaks = sliding_window_view(np.pad(high, AROUND_SECONDS, mode="edge"), around).max(axis=1)
    floors = sliding_window_view(np.pad(low, AROUND_SECONDS, mode="edge"), around).min(axis=1)
    overall = _threshold(floors.min(keepdims=True), peaks.max(keepdims=True))
    thresholds = _threshold(floors, peaks)
    # A minute of nothing but noise has no contrast of its own: the recording's loudest and quietest places tell
    thresholds = np.where(np.isfinite(thresholds), thresholds, overall)
    sounding: NDArray[np.bool_] = levels >= np.repeat(thresholds, second)[: len(levels)]
    return sounding


def _threshold(floors: Energies, peaks: Energies) -> Energies:
    """The level in dB from which on something is heard; -inf where nothing stands out."""
    contrast = np.minimum(peaks - floors, DEEPEST_DB)
    thresholds: Energies = peaks - contrast + np.maximum(CONTRAST_DB, QUIET_SHARE * contrast)
    return np.where(contrast >= CONTRAST_DB, thresholds, -np.inf)


def frame_energies(samples: Sound, frame: int) -> Energies:
    """Mean power of each whole frame about its own mean, so that a constant offset is silent: (N,) -> (N // frame,)."""
    count = len(samples) // frame
    energies = np.empty(count)
    for start in range(0, count, _AT_ONCE):
        stop = min(count, start + _AT_ONCE)
        frames = samples[start * frame : stop * frame].reshape(-1, frame)  # a view where the samples are contiguous
        power = np.einsum("tn,tn->t", frames, frames).astype(np.float64) / frame
        energies[start:stop] = np.maximum(power - frames.mean(axis=1, dtype=np.float64) ** 2, 0.0)
    return energies


def level_dbfs(samples: Array) -> float:
    """Root mean square in dB of full scale: 0 is a full-scale square wave, -3.01 a full-scale sine, -inf silence."""
    power = float(np.dot(samples, samples)) / len(samples) if len(samples) else 0.0
    return 10 * math.log10(power) if power > 0 else -math.inf


def speech_power(samples: Array, sample_rate: int) -> float:
    """Mean power while something is said: of the 10 ms frames within 20 dB of the loudest one; 0.0 for silence.

    Pauses and silence around the words don't count, so a padded clip is as loud as the tightly cut one.
    """
    if not len(samples):
        return 0.0
    power = frame_energies(samples, min(max(1, round(sample_rate * FRAME_SECONDS)), len(samples)))
    return float(power[power >= power.max() * 10 ** (-LEVEL_RANGE_DB / 10)].mean())


def _smooth(energies: Energies, width: int) -> Energies:
    """Mean energy of `width` frames about each border between frames: (T,) -> (T + 1,); silence beyond the ends."""
    sums = np.pad(np.cumsum(energies), (width // 2 + 1, (width + 1) // 2), mode="edge")
    sums[: width // 2 + 1] = 0
    means: Energies = (sums[width:] - sums[:-width]) / width
    return means


def _quietest(energies: Energies) -> int:
    """Index of the lowest value; where several are as low, the middle of the last run of them (the longest piece)."""
    lowest = np.flatnonzero(energies <= energies.min() * (1 + 1e-6) + 1e-10)  # -100 dBFS is as good as silent
    breaks = np.flatnonzero(np.diff(lowest) > 1)
    run = lowest[breaks[-1] + 1 :] if len(breaks) else lowest
    return int(run[len(run) // 2])
