"""Nothing said, nothing written; and no command is lost by it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from asr.bundle import read_bundle
from asr.errors import BundleError
from asr.hearing import EVIDENCE, UNTAUGHT, Ear, Speech, evidence_of_speech
from asr.manifest import read_manifest
from asr.phrases import PhraseSet
from asr.recognizer import DEFAULT_BUNDLE, Recognizer
from asr.search import Hypothesis
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


def test_without_detection_all_is_decoded_and_nothing_called_noise() -> None:
    recognizer = Recognizer(speech_detection=False)
    for sound in (NOISES["white"].astype(np.float32), around(DIGITS)):
        result = recognizer.transcribe(sound)
        assert not result.no_speech
        assert result.seconds_cut == 0
    assert result.text


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


def test_what_speaks_for_a_text_is_what_was_heard() -> None:
    # Blank, and one token that is likelier by 10 nats at one of two positions
    ctc = np.array([[0.0, -9.0], [-10.0, 0.0]], np.float32)
    hypothesis = Hypothesis((5, 6), (-0.1, -0.2, -0.6), 0.0)
    found = evidence_of_speech(hypothesis, Speech(0, 1, 0.9), ctc, 2.0)
    assert found is not None
    assert dict(zip(EVIDENCE, found, strict=True)) == {
        "detector": pytest.approx(np.log(9)),
        "heard": pytest.approx(np.log(10), abs=1e-3),
        "decoder": pytest.approx(-0.3),
        "blanks": pytest.approx(np.log(1e-4) / 2),  # of at least 1e-4
        "clearness": pytest.approx(0),
        "seconds": pytest.approx(np.log(2)),
    }
    certain = evidence_of_speech(hypothesis, Speech(0, 1, 1.0), ctc, 0.0)
    assert certain is not None
    assert np.isfinite(certain).all()


def test_nothing_speaks_for_a_text_where_ctc_would_write_none() -> None:
    hypothesis = Hypothesis((5, 6), (-0.1, -0.2, -0.6), 0.0)
    silent = np.array([[0.0, -9.0], [0.0, -9.0]], np.float32)
    loud = np.array([[-9.0, 0.0]], np.float32)
    assert evidence_of_speech(hypothesis, Speech(0, 1, 1.0), silent, 1.0) is None
    assert evidence_of_speech(Hypothesis((), (-0.1,), 0.0), Speech(0, 1, 1.0), loud, 1.0) is None
    assert not Ear(100.0, (1.0,) * len(EVIDENCE)).hears(None)


def test_an_ear_hears_what_is_on_its_side_of_the_line() -> None:
    ear = Ear(-3.0, (1.0, 0.0, 2.0, 0.5, 0.0, -1.0))
    assert ear.hears((4.0, 0.0, -0.4, 0.0, 9.0, 0.1))  # 4 - 0.8 - 0.1 > 3
    assert not ear.hears((4.0, 0.0, -0.4, 0.0, 9.0, 0.2))
    assert ear.hears((4.0, 0.0, -0.4, 0.1, 9.0, 0.2))
    assert not ear.hears((4.0, 9.0, -0.5, 0.0, 9.0, 0.1))


def test_a_bundle_brings_its_own_ear() -> None:
    bundle = replace(read_bundle(DEFAULT_BUNDLE), facts={})
    assert Ear.of(bundle) == UNTAUGHT
    ear = Ear(-1.0, (1.0, 2.0, 3.0, -4.0, 5.0, 0.0))
    assert Ear.of(replace(bundle, facts={"speech": ear.to_dict()})) == ear
    earlier = {"bias": -1.0, "detector": 1.0, "heard": 2.0, "decoder": 3.0, "seconds": -4.0}
    assert Ear.of(replace(bundle, facts={"speech": earlier})) == Ear(-1.0, (1.0, 2.0, 3.0, 0.0, 0.0, -4.0))
    deaf = replace(bundle, facts={"speech": {"bias": -1000.0, "detector": 0.0}})
    sample = SAMPLES / "computer_speed_up.wav"
    assert Recognizer(deaf).transcribe(sample).no_speech
    assert Recognizer(deaf, speech_detection=False).transcribe(sample).text


@pytest.mark.parametrize(
    "stated", [1, "loud", {}, {"bias": 1}, {**UNTAUGHT.to_dict(), "heard": "x"}, {**UNTAUGHT.to_dict(), "bias": 1e9},
               {**UNTAUGHT.to_dict(), "seconds": float("nan")}, {**UNTAUGHT.to_dict(), "heard": None},
               {**UNTAUGHT.to_dict(), "loudness": 1}],
)  # fmt: skip
def test_an_ear_that_makes_no_sense_is_refused(stated: object) -> None:
    bundle = replace(read_bundle(DEFAULT_BUNDLE), facts={"speech": stated})
    with pytest.raises(BundleError, match=r"facts: speech tells no speech from noise; .*--noise"):
        Recognizer(bundle)


@pytest.mark.real
def test_no_noise_says_anything(recognizer: Recognizer, corpus: Path) -> None:
    rows = read_manifest(corpus / "noise.jsonl")
    results = recognizer.transcribe(rows)
    said = [(row.extra.get("label"), result.text) for row, result in zip(rows, results, strict=True) if result.text]
    assert not said
