"""Several phrase files as one set: whatever any of them says may be said."""

from __future__ import annotations

from typing import TYPE_CHECKING

from asr.errors import PhrasesError
from asr.phrases.grammar import Grammar
from asr.phrases.phrase_set import PhraseSet

if TYPE_CHECKING:
    from collections.abc import Sequence

    from asr.phrases.grammar import PhraseList, Sentence


def merged(sets: Sequence[PhraseSet]) -> PhraseSet:
    """One set with the intents of all of them, in their order; at least one set.

    Lists and rules stay those of their own file. Of a sentence that two intents have, the first is meant, as in one
    file. Raises PhrasesError where two files have an intent of the same name, or aren't in one language.
    """
    first = sets[0]
    if len(sets) == 1:
        return first
    intents: dict[str, tuple[Sentence, ...]] = {}
    lists: dict[str, PhraseList] = {}
    files: dict[str, str] = {}  # of each intent
    for each in sets:
        language = each.grammar.language
        if language != first.grammar.language:
            raise PhrasesError(
                f"{each.name}: its language is {language!r}, that of {first.name} {first.grammar.language!r}; "
                "give files of one language"
            )
        for intent, sentences in each.grammar.intents.items():
            if intent in intents:
                there = "the file is given twice" if files[intent] == each.name else f"{files[intent]} has it too"
                raise PhrasesError(f"{each.name}: intent {intent!r}: {there}; rename it, or take one of them away")
            intents[intent], files[intent] = sentences, each.name
        for name, entries in each.grammar.lists.items():
            lists[name if name not in lists else f"{name} of {each.name}"] = entries
    unused = tuple(told for each in sets for told in each.grammar.unused)
    untagged = tuple(told for each in sets for told in each.grammar.untagged)
    grammar = Grammar(intents, lists, first.grammar.language, unused, untagged)
    return PhraseSet(grammar, ", ".join(each.name for each in sets), files)
