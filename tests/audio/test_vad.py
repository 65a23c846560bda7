"""Where somebody speaks, in a recording and in a stream."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audio import vad
from audio.errors import AudioError
from audio.reading import read_audio

if TYPE_CHECKING:
    from numpy.typing import NDArray

RATE = 16000
SAMPLES = Path(__file__).resolve().parents[2] / "data_manifests" / "samples"
SPOKEN = read_audio(SAMPLES / "please_save_the_file.wav")


def silence(seconds: float) -> NDArray[np.float32]:
    return np.zeros(round(seconds * RATE), np.float32)


def events(samples: NDArray[np.float32], sizes: list[int], **options: float) -> list[vad.Event]:
    endpointer = vad.Endpointer(**options)
    found: list[vad.Event] = []
    at = turn = 0
    while at < len(samples):
        size = sizes[turn % len(sizes)]
        found += endpointer.feed(samples[at : at + size])
        at, turn = at + size, turn + 1
    return found + endpointer.finish()


@pytest.mark.parametrize("count", [0, 1, 511, 512, 513, 16000])
def test_no_sound_is_no_speech(count: int) -> None:
    for level in (0.0, 0.5):  # silence, and a constant offset
        found, certainty = vad.find_speech(np.full(count, level, np.float32), RATE)
        assert found == []
        assert certainty == 0.0


def test_one_probability_for_each_chunk() -> None:
    noise = np.random.default_rng(0).normal(0, 0.1, 513).astype(np.float32)
    assert vad.probabilities(noise).shape == (2 + vad.TAIL,)


def test_spans_have_margins_and_short_gaps_are_joined() -> None:
    margin = round(vad.MARGIN_SECONDS * RATE)
    chunks = np.zeros(400, np.float32)
    chunks[100:110] = chunks[120:130] = chunks[300:304] = 0.9
    chunks[130:133] = 0.35  # fading
    length = 400 * vad.CHUNK
    assert vad.spans(chunks, length) == [
        (100 * vad.CHUNK - margin, 133 * vad.CHUNK + margin),
        (300 * vad.CHUNK - margin, 304 * vad.CHUNK + margin),
    ]
    chunks[:] = 0
    chunks[0:5] = chunks[395:] = 1
    assert vad.spans(chunks, length) == [(0, 5 * vad.CHUNK + margin), (395 * vad.CHUNK - margin, length)]


def test_certainty_is_that_of_three_chunks() -> None:
    assert vad.certainty(np.array([0, 0.9, 0.6, 0.9, 0], np.float32)) == pytest.approx(0.8)
    assert vad.certainty(np.array([1, 0, 0], np.float32)) == pytest.approx(1 / 3)


@pytest.mark.parametrize("gain", [1.0, 0.003])
@pytest.mark.parametrize("rate", [8000, 16000, 44100])
def test_speech_is_found_at_any_level_and_rate(gain: float, rate: int) -> None:
    clip = read_audio(SAMPLES / "please_save_the_file.wav", sample_rate=rate)
    pause = np.zeros(2 * rate, np.float32)
    (span,), certainty = vad.find_speech(np.concatenate([pause, clip * np.float32(gain), pause]), rate)
    assert certainty > 0.95
    assert 2 * rate - 0.7 * rate <= span[0] <= 2 * rate + 0.6 * rate
    assert 1.2 * rate < span[1] - span[0] < len(clip) + 1.4 * rate


@settings(deadline=None, max_examples=15)
@given(st.lists(st.integers(1, 5000), min_size=1, max_size=6))
def test_a_stream_ends_the_same_whatever_its_blocks(sizes: list[int]) -> None:
    stream = np.concatenate([silence(0.7), SPOKEN, silence(1.1), SPOKEN[:20001], silence(0.9), SPOKEN])
    expected = events(stream, [len(stream)])
    assert [event.kind for event in expected] == ["started", "ended"] * 3
    assert events(stream, sizes) == expected


def test_events_are_in_order_and_apart() -> None:
    stream = np.concatenate([SPOKEN, silence(1.0), SPOKEN, silence(3), SPOKEN])
    found = events(stream, [4000])
    positions = [event.position for event in found]
    assert positions == sorted(positions)
    assert positions[0] >= 0
    assert positions[-1] <= len(stream)
    for started, ended in zip(found[::2], found[1::2], strict=True):
        assert started.position <= started.speech < ended.speech <= ended.position


def test_an_utterance_without_end_is_cut() -> None:
    talk = np.tile(SPOKEN[8000:-4000], 12)
    found = events(talk, [1600], max_seconds=5, pause_seconds=2.5)
    assert len(found) >= 4
    assert all(b.position - a.position <= 5 * RATE for a, b in zip(found[::2], found[1::2], strict=True))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("value", [1e30, -3e38, math.inf, -math.inf, math.nan])
def test_an_absurd_sample_deafens_nobody(value: float) -> None:
    stream = np.concatenate([silence(1), SPOKEN, silence(1), SPOKEN, silence(1)])
    stream[100] = value
    found = events(stream, [1600])
    assert [event.kind for event in found] == ["started", "ended"] * 2
    expected = stream.copy()
    expected[100] = 0 if math.isnan(value) else math.copysign(1, value)
    assert found == events(expected, [1600])
    assert np.array_equal(vad.probabilities(stream), vad.probabilities(expected))


def test_a_pause_out_of_range() -> None:
    for pause in (0.0, 20.0, float("nan")):
        with pytest.raises(AudioError, match="a pause of"):
            vad.Endpointer(pause_seconds=pause)
