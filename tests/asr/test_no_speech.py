"""Nothing said, nothing written; and no command is lost by it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from asr.hearing import Speech, is_said
from asr.manifest import read_manifest
from asr.phrases import PhraseSet
from asr.recognizer import DEFAULT_BUNDLE, Recognizer
from asr.results import Word
from asr.timing import Piece
from audio import vad
from audio.reading import read_audio

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Samples = NDArray[np.float32]

RATE = 16000
SAMPLES = Path(__file__).resolve().parents[2] / "data_manifests" / "samples"
pytestmark = pytest.mark.skipif(
    not DEFAULT_BUNDLE.exists() or not SAMPLES.exists(), reason="no model or no samples ship with this checkout"
)
T = np.arange(3 * RATE) / RATE
DIGITS = read_audio(SAMPLES / "five_five_two_eight_five.wav")
RNG = np.random.default_rng(0)


def pink(count: int) -> NDArray[np.float64]:
    spectrum = np.fft.rfft(RNG.normal(size=count))
    return np.fft.irfft(spectrum / np.sqrt(np.maximum(np.arange(len(spectrum)), 20)), count)


NOISES: dict[str, NDArray[np.float64]] = {
    "empty": np.zeros(0),
    "one sample": np.ones(1),
    "digital silence": np.zeros(3 * RATE),
    "offset": np.full(3 * RATE, 0.3),
    "an hour of silence": np.zeros(3600 * RATE, np.float32),
    "hum": 0.3 * np.sin(2 * np.pi * 50 * T),
    "tone": 0.3 * np.sin(2 * np.pi * 1000 * T),
    "white": RNG.normal(0, 0.1, len(T)),
    "faint white": RNG.normal(0, 0.0005, len(T)),
    "pink": 3 * pink(len(T)),
    "clicks": np.where(np.arange(len(T)) % 8000 < 20, 0.8, 0.0),
    "breath": np.convolve(RNG.normal(0, 0.2, len(T)), np.hanning(9), "same") * np.maximum(0, np.sin(2 * T)) ** 4,
    "chord": 0.1 * sum(np.sin(2 * np.pi * f * T) for f in (220, 277, 330)) * np.exp(-T),
    "melody": 0.3 * np.sin(2 * np.pi * np.cumsum(np.repeat([262, 294, 330, 349, 392, 440], RATE // 2)) / RATE),
}


@pytest.fixture(scope="module")
def recognizer() -> Recognizer:
    return Recognizer()


@pytest.mark.parametrize("name", NOISES)
def test_noise_says_nothing(recognizer: Recognizer, name: str) -> None:
    samples = NOISES[name].astype(np.float32)
    result = recognizer.transcribe(samples)
    assert (result.text, result.words, result.segments, result.confidence) == ("", (), (), 1.0)
    assert result.no_speech
    assert result.duration == len(samples) / RATE
    assert 0 <= result.seconds_cut <= result.duration
    assert result.to_dict()["no_speech"] is True


def test_without_detection_noise_says_something() -> None:
    result = Recognizer(speech_detection=False).transcribe(NOISES["white"].astype(np.float32))
    assert result.text
    assert not result.no_speech
    assert result.seconds_cut == 0


def test_held_to_phrases_nothing_said_is_rejected_so() -> None:
    recognizer = Recognizer(phrases=PhraseSet.parse("intents: {digits: ['five five two eight five']}"))
    meaning = recognizer.transcribe(NOISES["pink"].astype(np.float32)).meaning
    assert meaning is not None
    assert (meaning.command, meaning.rejected) == (None, "no-speech")
    assert recognizer.transcribe(around(DIGITS)).text == "five five two eight five"


def around(clip: Samples) -> Samples:
    pause = np.zeros(2 * RATE, np.float32)
    return np.concatenate([pause, clip, pause])


def tight(clip: Samples) -> Samples:
    chunks = vad.probabilities(clip)
    first = int(np.flatnonzero(chunks > 0.8)[0])
    return clip[max(0, first - 1) * vad.CHUNK :]


CHANGES: dict[str, Callable[[Samples], Samples]] = {
    "as it is": lambda clip: clip,
    "two seconds around": around,
    "faint": lambda clip: clip * np.float32(10 ** (-45 / 20) / np.abs(clip).max()),
    "from the first sample": tight,
    "hum": lambda clip: clip + np.float32(0.003) * np.sin(np.arange(len(clip), dtype=np.float32) * 0.0196),
}


@pytest.mark.parametrize("change", CHANGES)
def test_no_command_is_lost(recognizer: Recognizer, change: str) -> None:
    clips = [CHANGES[change](read_audio(row.audio_filepath)) for row in read_manifest(SAMPLES / "samples.jsonl")]
    for clip, after in zip(clips, recognizer.transcribe(clips), strict=True):
        assert after.text
        assert not after.no_speech
        assert after.duration == len(clip) / RATE


def test_times_are_those_of_the_recording(recognizer: Recognizer) -> None:
    late = recognizer.transcribe(around(DIGITS))
    assert 2.5 < late.seconds_cut < 4
    assert len(late.words) > 2
    assert late.words[0].start >= 2
    assert late.words[-1].end <= 2 + len(DIGITS) / RATE
    assert late.words[-1].end - late.words[0].start > 1


def test_an_unsure_text_needs_sure_speech() -> None:
    def said(certainty: float, confidence: float, heard: float = 10.0) -> bool:
        # Blank, and one token that is likelier by `heard` nats at one of two positions
        ctc = np.array([[0.0, -9.0], [-heard, 0.0]], np.float32)
        return is_said(Piece((Word("go", 0, 1, 1.0),), confidence), Speech(0, 1, certainty), ctc)

    assert said(0.999, 0.5)
    assert said(0.6, 0.99)
    assert said(0.9, 0.5, heard=40)
    assert not said(0.9, 0.5)
    assert not said(0.6, 0.7)
    assert not said(0.9, 0.3)
    assert not said(0.9999, 0.9999, heard=-1.0)  # CTC would write nothing
    loud = np.array([[-9.0, 0.0]], np.float32)
    assert not is_said(Piece((), 1.0), Speech(0, 1, 1.0), loud)


@pytest.mark.real
def test_no_noise_says_anything(recognizer: Recognizer, corpus: Path) -> None:
    rows = read_manifest(corpus / "noise.jsonl")
    results = recognizer.transcribe(rows)
    said = [(row.extra.get("label"), result.text) for row, result in zip(rows, results, strict=True) if result.text]
    assert not said
