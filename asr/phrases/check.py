"""What may surprise the author of a phrase file: sizes, words that are hard to hear, sentences with two meanings."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Final, NamedTuple

from asr.phrases import alike
from asr.phrases.nodes import Words
from asr.text import normalise
from asr.tokenizer import WORD_START

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from asr.phrases.alike import Pair
    from asr.phrases.languages import Languages
    from asr.phrases.nodes import Scalar
    from asr.phrases.phrase_set import Command, PhraseSet
    from asr.tokenizer import Tokenizer

SMALL: Final = 300  # sentences that are compared with each other; of more, words and lists' entries are
LETTERS: Final = 5  # pieces of one letter that make a word one that the tokenizer has hardly seen
SHOWN_AMBIGUITIES: Final = 20
MAX_VISITED: Final = 20_000  # places of the graph where two intents are compared
MAX_UNDERSTOOD: Final = 2000  # pairs whose meanings are compared
NORMALISED: Final = 200  # samples that are compared with what the normaliser makes of them


class HardWord(NamedTuple):
    """A word that the tokenizer spells out."""

    word: str
    pieces: tuple[str, ...]


class Ambiguity(NamedTuple):
    """A sentence that several intents have, or an entry that has several values in a list: the first counts."""

    said: str
    meanings: tuple[str, ...]
    where: str | None  # the list's name; None: intents


@dataclass(frozen=True)
class Report:
    """Figures and findings of one file with one model's tokenizer."""

    sentences: int
    intents: int
    words: int
    states: int
    arcs: int
    bytes: int  # of the graph's arrays
    hard_words: tuple[HardWord, ...]
    alike: tuple[Pair, ...]  # with another meaning, the nearest first
    ambiguities: tuple[Ambiguity, ...]
    rewritten: tuple[tuple[str, str], ...]  # samples, and what the normaliser makes of them
    samples: tuple[Command, ...]
    unused: tuple[str, ...]  # lists and rules that no sentence comes to
    untagged: tuple[str, ...]  # alternatives that fill no slot beside others that do


def check(phrases: PhraseSet, tokenizer: Tokenizer, samples: int = 5, seed: int = 0) -> Report:
    """Everything that is worth knowing. Raises PhrasesError where the file can't be compiled."""
    graph = phrases.compile(tokenizer)
    drawn = [phrases.command(sentence) for sentence in phrases.samples(samples, seed)]
    language = phrases.grammar.language
    normal = ((said, normalise(said, language)) for said in phrases.samples(NORMALISED, seed))
    return Report(
        phrases.sentences,
        len(phrases.intents),
        len(phrases.words),
        graph.num_states,
        graph.num_arcs,
        graph.nbytes,
        tuple(_hard_words(phrases.words, tokenizer)),
        tuple(_alike(phrases)),
        (*_between_intents(phrases), *_within_lists(phrases)),
        tuple((said, other) for said, other in normal if said != other),
        tuple(command for command in drawn if command is not None),
        phrases.grammar.unused,
        phrases.grammar.untagged,
    )


def _hard_words(words: Sequence[str], tokenizer: Tokenizer) -> Iterator[HardWord]:
    for word in words:
        pieces = tuple(tokenizer.token(token) for token in tokenizer.encode(word))
        if sum(len(piece.removeprefix(WORD_START)) == 1 for piece in pieces) >= LETTERS:
            yield HardWord(word, pieces)


def _alike(phrases: PhraseSet) -> list[Pair]:
    """Sentences, or lists' entries and words at the same place, that sound alike and mean different things."""
    if phrases.sentences <= SMALL:
        found = alike.pairs(phrases.samples(SMALL))[:MAX_UNDERSTOOD]
        return [pair for pair in found if _differ(phrases, pair.one, pair.other)]
    pairs: dict[tuple[str, str], Pair] = {}
    for listed in phrases.grammar.lists.values():
        values: dict[str, Scalar | None] = {}
        for node, value in zip(listed.entries.items, listed.values, strict=True):
            if isinstance(node, Words) and (len(node.words) == 1 or not isinstance(value, int)):
                values.setdefault(" ".join(node.words), value)  # numbers of several words: their words are compared
        for pair in alike.pairs(list(values)):
            one, other = values[pair.one], values[pair.other]
            if one is None or one != other:
                pairs.setdefault((pair.one, pair.other), pair)
    for pair in _alike_words(phrases):
        if (pair.other, pair.one) not in pairs:
            pairs.setdefault((pair.one, pair.other), pair)
    return sorted(pairs.values(), key=lambda pair: pair.distance)


def _alike_words(phrases: PhraseSet) -> Iterator[Pair]:
    """Words that may follow the same words, where the shortest sentences with them mean different things."""
    languages, _, root = phrases.automaton
    near = {(pair.one, pair.other): pair for pair in alike.pairs(phrases.words)}
    ends = _shortest_ends(languages, root)
    for state, before in _shortest_beginnings(languages, root).items():
        targets = dict(languages.arcs[state])
        likely = near if len(near) < len(targets) ** 2 else combinations(targets, 2)
        for pair in [pair for pair in likely if pair in near and pair[0] in targets and pair[1] in targets]:
            one, other = (" ".join((*before, word, *ends[targets[word]])) for word in pair)
            if _differ(phrases, one, other):
                yield near.pop(pair)


def _differ(phrases: PhraseSet, one: str, other: str) -> bool:
    first, second = phrases.command(one), phrases.command(other)
    return first is None or second is None or (first.intent, first.slots) != (second.intent, second.slots)


def _shortest_ends(languages: Languages, root: int) -> dict[int, tuple[str, ...]]:
    ends: dict[int, tuple[str, ...]] = {}
    for state in languages.reachable(root):
        ways = [(word, *ends[target]) for word, target in languages.arcs[state]]
        ends[state] = () if languages.final[state] else min(ways, key=len)
    return ends


def _shortest_beginnings(languages: Languages, root: int) -> dict[int, tuple[str, ...]]:
    begins: dict[int, tuple[str, ...]] = {root: ()}
    order = [root]
    for state in order:
        for word, target in languages.arcs[state]:
            if target not in begins:
                begins[target] = (*begins[state], word)
                order.append(target)
    return begins


def _between_intents(phrases: PhraseSet) -> list[Ambiguity]:
    """One sentence for each group of intents that share some."""
    languages, roots, _ = phrases.automaton
    names = list(roots)
    start = frozenset(enumerate(roots.values()))
    seen = {start}
    stack: list[tuple[frozenset[tuple[int, int]], tuple[str, ...]]] = [(start, ())]
    found: dict[tuple[int, ...], Ambiguity] = {}
    while stack and len(seen) < MAX_VISITED and len(found) < SHOWN_AMBIGUITIES:
        here, said = stack.pop()
        ending = tuple(sorted({intent for intent, state in here if languages.final[state]}))
        if len(ending) > 1 and ending not in found:
            found[ending] = Ambiguity(" ".join(said), tuple(names[intent] for intent in ending), None)
        following: dict[str, set[tuple[int, int]]] = {}
        for intent, state in here:
            for word, target in languages.arcs[state]:
                following.setdefault(word, set()).add((intent, target))
        for word in sorted(following, reverse=True):
            there = frozenset(following[word])
            if len({intent for intent, _ in there}) > 1 and there not in seen:
                seen.add(there)
                stack.append((there, (*said, word)))
    return list(found.values())


def _within_lists(phrases: PhraseSet) -> list[Ambiguity]:
    """Entries that are said alike and have different values."""
    found: list[Ambiguity] = []
    for name, listed in phrases.grammar.lists.items():
        values: dict[str, list[str]] = {}
        for node, value in zip(listed.entries.items, listed.values, strict=True):
            if isinstance(node, Words) and repr(value) not in values.setdefault(" ".join(node.words), []):
                values[" ".join(node.words)].append(repr(value))
        found += [Ambiguity(said, tuple(shown), name) for said, shown in values.items() if len(shown) > 1]
    return found
