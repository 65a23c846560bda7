"""What is cut out of a recording, and commands said one after the other."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from asr.pieces import breaths
from asr.recognizer import DEFAULT_BUNDLE, Recognizer
from audio.reading import read_audio

SAMPLES = Path(__file__).resolve().parents[2] / "data_manifests" / "samples"
RATE = 16000
PAIR = ("please_save_the_file.wav", "computer_speed_up.wav")
SAID = ["please save the file", "computer speed up"]
needs_model = pytest.mark.skipif(
    not DEFAULT_BUNDLE.exists() or not SAMPLES.exists(), reason="no model or no samples ship with this checkout"
)


def silence(seconds: float) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return np.zeros(round(seconds * RATE), np.float32)


def tone(seconds: float) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return (0.3 * np.sin(2 * np.pi * 440 * np.arange(round(seconds * RATE)) / RATE)).astype(np.float32)


def test_what_lies_between_breaths_is_apart_and_what_a_word_may_hold_is_not() -> None:
    sound = np.concatenate([tone(0.5), silence(0.3), tone(0.4), silence(0.1), tone(0.5)])
    (first, end), (start, last) = breaths(sound, RATE)
    assert (first, last) == (0, len(sound))
    assert end / RATE == pytest.approx(0.6, abs=0.03)  # a tenth of a second of the pause on either side
    assert start / RATE == pytest.approx(0.7, abs=0.03)
    assert breaths(tone(1.0), RATE) == [(0, RATE)]


@needs_model
def test_two_commands_in_one_go_are_both_understood() -> None:
    first, second = (read_audio(SAMPLES / name) for name in PAIR)
    recognizer = Recognizer(phrases=SAID)
    found = recognizer.transcribe(np.concatenate([first, silence(0.2), second]))
    assert [each.command.sentence for each in found.commands] == SAID
    assert found.meaning is not None
    assert found.meaning.rejected is None
    before, after = found.commands
    border = len(first) / RATE
    assert before.end <= border + 0.2
    assert after.start >= border
    assert found.text == " ".join(SAID)


@needs_model
def test_a_command_beside_other_words_is_none() -> None:
    first, second = (read_audio(SAMPLES / name) for name in PAIR)
    for said in SAID:
        found = Recognizer(phrases=[said]).transcribe(np.concatenate([first, silence(0.2), second]))
        assert not found.commands
        assert found.meaning is not None
        assert found.meaning.rejected == "unknown-command"


@needs_model
@pytest.mark.parametrize("gap", [0.6, 1.0, 1.3, 1.5, 2.0])
def test_a_command_said_twice_is_two(gap: float) -> None:
    """The graph stretches one sentence over both, and it is not sure of that."""
    phrases = ["brighten the hallway standing light", "go to the den", "open the trunk", "raise the blinds"]
    recognizer = Recognizer(phrases=phrases)
    clips = SAMPLES.parent / "example" / "clips"
    for name in ("go_to_the_den", "open_the_trunk", "raise_the_blinds"):
        said = read_audio(clips / f"{name}.ogg")
        found = recognizer.transcribe(np.concatenate([said, silence(gap), said]))
        assert [each.command.sentence for each in found.commands] == [name.replace("_", " ")] * 2
        first, second = found.commands
        assert first.end < second.start
