"""One front end, three times: numpy, torch, and the torch module exported to ONNX, in ONNX Runtime."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import onnxruntime as ort
import pytest
import soundfile as sf
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from audio.mfcc import MfccSpec, mfcc
from audio.mfcc_torch import Mfcc

if TYPE_CHECKING:
    from pathlib import Path

Array = NDArray[np.float32]
Batch = Callable[[list[Array], MfccSpec], list[Array]]

SPREAD = tuple(float(x) for x in np.linspace(25, 0.3, 40))  # as speech has it
SPECS = {
    "default": MfccSpec(),
    "librosa": MfccSpec(
        edges="reflect",
        remove_dc=False,
        pre_emphasis=0.0,
        window="hann",
        periodic_window=True,
        low_hz=0.0,
        mel_scale="slaney",
        mel_slopes="hz",
        mel_norm="area",
        log_floor=1e-10,
        top_db=80.0,
        log="decibel",
        c0="raw_energy",
        spread=SPREAD,
    ),
    "streaming": MfccSpec(
        edges="mirror",
        scale=32768.0,
        window="hamming",
        high_hz=7000.0,
        floor_by="add",
        c0="energy",
        normalisation="running",
        running_frames=50,
        spread=SPREAD,
    ),
    "plain": MfccSpec(edges="zero", n_mels=23, n_cepstra=13, lifter=22.0, normalisation="none"),
}


@cache
def vowels() -> Array:
    """Two seconds of something like speech: pulses of a gliding pitch through moving formants, and pauses."""
    rate, n = 16000, 32000
    t = np.arange(n) / rate
    pitch = 120 + 40 * np.sin(2 * np.pi * 0.7 * t)
    source = np.diff(np.floor(np.cumsum(pitch) / rate), prepend=0)
    source += 0.003 * np.random.default_rng(1).standard_normal(n)
    out = np.zeros(n)
    for centre, width, depth in ((500, 80, 200), (1500, 120, 500), (2500, 160, 300)):
        hz = centre + depth * np.sin(2 * np.pi * 1.3 * t)
        radius = np.exp(-np.pi * width / rate)
        y1 = y2 = 0.0
        for i in range(n):  # a resonator that moves
            y = source[i] + 2 * radius * np.cos(2 * np.pi * hz[i] / rate) * y1 - radius**2 * y2
            out[i] += y
            y1, y2 = y, y1
    out *= np.clip(np.sin(2 * np.pi * 1.1 * t), 0, None)
    scaled: Array = (0.5 * out / np.abs(out).max()).astype(np.float32)
    return scaled


@cache
def signals() -> dict[str, Array]:
    """What is hard: nothing at all, the loudest there is, and small things on top of large ones."""
    rng = np.random.default_rng(0)
    n = np.arange(16000)
    least = (rng.integers(-1, 2, 16000) / 32768).astype(np.float32)
    squares = {f"square {p}": np.where(n % p < p / 2, 1, -1).astype(np.float32) for p in (2, 3, 4, 7, 16, 100, 1000)}
    return {
        "vowels": vowels(),
        "silence": np.zeros(16000, np.float32),
        "noise": (0.1 * rng.standard_normal(16000)).astype(np.float32),
        "full-scale noise": rng.uniform(-1, 1, 16000).astype(np.float32),
        "last bit": least,
        "last bit on an offset": least + np.float32(0.9),
        "offset": np.full(16000, 0.5, np.float32),
        "tone": (0.99 * np.sin(2 * np.pi * 997 / 16000 * n)).astype(np.float32),
        "click": np.eye(1, 16000, 8000, dtype=np.float32)[0],
        **squares,
        **{
            f"{length} samples": (0.1 * rng.standard_normal(length)).astype(np.float32)
            for length in (0, 1, 399, 400, 401)
        },
    }


def padded(clips: list[Array]) -> tuple[Array, NDArray[np.int64]]:
    lengths = np.array([len(clip) for clip in clips])
    samples = np.zeros((len(clips), lengths.max()), np.float32)
    for row, clip in zip(samples, clips, strict=True):
        row[: len(clip)] = clip
    return samples, lengths


@cache
def module(spec: MfccSpec) -> Mfcc:
    return Mfcc(spec).eval()


@cache
def session(spec: MfccSpec) -> ort.InferenceSession:
    """The module exported with a batch and a length of no importance, both dynamic."""
    dynamic = torch.export.Dim.DYNAMIC
    program = torch.onnx.export(
        module(spec),
        (torch.zeros(2, 2000), torch.tensor([2000, 1500])),
        input_names=["samples", "lengths"],
        dynamic_shapes=({0: dynamic, 1: dynamic}, {0: dynamic}),
        dynamo=True,
        verbose=False,
    )
    assert program is not None
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    return ort.InferenceSession(program.model_proto.SerializeToString(), options)


def in_torch(clips: list[Array], spec: MfccSpec) -> list[Array]:
    samples, lengths = padded(clips)
    with torch.inference_mode():
        features, counts = module(spec)(torch.from_numpy(samples), torch.from_numpy(lengths))
    return split(features.numpy(), counts.numpy())


def in_onnx(clips: list[Array], spec: MfccSpec) -> list[Array]:
    samples, lengths = padded(clips)
    features, counts = session(spec).run(None, {"samples": samples, "lengths": lengths})
    return split(features, counts)


def split(features: Array, counts: NDArray[np.int64]) -> list[Array]:
    """The rows of each clip; what lies beyond them must be zero, and at least one clip must fill the batch."""
    assert features.shape[1] == counts.max()
    assert all(not row[count:].any() for row, count in zip(features, counts, strict=True))
    return [row[:count] for row, count in zip(features, counts, strict=True)]


IMPLEMENTATIONS = [pytest.param(in_torch, spec, id=f"torch-{name}") for name, spec in SPECS.items()]
# An export takes seconds
IMPLEMENTATIONS += [
    pytest.param(in_onnx, SPECS[name], id=f"onnx-{name}") for name in ("default", "librosa", "streaming")
]


def check(got: Array, expected: Array, name: str = "") -> None:
    assert got.shape == expected.shape, name
    assert got.dtype == np.float32
    assert np.abs(got - expected).max() <= 1e-4, name


@pytest.mark.parametrize(("batch", "spec"), IMPLEMENTATIONS)
def test_alone(batch: Batch, spec: MfccSpec) -> None:
    for name, samples in signals().items():
        check(batch([samples], spec)[0], mfcc(samples, spec), name)


@pytest.mark.parametrize(("batch", "spec"), IMPLEMENTATIONS)
def test_in_a_batch(batch: Batch, spec: MfccSpec) -> None:
    """Padding changes nothing, whatever the neighbours."""
    for (name, samples), got in zip(signals().items(), batch(list(signals().values()), spec), strict=True):
        check(got, mfcc(samples, spec), name)


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_what_lies_beyond_a_length_does_not_matter(spec: MfccSpec) -> None:
    samples = torch.from_numpy(signals()["noise"])[None]
    lengths = torch.tensor([5000])
    features, counts = module(spec)(samples, lengths)
    check(features[0, : int(counts[0])].numpy(), mfcc(samples[0, :5000].numpy(), spec))


@pytest.mark.parametrize("batch", [in_torch, in_onnx])
def test_five_minutes(batch: Batch) -> None:
    samples = np.tile(vowels(), 150)
    samples += (0.001 * np.random.default_rng(2).standard_normal(len(samples))).astype(np.float32)
    check(batch([samples], MfccSpec())[0], mfcc(samples, MfccSpec()))


@pytest.mark.real
@pytest.mark.parametrize(("batch", "spec"), IMPLEMENTATIONS)
def test_real_speech(batch: Batch, spec: MfccSpec, corpus: Path) -> None:
    clips = []
    for manifest in sorted(corpus.glob("*.test.jsonl")):
        first = json.loads(manifest.read_text("utf-8").splitlines()[0])
        samples, rate = sf.read(corpus / first["audio_filepath"], dtype="float32")
        if rate == 16000:
            clips.append(samples[:48000])
    assert len(clips) >= 5
    for clip, together in zip(clips, batch(clips, spec), strict=True):
        check(together, mfcc(clip, spec))
        check(batch([clip], spec)[0], mfcc(clip, spec))


SETTINGS = st.builds(
    replace,
    st.sampled_from(list(SPECS.values())),
    frame=st.integers(100, 512),
    hop=st.integers(50, 100),
    remove_dc=st.booleans(),
    pre_emphasis=st.floats(0, 1),
    window=st.sampled_from(["povey", "hamming", "hann", "blackman", "rectangular"]),
    edges=st.sampled_from(["snip", "zero", "reflect", "mirror"]),
    c0=st.sampled_from(["cepstrum", "energy", "raw_energy"]),
    normalisation=st.sampled_from(["utterance", "running", "none"]),
    running_frames=st.integers(1, 30),
    floor_by=st.sampled_from(["max", "add"]),
    top_db=st.none() | st.floats(1, 100),
)


@settings(max_examples=25, derandomize=True, deadline=None)
@given(SETTINGS, st.lists(st.integers(0, 900), min_size=1, max_size=3), st.floats(1e-5, 1), st.floats(-1, 1))
def test_any_spec(spec: MfccSpec, lengths: list[int], gain: float, offset: float) -> None:
    rng = np.random.default_rng(0)
    clips = [(offset + gain * rng.standard_normal(length)).astype(np.float32) for length in lengths]
    for clip, got in zip(clips, in_torch(clips, spec), strict=True):
        check(got, mfcc(clip, spec))
