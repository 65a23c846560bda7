"""A phrase file, read: how many sentences it has, which they are, their graph for a search, and what one means."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from asr.errors import PhrasesError
from asr.files import JSGF_NAMES, YAML_NAMES
from asr.phrases.chart import Chart
from asr.phrases.faults import FaultyError, shown
from asr.phrases.grammar import bind
from asr.phrases.home_assistant import is_home_assistant, read_home_assistant
from asr.phrases.jsgf import HEADER, read_jsgf
from asr.phrases.languages import Languages, TooManyStatesError
from asr.phrases.nodes import Choice, FirstWords, Permutation, Place, Rule, Sequence, Slot, Words, drawn_words
from asr.phrases.text_file import read_lines
from asr.phrases.token_graph import compile_graph
from asr.phrases.yaml_file import FORM, read_own
from asr.phrases.yaml_tree import mapping, read_tree
from asr.text import normalise
from audio.identify import is_other_sound, is_wave

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from asr.phrases.definitions import Definitions
    from asr.phrases.grammar import Grammar
    from asr.phrases.grammar import Sentence as Template
    from asr.phrases.nodes import Node, Scalar
    from asr.phrases.token_graph import TokenGraph
    from asr.tokenizer import Tokenizer

MAX_BYTES: Final = 1 << 24
# A key with something below it or in braces: in a list of sentences nothing is indented
_YAML: Final = re.compile(r"^(intents\s*:|[\w-]+[ \t]*:[ \t]*(#.*)?(\{|\n(?:[ \t]*\n)*[ \t]+\S|\n- ))", re.MULTILINE)
_TRIES: Final = 50  # for each sample that is to differ from those before


@dataclass(frozen=True)
class Command:
    """What a sentence means."""

    intent: str
    slots: dict[str, Scalar]
    sentence: str  # its words


class PhraseSet:
    r"""The sentences of a phrase file. Of sentences that two intents have, the first intent in the file is meant.

    >>> phrases = PhraseSet.parse("intents: {light: '(turn|switch) on the {room} light'}\nlists: {room: [hall, den]}")
    >>> phrases.sentences
    4
    >>> phrases.command("Switch on the den light")
    Command(intent='light', slots={'room': 'den'}, sentence='switch on the den light')
    """

    def __init__(self, grammar: Grammar, name: str, files: Mapping[str, str] | None = None) -> None:
        """grammar: bound; use `read` or `parse`. name: of the file, for errors; files: of each intent, if several."""
        self.name = name
        self._files = files or {}
        self.grammar = grammar
        self._firsts = FirstWords()

    @classmethod
    def read(cls, path: str | Path, language: str = "en") -> Self:
        """A file: YAML, plain text, JSGF, or Home Assistant's. Raises PhrasesError that names line and column.

        language: of the words, where the file doesn't say.
        """
        return cls.parse(text_of(path), str(path), language)

    @classmethod
    def parse(cls, text: str, name: str = "phrases", language: str = "en") -> Self:
        """A file's text; the ending of its name, or what it holds, tells the kind. Raises PhrasesError."""
        text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
        try:
            return cls(bind(_definitions(text, name, language)), name)
        except FaultyError as fault:
            raise fault.of(name) from None

    @property
    def intents(self) -> tuple[str, ...]:
        """Names, in the order of the file."""
        return tuple(self.grammar.intents)

    def file_of(self, intent: str) -> str:
        """The name of the file that an intent stands in, for errors."""
        return self._files.get(intent, self.name)

    @cached_property
    def automaton(self) -> tuple[Languages, dict[str, int], int]:
        """The sentences as states: of each intent, and of all. Raises PhrasesError where there are too many states."""
        languages = Languages()
        roots: dict[str, int] = {}
        try:
            for intent, sentences in self.grammar.intents.items():
                states: list[int] = []
                for sentence in sentences:
                    name, place, what = self.file_of(intent), sentence.place, shown(sentence.written)
                    states.append(languages.before(sentence.node))
                what = f"intent {shown(intent)}"
                roots[intent] = languages.union(states)
            what = "the intents together, of which this is the last,"
            return languages, roots, languages.union(roots.values())
        except TooManyStatesError as error:
            where = f", in rule <{error.rule}>" if error.rule else ""
            raise PhrasesError(
                f"{name}:{place.line}:{place.column}: {what} can go on in more ways than can be kept "
                f"({len(languages.arcs)} states){where}; leave out optional parts there, or divide it"
            ) from None

    @property
    def sentences(self) -> int:
        """How many different sentences there are, exactly."""
        languages, _, root = self.automaton
        return languages.count(root)

    @cached_property
    def words(self) -> tuple[str, ...]:
        """Every word that may be said, in alphabetical order."""
        languages, _, root = self.automaton
        return tuple(sorted({word for state in languages.reachable(root) for word, _ in languages.arcs[state]}))

    def compile(self, tokenizer: Tokenizer) -> TokenGraph:
        """The graph of a model's tokens that a search is held to. Raises PhrasesError."""
        languages, _, root = self.automaton
        return compile_graph(languages, root, tokenizer, self._unknown)

    def _unknown(self, word: str) -> PhrasesError:
        name, place = next(
            (
                (self.file_of(intent), node.place)
                for intent, sentences in self.grammar.intents.items()
                for node in _walk(sentences)
                if isinstance(node, Words) and word in node.words
            ),
            (self.name, Place(1, 1)),
        )
        return PhrasesError(
            f"{name}:{place.line}:{place.column}: the model has no letters for {word!r}; write it as it is said"
        )

    def samples(self, n: int, seed: int = 0) -> list[str]:
        """Up to n different sentences, every intent as often as any other; all of them, sorted, if there are no more.

        The same seed gives the same sentences.
        """
        languages, _, root = self.automaton
        if self.sentences <= n:
            return [" ".join(said) for said in languages.sentences(root)]
        draw = random.Random(seed)  # noqa: S311  no secret
        found: dict[str, None] = {}
        intents = list(self.grammar.intents.values())
        for _ in range(_TRIES * n):
            if len(found) == n:
                return list(found)
            node = draw.choice(draw.choice(intents)).node
            found.setdefault(" ".join(drawn_words(node, draw, draw.choice)))
        rest = (" ".join(said) for said in languages.sentences(root))
        return [*found, *islice((said for said in rest if said not in found), n - len(found))]

    def command(self, text: str) -> Command | None:
        """What a sentence means; None if it isn't one of the file's.

        text: normalised here, unless it is a sentence as it stands.
        """
        raw = text.split()
        normal = normalise(text, self.grammar.language).split()
        for said in (normal, raw) if raw != normal else (raw,):
            for intent, node in self._candidates(tuple(said)):
                slots = Chart(said, self._firsts).slots(node)
                if slots is not None:
                    return Command(intent, slots, " ".join(said))
        return None

    def _candidates(self, said: tuple[str, ...]) -> Iterator[tuple[str, Node]]:
        """Sentences that begin with the first of the words, up to one that is nothing but them, in order."""
        if not said:
            return
        sentences, plain, by_first = self._index
        last = plain.get(said, len(sentences))
        for number in by_first.get(said[0], ()):
            if number > last:
                break
            yield sentences[number]
        if said in plain:
            yield sentences[last]

    @cached_property
    def _index(self) -> tuple[list[tuple[str, Node]], dict[tuple[str, ...], int], dict[str, list[int]]]:
        """All sentences with their intents; the first that is nothing but some words; the others by first words."""
        sentences = [(intent, one.node) for intent, ones in self.grammar.intents.items() for one in ones]
        plain: dict[tuple[str, ...], int] = {}
        by_first: dict[str, list[int]] = {}
        for number, (_, node) in enumerate(sentences):
            if isinstance(node, Words):
                plain.setdefault(node.words, number)
                continue
            for word in self._firsts.of(node):
                by_first.setdefault(word, []).append(number)
        return sentences, plain, by_first


def text_of(path: str | Path) -> str:
    """Of a phrase file, whatever it says. Raises PhrasesError that names line and column."""
    path = Path(path)
    try:
        with path.open("rb") as file:  # a device or a pipe has no size of its own
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a path with a null character
        reason = getattr(error, "strerror", None) or error
        raise PhrasesError(f"{path}: can't be read ({reason}); give the path of a phrase file") from None
    if len(data) > MAX_BYTES:
        raise PhrasesError(f"{path}: more than {MAX_BYTES >> 20} MB; divide the file")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if is_wave(data[:12]) or is_other_sound(data[:12]):
            raise PhrasesError(f"{path}: a sound file; give a phrase file: sentences as YAML, text or JSGF") from None
        before = data[: error.start]
        line, column = before.count(b"\n") + 1, len(before) - before.rfind(b"\n")
        raise PhrasesError(f"{path}:{line}:{column}: not UTF-8 text; save the file as UTF-8") from None


def _definitions(text: str, name: str, language: str) -> Definitions:
    suffix = Path(name).suffix.lower()
    if suffix in JSGF_NAMES or HEADER.match(text):
        return read_jsgf(text, language)
    if suffix in YAML_NAMES or _YAML.search(text):
        root = mapping(read_tree(text), "the file", FORM)
        return read_home_assistant(root, language) if is_home_assistant(root) else read_own(root, language)
    return read_lines(text, language)


def _walk(sentences: Iterable[Template]) -> list[Node]:
    """Every node, once."""
    stack = [sentence.node for sentence in sentences]
    seen: dict[int, Node] = {}
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen[id(node)] = node
        match node:
            case Sequence() | Permutation() | Choice():
                stack += node.items
            case Slot() | Rule():
                stack.append(node.body)
            case _:
                pass
    return list(seen.values())
