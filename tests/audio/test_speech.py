"""Cutting at pauses: it covers everything, keeps its limits, and cuts where nothing is said."""

from __future__ import annotations

import json
import math
import tracemalloc
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from audio.errors import AudioError
from audio.speech import frame_energies, level_dbfs, pieces, speech_power

if TYPE_CHECKING:
    from pathlib import Path

Array = NDArray[np.float32]
RATE = 16000


def noise(seconds: float, level: float = 0.1, seed: int = 0) -> Array:
    n = round(seconds * RATE)
    return np.random.default_rng(seed).standard_normal(n, dtype=np.float32) * np.float32(level)


def check(cuts: list[tuple[int, int]], n: int, rate: int, max_seconds: float, min_seconds: float) -> None:
    assert cuts[0][0] == 0
    assert cuts[-1][1] == n
    assert all(end == start for (_, end), (start, _) in pairwise(cuts))
    lengths = [end - start for start, end in cuts]
    assert max(lengths) <= max_seconds * rate
    if len(cuts) > 1:
        assert min(lengths) >= min_seconds * rate
    assert len(cuts) <= 2 * n / (max_seconds * rate) + 2


@settings(derandomize=True, max_examples=80, deadline=None)
@given(
    n=st.integers(0, 40000),
    rate=st.sampled_from([4000, 8000, 11025, 16000, 44100]),
    limits=st.floats(0.2, 3.0).flatmap(lambda most: st.tuples(st.floats(0.02, 0.4 * most), st.just(most))),
    level=st.sampled_from([0.0, 0.1, 1.0]),
    seed=st.integers(0, 100),
)
def test_pieces_cover_everything_within_their_limits(
    n: int, rate: int, limits: tuple[float, float], level: float, seed: int
) -> None:
    samples = np.random.default_rng(seed).standard_normal(n, dtype=np.float32) * np.float32(level)
    min_seconds, max_seconds = limits
    cuts = pieces(samples, rate, max_seconds=max_seconds, min_seconds=min_seconds)
    check(cuts, n, rate, max_seconds, min_seconds)
    if n <= max_seconds * rate:
        assert cuts == [(0, n)]


@pytest.mark.parametrize("offset", [0.0, 0.3])
def test_cuts_fall_in_the_pauses(offset: float) -> None:
    rng = np.random.default_rng(1)
    parts, pauses, at = [], [], 0.0
    for seed in range(60):
        word, pause = float(rng.uniform(1, 4)), float(rng.uniform(0.35, 0.8))
        parts += [noise(word, seed=seed), noise(pause, 0.001, seed=seed)]
        pauses.append((at + word, at + word + pause))
        at += word + pause
    samples = np.concatenate(parts) + np.float32(offset)  # a constant offset is no sound
    cuts = pieces(samples, RATE)
    check(cuts, len(samples), RATE, 30, 1)
    assert len(cuts) > 4
    for _, end in cuts[:-1]:
        assert any(start + 0.05 <= end / RATE <= stop - 0.05 for start, stop in pauses)


def test_a_short_gap_is_found_where_there_is_no_pause() -> None:
    samples = noise(40)
    samples[int(22.00 * RATE) : int(22.06 * RATE)] = 0
    (_, cut), _ = pieces(samples, RATE)
    assert 22.0 <= cut / RATE <= 22.06


def test_the_longer_pause_wins_over_the_shorter_and_is_cut_in_its_middle() -> None:
    samples = noise(40)
    samples[20 * RATE : int(20.1 * RATE)] = 0
    samples[24 * RATE : 26 * RATE] = 0
    (_, cut), _ = pieces(samples, RATE)
    assert cut / RATE == pytest.approx(25, abs=0.1)


def test_silence_and_the_very_limit() -> None:
    check(pieces(np.zeros(100 * RATE, np.float32), RATE), 100 * RATE, RATE, 30, 1)
    assert len(pieces(noise(30), RATE)) == 1
    just_above = np.append(noise(30), np.float32(0))
    check(pieces(just_above, RATE), len(just_above), RATE, 30, 1)


def test_memory_stays_a_fraction_of_the_samples() -> None:
    samples = noise(600)
    tracemalloc.start()
    pieces(samples, RATE)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < samples.nbytes / 10


@pytest.mark.parametrize(("longest", "shortest"), [(1.0, 0.6), (1.0, 0.0), (0.01, 0.005), (-1.0, 1.0), (1, math.nan)])
def test_limits_that_leave_no_choice_are_refused(longest: float, shortest: float) -> None:
    with pytest.raises(AudioError, match="min_seconds"):
        pieces(noise(5), RATE, max_seconds=longest, min_seconds=shortest)


def test_two_channels_are_refused() -> None:
    with pytest.raises(AudioError, match="one channel"):
        pieces(np.zeros((100, 2), np.float32), RATE)


def test_levels() -> None:
    time = np.arange(RATE) / RATE
    assert level_dbfs(np.sin(2 * np.pi * 100 * time).astype(np.float32)) == pytest.approx(-3.0103, abs=1e-3)
    assert level_dbfs(np.sign(np.sin(2 * np.pi * 100 * time + 0.1)).astype(np.float32)) == pytest.approx(0, abs=1e-6)
    assert level_dbfs(noise(1, 0.01)) == pytest.approx(-40, abs=0.1)
    assert level_dbfs(np.zeros(10, np.float32)) == level_dbfs(np.zeros(0, np.float32)) == -math.inf


def test_speech_power_ignores_silence_around_and_offsets() -> None:
    time = np.arange(RATE) / RATE
    word = (0.2 * np.sin(2 * np.pi * 200 * time)).astype(np.float32)
    for samples in (word, np.pad(word, 8000), np.pad(word, 8000) + np.float32(0.1)):
        assert speech_power(samples, RATE) == pytest.approx(0.02, rel=0.01)
    assert speech_power(np.zeros(100, np.float32), RATE) == speech_power(np.zeros(0, np.float32), RATE) == 0


def test_frame_energies_are_variances() -> None:
    samples = noise(0.1, 0.5) + np.float32(0.2)
    np.testing.assert_allclose(frame_energies(samples, 160), samples.reshape(-1, 160).var(axis=1), rtol=1e-4)
    assert len(frame_energies(samples, 161)) == 9


@pytest.mark.real
def test_real_speech_is_cut_between_the_recordings_it_was_joined_from(corpus: Path) -> None:
    """Sentences with half a second of their own quiet between them; cuts belong into quiet."""
    rows = [json.loads(line) for line in (corpus / "books.train.jsonl").read_text("utf-8").splitlines()[:30]]
    samples = np.concatenate([soundfile.read(corpus / row["audio_filepath"], dtype="float32")[0] for row in rows])
    cuts = pieces(samples, RATE)
    check(cuts, len(samples), RATE, 30, 1)
    loudness = 10 * math.log10(speech_power(samples, RATE))
    for _, end in cuts[:-1]:
        assert level_dbfs(samples[end - 400 : end + 400]) < loudness - 20
