"""What a phrase file holds to no effect: lists and rules that nothing uses, alternatives whose meaning is left out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from asr.phrases.definitions import Either, Entry, ListRef, Mark, RuleRef, Text, walk

if TYPE_CHECKING:
    from asr.phrases.definitions import Definitions, Draft


def unused(definitions: Definitions) -> tuple[str, ...]:
    """Lists and rules that no sentence comes to, in the order of the file, as they are told."""
    waiting = [template.draft for templates in definitions.intents.values() for template in templates]
    waiting += [template.draft for template in definitions.around]
    lists: set[str] = set()
    rules: set[str] = set()
    while waiting:
        for part in walk(waiting.pop()):
            if isinstance(part, ListRef) and part.name not in lists:
                lists.add(part.name)
                waiting += [entry.draft for entry in definitions.lists.get(part.name, ()) if isinstance(entry, Entry)]
            elif isinstance(part, RuleRef) and part.name not in rules:
                rules.add(part.name)
                waiting += [template.draft for template in definitions.rules.get(part.name, ())]
    return (
        *(f"list {name}" for name in definitions.lists if name not in lists),
        *(f"rule <{name}>" for name in definitions.rules if name not in rules),
    )


def untagged(definitions: Definitions) -> tuple[str, ...]:
    """Alternatives that fill no slot beside others that do, as they are told."""
    return tuple(
        f"rule <{name}>: {words!r}"
        for name, templates in definitions.rules.items()
        for template in templates
        for part in walk(template.draft)
        if isinstance(part, Either) and any(_has(item, Mark) for item in part.items)
        for item in part.items
        if not _has(item, Mark, ListRef, RuleRef) and (words := _words(item))
    )


def _has(draft: Draft, *kinds: type[Draft]) -> bool:
    return any(isinstance(part, kinds) for part in walk(draft))


def _words(draft: Draft) -> str:
    return " ".join(part.raw.strip() for part in walk(draft) if isinstance(part, Text) and part.raw.strip())
