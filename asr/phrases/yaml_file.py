"""Cepstra's own phrase files in YAML: intents, lists and rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from asr.phrases.definitions import Definitions, Entry, Numbers, Template
from asr.phrases.faults import FaultyError, shown
from asr.phrases.ranges import is_range, parse_range
from asr.phrases.template import NAME, read_template
from asr.phrases.yaml_tree import Items, Pairs, Text, mapping, refuse_others, scalar

if TYPE_CHECKING:
    from asr.phrases.nodes import Scalar
    from asr.phrases.yaml_tree import Tree

FORM: Final = "intents:, and below it one 'name: \"sentence\"' per line"


def read_own(root: Pairs, language: str) -> Definitions:
    """intents, lists and rules of a file. Raises FaultyError."""
    refuse_others(root, ("language", "intents", "lists", "rules"), "a phrase file")
    if "intents" not in root.pairs:
        raise FaultyError(root.place, f"a phrase file without intents; write {FORM}")
    found = Definitions(language_of(root, language))
    if "lists" in root.pairs:
        for name, (key, tree) in mapping(root.pairs["lists"][1], "lists", "name: [word, word]").pairs.items():
            check_name(name, key, "list")
            found.lists[name] = _list(name, tree)
    for part, into in (("rules", found.rules), ("intents", found.intents)):
        if part not in root.pairs:
            continue
        for name, (key, tree) in mapping(root.pairs[part][1], part, 'name: "sentence"').pairs.items():
            if part == "rules":
                check_name(name, key, "rule")
            into[name] = _templates(name, tree)
    return found


def language_of(root: Pairs, otherwise: str) -> str:
    """The language that a file states."""
    if "language" not in root.pairs:
        return otherwise
    return scalar(root.pairs["language"][1], "language", "a code such as en").written.text.strip()


def check_name(name: str, key: Text, kind: str) -> None:
    """Raise FaultyError for a name that no template could refer to."""
    if not NAME.fullmatch(name):
        raise FaultyError(key.place, f"{shown(name)} can't name a {kind}; use letters, digits and _")


def template(text: Text, *, empty_alternatives: bool = False) -> Template:
    """One template. Raises FaultyError."""
    draft = read_template(text.written, empty_alternatives=empty_alternatives)
    return Template(draft, text.written.text, text.place)


def _templates(name: str, tree: Tree) -> list[Template]:
    form = f'{name}: "sentence", or a list of sentences, in quotes'
    if isinstance(tree, Items):
        if not tree.items:
            raise FaultyError(tree.place, f"{name} holds nothing; write {form}")
        texts = [scalar(item, name, form) for item in tree.items]
    else:
        texts = [scalar(tree, name, form)]
    for text in texts:
        if text.loose:  # [please] would be a list of one, not what may be left out
            raise FaultyError(
                text.place, f"{shown(text.written.text)} within brackets of YAML; put sentences in quotes"
            )
    return [template(text) for text in texts]


def _list(name: str, tree: Tree) -> list[Entry | Numbers]:
    form = f"{name}: [word, word], or numbers as {name}: 0..100"
    if isinstance(tree, Text) and is_range(tree.written.text):
        return [Numbers(parse_range(tree.written.text, tree.place), tree.place)]
    if not isinstance(tree, Items) or not tree.items:
        kind = "names with values" if isinstance(tree, Pairs) else "text" if isinstance(tree, Text) else "nothing"
        raise FaultyError(tree.place, f"list {name} holds {kind}; write {form}")
    found: list[Entry | Numbers] = []
    for item in tree.items:
        if isinstance(item, Text) and is_range(item.written.text):
            found.append(Numbers(parse_range(item.written.text, item.place), item.place))
        elif isinstance(item, Pairs):
            found += _said_and_meant(name, item)
        else:
            text = scalar(item, f"list {name}", form)
            found.append(entry(text))
    return found


def entry(text: Text, value: Scalar | None = None, *, empty_alternatives: bool = False) -> Entry:
    """A list's entry; without a value it means what is written, or, with brackets, whatever of it is said."""
    draft = template(text, empty_alternatives=empty_alternatives).draft
    if value is None and not any(sign in text.written.text for sign in "([|"):
        value = text.value
    return Entry(draft, value, text.place)


def _said_and_meant(name: str, item: Pairs) -> list[Entry | Numbers]:
    form = '{say: "living room", value: lounge}'
    refuse_others(item, ("say", "value"), "a list's entry")
    if "say" not in item.pairs or "value" not in item.pairs:
        raise FaultyError(item.place, f"an entry of list {name} without say or value; write {form}")
    value = scalar(item.pairs["value"][1], "value", form).value
    said = item.pairs["say"][1]
    texts = said.items if isinstance(said, Items) else [said]
    if not texts:
        raise FaultyError(said.place, f"say holds nothing; write {form}")
    return [entry(scalar(text, "say", form), value) for text in texts]
