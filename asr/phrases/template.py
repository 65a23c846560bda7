"""A template's text to its tree: (a|b) [optional] {list} {list:slot} <rule> (a;b;c).

A template is text with brackets: what stands together without a space is one word, "light[s]" is "light" or "lights",
and "[the ]light" is "[the] light". Whoever writes a permutation's members needs no spaces around the semicolons.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from asr.phrases.definitions import AnyOrder, Draft, Either, ListRef, Mark, Row, RuleRef, Text
from asr.phrases.faults import FaultyError, shown
from asr.phrases.nodes import Place
from asr.phrases.ranges import is_range

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MAX_DEPTH: Final = 20  # brackets within brackets
MAX_MEMBERS: Final = 8  # of a permutation: twice the states with each
MAX_SPELLINGS: Final = 1000  # of a word that is put together of brackets

_SIGNS: Final = re.compile(r"[()\[\]{}<>|;\\*]")  # that are no words
# Of JSGF and of regular expressions; or a key, or "times", for which there are words
STAR: Final = "'*' isn't read, neither as any number of times nor as a word; write out what is said"
_CLOSING: Final = {"(": ")", "[": "]"}
NAME: Final = re.compile(r"[^\W\d][\w.-]*")
_LEXEME: Final = re.compile(
    r"(?P<space>\s+)|\{(?P<list>[^{}]*)\}|<(?P<rule>[^<>]*)>|(?P<sign>[()\[\]|;])|(?P<text>[^\s()\[\]{}<>|;\\*]+)"
)


@dataclass(frozen=True)
class Written:
    """A text of the file and where it begins there. Not exact: its signs can't be counted from there."""

    text: str
    place: Place
    exact: bool = True

    def at(self, index: int) -> Place:
        """Where its sign number `index` stands."""
        return Place(self.place.line, self.place.column + index) if self.exact else self.place


class Space(NamedTuple):
    """Parts words."""


class Sign(NamedTuple):
    """A bracket, "|" or ";"."""

    sign: str
    place: Place


Token: TypeAlias = Text | Space | ListRef | RuleRef | Mark | Sign


class _Group(NamedTuple):
    """What stood in brackets."""

    alternatives: list[list[_Item]]
    permuted: bool
    place: Place


_Item: TypeAlias = Text | Space | ListRef | RuleRef | Mark | _Group


@dataclass
class _Open:
    """Brackets that aren't closed yet; the outermost have no sign."""

    sign: str
    place: Place
    parts: list[list[_Item]] = field(default_factory=lambda: [[]])
    separator: str = ""


def tokens(written: Written) -> Iterator[Token]:
    """A template's parts. Raises FaultyError for signs that can't stand there."""
    text, index = written.text, 0
    while index < len(text):
        found = _LEXEME.match(text, index)
        place = written.at(index)
        if found is None:
            raise FaultyError(place, _stray(text[index]))
        if found["space"] is not None:
            yield Space()
        elif found["list"] is not None:
            yield _list_ref(found["list"], place)
        elif found["rule"] is not None:
            if not NAME.fullmatch(found["rule"].strip()):
                raise FaultyError(place, f"{shown(found[0])} names no rule; write <name>, of letters, digits and _")
            yield RuleRef(found["rule"].strip(), place)
        elif found["sign"] is not None:
            yield Sign(found["sign"], place)
        else:
            yield Text(found["text"], place)
        index = found.end()


def _list_ref(inside: str, place: Place) -> ListRef:
    name, colon, slot = (part.strip() for part in inside.partition(":"))
    if is_range(name):
        if not colon:
            raise FaultyError(place, f"numbers {name} fill no slot; name it: {{{name}:slot}}")
    elif not NAME.fullmatch(name):
        wrong = shown("{" + inside + "}")
        raise FaultyError(place, f"{wrong} names no list; write {{name}} or {{name:slot}}, of letters, digits and _")
    if colon and not NAME.fullmatch(slot):
        raise FaultyError(place, f"{shown(slot)} is no name of a slot; use letters, digits and _")
    return ListRef(name, slot if colon else name, place)


def _stray(sign: str) -> str:
    if sign == "\\":
        return "a backslash: brackets can't be spoken, and so not escaped; write what is said"
    if sign == "*":
        return STAR
    if sign in "{<":
        return f"{sign!r} is never closed; close it, or write what is said"
    return f"{sign!r} closes nothing; take it away, or write what is said"


def read_template(written: Written, *, empty_alternatives: bool = False) -> Draft:
    """A template to its tree; raises FaultyError as `parse` does."""
    if not _SIGNS.search(written.text):
        return Text(written.text.strip(), written.at(len(written.text) - len(written.text.lstrip())))
    return parse(tokens(written), empty_alternatives=empty_alternatives)


def parse(parts: Iterator[Token], *, empty_alternatives: bool = False) -> Draft:
    """A template's parts to its tree.

    empty_alternatives: "(a|)" is "[a]", as in Home Assistant's files.
    Raises FaultyError that says what is wrong where.
    """
    stack = [_Open("", Place(1, 1))]
    for token in parts:
        top = stack[-1]
        if not isinstance(token, Sign):
            top.parts[-1].append(token)
        elif token.sign in _CLOSING:
            if len(stack) > MAX_DEPTH:
                raise FaultyError(
                    token.place, f"more than {MAX_DEPTH} brackets within each other; put some into a rule"
                )
            stack.append(_Open(token.sign, token.place))
        elif token.sign in "|;":
            _separate(top, token)
        elif not top.sign:
            raise FaultyError(token.place, f"{token.sign!r} closes nothing; take it away, or open it before")
        elif _CLOSING[top.sign] != token.sign:
            line, column = top.place
            opened = f"{top.sign!r} of line {line}, column {column}"
            raise FaultyError(token.place, f"{token.sign!r} can't close {opened}; write {_CLOSING[top.sign]!r}")
        else:
            stack.pop()
            stack[-1].parts[-1].append(_closed(top, empty_alternatives=empty_alternatives))
    top = stack[-1]
    if top.sign:
        raise FaultyError(top.place, f"{top.sign!r} is never closed; add {_CLOSING[top.sign]!r}")
    if top.separator:
        return _assemble([_closed(top, empty_alternatives=empty_alternatives)])
    return _assemble(top.parts[0])


def _separate(top: _Open, token: Sign) -> None:
    if token.sign == ";" and not top.sign:
        raise FaultyError(token.place, "';' outside of brackets; put what comes in any order in them: (a;b)")
    if top.separator not in ("", token.sign):
        raise FaultyError(token.place, "'|' and ';' in the same brackets; give one of them brackets of its own")
    if top.separator == "":
        top.place = top.place if top.sign else token.place
    top.separator = token.sign
    top.parts.append([])


def _closed(top: _Open, *, empty_alternatives: bool) -> _Group:
    empty = any(all(isinstance(item, Space) for item in part) for part in top.parts)
    if empty and not (empty_alternatives and top.separator == "|"):
        if len(top.parts) == 1:
            raise FaultyError(top.place, "nothing stands in these brackets; take them away, or fill them")
        raise FaultyError(
            top.place, f"nothing stands on one side of {top.separator!r}; write [a|b] for what may be left out"
        )
    if top.separator == ";":
        if len(top.parts) > MAX_MEMBERS:
            fault = f"{len(top.parts)} parts in any order; at most {MAX_MEMBERS} can be: fix the order of some"
            raise FaultyError(top.place, fault)
        group = _Group(top.parts, permuted=True, place=top.place)
        return _Group([[group], []], permuted=False, place=top.place) if top.sign == "[" else group
    return _Group([*top.parts, []] if top.sign == "[" else top.parts, permuted=False, place=top.place)


def _assemble(items: Sequence[_Item]) -> Draft:
    """Words and groups; what stands together without spaces is put together."""
    row: list[Draft] = []
    run: list[Text] = []

    def end_run() -> None:
        if run:
            row.append(Text(" ".join(text.raw for text in run), run[0].place))
            run.clear()

    for cluster in _clusters(items):
        if len(cluster) == 1 and isinstance(cluster[0], Text):
            run.append(cluster[0])
            continue
        end_run()
        if len(cluster) > 1:
            row.append(_glued(cluster))
        elif isinstance(group := cluster[0], _Group):
            kind = AnyOrder if group.permuted else Either
            row.append(kind(tuple(map(_assemble, group.alternatives))))
        elif not isinstance(group, Space):
            row.append(group)
    end_run()
    return row[0] if len(row) == 1 else Row(tuple(row))


def _clusters(items: Sequence[_Item]) -> Iterator[list[_Item]]:
    """What stands between spaces; a mark says nothing and touches nothing."""
    cluster: list[_Item] = []
    for item in items:
        if isinstance(item, Space | Mark):
            if cluster:
                yield cluster
            cluster = []
            if isinstance(item, Mark):
                yield [item]
        else:
            cluster.append(item)
    if cluster:
        yield cluster


def _glued(cluster: list[_Item]) -> Draft:
    if not any(isinstance(item, _Group) for item in cluster):
        return _beside_lists(cluster)
    ways = [_assemble(way) for way in _spellings(cluster, _place(cluster[0]))]
    return Either(tuple(ways))


def _spellings(items: Sequence[_Item], place: Place) -> list[list[_Item]]:
    """Every way through the groups, in order, with texts that touch in one."""
    choices: list[list[list[_Item]]] = []
    total = 1
    for item in items:
        if not isinstance(item, _Group):
            choices.append([[item]])
        elif item.permuted:
            raise FaultyError(item.place, "what comes in any order stands close to something else; put a space between")
        else:
            choices.append([way for part in item.alternatives for way in _spellings(part, place)])
        total *= len(choices[-1])
        if total > MAX_SPELLINGS:
            raise FaultyError(
                place, f"more than {MAX_SPELLINGS} spellings of what stands together; put spaces between words"
            )
    ways: list[list[_Item]] = []
    for picked in product(*choices):
        way: list[_Item] = []
        for item in (item for part in picked for item in part):
            if isinstance(item, Text) and way and isinstance(way[-1], Text):
                way[-1] = Text(way[-1].raw + item.raw, way[-1].place)
            else:
                way.append(item)
        ways.append(way)
    return ways


def _beside_lists(cluster: list[_Item]) -> Draft:
    """Texts and lists without spaces: signs may stand so ("{percent}%"), letters would need a spelling of the list."""
    row: list[Draft] = []
    for i, item in enumerate(cluster):
        assert not isinstance(item, _Group | Space)  # noqa: S101  groups were taken apart, and spaces part clusters
        if isinstance(item, Text):
            edges = [item.raw[0]] if i else []
            edges += [item.raw[-1]] if i + 1 < len(cluster) else []
            if any(edge.isalnum() or edge in "'’" for edge in edges):  # noqa: RUF001  as people type it
                raise FaultyError(
                    item.place, f"{shown(item.raw)} stands close to a list or rule; put a space between, or write the "
                    "whole words in the list"
                )  # fmt: skip
        row.append(item)
    return Row(tuple(row))


def _place(item: _Item) -> Place:
    return Place(1, 1) if isinstance(item, Space | Mark) else item.place
