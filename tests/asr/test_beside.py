"""With a second thread a short recording is looked through while it is encoded: the same answers, sooner."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from asr.beside import Beside
from asr.bundle import read_bundle
from asr.errors import CepstraError
from asr.hearing import speech_in
from asr.manifest import read_manifest
from asr.recognizer import DEFAULT_BUNDLE, Recognizer
from asr.runtime import OnnxBackend
from audio.reading import read_audio

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from asr.search import Memory
    from asr.search.backend import Floats

RATE = 16000
SAMPLES = Path(__file__).resolve().parents[2] / "data_manifests" / "samples"
CLIPS = [read_audio(row.audio_filepath) for row in read_manifest(SAMPLES / "samples.jsonl")]
SHAPES: dict[str, Callable[[Floats], Floats]] = {
    "as it is": lambda clip: clip,
    "quiet around": lambda clip: np.pad(clip, 2 * RATE),
    "noise around": lambda clip: np.pad(clip, 2 * RATE) + noise(len(clip) + 4 * RATE, 0.05),
    "noise alone": lambda clip: noise(len(clip), 0.1),
    "silence": np.zeros_like,
    "longer than a piece": lambda clip: np.tile(clip, 1 + 12 * RATE // len(clip)),
    "one sample": lambda clip: clip[:1],
    "nothing": lambda clip: clip[:0],
}


def noise(count: int, level: float) -> Floats:
    return np.random.default_rng(0).normal(0, level, count).astype(np.float32)


def spoken_throughout() -> Floats:
    alone = Recognizer(threads=1)
    return next(clip for clip in CLIPS if alone.transcribe(clip).seconds_cut == 0)


class Watched(OnnxBackend):
    """Notes what it is given to encode."""

    def __init__(self, threads: int) -> None:
        super().__init__(read_bundle(DEFAULT_BUNDLE), threads)
        self.encoded: list[int] = []

    def encode(self, samples: Sequence[Floats]) -> Memory:
        self.encoded += [len(clip) for clip in samples]
        return super().encode(samples)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("phrases", [None, ["yes", "turn on the lights", "five five two eight five"]])
def test_two_threads_answer_as_one(shape: str, phrases: list[str] | None) -> None:
    one, two = (Recognizer(threads=threads, phrases=phrases) for threads in (1, 2))
    for clip in CLIPS[::3]:
        sound = SHAPES[shape](clip).astype(np.float32)
        assert one.transcribe(sound) == two.transcribe(sound)


def test_what_is_spoken_throughout_is_encoded_once() -> None:
    clip = spoken_throughout()
    backend = Watched(2)
    recognizer = Recognizer(backend=backend, threads=2)
    assert recognizer.transcribe(clip).text
    assert backend.encoded == [len(clip)]
    backend.encoded.clear()
    cut = recognizer.transcribe(np.pad(clip, 2 * RATE))
    assert cut.seconds_cut > 2
    assert backend.encoded == [len(clip) + 4 * RATE - round(cut.seconds_cut * RATE)]  # and nothing in vain


def test_the_encoder_does_not_wait_for_the_detector(monkeypatch: pytest.MonkeyPatch) -> None:
    encoding = threading.Event()

    class Heard(Watched):
        def encode(self, samples: Sequence[Floats]) -> Memory:
            encoding.set()
            return super().encode(samples)

    def patient(samples: Floats, rate: int, *, detect: bool) -> object:
        assert encoding.wait(10)
        return speech_in(samples, rate, detect=detect)

    clip = spoken_throughout()
    recognizer = Recognizer(backend=Heard(2), threads=2)
    monkeypatch.setattr("asr.recognizer.speech_in", patient)
    assert recognizer.transcribe(clip).text


def test_where_no_thread_can_be_started_one_does_both(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    clip, recognizer = spoken_throughout(), Recognizer(threads=2)
    wanted = recognizer.transcribe(clip)
    monkeypatch.setattr(threading.Thread, "start", refused)
    assert recognizer.transcribe(clip) == wanted


def test_what_fails_beside_is_told_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_samples: Floats, _rate: int, *, detect: bool) -> object:
        raise MemoryError(f"no room to look ({detect})")

    recognizer = Recognizer(threads=2)
    monkeypatch.setattr("asr.recognizer.speech_in", fails)
    with pytest.raises(CepstraError, match="no room to look"):
        recognizer.transcribe(CLIPS[0])


def test_a_task_beside_answers_or_raises_and_leaves_no_thread() -> None:
    before = threading.active_count()
    answers = [Beside(lambda n=n: n * n) for n in range(20)]  # type: ignore[misc]
    assert [answer.result() for answer in answers] == [n * n for n in range(20)]

    def fails() -> None:
        raise KeyError("reason")

    with pytest.raises(KeyError, match="reason"):
        Beside(fails).result()
    for thread in threading.enumerate():
        if thread.name == "beside":
            thread.join(10)
    assert threading.active_count() == before
