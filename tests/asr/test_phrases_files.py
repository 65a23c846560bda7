"""Kinds of phrase files, and what is read from each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from asr.errors import PhrasesError
from asr.phrases import Command, PhraseSet

if TYPE_CHECKING:
    from pathlib import Path

OWN = """
lists:
  room: [kitchen, Living Room, {say: "loo", value: bathroom}, {say: [den, "study"], value: 7}]
  percent: 0..100
  level: [low, high, 1..3, "5", on, 2.5, true]
  part: ["(left|right) [hand] side"]
rules:
  please: "[please]"
  verb:
    - turn
    - "switch"
intents:
  lights_on:
    - "<verb> on [all] [the] lights [in the {room}] <please>"
    - "lights on"
  brightness: "set [the] {room} (lights|lamp) to {percent} percent"
  level: "level {level}"
  both: "from {room:from} to {room:to}"
  part: "the {part}"
"""


@pytest.mark.parametrize(
    ("said", "intent", "slots"),
    [
        ("turn on all the lights", "lights_on", {}),
        ("Switch on lights in the loo, please!", "lights_on", {"room": "bathroom"}),
        ("lights on", "lights_on", {}),
        ("set the living room lamp to 40%", "brightness", {"room": "Living Room", "percent": 40}),
        ("set study lamp to zero percent", "brightness", {"room": 7, "percent": 0}),
        ("level low", "level", {"level": "low"}),
        ("level two", "level", {"level": 2}),
        ("level five", "level", {"level": "5"}),  # in quotes: text
        ("level on", "level", {"level": "on"}),  # YAML's own rules would make it true
        ("level two point five", "level", {"level": 2.5}),
        ("level true", "level", {"level": True}),
        ("from den to kitchen", "both", {"from": 7, "to": "kitchen"}),
        ("the left hand side", "part", {"part": "left hand side"}),
    ],
)
def test_own_yaml(said: str, intent: str, slots: dict[str, Any]) -> None:
    command = PhraseSet.parse(OWN, "own.yaml").command(said)
    assert command is not None
    assert (command.intent, command.slots) == (intent, slots)
    assert all(type(command.slots[name]) is type(value) for name, value in slots.items())


@pytest.mark.parametrize("said", ["", "turn on", "set lamp to five percent", "please", "level 9", "lights on please"])
def test_what_is_no_sentence(said: str) -> None:
    assert PhraseSet.parse(OWN, "own.yaml").command(said) is None


def test_intents_keep_their_order_and_the_first_counts() -> None:
    text = "intents: {b: stop now, a: 'stop [now]', c: stop}"
    phrases = PhraseSet.parse(text)
    assert phrases.intents == ("b", "a", "c")
    assert phrases.sentences == 2
    assert phrases.command("stop now") == Command("b", {}, "stop now")
    assert phrases.command("stop") == Command("a", {}, "stop")


def test_a_plain_sentence_may_stand_behind_a_template() -> None:
    first = PhraseSet.parse("intents: {a: 'stop [now]', b: stop, c: stop now}")
    assert [first.command(said).intent for said in ("stop", "stop now")] == ["a", "a"]  # type: ignore[union-attr]
    last = PhraseSet.parse("intents: {b: stop, a: 'stop [now]', c: stop now}")
    assert [last.command(said).intent for said in ("stop", "stop now")] == ["b", "a"]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("template", "sentences"),
    [
        ("Wake me at 7:30", ["wake me at seven thirty"]),
        ("set {0..1:n} %", ["set one percent", "set zero percent"]),
        ("set {0..1:n}%", ["set one percent", "set zero percent"]),
        ("set {0..1:n}[%| percent]", ["set one", "set one percent", "set zero", "set zero percent"]),
        ("heat to {20..20:n}°", ["heat to twenty degrees"]),
        ("at {7..7:hour} (am|pm)", ["at seven a m", "at seven p m"]),
        ("who (am|are) i", ["who am i", "who are i"]),  # no hour before it
        ("[the ]light[s], (un)lock", ["light unlock", "lights unlock", "the light unlock", "the lights unlock"]),
        ("a|b c", ["a", "b c"]),
        ("(go ; now)", ["go now", "now go"]),
        ("[ on ] go", ["go", "on go"]),
        ("what's Café №5?", ["what's cafe number five"]),
        ("{1500..1500:n}", ["one thousand five hundred"]),
        ("{-3..-3:n} degrees", ["minus three degrees"]),
        ("((a))", ["a"]),
    ],
)
def test_words_are_normalised_where_they_stand(template: str, sentences: list[str]) -> None:
    assert PhraseSet.parse(template).samples(20) == sentences


def test_plain_text(tmp_path: Path) -> None:
    path = tmp_path / "commands.txt"
    path.write_bytes("\ufeff# a comment\r\n\r\n  turn (left|right)  # which way\r\ngo C# now\r\n".encode())
    phrases = PhraseSet.read(path)
    assert phrases.intents == ("turn (left|right)", "go C# now")
    assert phrases.command("turn left") == Command("turn (left|right)", {}, "turn left")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("x.yaml", "intents: {a: go}"),
        ("x.yml", "intents: {a: go}"),
        ("x.json", '{"intents": {"a": ["go"]}}'),
        ("phrases", "# ours\nintents:\n  a: go\n"),
        ("x.txt", "go"),
        ("phrases", "go\n"),
        ("x.jsgf", "#JSGF V1.0;\npublic <a> = go;"),
        ("phrases", "#JSGF V1.0;\ngrammar x;\npublic <a> = go;"),
        ("x.yaml", "intents:\n  a:\n    data:\n    - sentences: [go]\n"),
    ],
)
def test_the_kind_is_seen_from_name_and_content(name: str, text: str) -> None:
    phrases = PhraseSet.parse(text, name)
    assert phrases.samples(5) == ["go"]
    assert phrases.intents == (("a",) if text.strip() != "go" else ("go",))


JSGF = """#JSGF V1.0 UTF-8 en;
/* A home,
   with comments. */
grammar home.commands;  // and more
<polite> = please | "would you" | <NULL>;
<room> = (kitchen | living room {lounge}) ;
<percent> = /0.5/ fifty {level=50} | /2/ one hundred {level = "100"};
public <on> = [<polite>] (turn | switch) on [the] lights [in the <room>];
public <dim> = <polite> dim <percent> per cent {mode:dim};
"""


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("would you turn on the lights", Command("on", {}, "would you turn on the lights")),
        (
            "switch on lights in the living room",
            Command("on", {"room": "lounge"}, "switch on lights in the living room"),
        ),
        ("turn on lights in the kitchen", Command("on", {}, "turn on lights in the kitchen")),
        ("dim fifty per cent", Command("dim", {"level": 50, "mode": "dim"}, "dim fifty per cent")),
        ("please dim 100 per cent", Command("dim", {"level": 100, "mode": "dim"}, "please dim one hundred per cent")),
        ("fifty", None),  # not public
    ],
)
def test_jsgf(said: str, expected: Command | None) -> None:
    phrases = PhraseSet.parse(JSGF, "home.jsgf")
    # on: (none, please, would you) 2 verbs, the or not, no room or two: 3 * 2 * 2 * 3; dim: 3 * 2
    assert phrases.sentences == 36 + 6
    assert phrases.command(said) == expected


HOME_ASSISTANT = """
language: en
intents:
  HassTurnOn:
    data:
      - sentences:
          - "<turn> on [the] {area} light[s]"
          - "[the ]{area} light(|s) on"
        slots:
          domain: light
        requires_context: {area: null}
      - sentences: ["open <the>{cover}"]
        slots: {domain: cover}
  HassLightSet:
    data:
      - sentences: ["set {area} to {brightness}[%| percent]", "{area} {colour:color}"]
lists:
  area:
    values:
      - in: "living room"
        out: lounge
      - kitchen
  cover:
    values: [{in: "(garage|car) door", out: garage}, curtain]
  brightness:
    range: {from: 0, to: 100, step: 10, type: percentage}
  colour:
    values: [{in: red, out: 1}, blue]
expansion_rules:
  turn: "(turn|switch)"
  the: "[the ]"
skip_words: ["please", "can you"]
responses: {intents: {}}
"""


@pytest.mark.parametrize(
    ("said", "intent", "slots"),
    [
        ("turn on the living room lights", "HassTurnOn", {"domain": "light", "area": "lounge"}),
        ("can you switch on kitchen light please", "HassTurnOn", {"domain": "light", "area": "kitchen"}),
        ("the kitchen lights on", "HassTurnOn", {"domain": "light", "area": "kitchen"}),
        ("open the car door", "HassTurnOn", {"domain": "cover", "cover": "garage"}),
        ("open curtain", "HassTurnOn", {"domain": "cover", "cover": "curtain"}),
        ("set kitchen to 30 percent", "HassLightSet", {"area": "kitchen", "brightness": 30}),
        ("set kitchen to thirty", "HassLightSet", {"area": "kitchen", "brightness": 30}),
        ("please kitchen red", "HassLightSet", {"area": "kitchen", "color": 1}),
    ],
)
def test_home_assistant(said: str, intent: str, slots: dict[str, Any]) -> None:
    phrases = PhraseSet.parse(HOME_ASSISTANT, "en.yaml")
    command = phrases.command(said)
    assert command is not None
    assert (command.intent, command.slots) == (intent, slots)
    assert phrases.command("set kitchen to 35 percent") is None
    assert phrases.command("please please kitchen red") is None  # once before and once after


def test_other_languages() -> None:
    phrases = PhraseSet.parse("language: de\nintents: {a: 'Licht im {raum} an'}\nlists: {raum: [Büro, Küche]}")
    assert phrases.command("licht im BÜRO an") == Command("a", {"raum": "Büro"}, "licht im büro an")


def test_examples_that_exist_already() -> None:
    digits = PhraseSet.parse(
        'intents:\n  digit: "{digit}"\nlists:\n  digit: [zero, one, two, three, four, five, six, seven, eight, nine]\n'
    )
    assert digits.sentences == 10
    assert digits.command("7") == Command("digit", {"digit": "seven"}, "seven")
    timer = PhraseSet.parse(
        'lists:\n  unit_time: ["30 seconds", "5 minutes", "3 hours and 10 minutes"]\n'
        'intents:\n  timer_set: "set a timer for {unit_time}"\n  timer_cancel: ["cancel timer", "cancel all timers"]\n'
    )
    assert timer.command("set a timer for three hours and ten minutes") == Command(
        "timer_set", {"unit_time": "3 hours and 10 minutes"}, "set a timer for three hours and ten minutes"
    )


@pytest.mark.parametrize(
    ("template", "slots"),
    [
        ("([please]|{part:a}) [{part:b}] go", {"b": "on"}),  # nothing is said first, as is written first
        ("({part:a}|[please]) [{part:b}] go", {"a": "on"}),
        ("[{part:a}] [{part:b}] go", {"a": "on"}),
        ("([{part:a}]; [{part:b}]) go", {"a": "on"}),
    ],
)
def test_of_two_readings_the_first_written_counts(template: str, slots: dict[str, Any]) -> None:
    phrases = PhraseSet.parse(f"intents: {{x: '{template}'}}\nlists: {{part: ['on']}}")
    assert phrases.command("on go") == Command("x", slots, "on go")


@pytest.mark.parametrize(
    "text", ["intent:\n  a: make tea\n", "# mine\nintends:\n- make tea\n", "intent: {a: make tea}\n", "x :\n\n  a: b\n"]
)
def test_what_looks_like_yaml_is_no_list_of_sentences(text: str) -> None:
    with pytest.raises(PhrasesError, match="intents"):
        PhraseSet.parse(text, "uploaded")


@pytest.mark.parametrize("text", ["make tea\nstop\n", "make [some] tea # a key: {no}\n", "(on|off)\n"])
def test_a_list_of_sentences_is_no_yaml(text: str) -> None:
    assert PhraseSet.parse(text, "uploaded").sentences >= 1


def test_a_device_without_end_is_refused() -> None:
    with pytest.raises(PhrasesError, match="/dev/zero: more than"):
        PhraseSet.read("/dev/zero")
