"""Home Assistant's sentence files (of its package `hassil`): the part of them that a closed set of sentences needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from asr.phrases.definitions import Definitions, Entry, Mark, Numbers, Row, Template
from asr.phrases.faults import FaultyError, shown
from asr.phrases.ranges import numbers
from asr.phrases.yaml_file import check_name, entry, language_of, template
from asr.phrases.yaml_tree import Items, Pairs, Text, mapping, refuse_others, scalar

if TYPE_CHECKING:
    from asr.phrases.yaml_tree import Tree

_TOP: Final = ("language", "intents", "lists", "expansion_rules", "skip_words", "settings", "responses")
# Of a block of sentences: what decides when they are valid, or what is answered, says nothing about the words.
_BLOCK: Final = (
    "sentences", "slots", "requires_context", "excludes_context", "response", "metadata", "required_keywords",
)  # fmt: skip
_ENTRY: Final = ("in", "out", "context", "metadata", "requires_context", "excludes_context")


def is_home_assistant(root: Pairs) -> bool:
    """Whether a file is of this kind: its intents hold blocks of data."""
    intents = root.pairs.get("intents", (None, None))[1]
    blocks = isinstance(intents, Pairs) and any(isinstance(tree, Pairs) for _, tree in intents.pairs.values())
    return blocks or "expansion_rules" in root.pairs or "skip_words" in root.pairs


def read_home_assistant(root: Pairs, language: str) -> Definitions:
    """Intents, lists, rules and skip words of a file. Raises FaultyError."""
    refuse_others(root, _TOP, "a sentence file of Home Assistant")
    if "intents" not in root.pairs:
        raise FaultyError(
            root.place, "a sentence file without intents; write them, or join it with the one that has them"
        )
    found = Definitions(language_of(root, language), rule_remedy="write it below expansion_rules:")
    for name, (key, tree) in _part(root, "lists"):
        check_name(name, key, "list")
        found.lists[name] = _list(name, tree)
    for name, (key, tree) in _part(root, "expansion_rules"):
        check_name(name, key, "rule")
        found.rules[name] = [template(scalar(tree, name, f'{name}: "words"'), empty_alternatives=True)]
    for name, (_, tree) in _part(root, "intents"):
        found.intents[name] = _intent(name, tree)
    if "skip_words" in root.pairs:
        found.around = [
            template(scalar(item, "skip_words", "a list of words"), empty_alternatives=True)
            for item in _items(root.pairs["skip_words"][1], "skip_words")
        ]
    return found


def _part(root: Pairs, name: str) -> list[tuple[str, tuple[Text, Tree]]]:
    if name not in root.pairs:
        return []
    return list(mapping(root.pairs[name][1], name, "name: value").pairs.items())


def _items(tree: Tree, what: str) -> list[Tree]:
    if isinstance(tree, Items) and tree.items:
        return tree.items
    raise FaultyError(tree.place, f"{what} holds no list; write one '- \"sentence\"' per line")


def _intent(name: str, tree: Tree) -> list[Template]:
    pairs = mapping(tree, name, "data:, and below it '- sentences:'")
    if "data" not in pairs.pairs:
        raise FaultyError(pairs.place, f"intent {name} without data; write data:, and below it '- sentences:'")
    found: list[Template] = []
    for block in _items(pairs.pairs["data"][1], f"data of {name}"):
        parts = mapping(block, f"data of {name}", "- sentences:")
        refuse_others(parts, _BLOCK, "a block of sentences here")
        if "sentences" not in parts.pairs:
            raise FaultyError(parts.place, f"a block of {name} without sentences; write sentences:")
        marks = _slots(parts)
        for item in _items(parts.pairs["sentences"][1], "sentences"):
            one = template(scalar(item, "sentences", '- "sentence", in quotes'), empty_alternatives=True)
            found.append(one._replace(draft=Row((*marks, one.draft))) if marks else one)
    return found


def _slots(parts: Pairs) -> list[Mark]:
    if "slots" not in parts.pairs:
        return []
    slots = mapping(parts.pairs["slots"][1], "slots", "name: value")
    return [Mark(name, scalar(tree, name, f"{name}: value").value) for name, (_, tree) in slots.pairs.items()]


def _list(name: str, tree: Tree) -> list[Entry | Numbers]:
    pairs = mapping(tree, name, "values: or range:")
    if "wildcard" in pairs.pairs:
        raise FaultyError(
            pairs.pairs["wildcard"][0].place,
            f"list {name} may be anything (wildcard); write the values: that it may have",
        )
    refuse_others(pairs, ("values", "range"), f"list {name}")
    if "range" in pairs.pairs:
        return [_range(name, pairs.pairs["range"][1])]
    if "values" not in pairs.pairs:
        raise FaultyError(pairs.place, f"list {name} holds nothing; write values: or range:")
    found: list[Entry | Numbers] = []
    for item in _items(pairs.pairs["values"][1], f"values of {name}"):
        if not isinstance(item, Pairs):
            text = scalar(item, name, "- word")
            found.append(entry(text, empty_alternatives=True))
            continue
        refuse_others(item, _ENTRY, "a value")
        if "in" not in item.pairs:
            raise FaultyError(item.place, f"a value of list {name} without in; write in: words, out: value")
        text = scalar(item.pairs["in"][1], "in", "in: words")
        out = scalar(item.pairs["out"][1], "out", "out: value").value if "out" in item.pairs else None
        found.append(entry(text, out, empty_alternatives=True))
    return found


def _range(name: str, tree: Tree) -> Numbers:
    form = "range:, and below it from: 0 and to: 100"
    pairs = mapping(tree, f"the range of {name}", form)
    refuse_others(pairs, ("from", "to", "step", "type"), "a range here")
    ends: dict[str, int] = {"step": 1}
    for key in ("from", "to", "step"):
        if key in pairs.pairs:
            text = scalar(pairs.pairs[key][1], key, form)
            if type(text.value) is not int:
                raise FaultyError(text.place, f"{shown(text.written.text)} is no whole number; write {form}")
            ends[key] = text.value
        elif key != "step":
            raise FaultyError(pairs.place, f"the range of {name} has no {key}; write {form}")
    return Numbers(numbers(ends["from"], ends["to"], ends["step"], pairs.place), pairs.place)
