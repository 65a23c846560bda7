"""What a phrase file says against every sentence written out: random small grammars."""

from __future__ import annotations

from itertools import permutations, product
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from asr.bundle import read_bundle
from asr.phrases import PhraseSet
from asr.recognizer import DEFAULT_BUNDLE

if TYPE_CHECKING:
    from asr.phrases import TokenGraph
    from asr.tokenizer import Tokenizer

WORDS = ("go", "on", "light", "lights", "to")
LISTS: dict[str, dict[str, Any]] = {
    "room": {"hall": "hall", "light hall": "L", "go": 7},
    "part": {"on": "on", "on to": "both"},
}
YAML_LISTS = """
lists:
  room: [hall, {say: "light hall", value: L}, {say: go, value: 7}]
  part: ["on", {say: "on to", value: both}]
"""
Meaning = tuple[tuple[str, ...], tuple[tuple[str, Any], ...]]  # words, and slots in order


def _trees() -> st.SearchStrategy[Any]:
    leaves = st.sampled_from([*WORDS, *(f"{{{name}}}" for name in LISTS)])
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.tuples(st.just("row"), st.lists(inner, min_size=1, max_size=3)),
            st.tuples(st.just("either"), st.lists(inner, min_size=1, max_size=3)),
            st.tuples(st.just("optional"), st.lists(inner, min_size=1, max_size=2)),
            st.tuples(st.just("any order"), st.lists(inner, min_size=2, max_size=3)),
        ),
        max_leaves=7,
    )


def _write(tree: Any, number: list[int]) -> tuple[str, list[Meaning]]:
    """A tree as a template and as all that it means, each slot with a name of its own."""
    if isinstance(tree, str):
        if not tree.startswith("{"):
            return tree, [((tree,), ())]
        number[0] += 1
        slot = f"s{number[0]}"
        entries = LISTS[tree[1:-1]]
        return f"{{{tree[1:-1]}:{slot}}}", [(tuple(said.split()), ((slot, v),)) for said, v in entries.items()]
    kind, parts = tree
    texts, meanings = zip(*(_write(part, number) for part in parts), strict=True)
    if kind == "row":
        return " ".join(texts), _joined(meanings)
    if kind == "any order":
        return f"({'; '.join(texts)})", [one for order in permutations(meanings) for one in _joined(order)]
    united = [one for part in meanings for one in part]
    return (f"[{'|'.join(texts)}]", [*united, ((), ())]) if kind == "optional" else (f"({' | '.join(texts)})", united)


def _joined(parts: Any) -> list[Meaning]:
    return [
        (tuple(word for words, _ in way for word in words), tuple(slot for _, slots in way for slot in slots))
        for way in product(*parts)
    ]


def _residuals(sentences: set[tuple[int, ...]]) -> int:
    """States of the smallest deterministic automaton: what may follow each beginning, where something may."""
    prefixes = {sentence[:n] for sentence in sentences for n in range(len(sentence) + 1)}
    return len({frozenset(s[len(p) :] for s in sentences if s[: len(p)] == p) for p in prefixes})


def _paths(graph: TokenGraph) -> set[tuple[int, ...]]:
    found: set[tuple[int, ...]] = set()
    stack: list[tuple[tuple[int, ...], int]] = [((), 0)]
    while stack:
        said, state = stack.pop()
        if graph.final[state]:
            found.add(said)
        tokens, targets = graph.arcs(state)
        stack += [((*said, int(token)), int(target)) for token, target in zip(tokens, targets, strict=True)]
    return found


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return read_bundle(DEFAULT_BUNDLE).tokenizer


@settings(max_examples=100, deadline=None)
@given(st.lists(_trees(), min_size=1, max_size=3), st.data())
def test_a_grammar_is_the_sentences_written_out(tokenizer: Tokenizer, trees: list[Any], data: st.DataObject) -> None:
    written = [_write(tree, [0]) for tree in trees]
    assume(sum(len(meanings) for _, meanings in written) <= 3000)
    assume(all(words for _, meanings in written for words, _ in meanings))
    lines = "".join(f"  i{number}: '{text}'\n" for number, (text, _) in enumerate(written))
    phrases = PhraseSet.parse(f"intents:\n{lines}{YAML_LISTS}")

    meant: dict[tuple[str, ...], tuple[str, list[dict[str, Any]]]] = {}
    for number, (_, meanings) in enumerate(written):
        for words, slots in meanings:
            intent, ways = meant.setdefault(words, (f"i{number}", []))
            if intent == f"i{number}":
                ways.append(dict(slots))

    assert phrases.sentences == len(meant)
    assert set(phrases.samples(4000)) == {" ".join(words) for words in meant}
    assert phrases.words == tuple(sorted({word for words in meant for word in words}))
    graph = phrases.compile(tokenizer)
    spelt = {tuple(tokenizer.encode(" ".join(words))) for words in meant}
    assert _paths(graph) == spelt
    assert graph.num_states == _residuals(spelt)

    for words, (intent, ways) in list(meant.items())[:100]:
        command = phrases.command(" ".join(words))
        assert command is not None
        assert (command.intent, command.sentence) == (intent, " ".join(words))
        assert command.slots in ways
        assert graph.accepts(tokenizer.encode(command.sentence))
    for sample in phrases.samples(5, seed=1):
        assert tuple(sample.split()) in meant

    said = tuple(data.draw(st.lists(st.sampled_from([*WORDS, "hall"]), max_size=5)))
    assert (phrases.command(" ".join(said)) is not None) == (said in meant)
    assert graph.accepts(tokenizer.encode(" ".join(said))) == (said in meant)
    tokens = data.draw(st.lists(st.sampled_from([0, 1, 2, 3, *sorted({t for s in spelt for t in s})]), max_size=8))
    assert graph.accepts(tokens) == (tuple(tokens) in spelt)


@settings(max_examples=60, deadline=None)
@given(st.lists(_trees(), min_size=1, max_size=2))
def test_of_two_ways_the_first_written_counts(trees: list[Any]) -> None:
    """The reference lists the ways of a tree without permutations in the order in which alternatives are written."""
    assume("any order" not in str(trees))
    written = [_write(tree, [0]) for tree in trees]
    assume(sum(len(meanings) for _, meanings in written) <= 300)
    assume(all(words for _, meanings in written for words, _ in meanings))
    lines = "".join(f"  - '{text}'\n" for text, _ in written)
    phrases = PhraseSet.parse(f"intents:\n i:\n{lines}{YAML_LISTS}")
    first: dict[tuple[str, ...], dict[str, Any]] = {}
    for _, meanings in written:
        for words, slots in meanings:
            first.setdefault(words, dict(slots))
    for words, expected in first.items():
        command = phrases.command(" ".join(words))
        assert command is not None
        assert command.slots == expected
        assert list(command.slots) == list(expected)
