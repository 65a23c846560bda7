"""YAML to a tree whose every node knows its place. Scalars stay text: "on" is a word here, not true.

Only as much of YAML as a phrase file needs: one document, no anchors, no tags, little depth.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import yaml

from asr.phrases.faults import FaultyError, nearest, shown
from asr.phrases.nodes import Place
from asr.phrases.template import Written

if TYPE_CHECKING:
    from collections.abc import Iterable

    from asr.phrases.nodes import Scalar

MAX_DEPTH: Final = 16
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times faster, where it was built
_INTEGER: Final = re.compile(r"[-+]?\d{1,18}")
_FLOAT: Final = re.compile(r"[-+]?\d{1,18}\.\d{1,18}")


class Text(NamedTuple):
    """A scalar. plain: without quotes; loose: plain, and within [ ], which are YAML's brackets there."""

    written: Written
    plain: bool
    loose: bool

    @property
    def place(self) -> Place:
        """Where its text begins."""
        return self.written.place

    @property
    def value(self) -> Scalar:
        """Numbers, true and false for what they are, if they have no quotes; anything else is text."""
        text = self.written.text
        if self.plain and _INTEGER.fullmatch(text):
            return int(text)
        if self.plain and _FLOAT.fullmatch(text):
            return float(text)
        return text.lower() == "true" if self.plain and text.lower() in ("true", "false") else text


class Items(NamedTuple):
    """A sequence."""

    items: list[Tree]
    place: Place


class Pairs(NamedTuple):
    """A mapping, keys in order, each once."""

    pairs: dict[str, tuple[Text, Tree]]
    place: Place


Tree: TypeAlias = Text | Items | Pairs


def read_tree(text: str) -> Tree | None:
    """The document in a text; None where there is none. Raises FaultyError."""
    try:
        return _compose(text, yaml.parse(text, Loader=_LOADER))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = Place(mark.line + 1, mark.column + 1) if mark else Place(1, 1)
        remedy = "put texts that begin with [ or {, or hold ': ' or ' #', in quotes"
        if mark and text[mark.index : mark.index + 1] == "\t":
            remedy = "indent with spaces, not tabs"
        raise FaultyError(place, f"not YAML ({error.problem or error.context}); {remedy}") from None
    except yaml.YAMLError as error:  # signs that YAML can't hold
        reason = str(error).splitlines()[0]
        raise FaultyError(
            _place_of(text, getattr(error, "position", 0)), f"not YAML ({reason}); take it away"
        ) from None


def _place_of(text: str, index: int | None) -> Place:
    before = text[: index or 0]
    return Place(before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1)


def _compose(text: str, events: Iterable[Any]) -> Tree | None:
    """The tree of YAML's events."""
    root: Tree | None = None
    stack: list[tuple[Items | Pairs, bool]] = []  # with whether it is written in brackets
    keys: list[Text | None] = []  # one for each of the stack: the key that waits for its value
    for event in events:
        if isinstance(event, yaml.CollectionEndEvent):
            stack.pop()
            keys.pop()
            continue
        place = Place(event.start_mark.line + 1, event.start_mark.column + 1)
        if isinstance(event, yaml.DocumentStartEvent) and root is not None:
            raise FaultyError(place, "a second document; write one file for each")
        if not isinstance(event, yaml.NodeEvent):
            continue
        _refuse_special(event, place)
        node: Tree
        if isinstance(event, yaml.ScalarEvent):
            within = bool(stack) and stack[-1][1] and isinstance(stack[-1][0], Items)
            node = Text(_written(text, event, place), plain=not event.style, loose=within and not event.style)
        else:
            node = Items([], place) if isinstance(event, yaml.SequenceStartEvent) else Pairs({}, place)
        root = node if root is None else root
        if stack:
            _put(stack[-1][0], keys, node)
        if not isinstance(node, Text):
            if len(stack) >= MAX_DEPTH:
                raise FaultyError(place, f"more than {MAX_DEPTH} levels of YAML; a phrase file needs few: use quotes")
            stack.append((node, bool(getattr(event, "flow_style", False))))
            keys.append(None)
    empty = isinstance(root, Text) and root.plain and not root.written.text
    return None if empty else root


def _refuse_special(event: Any, place: Place) -> None:  # noqa: ANN401  untyped in the library
    if isinstance(event, yaml.AliasEvent) or event.anchor:
        raise FaultyError(place, "anchors and aliases (& and *) aren't read; write a list or a rule, or use quotes")
    if event.tag not in (None, "!"):
        raise FaultyError(place, f"the tag {shown(event.tag)} isn't read; take it away, or use quotes")


def _put(into: Items | Pairs, keys: list[Text | None], node: Tree) -> None:
    if isinstance(into, Items):
        into.items.append(node)
        return
    key = keys[-1]
    if key is not None:
        into.pairs[key.written.text] = key, node
        keys[-1] = None
    elif not isinstance(node, Text):
        raise FaultyError(node.place, "brackets where a name is expected; put sentences in quotes")
    elif node.written.text in into.pairs:
        first = into.pairs[node.written.text][0].place.line
        raise FaultyError(
            node.place, f"{shown(node.written.text)} is there already, on line {first}; give one of them another name"
        )
    else:
        keys[-1] = node


def _written(text: str, event: Any, place: Place) -> Written:  # noqa: ANN401  untyped in the library
    """A scalar; its signs can be counted where they stand in the file as they are."""
    quotes = 1 if event.style in ("'", '"') else 0
    begin, end = event.start_mark.index + quotes, event.end_mark.index - quotes
    if text[begin:end].rstrip() == event.value:
        return Written(event.value, Place(place.line, place.column + quotes))
    return Written(event.value, place, exact=False)


def mapping(tree: Tree | None, what: str, form: str) -> Pairs:
    """A tree that has to be a mapping with something in it. what: its name. form: how it is written."""
    if isinstance(tree, Pairs) and tree.pairs:
        return tree
    kind = "nothing" if tree is None or _is_empty(tree) else "text" if isinstance(tree, Text) else "a list"
    if isinstance(tree, Pairs):
        kind = "nothing"
    raise FaultyError(tree.place if tree else Place(1, 1), f"{what} holds {kind}; write {form}")


def scalar(tree: Tree, what: str, form: str) -> Text:
    """A tree that has to be text. what: its name. form: how it is written."""
    if isinstance(tree, Text) and not _is_empty(tree):
        return tree
    if isinstance(tree, Text):
        kind = "nothing"
    else:
        kind = "brackets without quotes, or a list" if isinstance(tree, Items) else "names with values"
    raise FaultyError(tree.place, f"{what} holds {kind}; write {form}")


def refuse_others(pairs: Pairs, known: Iterable[str], what: str) -> None:
    """Raise FaultyError for a key that isn't known."""
    names = list(known)
    for name, (key, _) in pairs.pairs.items():
        if name not in names:
            raise FaultyError(
                key.place,
                f"{shown(name)} is nothing that {what} has; {nearest(name, names, 'it has ' + ', '.join(names))}",
            )


def _is_empty(tree: Tree) -> bool:
    return isinstance(tree, Text) and not tree.written.text.strip()
