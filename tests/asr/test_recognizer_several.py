"""Several recordings, and long ones: none costs another its answer, or holds it back."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import soundfile

from asr.errors import AudioError, CepstraError
from asr.recognizer import GROUP_FILES, Interrupted, Recognizer
from asr.source import QUICK_BYTES
from tests.asr.recognising import RATE, Samples, noise

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from asr.bundle import Bundle
    from asr.search.backend import Memory
    from asr.source import Source


def test_a_bad_file_costs_no_other_its_answer(recognizer: Recognizer, tmp_path: Path) -> None:
    good = [noise(0.5, i) for i in range(2 * GROUP_FILES)]
    sources: list[Source] = list(good)
    (tmp_path / "page.html").write_text("<html></html>" * 100)
    for place, bad in ((3, tmp_path / "none.wav"), (7, tmp_path), (12, tmp_path / "page.html")):
        sources.insert(place, bad)
    answers = list(recognizer.transcribe_each(sources))
    assert len(answers) == len(sources)
    for source, answer in zip(sources, answers, strict=True):
        if isinstance(source, Path):
            assert isinstance(answer, AudioError)
            assert str(source) in str(answer)
        else:
            assert not isinstance(answer, CepstraError)
    with pytest.raises(AudioError, match=r"none\.wav"):
        recognizer.transcribe(sources)


def test_what_cannot_be_decoded_costs_no_other_its_answer(
    bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recognizer = Recognizer(bundle, speech_detection=False)
    encode = recognizer._backend.encode

    def short_of_memory(clips: Sequence[Samples]) -> Memory:
        if any(len(clip) > 2 * RATE for clip in clips):
            raise MemoryError
        return encode(clips)

    monkeypatch.setattr(recognizer._backend, "encode", short_of_memory)
    soundfile.write(tmp_path / "long.wav", noise(3), RATE)
    first, second, third = recognizer.transcribe_each([noise(0.5), tmp_path / "long.wav", noise(0.7)])
    assert isinstance(second, CepstraError)
    assert str(second) == f"{tmp_path / 'long.wav'}: can't be transcribed (not enough memory)"
    assert not isinstance(first, CepstraError)
    assert not isinstance(third, CepstraError)
    with pytest.raises(CepstraError, match="samples: can't be transcribed"):
        recognizer.transcribe(noise(3))


def test_no_memory_or_disk_for_one_file_costs_no_other_its_answer(
    recognizer: Recognizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(source: str, **_options: object) -> Samples:
        raise {"big.wav": MemoryError(), "pipe": OSError(28, "No space left on device")}[source]

    monkeypatch.setattr("asr.recognizer.read_sound", full)
    memory, disk, good = recognizer.transcribe_each(["big.wav", "pipe", noise(0.5)])
    assert str(memory).startswith("big.wav: can't be read (not enough memory)")
    assert str(disk).startswith("pipe: can't be read (No space left on device)")
    assert not isinstance(good, CepstraError)


def test_answers_come_before_everything_is_read(recognizer: Recognizer) -> None:
    read: list[float] = []

    def sources(*seconds: float) -> Iterator[Samples]:
        for length in seconds:
            read.append(length)
            yield noise(length)

    answers = recognizer.transcribe_each(sources(*[0.2] * 40))
    counts = [len(read) for _ in answers]
    assert counts[0] == 1  # the first is answered at once
    assert max(count - answered for answered, count in enumerate(counts)) <= GROUP_FILES
    assert len(set(counts)) < 10  # most are decoded together

    read.clear()
    for answered, _ in enumerate(recognizer.transcribe_each(sources(65, 12, 0.5, 65)), start=1):
        assert len(read) <= answered + 1  # a long one is read ahead of one at the most


def test_what_is_slow_to_read_holds_nothing_back(recognizer: Recognizer, tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    with (tmp_path / "large.wav").open("wb") as file:
        file.truncate(QUICK_BYTES + 1)
    os.mkfifo(tmp_path / "pipe")
    silent = _NeverRead()
    slow: list[Source] = [tmp_path / "pipe", str(tmp_path / "large.wav"), "-", silent]
    for source in slow:
        answers = recognizer.transcribe_each([noise(0.2), noise(0.3), noise(0.25), source])
        assert all(not isinstance(next(answers), CepstraError) for _ in range(3))
    assert not silent.touched


class _NeverRead(io.BytesIO):
    """A file that must not be read."""

    touched = False

    def read(self, size: int | None = -1, /) -> bytes:
        del size
        self.touched = True
        return b""


def test_ctrl_c_in_a_long_recording_keeps_what_was_heard(bundle: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    recognizer, window = Recognizer(bundle, speech_detection=False), 30.0
    monkeypatch.setattr("asr.pieces.WINDOW_SECONDS", window)
    samples = noise(3 * window)
    whole = recognizer.transcribe(samples)
    encode, seconds = recognizer._backend.encode, 0.0

    def interrupted(clips: Sequence[Samples]) -> Memory:
        nonlocal seconds
        seconds += sum(map(len, clips)) / RATE
        if seconds > 1.5 * window:
            raise KeyboardInterrupt
        return encode(clips)

    monkeypatch.setattr(recognizer._backend, "encode", interrupted)
    with pytest.raises(Interrupted) as stop:
        list(recognizer.transcribe_each([samples]))
    heard = stop.value.result
    assert window - 10 <= heard.duration <= 1.5 * window
    assert heard.text
    assert whole.text.startswith(heard.text)
    assert [word.word for word in heard.words] == [word.word for word in whole.words[: len(heard.words)]]
