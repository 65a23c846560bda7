"""The spec, and the numpy front end against the textbook."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from audio.errors import CepstraError
from audio.mfcc import MfccSpec, dct_matrix, log_mel, mel_matrix, mfcc, window

Array = NDArray[np.float32]


def textbook(samples: Array, spec: MfccSpec) -> NDArray[np.float64]:
    """Cepstra from their definitions, sum by sum, in float64; for the fields that Kaldi knows."""
    rows = []
    for start in range(0, len(samples) - spec.frame + 1, spec.hop):
        frame = samples[start : start + spec.frame].astype(np.float64) * spec.scale
        if spec.remove_dc:
            frame = frame - frame.mean()
        before = np.concatenate([frame[:1], frame[:-1]])
        frame = frame - spec.pre_emphasis * before
        frame = frame * (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(spec.frame) / (spec.frame - 1))) ** 0.85
        n = np.arange(spec.frame)
        powers = [abs(np.sum(frame * np.exp(-2j * np.pi * k * n / spec.fft))) ** 2 for k in range(spec.fft // 2 + 1)]
        low, high = (1127 * np.log(1 + hz / 700) for hz in (spec.low_hz, spec.high_hz))
        step = (high - low) / (spec.n_mels + 1)
        mels = []
        for m in range(spec.n_mels):
            centre, total = low + (m + 1) * step, 0.0
            for k, power in enumerate(powers):
                mel = 1127 * np.log(1 + k * spec.sample_rate / spec.fft / 700)
                total += max(0.0, 1 - abs(mel - centre) / step) * power
            mels.append(np.log(max(total, spec.log_floor)))
        row = []
        for c in range(spec.n_cepstra):
            total = sum(x * np.cos(np.pi * c * (m + 0.5) / spec.n_mels) for m, x in enumerate(mels))
            row.append(total * np.sqrt((1 if c == 0 else 2) / spec.n_mels))
        rows.append(row)
    cepstra = np.array(rows)
    if spec.lifter:
        cepstra *= 1 + spec.lifter / 2 * np.sin(np.pi * np.arange(spec.n_cepstra) / spec.lifter)
    return cepstra


def noise(n: int, seed: int = 0) -> Array:
    return (0.1 * np.random.default_rng(seed).standard_normal(n)).astype(np.float32)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"n_cepstra": 13, "n_mels": 23, "lifter": 22.0},
        {"scale": 32768.0, "remove_dc": False, "pre_emphasis": 0.0},
        {"sample_rate": 8000, "frame": 200, "hop": 80, "fft": 256, "high_hz": 3800.0, "low_hz": 100.0, "n_mels": 20}
        | {"n_cepstra": 20},
        {"log_floor": 3.0},  # about half of the mel powers are below it
    ],
)
def test_definition(changes: dict[str, Any]) -> None:
    spec = replace(MfccSpec(normalisation="none"), **changes)
    samples = noise(1000) + np.float32(0.3)
    np.testing.assert_allclose(mfcc(samples, spec), textbook(samples, spec), rtol=1e-5, atol=2e-5)


def test_log_mel_is_the_cepstra_before_the_dct() -> None:
    spec = MfccSpec(normalisation="none", lifter=22.0, n_cepstra=13)
    samples = noise(4000)
    assert log_mel(samples, spec).shape == (23, 40)
    np.testing.assert_allclose(log_mel(samples, spec) @ dct_matrix(spec).T, mfcc(samples, spec), atol=1e-4)


def test_a_tone_lands_in_its_filter() -> None:
    spec = MfccSpec()
    for hz in (1000, 3000, 7000):
        tone = 0.5 * np.sin(2 * np.pi * hz / 16000 * np.arange(16000))
        loudest = log_mel(tone.astype(np.float32), spec).mean(axis=0).argmax()
        weights = mel_matrix(spec)[:, round(hz * 512 / 16000)]
        assert loudest == weights.argmax()


def test_silence_is_the_floor() -> None:
    assert log_mel(np.zeros(1000, np.float32), MfccSpec()) == pytest.approx(np.log(1e-6), rel=1e-6)
    assert not mfcc(np.zeros(1000, np.float32), MfccSpec()).any()


def test_a_chunk_more_or_less_changes_nothing() -> None:
    """Frames are worked on in chunks; a long clip is its parts."""
    spec = MfccSpec(normalisation="none")
    samples = noise(16000 * 5)
    whole = mfcc(samples, spec)
    for start in (0, 100, 127, 128, 300):
        part = mfcc(samples[start * spec.hop :], spec)
        np.testing.assert_allclose(part, whole[start:], atol=1e-5)


def test_the_same_bits_every_time() -> None:
    samples = noise(20000)
    before = samples.copy()
    assert mfcc(samples, MfccSpec()).tobytes() == mfcc(samples, MfccSpec()).tobytes()
    assert samples.tobytes() == before.tobytes()


@pytest.mark.parametrize("n", [0, 1, 399, 400, 401, 559, 560, 16000])
def test_frames_of_a_clip(n: int) -> None:
    spec = MfccSpec()
    features = mfcc(noise(n), spec)
    assert features.shape == (1 + max(0, n - 400) // 160, 40)
    assert features.shape[0] == spec.frames(n)
    assert features.dtype == np.float32
    assert np.isfinite(features).all()


def test_a_short_clip_is_zero_padded() -> None:
    spec = MfccSpec(normalisation="none")
    samples = noise(300)
    np.testing.assert_array_equal(mfcc(samples, spec), mfcc(np.pad(samples, (0, 100)), spec))


def test_utterance_normalisation() -> None:
    spread = tuple(np.linspace(5.0, 0.1, 40))
    raw = mfcc(noise(16000), MfccSpec(normalisation="none"))
    features = mfcc(noise(16000), MfccSpec(spread=spread))
    np.testing.assert_allclose(features, (raw - raw.mean(axis=0)) / np.array(spread), atol=1e-4)


def test_running_normalisation_looks_back_only() -> None:
    spec = MfccSpec(normalisation="running", running_frames=7)
    raw = mfcc(noise(8000), MfccSpec(normalisation="none")).astype(np.float64)
    features = mfcc(noise(8000), spec)
    for t in range(len(raw)):
        np.testing.assert_allclose(features[t], raw[t] - raw[max(0, t - 6) : t + 1].mean(axis=0), atol=1e-5)
    np.testing.assert_allclose(mfcc(noise(8000)[:4000], spec), features[: spec.frames(4000)], atol=1e-5)


def test_gain_moves_only_c0_and_the_mean_takes_it_off() -> None:
    spec = MfccSpec()
    np.testing.assert_allclose(mfcc(noise(16000), spec), mfcc(noise(16000) / np.float32(4), spec), atol=1e-4)
    louder = mfcc(noise(16000), MfccSpec(normalisation="none", scale=4.0))
    difference = louder - mfcc(noise(16000), MfccSpec(normalisation="none"))
    np.testing.assert_allclose(difference[:, 0], np.sqrt(40) * np.log(16), atol=1e-4)
    np.testing.assert_allclose(difference[:, 1:], 0, atol=1e-4)


def test_energy_in_c0() -> None:
    samples = noise(4000) + np.float32(0.2)
    frames = np.lib.stride_tricks.sliding_window_view(samples.astype(np.float64), 400)[::160]
    centred = frames - frames.mean(axis=1, keepdims=True)
    raw = mfcc(samples, MfccSpec(normalisation="none", c0="raw_energy"))
    np.testing.assert_allclose(raw[:, 0], np.log((centred**2).sum(axis=1)), atol=1e-5)
    quiet = mfcc(samples, MfccSpec(normalisation="none", c0="raw_energy", energy_floor=100.0, log="decibel"))
    np.testing.assert_allclose(quiet[:, 0], 20.0, atol=1e-5)
    np.testing.assert_allclose(quiet[:, 1:], raw[:, 1:] * 10 / np.log(10), atol=1e-4)
    plain = MfccSpec(normalisation="none", c0="energy", pre_emphasis=0.0, window="rectangular")
    np.testing.assert_allclose(mfcc(samples, plain)[:, 0], raw[:, 0], atol=1e-5)


def test_top_db_is_the_clips_own() -> None:
    spec = MfccSpec(top_db=40.0, log="decibel")
    samples = np.concatenate([noise(8000), np.zeros(8000, np.float32)])
    mel = log_mel(samples, spec)
    assert mel.min() == pytest.approx(mel.max() - 40, abs=1e-4)


@pytest.mark.parametrize("edges", ["zero", "reflect", "mirror"])
@pytest.mark.parametrize("n", [0, 1, 2, 100, 799, 800, 801, 5000])
def test_frames_beyond_the_ends(edges: Any, n: int) -> None:
    """Frame t is the one around sample t hop (or t hop + hop / 2), of the clip as numpy extends it."""
    spec = MfccSpec(normalisation="none", edges=edges)
    centred = edges != "mirror"
    mode: Any = {"zero": "constant", "reflect": "reflect", "mirror": "symmetric"}[edges]
    samples = noise(n)
    extended = np.pad(samples, 1000, mode=mode if n else "constant")
    features = mfcc(samples, spec)
    assert len(features) == (1 + n // 160 if centred else max(1, (n + 80) // 160))
    for t, row in enumerate(features):
        start = 1000 + t * 160 + (0 if centred else 80) - 200
        alone = mfcc(extended[start : start + 400], MfccSpec(normalisation="none"))
        np.testing.assert_allclose(row, alone[0], atol=1e-4)


def test_refuses_what_is_no_sound() -> None:
    with pytest.raises(CepstraError, match=r"int16.*divide by 32768"):
        mfcc(np.zeros(1000, np.int16), MfccSpec())
    with pytest.raises(CepstraError, match=r"\(2, 1000\)"):
        mfcc(np.zeros((2, 1000), np.float32), MfccSpec())


@pytest.mark.parametrize("name", ["povey", "hamming", "hann", "blackman", "rectangular"])
def test_windows_are_symmetric_unless_periodic(name: Any) -> None:
    symmetric = window(MfccSpec(window=name))
    np.testing.assert_allclose(symmetric, symmetric[::-1], atol=1e-12)
    longer = window(MfccSpec(window=name, frame=401))
    np.testing.assert_allclose(window(MfccSpec(window=name, periodic_window=True)), longer[:-1], atol=1e-12)


def test_tables_are_safe_to_share() -> None:
    with pytest.raises(ValueError, match="read-only"):
        window(MfccSpec())[0] = 1
    np.testing.assert_allclose(dct_matrix(MfccSpec()) @ dct_matrix(MfccSpec()).T, np.eye(40), atol=1e-12)


SPECS = st.builds(
    MfccSpec,
    hop=st.integers(1, 400),
    edges=st.sampled_from(["snip", "zero", "reflect", "mirror"]),
    scale=st.floats(1e-3, 1e6),
    window=st.sampled_from(["povey", "hamming", "hann", "blackman", "rectangular"]),
    periodic_window=st.booleans(),
    pre_emphasis=st.floats(0, 1),
    high_hz=st.floats(2000, 8000),
    top_db=st.none() | st.floats(1, 100),
    log_floor=st.floats(1e-12, 1),
    normalisation=st.sampled_from(["utterance", "running", "none"]),
    spread=st.none() | st.lists(st.floats(0.01, 100), min_size=40, max_size=40).map(tuple),
)


@settings(max_examples=30, derandomize=True, deadline=None)
@given(SPECS)
def test_a_spec_survives_json(spec: MfccSpec) -> None:
    back = MfccSpec.from_dict(json.loads(json.dumps(spec.to_dict())))
    assert back == spec
    assert hash(back) == hash(spec)


def test_defaults_are_those_of_the_trained_models() -> None:
    """A model's features are its spec's; what a key left out means must never change."""
    spec = MfccSpec.from_dict({})
    assert spec == MfccSpec()
    assert (spec.sample_rate, spec.frame, spec.hop, spec.fft, spec.n_mels, spec.n_cepstra) == (
        16000,
        400,
        160,
        512,
        40,
        40,
    )
    assert (spec.low_hz, spec.high_hz, spec.pre_emphasis, spec.log_floor, spec.lifter) == (
        20.0,
        8000.0,
        0.97,
        1e-6,
        0.0,
    )
    assert (spec.window, spec.edges, spec.mel_scale, spec.log, spec.c0) == (
        "povey",
        "snip",
        "htk",
        "natural",
        "cepstrum",
    )
    assert (spec.normalisation, spec.running_frames, spec.scale, spec.top_db, spec.spread) == (
        "utterance",
        300,
        1,
        None,
        None,
    )


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"n_mel": 40}, "unknown setting 'n_mel'; did you mean 'n_mels'?"),
        ({"colour": "red"}, "unknown setting 'colour'"),
        ({"hop": "160"}, "hop is '160'; it takes a whole number"),
        ({"hop": 160.0}, "hop is 160.0; it takes a whole number"),
        ({"hop": True}, "hop is True; it takes a whole number"),
        ({"hop": 0}, "0 < hop <= frame <= fft does not hold; got frame 400, hop 0, fft 512"),
        ({"hop": 500}, "hop 500"),
        ({"fft": 256}, "fft 256"),
        ({"fft": 513}, "fft is even"),
        ({"fft": 10**9}, "at most 8192"),
        ({"n_mels": 60000}, "n_mels is at most 1024 does not hold"),
        ({"running_frames": 10**21}, "running_frames is at most 1000000"),
        ({"scale": 1e299}, "scale is at most 1e9"),
        ({"n_cepstra": 41}, "0 < n_cepstra <= n_mels does not hold; got n_mels 40, n_cepstra 41"),
        ({"n_mels": 0}, "n_cepstra <= n_mels"),
        ({"high_hz": 8001}, "high_hz <= sample_rate / 2"),
        ({"low_hz": 9000.0}, "low_hz < high_hz"),
        ({"low_hz": -1.0}, "low_hz"),
        ({"low_hz": float("nan")}, "low_hz is nan; it takes a finite number"),
        ({"sample_rate": 0}, "sample_rate is above 0"),
        ({"pre_emphasis": 1.5}, "0 <= pre_emphasis <= 1 does not hold"),
        ({"window": "kaiser"}, "window is 'kaiser'; it takes 'povey' or 'hamming' or"),
        ({"edges": None}, "edges is None; it takes 'snip'"),
        ({"normalisation": "mean"}, "normalisation is 'mean'"),
        ({"log_floor": 0}, "log_floor is above 0"),
        ({"running_frames": 0}, "running_frames is above 0"),
        ({"scale": float("inf")}, "scale is inf"),
        ({"scale": 10**400}, "scale is 1000"),
        ({"top_db": 0}, "top_db is above 0"),
        ({"top_db": "80"}, "top_db is '80'; it takes a finite number or nothing"),
        ({"remove_dc": 1}, "remove_dc is 1; it takes true or false"),
        ({"lifter": -1}, "lifter is 0 or more"),
        ({"spread": [1.0]}, "spread has n_cepstra values"),
        ({"spread": [0.0] * 40}, "spread is above 0"),
        ({"spread": ["1"] * 40}, "spread is"),
        ({"spread": 1.0}, "it takes one number for each cepstrum, or nothing"),
        ({1: 2}, "unknown setting 1"),
        (["hop"], "settings are list"),
    ],
)
def test_refuses_what_does_not_fit(values: Any, message: str) -> None:
    with pytest.raises(CepstraError) as caught:
        MfccSpec.from_dict(values)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
