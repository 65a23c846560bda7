"""Intents, lists and rules bound together: names found, words normalised, limits kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from asr.phrases import nodes
from asr.phrases.definitions import AnyOrder, Either, ListRef, Mark, Numbers, Row, RuleRef, Text, walk
from asr.phrases.faults import FaultyError, nearest, shown
from asr.phrases.leftovers import untagged, unused
from asr.phrases.ranges import is_range, parse_range, spoken
from asr.text import normalise

if TYPE_CHECKING:
    from collections.abc import Iterable

    from asr.phrases.definitions import Definitions, Draft, Entry, Template
    from asr.phrases.nodes import Choice, Node, Place, Scalar

MAX_WORDS: Final = 100  # of a sentence
MAX_LETTERS: Final = 50  # of a word
MAX_NESTING: Final = 80  # nodes within each other, rules included


class Sentence(NamedTuple):
    """A template, bound."""

    node: Node
    written: str
    place: Place


class PhraseList(NamedTuple):
    """A list, bound: values[k] is that of entry k, None for the words themselves."""

    entries: Choice
    values: tuple[Scalar | None, ...]


class Grammar(NamedTuple):
    """Everything that may be said."""

    intents: dict[str, tuple[Sentence, ...]]
    lists: dict[str, PhraseList]
    language: str
    unused: tuple[str, ...] = ()  # lists and rules that no sentence comes to
    untagged: tuple[str, ...] = ()  # alternatives that fill no slot beside others that do


def bind(definitions: Definitions) -> Grammar:
    """Put lists and rules in their places. Raises FaultyError for what can't be bound."""
    return _Binder(definitions).grammar()


class _Binder:
    def __init__(self, definitions: Definitions) -> None:
        self._given = definitions
        self._language = definitions.language
        self._lists: dict[str, PhraseList] = {}
        self._rules: dict[str, Node] = {}
        self._ranges: dict[range, PhraseList] = {}

    def grammar(self) -> Grammar:
        for name, entries in self._given.lists.items():
            self._lists[name] = self._list(entries)
        for name in _in_order(self._given.rules):
            self._rules[name] = self._rule(name, self._given.rules[name])
        around = [self._bound(template.draft, after_number=False) for template in self._given.around]
        extra = nodes.choice([*around, nodes.sequence(())]) if around else None
        intents: dict[str, tuple[Sentence, ...]] = {}
        for name, templates in self._given.intents.items():
            intents[name] = tuple(self._sentence(template, extra) for template in templates)
        return Grammar(intents, self._lists, self._language, unused(self._given), untagged(self._given))

    def _sentence(self, template: Template, extra: Choice | None) -> Sentence:
        node = self._bound(template.draft, after_number=False)
        where = shown(template.written)
        if node.facts.nullable:
            kind = "may be left out altogether" if node.facts.longest else "says nothing"
            raise FaultyError(template.place, f"{where} {kind}; write words outside of [ ]")
        if extra is not None:
            node = nodes.sequence((extra, node, extra))
        _check_size(node, where, template.place)
        for slot, times in node.facts.slots.items():
            if times > 1:
                raise FaultyError(
                    template.place,
                    f"{where} may fill the slot {slot!r} {times} times; give each its own name: {{list:slot}}",
                )
        return Sentence(node, template.written, template.place)

    def _rule(self, name: str, templates: list[Template]) -> Node:
        bound = [self._bound(template.draft, after_number=False) for template in templates]
        node = nodes.rule(name, bound[0] if len(bound) == 1 else nodes.choice(bound))
        _check_size(node, f"rule <{name}>", templates[0].place)
        return node

    def _list(self, entries: Iterable[Entry | Numbers]) -> PhraseList:
        said: list[Node] = []
        values: list[Scalar | None] = []
        for entry in entries:
            if isinstance(entry, Numbers):
                known = self._range(entry.numbers, entry.place)
                said += known.entries.items
                values += known.values
                continue
            refused = next((node for node in walk(entry.draft) if isinstance(node, ListRef | RuleRef)), None)
            if refused is not None:
                raise FaultyError(refused.place, "a list within a list; put {list} and <rule> into templates")
            node = self._bound(entry.draft, after_number=False)
            if node.facts.nullable:
                raise FaultyError(entry.place, "an entry that may say nothing; write words outside of [ ]")
            _check_size(node, "an entry", entry.place)
            said.append(node)
            values.append(entry.value)
        return PhraseList(nodes.choice(said), tuple(values))

    def _range(self, numbers: range, place: Place) -> PhraseList:
        if numbers not in self._ranges:
            said = [nodes.words(spoken(number, self._language).split(), place) for number in numbers]
            self._ranges[numbers] = PhraseList(nodes.choice(said), tuple(numbers))
        return self._ranges[numbers]

    def _bound(self, draft: Draft, *, after_number: bool) -> Node:
        """A draft with its lists and rules. after_number: "pm", "%" and "°" are what they are behind a number."""
        match draft:
            case Text():
                return self._words(draft, after_number=after_number)
            case ListRef():
                return self._slot(draft)
            case RuleRef():
                return self._rule_of(draft)
            case Mark():
                return nodes.fill(draft.slot, draft.value)
            case Either() | AnyOrder():
                one_begins = after_number and isinstance(draft, Either)
                parts = [self._bound(item, after_number=one_begins) for item in draft.items]
                return nodes.choice(parts) if isinstance(draft, Either) else nodes.permutation(parts)
            case Row():
                bound: list[Node] = []
                for item in draft.items:
                    bound.append(self._bound(item, after_number=after_number))
                    facts = bound[-1].facts
                    after_number = facts.after_number or (after_number and facts.nullable)
                return nodes.sequence(bound)

    def _words(self, text: Text, *, after_number: bool) -> Node:
        said = normalise(text.raw, self._language)
        if after_number and text.raw and not text.raw[0].isdigit():
            behind = normalise(f"2{' ' if text.raw[0].isalpha() else ''}{text.raw}", self._language)
            if behind.startswith("two "):
                said = behind.removeprefix("two ")
            elif behind == "two":
                said = ""
        found = said.split()
        for word in found:
            if len(word) > MAX_LETTERS:
                raise FaultyError(text.place, f"a word of {len(word)} letters; at most {MAX_LETTERS} can be")
        return nodes.words(found, text.place)

    def _rule_of(self, draft: RuleRef) -> Node:
        if draft.name not in self._rules:
            known = ", ".join(f"<{name}>" for name in self._given.rules)
            otherwise = f"there are {known:.100}" if known else self._given.rule_remedy
            raise FaultyError(
                draft.place, f"no rule <{draft.name}>; {nearest(draft.name, self._given.rules, otherwise)}"
            )
        return self._rules[draft.name]

    def _slot(self, draft: ListRef) -> Node:
        if is_range(draft.name):
            known = self._range(parse_range(draft.name, draft.place), draft.place)
        elif draft.name in self._lists:
            known = self._lists[draft.name]
        else:
            names = ", ".join(f"{{{name}}}" for name in self._lists)
            otherwise = f"there are {names:.100}" if names else self._given.list_remedy
            raise FaultyError(draft.place, f"no list {{{draft.name}}}; {nearest(draft.name, self._lists, otherwise)}")
        return nodes.slot(draft.slot, draft.name, known.entries, known.values)


def _check_size(node: Node, what: str, place: Place) -> None:
    if node.facts.longest > MAX_WORDS:
        fault = f"{what} may have {node.facts.longest:.3g} words" if node.facts.longest > 10**6 else (
            f"{what} may have {node.facts.longest} words"
        )  # fmt: skip
        raise FaultyError(place, f"{fault}; a sentence has at most {MAX_WORDS}")
    if node.facts.depth > MAX_NESTING:
        raise FaultyError(
            place, f"{what} has rules and brackets within each other {node.facts.depth} deep; write fewer"
        )


def _in_order(rules: dict[str, list[Template]]) -> list[str]:
    """Names of the rules, each behind those that it refers to. Raises FaultyError where one leads back to itself."""
    refers = {
        name: {ref.name: ref for template in templates for ref in walk(template.draft) if isinstance(ref, RuleRef)}
        for name, templates in rules.items()
    }
    done: dict[str, None] = {}
    for start in rules:
        path = [start] if start not in done else []
        while path:
            name = path[-1]
            waiting = next((other for other in refers[name] if other in rules and other not in done), None)
            if waiting is None:
                done.setdefault(path.pop())
            elif waiting in path:
                circle = " → ".join(f"<{other}>" for other in [*path[path.index(waiting) :], waiting])
                raise FaultyError(
                    refers[name][waiting].place,
                    f"rule <{waiting}> leads back to itself ({circle:.100}); write out how often it may be said",
                )
            elif len(path) > MAX_NESTING:
                fault = f"more than {MAX_NESTING} rules that lead from one to the next; write fewer"
                raise FaultyError(refers[name][waiting].place, fault)
            else:
                path.append(waiting)
    return list(done)
