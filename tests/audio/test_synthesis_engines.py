"""Engines of speech: programs and what they get, and each engine that happens to be installed."""

from __future__ import annotations

import json
import shutil
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audio.errors import AudioError, SynthesisError
from audio.synthesis import KINDS, EngineSpec, open_engine
from audio.synthesis.command import Command

if TYPE_CHECKING:
    from audio.synthesis import Engine

RNG = np.random.default_rng

# Writes what it got, argument by argument and on standard input, into a file beside, and a second of sound
ECHO = """
import json, sys, wave
said, note, out = sys.argv[1:]
with open(note, "w") as file:
    json.dump([said, sys.stdin.buffer.read().decode()], file)
with wave.open(out, "wb") as sound:
    sound.setnchannels(1); sound.setsampwidth(2); sound.setframerate(8000); sound.writeframes(b"\\1\\2" * 8000)
"""


@pytest.fixture(scope="module")
def echo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Command, Path]:
    folder = tmp_path_factory.mktemp("echo")
    script, note = folder / "echo it.py", folder / "note.json"
    script.write_text(ECHO)
    return Command(f"'{sys.executable}' -S '{script}' 'text={{text}}' '{note}' {{out}}", "echo"), note


@settings(max_examples=20, deadline=None)
@given(
    st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=30)
    | st.sampled_from(["-rf", "{out}", "{text}", "$(touch /tmp/x)", 'a\'; rm "b" \\', "`id`", "%s", "*", "~", "é🙂"])
)
def test_a_program_gets_the_text_as_it_is(echo: tuple[Command, Path], text: str) -> None:
    command, note = echo
    samples = command.speak(text, command.draw("echo", (), RNG(0)), RNG(0))
    assert json.loads(note.read_text()) == [f"text={text}", f"{text}\n"]
    assert samples.dtype == np.float32
    assert samples.shape == (16000,)


def command(script: str, seconds: float = 20) -> Command:
    return Command(f"sh -c '{script}' sh {{out}}", "sh", seconds)


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("exit 3", "failed with exit code 3"),
        ('echo first >&2; echo "  the  last " >&2; echo >&2; exit 1', r"failed with exit code 1 \(the last\)"),
        ("kill -9 $$", "failed with signal 9"),
        ("true", "wrote no sound file"),
        ("echo rubbish >$1", "out.wav"),
        (": >$1", "out.wav: empty"),
        ("mkdir $1", "out.wav: a folder"),
        ("head -c 1000000 /dev/zero >&2; exit 1", "failed with exit code 1"),
    ],
)
def test_a_program_that_fails_says_why_in_one_line(script: str, message: str) -> None:
    with pytest.raises((SynthesisError, AudioError), match=message) as caught:
        command(script).speak("on", command(script).draw("sh", (), RNG(0)), RNG(0))
    assert "\n" not in str(caught.value)


def test_a_program_that_hangs_is_ended_with_what_it_started(tmp_path: Path) -> None:
    script = f"(sleep 3; touch {tmp_path}/alive) & sleep 100"
    with pytest.raises(SynthesisError, match=r"took more than 0.5 s"):
        command(script, 0.5).speak("on", command(script).draw("sh", (), RNG(0)), RNG(0))
    time.sleep(4)
    assert not (tmp_path / "alive").exists()


def test_a_program_that_does_not_read_its_input_is_all_right(tmp_path: Path) -> None:
    sound = Path(__file__).resolve().parents[2] / "data_manifests" / "samples" / "computer_speed_up.wav"
    del tmp_path
    one = command(f"exec 0<&-; cp {sound} $1")
    assert len(one.speak("on " * 100000, one.draw("sh", (), RNG(0)), RNG(0)))


THERE = {
    "espeak": bool(shutil.which("espeak-ng")),
    "flite": bool(shutil.which("flite")),
    "hibari": bool(find_spec("hibari")),
    "piper": KINDS["piper"].missing() is None,
    "kokoro": KINDS["kokoro"].missing() is None,
}
INSTALLED = [
    pytest.param(name, marks=pytest.mark.skipif(not there, reason=f"{name} isn't installed"))
    for name, there in THERE.items()
]


@pytest.fixture(scope="module")
def engines() -> dict[str, Engine]:
    return {name: open_engine(EngineSpec(name, name)) for name, there in THERE.items() if there}


@pytest.mark.filterwarnings("ignore")  # other people's
@pytest.mark.parametrize("name", INSTALLED)
def test_an_engine_that_is_there_speaks(engines: dict[str, Engine], name: str) -> None:
    engine = engines[name]
    assert len(engine.voices) == len(set(engine.voices)) >= 1
    first, last = engine.voices[0], engine.voices[-1]
    drawn = engine.draw(first, engine.voices[1:], RNG(1))
    samples = engine.speak("turn on the light in the kitchen", drawn, RNG(1))
    assert samples.dtype == np.float32
    assert np.isfinite(samples).all()
    assert 0.8 < len(samples) / 16000 < 5
    assert 0.02 < float(np.abs(samples).max()) <= 1
    if name != "piper":  # whose model draws numbers of its own
        again = engine.speak("turn on the light in the kitchen", engine.draw(first, engine.voices[1:], RNG(1)), RNG(1))
        assert np.array_equal(samples, again)
    other = engine.speak("turn on the light in the kitchen", engine.draw(last, engine.voices[:-1], RNG(2)), RNG(2))
    assert not np.array_equal(samples, other)
    longer = engine.speak("turn on the light in the kitchen and the one in the living room", drawn, RNG(1))
    assert len(longer) > 1.2 * len(samples)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", INSTALLED)
@pytest.mark.parametrize(
    "text", ["a b c", 'it\'s "here"', "<break time='9s'/> on", "naïve café 🙂 on", "%s $HOME `id` on"]
)
def test_an_engine_that_is_there_says_signs_or_leaves_them_out(
    engines: dict[str, Engine], name: str, text: str
) -> None:
    engine = engines[name]
    samples = engine.speak(text, engine.draw(engine.voices[0], (), RNG(3)), RNG(3))
    assert 0.1 < len(samples) / 16000 < 8


def test_espeaks_voices_sound_unlike_each_other(engines: dict[str, Engine]) -> None:
    if "espeak" not in engines:
        pytest.skip("espeak-ng isn't installed")
    engine = engines["espeak"]
    settings = {"accent": "en-us", "pitch": 50, "speed": 160, "gap": 0}
    voices = [type(engine.draw(voice, (), RNG(0)))(voice, settings) for voice in engine.voices]
    sounds = [engine.speak("on", voice, RNG(0)).tobytes() for voice in voices]
    assert len(set(sounds)) == len(engine.voices)
