"""Counts and graphs of phrase files, worked out by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from asr.bundle import read_bundle
from asr.errors import PhrasesError
from asr.phrases import Command, PhraseSet, TokenGraph
from asr.recognizer import DEFAULT_BUNDLE
from asr.tokenizer import Tokenizer

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return read_bundle(DEFAULT_BUNDLE).tokenizer


@pytest.fixture(scope="module")
def letters() -> Tokenizer:
    """Every word is its start and its letters."""
    pieces = ["<blank>", "<s>", "</s>", "<unk>", "▁", "a", "b", "c"]
    return Tokenizer({piece: number for number, piece in enumerate(pieces)}, [])


def test_the_arrays_of_a_small_graph(letters: Tokenizer) -> None:
    """Sentences: a; a b; a c. Words start with token 4, letters are 5, 6 and 7."""
    graph = PhraseSet.parse("a [(b|c)]").compile(letters)
    # 0 -▁-> 1 -a-> 2 (end) -▁-> 3 -b,c-> 4 (end)
    assert graph.offsets.tolist() == [0, 1, 2, 3, 5, 5]
    assert graph.tokens.tolist() == [4, 5, 4, 6, 7]
    assert graph.targets.tolist() == [1, 2, 3, 4, 4]
    assert graph.final.tolist() == [False, False, True, False, True]
    assert (graph.num_states, graph.num_arcs) == (5, 5)
    tokens, targets = graph.arcs(3)
    assert (tokens.tolist(), targets.tolist()) == ([6, 7], [4, 4])
    assert [graph.next(3, token) for token in range(9)] == [-1, -1, -1, -1, -1, -1, 4, 4, -1]
    assert graph.next(4, 4) == -1
    assert graph.nbytes == 4 * (6 + 5 + 5) + 5


def test_a_word_that_begins_another_one(letters: Tokenizer) -> None:
    """After "a" a longer word may go on, or the next word begin: ab, abc, a c."""
    graph = PhraseSet.parse("ab\nabc\na c").compile(letters)
    accepted = [[4, 5, 6], [4, 5, 6, 7], [4, 5, 4, 7]]
    assert all(graph.accepts(tokens) for tokens in accepted)
    refused = [[], [4], [4, 5], [4, 5, 4], [4, 5, 7], [4, 5, 6, 4, 7], [4, 5, 6, 7, 7]]
    assert not any(graph.accepts(tokens) for tokens in refused)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("on", 1),
        ("(turn|switch) on [the] (light|lamp)", 8),
        ("[a] [a] [a] b", 4),  # none to three times: eight ways, four sentences
        ("(a|a|b)", 2),
        ("(a;b;c)", 6),
        ("(a;b;a)", 3),  # aab, aba, baa
        ("(a;[b];[c])", 1 + 2 + 2 + 6),
        ("[a;b] c", 3),
        ("go {1..9:n}\ngo {5..12:n}", 12),
        ("go {-2..2:n}", 5),
        ("go {0..100 step 25:n}", 5),
        ("go {0..100/25:n} now", 5),
        ("go {0..10 step 4:n}", 3),  # 0, 4, 8
        ("light[s] on", 2),
        ("(un|re)lock[(ed|ing)]", 6),
        ("[the ]light", 2),
    ],
)
def test_sentences_are_counted_once(text: str, count: int) -> None:
    phrases = PhraseSet.parse(text)
    assert phrases.sentences == count
    assert len(phrases.samples(1000)) == count


def test_a_number_beyond_all_machine_words() -> None:
    lists = ", ".join(f"{{w:s{number}}}" for number in range(20))
    phrases = PhraseSet.parse(f"intents: {{code: '{lists}'}}\nlists: {{w: 0..999}}")
    # Of up to five words each, which run into each other: not 1000 ** 20, but more than any 64 bits
    assert 10**40 < phrases.sentences < 1000**20
    separate = ", ".join(f"{{w:s{number}}} then" for number in range(16))
    assert PhraseSet.parse(f"intents: {{code: '{separate}'}}\nlists: {{w: 0..999}}").sentences == 1000**16


def test_what_runs_into_each_other_is_counted_once() -> None:
    """twenty, five, twenty five: "twenty five" is one number or two."""
    text = "intents: {code: '{n:a} [{n:b}]'}\nlists: {n: [20, 5, 25]}"
    # one: 20, 5, 25. two: 9 pairs, of which 20 5 is said as 25 and 20 5 5 is 25 5 only
    sentences = {
        "twenty", "five", "twenty five", "twenty twenty", "twenty twenty five", "five twenty", "five five",
        "five twenty five", "twenty five twenty", "twenty five five", "twenty five twenty five",
    }  # fmt: skip
    phrases = PhraseSet.parse(text)
    assert set(phrases.samples(50)) == sentences
    assert phrases.sentences == 11
    # The first entry that fits, with the rest fitting too
    assert phrases.command("twenty five") == Command("code", {"a": 20, "b": 5}, "twenty five")
    assert phrases.command("twenty five five") == Command("code", {"a": 25, "b": 5}, "twenty five five")


def test_the_order_of_the_file_does_not_change_the_graph(tokenizer: Tokenizer) -> None:
    graphs = [
        PhraseSet.parse(text).compile(tokenizer)
        for text in ("turn (on|off) the light", "turn off the light\nturn on the light", "turn (off|on) [x] the light")
    ]
    for name in ("offsets", "tokens", "targets", "final"):
        first, second, other = (getattr(graph, name) for graph in graphs)
        assert first.dtype == (np.bool_ if name == "final" else np.int32)
        np.testing.assert_array_equal(first, second)
        assert name == "final" or not np.array_equal(first, other)


def test_tokens_ascend_within_every_state(tokenizer: Tokenizer) -> None:
    graph = PhraseSet.parse("set {0..500:n} percent [please]").compile(tokenizer)
    for state in range(graph.num_states):
        tokens, targets = graph.arcs(state)
        assert np.all(np.diff(tokens) > 0)
        assert np.all((targets > 0) & (targets < graph.num_states))
    assert not graph.final[0]


@pytest.mark.parametrize("around", [("", ""), ("turn ", ""), ("", " light"), ("a ", " b")])
def test_tokens_of_a_word_do_not_depend_on_its_neighbours(tokenizer: Tokenizer, around: tuple[str, str]) -> None:
    """What the graph rests on; and only a word's first token says that a word starts."""
    for word in ("on", "lights", "a", "i'd", "xylophone"):
        before, after = around
        joined = tokenizer.encode(f"{before}{word}{after}")
        assert joined == [*tokenizer.encode(before), *tokenizer.encode(word), *tokenizer.encode(after)]
        starts = [tokenizer.token(token).startswith("▁") for token in tokenizer.encode(word)]
        assert starts == [True] + [False] * (len(starts) - 1)


def test_letters_that_the_model_lacks(letters: Tokenizer) -> None:
    with pytest.raises(PhrasesError, match=r"^x\.txt:2:1: the model has no letters for 'dab'; "):
        PhraseSet.parse("a\nb dab", "x.txt").compile(letters)


def test_a_million_million_sentences_stay_small(tokenizer: Tokenizer) -> None:
    text = "intents: {code: 'set {n:a} {n:b} {n:c} {n:d} {n:e} {n:f}'}\nlists: {n: 0..100}"
    phrases = PhraseSet.parse(text)
    graph = phrases.compile(tokenizer)
    assert phrases.sentences > 10**12
    assert graph.num_arcs < 10_000
    said = "set five one hundred twenty one zero nine seventy"
    assert phrases.command(said) == Command("code", {"a": 5, "b": 100, "c": 21, "d": 0, "e": 9, "f": 70}, said)


def test_samples() -> None:
    phrases = PhraseSet.parse("go {0..100:n}\nstop\nturn (left|right)")
    assert phrases.samples(10, seed=1) == phrases.samples(10, seed=1)
    assert phrases.samples(10, seed=1) != phrases.samples(10, seed=2)
    assert len(set(phrases.samples(50))) == 50
    assert "stop" in phrases.samples(20)  # every intent is drawn as often
    assert phrases.samples(0) == []
    assert len(phrases.samples(103)) == 103  # nearly all of them, some rarely drawn
    assert sorted(phrases.samples(104)) == sorted({*phrases.samples(1000)})


def test_accepts_and_commands_agree_on_samples(tokenizer: Tokenizer, tmp_path: Path) -> None:
    path = tmp_path / "orders.yaml"
    path.write_text(
        "lists: {size: [small, large], dish: [fish and chips, {say: '(mac|macaroni) and cheese', value: mac}]}\n"
        "rules: {please: '[please]'}\n"
        "intents:\n  order: '<please> [a] {size} {dish} ([with salt]; [for table {1..30:table}]; [now]) <please>'\n"
    )
    phrases = PhraseSet.read(path)
    graph: TokenGraph = phrases.compile(tokenizer)
    for said in phrases.samples(100):
        assert graph.accepts(tokenizer.encode(said))
        command = phrases.command(said)
        assert command is not None
        assert ("table" in command.slots) == ("table" in said)
        assert command.slots["dish"] == ("mac" if "mac" in said else "fish and chips")
        shorter = said.split()[:-1]
        assert graph.accepts(tokenizer.encode(" ".join(shorter))) == (phrases.command(" ".join(shorter)) is not None)


@pytest.mark.parametrize(
    ("rules", "times"),
    [
        (["<r{}>"] * 77, 98),
        (["x (<r{}>|b) [c]"] * 25, 48),
        (["(x; <r{}>)"] * 38, 60),
    ],
)
def test_what_is_nested_as_deeply_as_may_be(tokenizer: Tokenizer, rules: list[str], times: int) -> None:
    """Nothing goes beyond Python's own limit, at the length and the depth that are allowed."""
    numbered = enumerate(["a", *(rule.format(number) for number, rule in enumerate(rules))])
    lines = "".join(f"  r{number}: '{rule}'\n" for number, rule in numbered)
    text = f"intents:\n  deep: '<r{len(rules)}> {'[z] ' * times}'\nrules:\n{lines}"
    phrases = PhraseSet.parse(text)
    graph = phrases.compile(tokenizer)
    for said in phrases.samples(3):
        assert graph.accepts(tokenizer.encode(said))
        command = phrases.command(said)
        assert command is not None
        assert command.intent == "deep"
