"""`cepstra phrases check`, and the examples of its page."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from asr.cli.running import run
from asr.errors import PhrasesError
from asr.phrases import PhraseSet
from asr.phrases.alike import pairs, sounds
from asr.phrases.drawing import draw

PAGE = (Path(__file__).parent.parent.parent / "docs" / "phrases.md").read_text(encoding="utf-8")
LIGHTS = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)[0]


@pytest.fixture
def lights(tmp_path: Path) -> Path:
    path = tmp_path / "lights.yaml"
    path.write_text(LIGHTS, encoding="utf-8")
    return path


def _cepstra(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr(sys, "argv", ["cepstra", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        run()
    return int(ended.value.code or 0)


def test_the_example_of_the_page(lights: Path) -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=lights.parent, capture_output=True, text=True, timeout=120, check=True
    )
    promised = [line.split("# ", 1)[1] for line in code.splitlines() if "# " in line]
    assert len(promised) == 4
    assert ran.stdout.splitlines() == promised


@pytest.mark.parametrize(
    ("name", "content", "place"),
    [("a.txt", "go\nturn on* the light\n", "2:8"), ("a.yaml", "intents:\n  a: 'turn on* the light'\n", "2:14")],
)
def test_what_would_be_left_out_silently_is_refused_with_its_place(
    tmp_path: Path, name: str, content: str, place: str
) -> None:
    (tmp_path / name).write_text(content)
    for command in (["phrases", "check", name], ["transcribe", "--phrases", name, "none.wav"]):
        ended = subprocess.run(
            [sys.executable, "-m", "asr", *command], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        option = "" if command[0] == "phrases" else "--phrases "
        assert (ended.returncode, ended.stdout) == (1, "")
        assert ended.stderr.startswith(f"cepstra: {option}{name}:{place}: '*' isn't read, ")
        assert len(ended.stderr.splitlines()) == 1


def test_check(lights: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert _cepstra(monkeypatch, "phrases", "check", lights, "--samples", 3) == 0
    printed = capsys.readouterr().out.splitlines()
    # on: please or not, 2 verbs, all or not, the or not, no room or 3 (kitchen, living room, loo), and "lights on"
    # brightness: the or not, 3 rooms, 4 lamps, 101 numbers
    assert printed[0].startswith(f"{lights}: 2,489 sentences, 2 intents, ")
    assert 2 * 2 * 2 * 2 * 4 + 1 + 2 * 3 * 4 * 101 == 2489
    assert re.fullmatch(r"graph: \d+ states, \d+ arcs, \d\.\d kB", printed[1])
    assert "for example:" in printed
    assert len(printed) - printed.index("for example:") == 4
    assert "  'seventeen' and 'seventy' (12)" in printed


def test_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(
        "intents:\n  a: (go|stop) now\n  b: 'go [right] now'\n  c: 'xylophone {p}'\n  d: write\n  e: right\n"
        "  f: go at 5 am\n"
        "lists:\n  p: [on, {say: 'on', value: 1}]\n"
    )
    assert _cepstra(monkeypatch, "phrases", "check", path, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["sentences"], found["intents"]) == (7, 6)
    assert found["ambiguities"] == [
        {"said": "go now", "meanings": ["a", "b"], "where": None},
        {"said": "on", "meanings": ["'on'", "1"], "where": "p"},
    ]
    assert {"one": "right", "other": "write", "distance": 0.0} in found["alike"]
    assert list(found["hard_words"]) == ["xylophone"]
    assert "".join(found["hard_words"]["xylophone"]) == "▁xylophone"
    assert found["rewritten"] == {}
    assert {"intent": "c", "slots": {"p": "on"}, "sentence": "xylophone on"} in found["samples"]
    assert found["states"] > 0
    assert found["arcs"] >= found["states"] - 1


def test_what_is_hard_to_hear_has_a_remedy_for_each_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.yaml"
    remedies = {"alike": "  remedy: give one of the two another wording", "hard": "  remedy: choose commoner words"}
    for text, kinds in (
        ("intents:\n  d: write\n  e: right\n  f: rite\n", ["alike"]),
        ("intents:\n  d: xylophone\n  e: kumquat\n", ["hard"]),
        ("intents:\n  c: xylophone\n  d: write\n  e: right\n", ["alike", "hard"]),
        ("intents:\n  d: turn left\n  e: stop\n", []),
    ):
        path.write_text(text)
        assert _cepstra(monkeypatch, "phrases", "check", path) == 0
        printed = [line for line in capsys.readouterr().out.splitlines() if line.startswith("  remedy:")]
        assert len(printed) == len(kinds)
        assert all(line.startswith(remedies[kind]) for line, kind in zip(printed, kinds, strict=True))
        assert "hard" not in kinds or "`cepstra make`" in printed[-1]


def test_words_that_the_normaliser_would_write_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.yaml"
    path.write_text("intents:\n  a: at <hour> <half>\nrules:\n  hour: seven\n  half: am\n")
    assert _cepstra(monkeypatch, "phrases", "check", path) == 0
    assert "  'at seven am': 'at seven a m'" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("FILE",), "FILE:2:8: '(' is never closed; add ')'"),
        (("FILE", "--json"), "FILE:2:8: '(' is never closed; add ')'"),
        (("none.yaml",), "none.yaml: can't be read (No such file or directory); give the path of a phrase file"),
        (("FILE", "--intent", "a"), "--intent says what --draw draws; give both"),
        (("FILE", "--draw", "x.png"), "--draw x.png: the picture is SVG; give a name that ends with .svg"),
        (("FILE", "--draw", "none/x.svg"), "--draw none/x.svg: there is no folder none; create it first"),
        (("FILE", "--model", "FILE"), "FILE:2:8:"),
    ],
)
def test_faults_take_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    message: str,
) -> None:
    path = tmp_path / "x.yaml"
    path.write_text("intents:\n  a: go(\n")
    given = [argument.replace("FILE", str(path)) for argument in arguments]
    assert _cepstra(monkeypatch, "phrases", "check", *given) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"cepstra: {message.replace('FILE', str(path))}")
    assert printed.err.count("\n") == 1


def test_draw(lights: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    picture = lights.with_suffix(".svg")
    assert _cepstra(monkeypatch, "phrases", "check", lights, "--draw", picture) == 0
    capsys.readouterr()
    root = ET.fromstring(picture.read_bytes())  # noqa: S314  our own
    texts = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"{room}", "{percent}", "turn", "switch", "lamps"} <= set(texts)
    assert "{room}: kitchen, living room, loo" in texts
    assert "{percent}: zero, one, two, three, four, five, six, seven, … (101 entries)" in texts
    boxes = [
        [float(box.get(key, "0")) for key in ("x", "y", "width", "height")]
        for box in root.iter("{http://www.w3.org/2000/svg}rect")
        if box.get("class")
    ]
    assert len(boxes) > 10
    for i, (x, y, width, height) in enumerate(boxes):
        assert x >= 0
        assert y >= 0
        assert x + width <= float(root.get("width", "0"))
        assert y + height <= float(root.get("height", "0"))
        for left, top, across, down in boxes[:i]:  # no two on top of each other
            assert x >= left + across or left >= x + width or y >= top + down or top >= y + height


def test_a_picture_of_one_intent_or_of_too_much(lights: Path) -> None:
    phrases = PhraseSet.read(lights)
    assert "{percent}" not in draw(phrases, "lights_on")
    with pytest.raises(
        PhrasesError, match=r"lights\.yaml: no intent 'light_on'; there are, nearest first, 'lights_on', 'brightness'$"
    ):
        draw(phrases, "light_on")
    several = "".join(
        f"  i{n}: '{w} [{w}a] [{w}b {w}c] {w}d {{0..9:n}} ({w}e|{w}f {w}g)'\n"
        for n, w in enumerate("abcdefghijklmnopqrstuvwxyz")
    )
    many = PhraseSet.parse(f"intents:\n{several}")
    with pytest.raises(PhrasesError, match=r"boxes can't be read in a picture, 250 can; draw one intent \(--intent\)"):
        draw(many)
    assert draw(many, "i7").count("<rect") < 20
    box = PhraseSet.parse("\n".join(f"go {word}" for word in "abcdefghijkl"))
    assert "… 5 more" in draw(box)  # words that lead to the same place share a box


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("right", "write"),
        ("off", "of"),
        ("knight", "night"),
        ("fifteen", "fifty"),
        ("phone", "fone"),
        ("whole", "hole"),
    ],
)
def test_what_sounds_alike(one: str, other: str) -> None:
    assert [(pair.one, pair.other) for pair in pairs([one, "quite something else", other])] == [(one, other)]


def test_what_does_not_sound_alike() -> None:
    digits = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
    assert pairs(digits) == []
    assert pairs(["on"]) == []
    assert pairs([]) == []
    assert (sounds("fifteen"), sounds("fifty")) == ("faftan", "fafta")


@pytest.mark.parametrize(
    ("before", "after"), [("set", "degrees"), ("turn the heating in the living room to", ""), ("", "please")]
)
def test_words_that_sentences_share_make_them_no_more_alike(before: str, after: str) -> None:
    words = ["four", "five", "nine", "fifteen", "fifty", "right", "write", "twenty four", "twenty five", "ice cream"]
    sentences = {f"{before} {word} {after}".strip(): word for word in words}
    found = [(sentences[one], sentences[other], distance) for one, other, distance in pairs(list(sentences))]
    assert sorted(found) == sorted(pairs(words))
    assert [(one, other) for one, other, _ in found] == [("right", "write"), ("fifteen", "fifty")]


@pytest.mark.parametrize(
    ("wanted", "first"), [("Intent7", "intent7"), ("intnet 12", "intent12"), ("zzz", "intent0"), ("", "intent0")]
)
def test_known_intents_are_listed_nearest_first(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path, wanted: str, first: str
) -> None:
    (tmp_path / "many.yaml").write_text("intents:\n" + "".join(f"  intent{i}: 'say {i}'\n" for i in range(25)))
    options = ["--draw", tmp_path / "graph.svg", "--intent", wanted]
    assert _cepstra(monkeypatch, "phrases", "check", tmp_path / "many.yaml", *options) == 1
    (line,) = capfd.readouterr().err.splitlines()
    assert f": no intent {wanted!r}; there are, nearest first, {first!r}, " in line
    assert line.count("'intent") == 20
    assert line.endswith(" and 5 more")
    assert not (tmp_path / "graph.svg").exists()


def test_what_has_no_effect_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(
        "intents:\n  a: <used>\nlists:\n  room: [kitchen]\n  lamp: [lamp]\n"
        "rules:\n  used: dim the {lamp}\n  idle: the {room}\n"
    )
    assert _cepstra(monkeypatch, "phrases", "check", path) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == f"{path}: 1 sentence, 1 intent, 3 words"
    begin = printed.index("used by no sentence:")
    assert printed[begin + 1 : begin + 3] == ["  list room", "  rule <idle>"]  # only an idle rule uses the room
    assert printed[begin + 3].startswith("  remedy: ")


def test_alternatives_without_a_tag_beside_tagged_ones_are_told() -> None:
    grammar = "#JSGF V1.0;\ngrammar g;\n<dir> = left {l} | right {r} | up | <down> | [very] {v};\n"
    grammar += "<down> = down {d};\n<plain> = here | there;\npublic <go> = go <dir> <plain>;\n"
    assert PhraseSet.parse(grammar).grammar.untagged == ("rule <dir>: 'up'",)
    assert PhraseSet.parse(grammar).grammar.unused == ()


def test_at_most_ten_findings_of_a_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.yaml"
    path.write_text("intents: {a: go}\nlists:\n" + "".join(f"  l{n}: [stop]\n" for n in range(12)))
    assert _cepstra(monkeypatch, "phrases", "check", path) == 0
    printed = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("  list l") for line in printed) == 10
    assert "  … and 2 more (--json has all)" in printed


@pytest.mark.parametrize("head", [b"RIFF\xff\x00\x00\x00WAVE", b"fLaC\x00\x00\x00\xff"])
def test_a_sound_file_is_no_phrase_file(tmp_path: Path, head: bytes) -> None:
    path = tmp_path / "x.wav"
    path.write_bytes(head)
    with pytest.raises(PhrasesError, match="a sound file; give a phrase file"):
        PhraseSet.read(path)
