"""Faulty phrase files: where the fault is, and what to do about it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asr.errors import CepstraError, PhrasesError
from asr.phrases import PhraseSet

OWN = "intents:\n  a: go\n"


@pytest.mark.parametrize(
    ("text", "place", "fault"),
    [
        ("", "1:1", "no sentence"),
        ("# nothing\n\n", "1:1", "no sentence"),
        ("go\n  turn (on\n", "2:8", "'(' is never closed; add ')'"),
        ("go [now", "1:4", "'[' is never closed; add ']'"),
        ("turn on) now", "1:8", "')' closes nothing"),
        ("turn (on] now", "1:9", "']' can't close '(' of line 1, column 6; write ')'"),
        ("turn (on|) now", "1:6", "nothing stands on one side of '|'; write [a|b]"),
        ("(a;;b)", "1:1", "nothing stands on one side of ';'"),
        ("turn () on", "1:6", "nothing stands in these brackets"),
        ("a;b", "1:2", "';' outside of brackets"),
        ("(a;b|c)", "1:5", "'|' and ';' in the same brackets"),
        (r"say \( it", "1:5", "a backslash: brackets can't be spoken"),
        ("set {x now", "1:5", "'{' is never closed"),
        ("set } now", "1:5", "'}' closes nothing"),
        ("a > b", "1:3", "'>' closes nothing"),
        ("stop\n  turn it* off", "2:10", "'*' isn't read, neither as any number of times nor as a word; write out"),
        ("go [please]*", "1:12", "'*' isn't read"),
        ("(very|so* much)", "1:9", "'*' isn't read"),
        ("* lights on", "1:1", "'*' isn't read"),
        ("press *", "1:7", "'*' isn't read"),
        ("two * three", "1:5", "'*' isn't read"),
        ("go <a", "1:4", "'<' is never closed"),
        ("set {x} now", "1:5", "no list {x}; write a YAML file"),
        ("go <x> now", "1:4", "no rule <x>; write a YAML file"),
        ("{9}", "1:1", "'{9}' names no list"),
        ("{a:}", "1:1", "'' is no name of a slot"),
        ("[please]", "1:1", "'[please]' may be left out altogether"),
        ("!!!", "1:1", "'!!!' says nothing"),
        ("go\ngo\n", "2:1", "'go' is there already, on line 1"),
        ("set {0..100} now", "1:5", "numbers 0..100 fill no slot; name it: {0..100:slot}"),
        ("set {0..1000000:n} now", "1:5", "1000001 numbers in the range 0..1000000; at most 10001"),
        ("set {0..999999999999999:n} now", "1:5", "1000000000000000 numbers"),
        ("set {0..9999999999999999:n} now", "1:5", "is no range of whole numbers"),
        ("set {5..1:n}", "1:5", "the range 5..1 is empty; write 1..5"),
        ("set {1..5/0:n}", "1:5", "a step of 0 leads nowhere"),
        ("set {1..5 step x:n}", "1:5", "'1..5 step x' is no range of whole numbers"),
        ("set {1.5..5:n}", "1:5", "'1.5..5' is no range of whole numbers"),
        ("{1..2:n} or {3..4:n}", "1:1", "may fill the slot 'n' 2 times"),
        ("go light{1..2:n}", "1:4", "'light' stands close to a list or rule"),
        ("{1..2:n}'s light", "1:9", '"\'s" stands close to a list or rule'),
        ("x(a;b)", "1:2", "what comes in any order stands close to something else"),
        ("(a;b;c;d;e;f;g;h;i)", "1:1", "9 parts in any order; at most 8"),
        ("go " + "a" * 51, "1:1", "a word of 51 letters; at most 50"),
        ("a " * 101, "1:1", "may have 101 words; a sentence has at most 100"),
        ("x " + "(a|b)" * 12, "1:3", "more than 1000 spellings"),
        ("(" * 10_000 + "a" + ")" * 10_000, "1:21", "more than 20 brackets within each other"),
        ("[" * 10_000, "1:21", "more than 20 brackets within each other"),
        ("({" * 10_000, "1:2", "'{' is never closed"),
    ],
)
def test_templates(text: str, place: str, fault: str) -> None:
    _refused(text, "x.txt", place, fault)


@pytest.mark.parametrize(
    ("text", "place", "fault"),
    [
        ("", "1:1", "the file holds nothing; write intents:"),
        ("hello", "1:1", "the file holds text"),
        ("[a]", "1:1", "the file holds a list"),
        ("intents:", "1:9", "intents holds nothing"),
        ("intents: {}", "1:10", "intents holds nothing"),
        ("lists: {a: [b]}", "1:1", "a phrase file without intents"),
        ("intents:\n  a:\n", "2:5", "a holds nothing"),
        ("intents:\n  a: [x y]\n", "2:7", "'x y' within brackets of YAML; put sentences in quotes"),
        ("intents:\n  a:\n   - [please]\n", "3:6", "a holds brackets without quotes"),
        ("intents:\n  a:\n   - {room}\n", "3:6", "a holds names with values"),
        ("intents:\n  a: [please] go\n", "2:15", "put texts that begin with [ or {"),
        ("intents:\n  a: turn on: now\n", "2:13", "not YAML (mapping values are not allowed"),
        ("intents:\n  a: go\n  a: on\n", "3:3", "'a' is there already, on line 2"),
        ("intent:\n  a: go\n", "1:1", "did you mean 'intents'?"),
        (OWN + "lists:\n  room: hall\n", "4:9", "list room holds text"),
        (OWN + "lists:\n  room: []\n", "4:9", "list room holds nothing"),
        (OWN + "lists:\n  room: {from: 1}\n", "4:9", "list room holds names with values"),
        (OWN + "lists:\n  room: ['!']\n", "4:11", "an entry that may say nothing"),
        (OWN + "lists:\n  room: ['{a}']\n", "4:11", "a list within a list"),
        (OWN + "lists:\n  room: [{say: x}]\n", "4:10", "an entry of list room without say or value"),
        (OWN + "lists:\n  room: [{sai: x, value: 1}]\n", "4:11", "did you mean 'say'?"),
        (OWN + "lists:\n  room: [{say: [], value: 1}]\n", "4:16", "say holds nothing"),
        (OWN + "lists:\n  'my room': [a]\n", "4:4", "'my room' can't name a list"),
        (OWN + "lists:\n  n: 0..99999\n", "4:6", "100000 numbers in the range"),
        (OWN + "lists:\n  n: [a, 5..1]\n", "4:10", "the range 5..1 is empty"),
        ("intents:\n  a: go {rom}\nlists:\n  room: [hall]\n", "2:9", "no list {rom}; did you mean 'room'?"),
        ("intents:\n  a: go <ples>\nrules:\n  please: now\n", "2:9", "no rule <ples>; did you mean 'please'?"),
        ("intents:\n  a: go {xyz}\nlists:\n  room: [hall]\n", "2:9", "no list {xyz}; there are {room}"),
        (OWN + "rules:\n  a: go <b>\n  b: x <a>\n", "5:8", "rule <a> leads back to itself (<a> → <b> → <a>)"),
        (OWN + "rules:\n  a: <a> x\n", "4:6", "rule <a> leads back to itself"),
        (OWN + "rules:\n  r: (x\n", "4:6", "'(' is never closed"),
        (OWN + "rules:\n  r: very* loud\n", "4:10", "'*' isn't read"),
        (OWN + "lists:\n  room: [hall, 'all*']\n", "4:20", "'*' isn't read"),
        (OWN + "lists:\n  room: [{say: 'all*', value: 1}]\n", "4:20", "'*' isn't read"),
        ("intents:\n  a:\n   - go\n   - 'go [now]*'\n", "4:15", "'*' isn't read"),
        ("intents:\n  a: 'go {r} and {r}'\nlists:\n  r: [x]\n", "2:7", "may fill the slot 'r' 2 times"),
        ("intents:\n  a: &x go\n", "2:6", "anchors and aliases"),
        ("intents:\n  a: !!python/object:os.system go\n", "2:6", "isn't read"),
        (OWN + "---\nintents: {}\n", "3:1", "a second document"),
        ("intents:\n\ta: go\n", "2:1", "that cannot start any token); indent with spaces"),
        ("intents: " + "[" * 50 + "]" * 50, "1:25", "more than 16 levels of YAML"),
        ("intents: " + "[" * 10_000, "1:", "YAML"),
        ("intents: " + "{a: " * 10_000, "1:", "YAML"),
        ('intents:\n  a: "go é (on"\n', "2:12", "'(' is never closed"),
        ('intents:\n  a: "\\x67o (on"\n', "2:6", "'(' is never closed"),  # where its text begins
        ("intents:\n  a: >\n    go\n    (on\n", "2:6", "'(' is never closed"),
        ("intents:\n  ? [a, b]\n  : go\n", "2:5", "brackets where a name is expected"),
        ("intents:\n  a: \x01\n", "2:6", "not YAML"),
        (
            OWN + "rules:\n  r0: a\n" + "".join(f"  r{i}: <r{i - 1}> <r{i - 1}>\n" for i in range(1, 30)),
            "11:7", "rule <r7> may have 128 words; a sentence has at most 100",
        ),
        (
            OWN + "rules:\n" + "".join(f"  r{i}: <r{i + 1}>\n" for i in range(10_000)) + "  r10000: a\n",
            "84:8", "more than 80 rules that lead from one to the next",
        ),
    ],
)  # fmt: skip
def test_own_yaml(text: str, place: str, fault: str) -> None:
    _refused(text, "x.yaml", place, fault)


@pytest.mark.parametrize(
    ("text", "place", "fault"),
    [
        ("  A:\n    data:\n    - {sentences: ['go {x}']}\nlists:\n  x: {wildcard: true}\n", "6:7", "may be anything"),
        ("  A:\n    data:\n    - {sentences: ['go'], foo: 1}\n", "4:27", "'foo' is nothing that a block"),
        ("  A:\n    data:\n    - {slots: {a: b}}\n", "4:7", "a block of A without sentences"),
        ("  A:\n    dat: []\n", "3:5", "intent A without data"),
        ("  A:\n    data: [{sentences: ['go on*']}]\n", "3:31", "'*' isn't read"),
        ("  A:\n    data: []\n", "3:11", "data of A holds no list"),
        ("  A:\n    data: [{sentences: ['go <the>']}]\n", "3:29", "no rule <the>; write it below expansion_rules:"),
        ("  A:\n    data: [{sentences: [go]}]\nlists:\n  x: {range: {from: a, to: 3}}\n", "5:21", "'a' is no whole"),
        ("  A:\n    data: [{sentences: [go]}]\nlists:\n  x: {range: {from: 1}}\n", "5:14", "has no to"),
        ("  A:\n    data: [{sentences: [go]}]\nlists:\n  x: {values: [{out: 1}]}\n", "5:16", "without in"),
    ],
)  # fmt: skip
def test_home_assistant(text: str, place: str, fault: str) -> None:
    _refused(f"intents:\n{text}", "x.yaml", place, fault)


@pytest.mark.parametrize(
    ("text", "place", "fault"),
    [
        ("<a> = go;", "1:1", "no public rule"),
        ("public <a> = go*;", "2:16", "'*': any number of times"),
        ('public <a> = press "the *";', "2:25", "'*' isn't read"),
        ("public <a> = go {x+1;};", "2:17", "the tag 'x+1;' isn't plain"),
        ("import <x.*>;\npublic <a> = go;", "2:1", "import isn't read"),
        ("public <a> = go", "2:1", "a statement without end"),
        ("public <a> = go <b>;", "2:17", "no rule <b>; there are <a>"),
        ("public <a> =\n (go;", "3:2", "'(' is never closed"),
        ("public <a> = /* x\n */ go <a>;", "3:8", "rule <a> leads back to itself"),
        ("public <a> = <VOID>;", "2:14", "<VOID> can never be said"),
        ("public <a> = ;", "2:1", "rule <a> holds nothing"),
        ("public a = b;", "2:1", "neither a rule nor the grammar's name"),
        ('public <a> = "b;', "2:14", "is never closed"),
        ("public <a> = b; <a> = c;", "2:17", "rule <a> is there already, on line 2"),
        ("public <a> = (b | );", "2:14", "nothing stands on one side"),
        ("public <a> = b = c;", "2:16", "a second '='"),
        ("<d> = one {1};\npublic <a> = <d> <d>;", "3:1", "may fill the slot 'd' 2 times"),
    ],
)
def test_jsgf(text: str, place: str, fault: str) -> None:
    _refused(f"#JSGF V1.0;\n{text}", "x.jsgf", place, fault)


def test_no_header_of_jsgf() -> None:
    _refused("public <a> = b;", "x.jsgf", "1:1", "no header of JSGF")


def _refused(text: str, name: str, place: str, fault: str) -> None:
    with pytest.raises(PhrasesError) as caught:
        PhraseSet.parse(text, name)
    message = str(caught.value)
    assert message.startswith(f"{name}:{place}{'' if place.endswith(':') else ': '}")
    assert fault in message
    assert re.search(r"[;,:?] ", message.split(": ", 1)[1]), "no remedy"
    assert "\n" not in message
    assert len(message) < 300


def test_a_rule_that_no_machine_can_hold_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the letter 20 places before the end was an a: any deterministic automaton must remember them all."""
    monkeypatch.setattr("asr.phrases.languages.MAX_STATES", 20_000)  # the real limit takes seconds
    rule = f"{'[(a|b)] ' * 20} a {'(a|b) ' * 20}"
    phrases = PhraseSet.parse(f"intents:\n  fine: go\n  x: now <blow> x\nrules:\n  blow: '{rule}'\n", "x.yaml")
    with pytest.raises(PhrasesError, match=r"^x\.yaml:3:6: 'now <blow> x' can go on in more ways .* in rule <blow>;"):
        phrases.sentences  # noqa: B018


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    for path, fault in ((tmp_path / "none.txt", "No such file"), (tmp_path, "Is a directory"), (Path("a\0b"), "null")):
        with pytest.raises(PhrasesError, match=f"can't be read .*{fault}"):
            PhraseSet.read(path)
    latin = tmp_path / "latin.txt"
    latin.write_bytes("go\nnach Köln".encode("latin-1"))
    with pytest.raises(PhrasesError, match=r"latin\.txt:2:7: not UTF-8 text; save the file as UTF-8"):
        PhraseSet.read(latin)
    large = tmp_path / "large.txt"
    with large.open("wb") as file:
        file.truncate((1 << 24) + 1)
    with pytest.raises(PhrasesError, match="more than 16 MB"):
        PhraseSet.read(large)


@settings(max_examples=200, deadline=None)
@given(
    st.text(st.sampled_from(list("ab 1.:;|()[]{}<>\\\n-#'\"*=/,é%")), max_size=40),
    st.sampled_from(["x.txt", "x.yaml", "x.jsgf"]),
    st.sampled_from(["", "intents:\n  a: ", "intents:\n  a: '", "#JSGF V1.0;\npublic <a> = "]),
)
def test_anything_is_read_or_refused(text: str, name: str, before: str) -> None:
    try:
        phrases = PhraseSet.parse(before + text, name)
    except CepstraError as error:
        assert re.match(rf"{re.escape(name)}:\d+:\d+: ", str(error))  # noqa: PT017
    else:
        assert phrases.sentences >= 1
        for said in phrases.samples(3):
            assert phrases.command(said) is not None
