"""What is to be said: files and texts, what an engine gets of them, and who may say it in which split."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asr.errors import CepstraError, SynthesisError
from asr.phrases import PhraseSet
from asr.phrases.covering import covering
from asr.synthesis import Prompt, choose_engines, prompts_from
from asr.synthesis.engines import divide_voices
from asr.synthesis.prompts import spoken
from asr.text import normalise

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import numpy as np

    from audio.synthesis import Engine, Voice
    from audio.synthesis.engine import Array

LIGHTS = """
lists:
  room: [kitchen, {say: loo, value: bathroom}, hall, den]
intents:
  "on": "[please] (turn|switch) on the {room} light"
  level: ["set {0..30:level} percent", "all off"]
"""


def test_sentences_of_templates_have_their_meaning(tmp_path: Path) -> None:
    (tmp_path / "lights.yaml").write_text(LIGHTS)
    found = prompts_from(str(tmp_path / "lights.yaml"))
    assert len(found) == len({prompt.say for prompt in found}) == 2 * 2 * 4 + 31 + 1
    assert Prompt("switch on the loo light", None, "on", {"room": "bathroom"}) in found
    assert Prompt("set twenty nine percent", None, "level", {"level": 29}) in found


def test_few_sentences_leave_nothing_out(tmp_path: Path) -> None:
    """31 numbers and the other template are 32 sentences of the one intent; the other needs 4, for its rooms."""
    (tmp_path / "lights.yaml").write_text(LIGHTS)
    for seed in range(5):
        found = prompts_from(str(tmp_path / "lights.yaml"), 40, seed=seed)
        assert {prompt.slots.get("level") for prompt in found} == {None, *range(31)}
        assert {prompt.slots.get("room") for prompt in found} == {None, "kitchen", "bathroom", "hall", "den"}
        said = " ".join(prompt.say for prompt in found)
        assert {"please", "turn", "switch", "all"} <= set(said.split())
    assert prompts_from(str(tmp_path / "lights.yaml"), 40, seed=1) == prompts_from(
        str(tmp_path / "lights.yaml"), 40, seed=1
    )


words = st.sampled_from(["on", "off", "up", "down", "left", "right"])
templates = st.recursive(
    words,
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: f"({'|'.join(parts)})"),
        inner.map(lambda part: f"go [{part}] now"),
        st.lists(inner, min_size=2, max_size=2).map(" ".join),
    ),
    max_leaves=6,
)


@given(st.lists(templates, min_size=1, max_size=3, unique=True), st.integers(1, 60), st.integers(0, 9))
def test_drawn_sentences_are_different_ones_of_the_file(lines: list[str], n: int, seed: int) -> None:
    phrases = PhraseSet.parse("\n".join(lines))
    found = covering(phrases, n, seed)
    assert len(found) == len(set(found)) == min(n, phrases.sentences)
    assert all(phrases.command(sentence) for sentence in found)
    if n >= 20:  # more than the alternatives of any such file
        assert {word for sentence in found for word in sentence.split()} == set(phrases.words)


@pytest.mark.parametrize("name", ["texts.txt", "texts"])
def test_lines_are_said_as_they_stand(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("\ufeffWake me at 7:30!\r\n\r\n# nobody says this\nIt's late  # nor this\n")
    found = prompts_from(str(tmp_path / name))
    assert [(prompt.say, prompt.intent) for prompt in found] == [
        ("Wake me at 7:30!", "Wake me at 7:30!"),
        ("It's late", "It's late"),
    ]


def test_a_domain_stands_before_a_tab(tmp_path: Path) -> None:
    (tmp_path / "prompts.tsv").write_text("home\tturn (it) on\n\nno domain\nmusic\tplay\n")
    assert prompts_from(str(tmp_path / "prompts.tsv")) == [
        Prompt("turn (it) on", "home"),
        Prompt("no domain"),
        Prompt("play", "music"),
    ]


def test_what_names_no_file_is_said_itself() -> None:
    assert prompts_from("turn on the light") == [Prompt("turn on the light")]
    assert prompts_from("x" * 5000) == [Prompt("x" * 5000)]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"", "a.txt: holds no text"),
        ("a.txt", b"\n# only this\n", "a.txt: holds no text"),
        ("a.txt", b"fine\n...\n", r"a.txt: text 2 \('...'\) says nothing"),
        ("a.txt", b"fine\n\xff\n", "a.txt:2: not UTF-8"),
        ("a.txt", b"turn (on\n", "a.txt:1:6: '\\(' is never closed"),
        ("a.yaml", b"intents: {a: '{0..100000:x} and'}\n", "a.yaml"),
        ("a.yaml", b"intents: {a: '{0..999:x} {0..999:y}'}\n", "has 99.,... sentences; say with --count"),
        ("a.jsonl", b"{}", "is a manifest"),
        ("folder", None, "is a folder"),
        ("gone.txt", None, "no such file"),
        ("gone.yaml", None, "no such file"),
    ],
)
def test_files_that_hold_nothing_to_say_are_refused(
    tmp_path: Path, name: str, content: bytes | None, message: str
) -> None:
    (tmp_path / "folder").mkdir()
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(CepstraError, match=message) as caught:
        prompts_from(str(tmp_path / name))
    assert "\n" not in str(caught.value)


@given(
    st.text(st.sampled_from("-\u2013\u2014\u2212[]{}<>|;\"'`$\\/ \t\n\x00\u2028aé5🙂"), max_size=12)
    | st.text(max_size=20)
)
def test_engines_get_one_line_that_is_no_option(text: str) -> None:
    said = spoken(text)
    assert said == said.strip()
    assert len(said.splitlines()) <= 1
    assert not set("[]\0\n\r\t") & set(said)
    assert said[:1] not in {"-", "\u2212", "\u2013", "\u2014"}


@pytest.mark.parametrize(
    "text", ["-rf /", "--help me", "\u22125 degrees", "-5 degrees", "- on", 'say "yes"', "[[h@l'oU]] on"]
)
def test_what_is_spoken_is_what_the_manifest_says(text: str) -> None:
    assert normalise(spoken(text)) == normalise(text) != ""


class _Voices:
    """An engine that has voices, and doesn't speak."""

    def __init__(self, count: int, *, makes_speakers: bool) -> None:
        self.voices = tuple(f"v{i}" for i in range(count))
        self.makes_speakers = makes_speakers

    def draw(self, voice: str, others: Sequence[str], rng: np.random.Generator) -> Voice:
        raise NotImplementedError

    def speak(self, text: str, voice: Voice, rng: np.random.Generator) -> Array:
        raise NotImplementedError


shares = st.sampled_from(
    [{"": 1.0}, {"train": 0.9, "test": 0.1}, {"test": 0.5, "train": 0.5}, {"train": 0.8, "dev": 0.1, "test": 0.1}]
)


@given(shares, st.lists(st.tuples(st.integers(1, 40), st.booleans()), min_size=1, max_size=5), st.integers(0, 50))
def test_no_two_splits_share_a_voice(split: dict[str, float], sizes: list[tuple[int, bool]], seed: int) -> None:
    engines: dict[str, Engine] = {f"e{i}": _Voices(n, makes_speakers=made) for i, (n, made) in enumerate(sizes)}
    enough = any(n >= len(split) or made for n, made in sizes) or sum(n for n, _ in sizes) >= len(split)
    if not enough:
        with pytest.raises(SynthesisError, match="no engine has a voice left"):
            divide_voices(engines, split, seed, {})
        return
    divided = divide_voices(engines, split, seed, {})
    assert divided == divide_voices(engines, split, seed, {})
    assert list(divided) == list(split)
    assert all(divided.values())
    for name, engine in engines.items():
        given_out = Counter(voice for pools in divided.values() for voice in pools.get(name, ()))
        assert set(given_out) == set(engine.voices)  # none is lost
        if not (engine.makes_speakers and len(engine.voices) < len(split)):
            assert max(given_out.values()) == 1


def test_shares_are_met_and_who_is_held_out_is_alone() -> None:
    engines: dict[str, Engine] = {"a": _Voices(50, makes_speakers=False), "b": _Voices(3, makes_speakers=True)}
    divided = divide_voices(engines, {"train": 0.9, "test": 0.1}, 0, {})
    assert (len(divided["train"]["a"]), len(divided["test"]["a"])) == (45, 5)
    held = divide_voices(engines, {"train": 0.9, "test": 0.1}, 0, {"b": "test"})
    assert {split: sorted(pools) for split, pools in held.items()} == {"train": ["a"], "test": ["b"]}


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["espeek"], "no engine 'espeek'; there are hibari, kokoro, piper, flite, espeak, and any program"),
        (["cmd"], "no engine 'cmd'"),
        (["cmd: "], "the command is empty"),
        (["cmd: true {text}"], "has no {out}"),
        (["cmd: no-such-program {out}"], "there is no program 'no-such-program' to run"),
        (["cmd: true '{out}"], "close its quotes"),
        (["kokoro"], "no folder with Kokoro's model is given; install it: "),
    ],
)
def test_engines_that_cannot_be_are_refused(names: list[str], message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CEPSTRA_KOKORO", raising=False)
    with pytest.raises(SynthesisError) as caught:
        choose_engines(names)
    assert message in str(caught.value)


def test_programs_get_names_and_weights_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("espeak-ng", "flite"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    specs = choose_engines(["cmd: cp a {out}", "cmd: cp b {out}", "espeak=2.5", "flite"])
    assert [(spec.name, spec.weight) for spec in specs] == [("cp", 2), ("cp-2", 2), ("espeak", 2.5), ("flite", 1)]
    for wrong in ("espeak=0", "espeak=x", "espeak=nan", "espeak=-1"):
        with pytest.raises(SynthesisError, match="is no weight"):
            choose_engines([wrong])
    with pytest.raises(SynthesisError, match="flite: is there twice"):
        choose_engines(["flite", "flite=2"])
    with pytest.raises(SynthesisError, match="speaks English alone, not 'de'"):
        choose_engines(["flite"], language="de")
