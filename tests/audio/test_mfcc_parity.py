"""The same numbers as other libraries, each under its own conventions (docs/features.md has these specs)."""

from __future__ import annotations

import ast
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import librosa
import numpy as np
import pytest
import soundfile as sf
import torch
import torchaudio
from numpy.typing import NDArray
from torchaudio.compliance import kaldi

from audio.mfcc import MfccSpec, mfcc

Array = NDArray[np.float32]


@pytest.fixture(params=["chirp", "noise", pytest.param("speech", marks=pytest.mark.real)], scope="module")
def samples(request: pytest.FixtureRequest) -> Array:
    """Two seconds at 16 kHz, fading into noise (else their float32 is what differs); or three of real speech."""
    rng = np.random.default_rng(3)
    t = np.arange(32000) / 16000
    if request.param == "speech":
        corpus: Path = request.getfixturevalue("corpus")
        row = json.loads((corpus / "books.test.jsonl").read_text("utf-8").splitlines()[0])
        return np.asarray(sf.read(corpus / row["audio_filepath"], dtype="float32", stop=48000)[0])
    sound = np.sin(2 * np.pi * (100 + 1800 * t) * t) if request.param == "chirp" else rng.standard_normal(32000)
    sound = 0.2 * sound * np.exp(-2 * t) + 0.01 + rng.uniform(-1, 1, 32000) / 4096
    return sound.astype(np.float32)


def close(ours: Array, theirs: NDArray[np.floating], tolerance: float = 1e-3) -> None:
    """Relative to the largest value, cepstrum by cepstrum."""
    assert ours.shape == theirs.shape
    largest = np.abs(theirs).max(axis=0)
    assert (np.abs(ours - theirs).max(axis=0) <= tolerance * largest).all()


# What torchaudio.compliance.kaldi.mfcc (and Kaldi's compute-mfcc-feats) does by default
KALDI = MfccSpec(n_mels=23, n_cepstra=13, lifter=22.0, log_floor=1.1920929e-07, normalisation="none")


@pytest.mark.parametrize(
    ("options", "changes"),
    [
        ({}, {}),
        ({"num_mel_bins": 40, "num_ceps": 40, "cepstral_lifter": 0.0}, {"n_mels": 40, "n_cepstra": 40, "lifter": 0.0}),
        ({"num_mel_bins": 80, "num_ceps": 20}, {"n_mels": 80, "n_cepstra": 20}),
        ({"window_type": "hamming"}, {"window": "hamming"}),
        ({"window_type": "hanning"}, {"window": "hann"}),
        ({"window_type": "blackman"}, {"window": "blackman"}),
        ({"window_type": "rectangular", "cepstral_lifter": 10.0}, {"window": "rectangular", "lifter": 10.0}),
        ({"preemphasis_coefficient": 0.0}, {"pre_emphasis": 0.0}),
        ({"preemphasis_coefficient": 0.9, "remove_dc_offset": False}, {"pre_emphasis": 0.9, "remove_dc": False}),
        ({"low_freq": 0.0, "high_freq": 4000.0}, {"low_hz": 0.0, "high_hz": 4000.0}),
        ({"low_freq": 64.0, "high_freq": -400.0}, {"low_hz": 64.0, "high_hz": 7600.0}),
        ({"frame_length": 32.0, "frame_shift": 8.0}, {"frame": 512, "hop": 128}),
        ({"round_to_power_of_two": False}, {"fft": 400}),
        ({"snip_edges": False}, {"edges": "mirror"}),
        ({"use_energy": True}, {"c0": "raw_energy", "energy_floor": 1.0}),
        ({"use_energy": True, "energy_floor": 1e5}, {"c0": "raw_energy", "energy_floor": 1e5}),
        ({"use_energy": True, "raw_energy": False, "energy_floor": 0.1}, {"c0": "energy", "energy_floor": 0.1}),
        ({"subtract_mean": True}, {"normalisation": "utterance"}),
    ],
    ids=str,
)
@pytest.mark.parametrize("scale", [1.0, 32768.0], ids=["unit scale", "16-bit scale"])
def test_kaldi(samples: Array, options: dict[str, Any], changes: dict[str, Any], scale: float) -> None:
    waveform = torch.from_numpy(samples)[None] * scale
    ours = mfcc(samples, replace(KALDI, scale=scale, **changes))
    close(ours, kaldi.mfcc(waveform, dither=0.0, **options).numpy())
    close(ours, kaldi.mfcc(waveform.double(), dither=0.0, **options).numpy(), tolerance=1e-4)


def test_kaldi_at_8_khz(samples: Array) -> None:
    spec = replace(KALDI, sample_rate=8000, frame=200, hop=80, fft=256, high_hz=4000.0)
    close(mfcc(samples, spec), kaldi.mfcc(torch.from_numpy(samples)[None], sample_frequency=8000.0).numpy())


# What librosa.feature.mfcc does by default
LIBROSA = MfccSpec(
    sample_rate=22050,
    frame=2048,
    hop=512,
    fft=2048,
    edges="zero",
    remove_dc=False,
    pre_emphasis=0.0,
    window="hann",
    periodic_window=True,
    n_mels=128,
    low_hz=0.0,
    high_hz=11025.0,
    mel_scale="slaney",
    mel_slopes="hz",
    mel_norm="area",
    log_floor=1e-10,
    top_db=80.0,
    log="decibel",
    n_cepstra=20,
    normalisation="none",
)
LIBROSA_16K = {"sample_rate": 16000, "frame": 400, "hop": 160, "fft": 512, "high_hz": 8000.0, "n_mels": 40}


@pytest.mark.parametrize(
    ("options", "changes"),
    [
        ({}, {}),
        ({"sr": 16000}, {"sample_rate": 16000, "high_hz": 8000.0}),
        ({"sr": 16000, "n_fft": 512, "win_length": 400, "hop_length": 160, "n_mels": 40}, LIBROSA_16K),
        (
            {"sr": 16000, "n_fft": 512, "win_length": 400, "hop_length": 160, "n_mels": 40, "n_mfcc": 40}
            | {"htk": True, "mel_norm": None, "fmin": 20, "fmax": 7600, "pad_mode": "reflect", "window": "hamming"},
            LIBROSA_16K
            | {"n_cepstra": 40, "mel_scale": "htk", "mel_norm": "peak", "low_hz": 20.0, "high_hz": 7600.0}
            | {"edges": "reflect", "window": "hamming"},
        ),
        (
            {"sr": 16000, "n_fft": 512, "hop_length": 160, "n_mels": 40, "center": False, "window": "blackman"},
            LIBROSA_16K | {"frame": 512, "edges": "snip", "window": "blackman"},
        ),
    ],
    ids=["defaults", "16 kHz", "25 ms", "htk", "not centred"],
)
def test_librosa(samples: Array, options: dict[str, Any], changes: dict[str, Any]) -> None:
    theirs = librosa.feature.mfcc(y=samples, **options).T
    close(mfcc(samples, replace(LIBROSA, **changes)), theirs)


# What torchaudio.transforms.MFCC does by default
TRANSFORM = replace(
    LIBROSA,
    sample_rate=16000,
    frame=400,
    hop=200,
    fft=400,
    edges="reflect",
    high_hz=8000.0,
    mel_scale="htk",
    mel_norm="peak",
    n_cepstra=40,
)


@pytest.mark.filterwarnings("ignore:At least one mel filterbank has all zero values")
@pytest.mark.parametrize(
    ("options", "changes"),
    [
        ({}, {}),
        (
            {"log_mels": True, "n_mfcc": 13},
            {"log": "natural", "log_floor": 1e-6, "floor_by": "add", "top_db": None, "n_cepstra": 13},
        ),
        (
            {"melkwargs": {"n_fft": 512, "win_length": 400, "hop_length": 160, "n_mels": 40, "pad_mode": "constant"}},
            {"hop": 160, "fft": 512, "n_mels": 40, "edges": "zero"},
        ),
        (
            {"melkwargs": {"n_fft": 512, "hop_length": 256, "n_mels": 64, "mel_scale": "slaney", "norm": "slaney"}},
            {"frame": 512, "hop": 256, "fft": 512, "n_mels": 64, "mel_scale": "slaney", "mel_norm": "area"},
        ),
        (
            {"melkwargs": {"n_fft": 400, "center": False, "n_mels": 23, "f_min": 100.0, "f_max": 6000.0}, "n_mfcc": 23},
            {"edges": "snip", "n_mels": 23, "n_cepstra": 23, "low_hz": 100.0, "high_hz": 6000.0},
        ),
    ],
)
def test_torchaudio_transform(samples: Array, options: dict[str, Any], changes: dict[str, Any]) -> None:
    transform = torchaudio.transforms.MFCC(sample_rate=16000, **options)
    theirs = transform(torch.from_numpy(samples)).T.numpy()
    close(mfcc(samples, replace(TRANSFORM, **changes)), theirs)


def test_the_documentation_has_these_specs() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "features.md").read_text("utf-8")
    found = re.findall(r"^    MfccSpec\((.*?)\)$", page, flags=re.MULTILINE | re.DOTALL)
    calls = [ast.parse(f"MfccSpec({' '.join(arguments.split())})", mode="eval").body for arguments in found]
    words = [call.keywords for call in calls if isinstance(call, ast.Call)]
    specs = [MfccSpec.from_dict({str(word.arg): ast.literal_eval(word.value) for word in call}) for call in words]
    assert specs == [replace(KALDI, scale=32768.0), LIBROSA, TRANSFORM]
