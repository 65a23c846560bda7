"""Augmentation against independent references: scipy's convolution and spectra, libsndfile's mu-law, laws of length."""

from __future__ import annotations

import io
import json
import pickle
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import signal

from audio.augmentation import (
    AugmentationConfig,
    Augmenter,
    change_speed,
    generated_room,
    length_at_speed,
    narrow_band,
    reverberate,
    trim_room,
)
from audio.errors import CepstraError

if TYPE_CHECKING:
    from pathlib import Path

Array = NDArray[np.float32]

RATE = 16000
OFF = AugmentationConfig.off()
ALL = AugmentationConfig(
    speed_probability=1,
    crop_probability=1,
    padding_probability=1,
    room_probability=1,
    noise_probability=1,
    gain_probability=1,
    narrow_band_probability=1,
)


def noise(n: int, seed: int = 0, level: float = 0.1) -> Array:
    return np.random.default_rng(seed).standard_normal(n, dtype=np.float32) * np.float32(level)


def tone(hz: float, seconds: float = 1.0, level: float = 0.5) -> Array:
    return (level * np.sin(2 * np.pi * hz * np.arange(round(seconds * RATE)) / RATE)).astype(np.float32)


def power_db(samples: Array) -> float:
    return float(10 * np.log10(np.mean(np.square(samples, dtype=np.float64))))


def peak_hz(samples: Array) -> float:
    spectrum = np.abs(np.fft.rfft(samples * np.hanning(len(samples))))
    return float(spectrum.argmax() * RATE / len(samples))


# --- the whole ---


def test_off_is_the_identity() -> None:
    samples = noise(5000, level=2.0)  # beyond full scale too
    augmenter = Augmenter(OFF, [noise(100)], [noise(100)])
    rng = np.random.default_rng(0)
    assert augmenter.speed_factor(rng) == 1.0
    assert augmenter(samples, rng) is samples
    assert augmenter.max_length(5000) == augmenter.min_length(5000) == 5000


@settings(derandomize=True, max_examples=60, deadline=None)
@given(
    n=st.one_of(st.integers(0, 3), st.integers(0, 6000)),
    seed=st.integers(0, 2**32),
    level=st.sampled_from([0.0, 1e-20, 1e-4, 1.0]),
    given_recordings=st.booleans(),
)
def test_length_and_range_hold_whatever_comes(n: int, seed: int, level: float, given_recordings: bool) -> None:
    recordings = [noise(700), np.zeros(50, np.float32), np.ones(1, np.float32), np.zeros(0, np.float32)]
    augmenter = (
        Augmenter(ALL, recordings, [noise(3000), np.ones(1, np.float32)]) if given_recordings else Augmenter(ALL)
    )
    samples = noise(n, level=level).clip(-1, 1)
    rng = np.random.default_rng(seed)
    speed = augmenter.speed_factor(rng)
    varied = augmenter(samples, rng, speed)
    assert varied.dtype == np.float32
    assert varied.ndim == 1
    assert np.isfinite(varied).all()
    assert np.abs(varied).max(initial=0) <= 1
    assert augmenter.min_length(n, speed) <= len(varied) <= augmenter.max_length(n, speed)


def test_the_same_generator_state_gives_the_same_samples_in_another_process_too() -> None:
    augmenter = Augmenter(ALL, [noise(9000, 1)], [noise(900, 2)])
    other = pickle.loads(pickle.dumps(augmenter))  # noqa: S301  # our own bytes, as a spawned worker gets them
    samples = noise(8000, 3)
    before = samples.copy()
    first = [augmenter(samples, np.random.default_rng(seed), 0.9) for seed in range(6)]
    second = [other(samples, np.random.default_rng(seed), 0.9) for seed in range(6)]
    for one, two in zip(first, second, strict=True):
        np.testing.assert_array_equal(one, two)
    assert len({one.tobytes() for one in first}) == 6
    np.testing.assert_array_equal(samples, before)


def test_parts_are_as_frequent_as_the_config_says() -> None:
    augmenter = Augmenter(replace(OFF, speed_probability=0.6, speed_factors=(0.9, 1.1), gain_probability=0.25))
    rng = np.random.default_rng(0)
    speeds = [augmenter.speed_factor(rng) for _ in range(2000)]
    assert set(speeds) == {0.9, 1.0, 1.1}
    assert speeds.count(1.0) / 2000 == pytest.approx(0.4, abs=0.04)
    samples = noise(10)
    assert sum(augmenter(samples, rng) is not samples for _ in range(2000)) / 2000 == pytest.approx(0.25, abs=0.04)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("noise_probability", 1.5),
        ("mu_law_share", -0.1),
        ("speed_factors", ()),
        ("speed_factors", (0.1,)),
        ("crop_ms", -1),
        ("padding_seconds", float("nan")),
        ("gain_db", (3, -3)),
        ("noise_snr_db", (0, float("inf"))),
        ("room_rt60_seconds", (0, 1)),
    ],
)
def test_a_setting_that_does_not_fit_is_named(setting: str, value: object) -> None:
    with pytest.raises(CepstraError, match=setting):
        AugmentationConfig(**{setting: value})  # type: ignore[arg-type]  # wrong on purpose


# --- speed, edges, gain ---


@settings(derandomize=True, max_examples=40, deadline=None)
@given(n=st.integers(0, 5000), speed=st.floats(0.5, 2))
def test_speed_divides_the_length(n: int, speed: float) -> None:
    varied = change_speed(noise(n), speed)
    assert len(varied) == length_at_speed(n, speed)
    assert abs(len(varied) - n / speed) <= 1


@pytest.mark.parametrize("speed", [0.9, 1.1])
def test_speed_shifts_pitch_and_keeps_the_level(speed: float) -> None:
    varied = change_speed(tone(400), speed)
    assert peak_hz(varied) == pytest.approx(400 * speed, abs=2)
    assert power_db(varied) == pytest.approx(power_db(tone(400)), abs=0.05)


def test_speed_agrees_with_scipys_resampling() -> None:
    low = signal.sosfilt(signal.butter(8, 3000, fs=RATE, output="sos"), noise(16000)).astype(np.float32)
    ours, reference = change_speed(low, 1.1), signal.resample_poly(low, 10, 11)
    n = min(len(ours), len(reference))
    np.testing.assert_allclose(ours[200 : n - 200], reference[200 : n - 200], atol=2e-3 * np.abs(reference).max())


def test_crop_takes_from_the_start_only_and_no_more_than_said() -> None:
    augmenter = Augmenter(replace(OFF, crop_probability=1, crop_ms=50))
    for n, most in ((16000, 800), (1000, 100), (9, 0)):
        samples = noise(n)
        lengths = []
        for seed in range(200):
            varied = augmenter(samples, np.random.default_rng(seed))
            np.testing.assert_array_equal(varied, samples[n - len(varied) :])
            lengths.append(len(varied))
        assert max(lengths) > n - most / 10 - 1
        assert n - most <= min(lengths) <= n - 0.9 * most


def test_padding_surrounds_the_clip_with_silence_or_its_own_floor() -> None:
    samples = np.concatenate([tone(300, 0.2), noise(1600, level=0.001), tone(300, 0.2)]).clip(-1, 1)
    augmenter = Augmenter(replace(OFF, padding_probability=1, padding_seconds=0.3))
    floors = set()
    for seed in range(40):
        varied = augmenter(samples, np.random.default_rng(seed))
        places = signal.correlate(varied, samples, mode="valid")
        at = int(places.argmax())
        np.testing.assert_array_equal(varied[at : at + len(samples)], samples)
        before, after = varied[:at], varied[at + len(samples) :]
        assert max(len(before), len(after)) <= 4800
        around = np.concatenate([before, after])
        floors.add(bool(around.any()))
        assert np.sqrt(np.mean(around**2)) < 0.003  # about the floor, far below the tone
    assert floors == {True, False}


def test_gain_stays_in_its_range_and_clips_at_full_scale() -> None:
    samples = tone(500, level=0.1)
    augmenter = Augmenter(replace(OFF, gain_probability=1, gain_db=(-20, 6)))
    gains = [power_db(augmenter(samples, np.random.default_rng(seed))) - power_db(samples) for seed in range(100)]
    assert -20.001 <= min(gains) < -17
    assert 3 < max(gains) <= 6.001
    loud = Augmenter(replace(OFF, gain_probability=1, gain_db=(40, 40)))(samples, np.random.default_rng(0))
    np.testing.assert_allclose(loud, (100 * samples).clip(-1, 1), rtol=1e-5)


# --- rooms ---


@settings(derandomize=True, max_examples=40, deadline=None)
@given(n=st.integers(1, 40000), length=st.integers(1, 9000), seed=st.integers(0, 1000), data=st.data())
def test_reverberation_is_scipys_convolution_without_the_delay(
    n: int, length: int, seed: int, data: st.DataObject
) -> None:
    samples, room = noise(n, seed), noise(length, seed + 1, 1.0)
    direct = data.draw(st.integers(0, length - 1))
    reference = signal.fftconvolve(samples.astype(np.float64), room.astype(np.float64))[direct : direct + n]
    reference *= np.sqrt(np.sum(samples.astype(np.float64) ** 2) / np.sum(reference**2))
    wet = reverberate(samples, room, direct)
    assert wet.dtype == np.float32
    np.testing.assert_allclose(wet, reference, atol=2e-5 * np.abs(reference).max())


@pytest.mark.parametrize("delay", [0, 5, 200])
def test_a_given_room_does_not_shift_the_speech_and_keeps_its_energy(delay: int) -> None:
    tail = noise(8000, 5, 0.2) * np.exp(-np.arange(8000) / 1500).astype(np.float32)
    room = np.concatenate([np.zeros(delay, np.float32), np.array([-2.0], np.float32), tail])  # of inverted polarity
    samples = noise(RATE)
    augmenter = Augmenter(replace(OFF, room_probability=1, room_generated_share=0), rooms=[room])
    wet = augmenter(samples, np.random.default_rng(0))
    assert len(wet) == len(samples)
    assert np.abs(signal.correlate(wet, samples)).argmax() == len(samples) - 1  # lag 0
    assert power_db(wet) == pytest.approx(power_db(samples), abs=0.01)


def test_rooms_are_cut_and_faded() -> None:
    room = noise(RATE, 1, 0.1)
    room[1000] = 4  # the direct sound
    kept, peak = trim_room(room, RATE, 0.3)
    assert len(kept) == 16 + 4800
    assert (peak, kept[peak]) == (16, 1.0)
    np.testing.assert_allclose(kept[:3000], room[984:3984] / 4, rtol=1e-6)
    assert np.abs(kept[-50:]).max() < 0.1 * np.abs(room).std()


@pytest.mark.parametrize("room", [np.zeros(9), np.zeros(0), np.array([1, np.nan]), np.ones((5, 2))])
def test_a_room_without_sound_is_refused(room: Array) -> None:
    with pytest.raises(CepstraError, match="impulse response"):
        Augmenter(OFF, rooms=[room])


@pytest.mark.parametrize("rt60", [0.2, 0.5])
def test_generated_rooms_decay_by_60_db_in_their_time(rt60: float) -> None:
    slopes = []
    for seed in range(5):
        room = generated_room(np.random.default_rng(seed), RATE, rt60, 3.0, 1.0).astype(np.float64)
        assert room[0] == 1
        assert 10 * np.log10(room[0] ** 2 / np.sum(room[1:] ** 2)) == pytest.approx(3, abs=0.01)
        decay = 10 * np.log10(np.cumsum(room[::-1] ** 2)[::-1])  # Schroeder's backward integration
        low, high = int(0.1 * rt60 * RATE), int(0.5 * rt60 * RATE)
        slopes.append((decay[high] - decay[low]) / ((high - low) / RATE))
    assert -60 / np.mean(slopes) == pytest.approx(rt60, rel=0.1)


def test_generated_rooms_stay_short() -> None:
    assert len(generated_room(np.random.default_rng(0), RATE, 2.0, 0.0, 0.3)) == 4800


def test_the_direct_sound_is_the_first_of_the_loud_ones() -> None:
    room = np.zeros(1000, np.float32)
    room[[90, 100, 170]] = 0.1, -0.7, 1.0
    kept, direct = trim_room(room, RATE, 0.01)
    assert direct == 16
    np.testing.assert_array_equal(np.flatnonzero(kept), [6, 16, 86])
    np.testing.assert_array_equal(trim_room(np.ones(1, np.float32), RATE, 0.3)[0], [1])


@pytest.mark.real
def test_real_rooms_do_not_shift_the_sound(corpus: Path) -> None:
    rows = [json.loads(line) for line in (corpus / "noise.jsonl").read_text("utf-8").splitlines()]
    files = [corpus / row["audio_filepath"] for row in rows if row["audio_filepath"].startswith("noise/rooms/")]
    assert files
    samples = noise(2 * RATE)
    for file in files:
        room, rate = soundfile.read(file, dtype="float32", always_2d=True)
        room = signal.resample_poly(room[:, 0], RATE, rate).astype(np.float32)
        wet = reverberate(samples, *trim_room(room, RATE, 0.3))
        lag = np.abs(signal.correlate(wet, samples)).argmax() - (len(samples) - 1)
        assert -0.001 * RATE <= lag <= 0.01 * RATE  # the loudest reflection may come a little later


# --- noise ---


def added_noise(augmenter: Augmenter, samples: Array, seed: int) -> Array:
    return augmenter(samples, np.random.default_rng(seed)) - samples


@pytest.mark.parametrize("recordings", [[], [noise(50000, 9, 0.02)], [noise(777, 9, 0.02)]])
@pytest.mark.parametrize("snr", [0.0, 20.0])
def test_noise_has_the_ratio_asked_for(recordings: list[Array], snr: float) -> None:
    augmenter = Augmenter(
        replace(OFF, noise_probability=1, noise_snr_db=(snr, snr), noise_generated_share=0), recordings
    )
    speech = tone(400, 0.5, 0.1)
    padded = np.concatenate([np.zeros(8000, np.float32), speech, np.zeros(8000, np.float32)])
    for seed in range(10):
        for samples in (speech, padded):  # silence around the speech changes nothing
            added = added_noise(augmenter, samples, seed)
            assert power_db(speech) - power_db(added) == pytest.approx(snr, abs=0.1)


def test_noise_is_an_excerpt_of_a_recording_that_starts_again_where_it_ends() -> None:
    recording = noise(500, 4)
    augmenter = Augmenter(
        replace(OFF, noise_probability=1, noise_snr_db=(10, 10), noise_generated_share=0), [recording]
    )
    starts = set()
    for seed in range(5):
        added = added_noise(augmenter, tone(400, 0.1, 0.1), seed)
        start = int(signal.correlate(np.tile(recording, 2), added[:500], mode="valid").argmax())
        expected = np.tile(recording, 6)[start : start + len(added)]
        scale = np.dot(added, expected) / np.dot(expected, expected)
        np.testing.assert_allclose(added, scale * expected, atol=1e-6)
        starts.add(start)
    assert len(starts) > 2


def test_a_hole_in_a_recording_is_no_noise_and_silence_gets_none() -> None:
    config = replace(OFF, noise_probability=1, noise_snr_db=(10, 10), noise_generated_share=0)
    augmenter = Augmenter(config, [np.full(9000, 1e-6, np.float32)])
    samples = tone(400, 0.2, 0.1)
    assert power_db(samples) - power_db(added_noise(augmenter, samples, 0)) == pytest.approx(10, abs=0.1)
    silence = np.zeros(4000, np.float32)
    assert not augmenter(silence, np.random.default_rng(0)).any()


def test_generated_noises_are_white_pink_brown_and_hum() -> None:
    augmenter = Augmenter(replace(OFF, noise_probability=1, noise_snr_db=(40, 40)))
    speech = tone(7000, 8.0, 0.5)
    slopes, hums = set(), set()
    for seed in range(30):
        added = added_noise(augmenter, speech, seed).astype(np.float64)
        hz, power = signal.welch(added, RATE, nperseg=8192)
        lines = hz[signal.find_peaks(power, prominence=power.max() / 1e4)[0]]
        if power[(hz > 3000) & (hz < 6000)].max() < power.max() * 1e-5 and len(lines) >= 5:
            mains = float(np.median(np.diff(lines)))
            assert min(abs(mains - 50), abs(mains - 60)) < 4
            hums.add(round(mains, -1))
            continue
        band = (hz > 100) & (hz < 6000)
        slopes.add(round(float(np.polyfit(np.log2(hz[band]), 10 * np.log10(power[band]), 1)[0])))  # dB per octave
    assert slopes == {0, -3, -6}
    assert len(hums) == 2


# --- telephone ---


def test_narrow_band_passes_up_to_3_4_khz_and_nothing_above_4() -> None:
    samples = noise(2 * RATE)
    varied = narrow_band(samples, RATE)
    assert len(varied) == len(samples)
    hz, power = signal.welch(varied, RATE, nperseg=1024)
    ratio = power / signal.welch(samples, RATE, nperseg=1024)[1]
    assert np.abs(10 * np.log10(ratio[(hz > 50) & (hz < 3400)])).max() < 0.1
    assert 10 * np.log10(ratio[hz > 4100].max()) < -60
    assert signal.correlate(varied, samples).argmax() == len(samples) - 1  # no delay


def test_mu_law_is_libsndfiles_within_a_step() -> None:
    samples = np.linspace(-1, 1, 4001).astype(np.float32)
    file = io.BytesIO()
    soundfile.write(file, samples, 8000, format="WAV", subtype="ULAW")
    file.seek(0)
    reference, _ = soundfile.read(file, dtype="float32")
    ours = narrow_band(samples, 8000, mu_law=True)  # at 8 kHz there is nothing to resample
    # G.711 replaces the logarithm by eight straight pieces: its half steps are up to 1/32 of the value, ours 1/46
    assert (np.abs(ours - reference) <= np.abs(samples) * (1 / 32 + 1 / 46) + 1 / 4096).all()
    assert len(np.unique(ours)) <= 255
    assert power_db(samples) - power_db(ours - samples) > 35


def test_other_sample_rates_work() -> None:
    augmenter = Augmenter(ALL, sample_rate=8000)
    varied = augmenter(noise(4000), np.random.default_rng(0), 1.1)
    assert len(varied) <= augmenter.max_length(4000, 1.1) == round(4000 / 1.1) + 2 * 2400
