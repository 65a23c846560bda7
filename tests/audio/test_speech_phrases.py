"""What lies between the pauses of long sound, against sound whose pauses are known."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from audio.errors import AudioError
from audio.speech import phrases

RATE = 16000
Samples = NDArray[np.float32]


def speech(seconds: float, seed: int, level: float = 0.1) -> Samples:
    """Noise in syllables of a fifth of a second, which dip but never pause."""
    count = round(seconds * RATE)
    envelope = 0.3 + 0.7 * np.sin(np.pi * np.arange(count) / (0.2 * RATE)) ** 2
    wave: Samples = (np.random.default_rng(seed).normal(0, level, count) * envelope).astype(np.float32)
    return wave


def spoken(plan: list[tuple[float, float]], level: float = 0.1) -> tuple[Samples, list[tuple[float, float]]]:
    """(pause, speech) seconds one after the other, and 1 s at the end: samples, and where speech is."""
    parts: list[Samples] = []
    spans: list[tuple[float, float]] = []
    at = 0.0
    for number, (pause, length) in enumerate(plan):
        parts += [np.zeros(round(pause * RATE), np.float32), speech(length, number, level)]
        spans.append((at + pause, at + pause + length))
        at += pause + length
    return np.concatenate([*parts, np.zeros(RATE, np.float32)]), spans


PLAN = [(1.0, 2.0), (0.7, 0.4), (3.0, 5.0), (0.8, 1.0), (20.0, 0.5), (0.2, 1.5), (1.2, 3.0)]
EXPECTED = [(1.0, 3.0), (3.7, 4.1), (7.1, 12.1), (12.9, 13.9), (33.9, 36.1), (37.3, 40.3)]  # 0.2 s are no pause


@pytest.mark.parametrize(
    ("level", "noise"), [(0.01, 0), (0.01, 1e-4), (0.1, 0), (0.1, 1e-4), (0.1, 0.01), (0.3, 3e-3), (0.3, 0.03)]
)
def test_phrases_are_what_lies_between_pauses(level: float, noise: float) -> None:
    samples, _ = spoken(PLAN, level)
    samples += np.random.default_rng(9).normal(0, 1, len(samples)).astype(np.float32) * noise
    found = phrases(samples, RATE)
    assert len(found) == len(EXPECTED)
    for (start, end), (begins, ends) in zip(found, EXPECTED, strict=True):
        assert start / RATE == pytest.approx(begins - 0.3, abs=0.1)
        assert end / RATE == pytest.approx(ends + 0.3, abs=0.1)


def test_margins_share_a_short_pause() -> None:
    samples, spans = spoken([(1.0, 2.0), (0.55, 2.0)])
    (_, first_end), (second_start, _) = phrases(samples, RATE)
    assert first_end == second_start
    assert first_end / RATE == pytest.approx((spans[0][1] + spans[1][0]) / 2, abs=0.05)


def test_pause_and_margin_are_settings() -> None:
    samples, _ = spoken([(1.0, 1.0), (0.7, 1.0), (1.5, 1.0)])
    assert [len(phrases(samples, RATE, pause_seconds=pause)) for pause in (0.5, 1.0, 2.0)] == [3, 2, 1]
    for margin in (0.0, 0.2):
        starts = [start / RATE for start, _ in phrases(samples, RATE, margin_seconds=margin)]
        assert starts == pytest.approx([1.0 - margin, 2.7 - margin, 5.2 - margin], abs=0.05)


def test_a_distant_voice_is_heard_beside_a_near_one() -> None:
    near, _ = spoken([(1.0, 1.0)] * 6, level=0.2)
    far, _ = spoken([(1.0, 1.0)] * 6, level=0.01)
    rng = np.random.default_rng(0)
    hiss = rng.normal(0, 5e-4, 2 * len(near) + 16 * RATE).astype(np.float32)
    hiss[: len(near)] += near
    hiss[-len(far) :] += far
    assert len(phrases(hiss, RATE)) == 12


def test_long_phrases_are_cut_further() -> None:
    samples, _ = spoken([(2.0, 25.0), (2.0, 1.0)])
    found = phrases(samples, RATE, max_seconds=8)
    assert len(found) >= 5
    assert max(end - start for start, end in found) <= 8 * RATE
    assert found[0][0] / RATE == pytest.approx(1.7, abs=0.1)
    assert all(a[1] == b[0] for a, b in pairwise(found[:-1]))


@pytest.mark.parametrize("level", [0.0, 1e-3, 0.3])
def test_where_nothing_stands_out_everything_is_sound(level: float) -> None:
    hum = np.random.default_rng(0).normal(0, 1, 35 * RATE).astype(np.float32) * level
    found = phrases(hum, RATE)
    assert (found[0][0], found[-1][1]) == (0, len(hum))
    assert all(a[1] == b[0] for a, b in pairwise(found))


def test_noise_alone_is_no_phrase_where_speech_is_heard_elsewhere() -> None:
    samples, _ = spoken([(1.0, 2.0), (60.0, 2.0)])
    samples += np.random.default_rng(0).normal(0, 3e-3, len(samples)).astype(np.float32)
    assert len(phrases(samples, RATE)) == 2


@pytest.mark.parametrize("count", [0, 1, 159, 160, 399, 16000, 16001])
@pytest.mark.parametrize("rate", [8000, 16000, 44100])
def test_short_sound(count: int, rate: int) -> None:
    found = phrases(speech(1.1, 0)[:count], rate)
    assert len(found) <= 1
    assert all(0 <= start < end <= count for start, end in found)


def test_a_recording_cut_off_in_speech_keeps_its_last_sample() -> None:
    samples = np.concatenate([spoken([(1.0, 2.0)])[0], speech(1.3, 5)[:-7]])
    assert phrases(samples, RATE)[-1][1] == len(samples)


@given(
    hnp.arrays(np.float32, st.integers(0, 300), elements=st.sampled_from([0.0, 1e-5, 1e-3, 0.1, 1.0, -1.0])),
    st.sampled_from([1.0, 3.0, 10.0]),
)
@settings(derandomize=True, max_examples=60, deadline=None)
def test_any_sound_gives_phrases_in_order(levels: NDArray[np.float32], longest: float) -> None:
    samples = np.repeat(levels, 1000) * np.resize(np.array([1, -1], np.float32), 1000 * len(levels))
    found = phrases(samples, RATE, max_seconds=longest, pause_seconds=0.3) if longest > 2 else []
    for start, end in found:
        assert 0 <= start < end <= len(samples)
        assert end - start <= longest * RATE
    assert all(a[1] <= b[0] for a, b in pairwise(found))
    if found:
        loudest = int(np.abs(samples).argmax())
        assert any(start <= loudest < end for start, end in found)


def test_limits_that_leave_no_room_are_refused() -> None:
    with pytest.raises(AudioError, match="leave no room"):
        phrases(speech(30, 0), RATE, max_seconds=1.5)
