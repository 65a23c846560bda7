"""Words and phrases to expect, or not to: a bonus in the search for texts that have them (contextual biasing).

A boost file has a word or phrase per line, and after ` * ` its weight where that isn't the usual one:

    living room
    hibari * 1.5
    leaving * -2        # below 0: rather not

Weights are in nats per token. A text's bonus is, over every place where a phrase stands in it as whole words, the
phrase's weight times its number of tokens. A search can't wait for the end of a phrase, so on the way to it each token
of a phrase brings its weight in advance, which is taken back where the text leaves the phrase unfinished (Zhao et al.
2019, "Shallow-fusion end-to-end contextual biasing"). In terms of an Aho-Corasick automaton (1975) over tokens: a step
from state s by token t brings

    finished(s) if t begins a word or ends the text, and expected(s') - expected(s) for the state s' that it leads to,

where finished(s) is the bonus of all phrases that end in s, and expected(s) that, plus the best of what the longer
phrases under way bring in advance. What is expected cancels out over a text, whose end is expected to bring nothing.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from asr.errors import GuidanceError
from asr.files import JSGF_NAMES, YAML_NAMES
from asr.given import brief, number_in
from asr.search.hypothesis import EOS
from asr.text import normalise
from asr.tokenizer import WORD_START

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from asr.search.backend import Floats
    from asr.tokenizer import Tokenizer

# Nats per token, of phrases without a weight. On development speech twice that finds more of the words of a list, and
# writes many times as often one that nobody said
WEIGHT: Final = 0.5
LARGEST_WEIGHT: Final = 20.0
# Bounds of what a list may cost: writing numbers out as words takes the longest, some 10 µs per token
MAX_BYTES: Final = 1 << 22
MAX_PHRASES: Final = 10_000
MAX_CHARACTERS: Final = 200  # of a phrase, as it is written and as it is said
_MAX_TOKENS: Final = 1 << 18  # of all phrases together
_REMEMBERED_VALUES: Final = 1 << 22  # 16 MB of scores
_STAR: Final = re.compile(r"(?:^|\s)\*(?:\s|$)")
_COMMENT: Final = re.compile(r"(?:^|(?<=\s))#.*")


@dataclass
class _Node:
    """A state: the phrases' beginnings that the latest tokens are, of which this is the longest."""

    fail: int = 0  # the state of the next shorter one
    following: dict[int, int] = field(default_factory=dict)
    finished: float = 0.0
    ahead: float = 0.0  # the most that a longer phrase brings in advance
    depth: int = 0


class Boost:
    """Phrases made ready for a tokenizer; a guide of the search, whose states are numbers.

    >>> boost = Boost({"living room": 2.0}, recognizer.bundle.tokenizer)
    """

    def __init__(self, phrases: Mapping[str, float], tokenizer: Tokenizer, language: str = "en") -> None:
        """phrases: with weights, in any spelling, none twice. Raises GuidanceError for one that can't be used."""
        self._nodes = [_Node()]
        self._size = tokenizer.vocab_size
        self._starts_word = np.array(
            [token == EOS or tokenizer.token(token).startswith(WORD_START) for token in range(self._size)]
        )
        admitted = _Admitted(tokenizer, language)
        for written, weight in phrases.items():
            try:
                _, tokens = admitted.admit(written, f"as {brief(written)}")
                self._add(tokens, _checked(weight))
            except GuidanceError as error:
                raise GuidanceError(f"boost: {brief(written)}: {error}") from None
        self._link()

    def start(self) -> int:
        """No phrase under way."""
        return 0

    def advance(self, state: int, token: int) -> int:
        """The longest beginning of a phrase that the text ends with after one token more."""
        while state and token not in self._nodes[state].following:
            state = self._nodes[state].fail
        return self._nodes[state].following.get(token, 0)

    def scores(self, state: int) -> Floats:
        """What each next token brings, the end included. (V,), read-only."""
        return self._remembered(state)

    @cached_property
    def _remembered(self) -> Callable[[int], Floats]:
        return lru_cache(max(16, _REMEMBERED_VALUES // self._size))(self._scores)

    def _scores(self, state: int) -> Floats:
        node = self._nodes[state]
        found = np.where(self._starts_word, node.finished, 0.0) - (node.finished + node.ahead)
        expected: dict[int, float] = {}  # of the states that the tokens lead to; the longest beginnings count
        while True:
            for token, target in node.following.items():
                expected.setdefault(token, self._nodes[target].finished + self._nodes[target].ahead)
            if not node.depth:
                break
            node = self._nodes[node.fail]
        found[list(expected)] += list(expected.values())
        scores = found.astype(np.float32)
        scores.flags.writeable = False
        return scores

    def _add(self, tokens: list[int], weight: float) -> None:
        state = 0
        for depth, token in enumerate(tokens, 1):
            if token not in self._nodes[state].following:
                self._nodes[state].following[token] = len(self._nodes)
                self._nodes.append(_Node(depth=depth))
            state = self._nodes[state].following[token]
            if depth < len(tokens):
                self._nodes[state].ahead = max(self._nodes[state].ahead, weight * depth)
        self._nodes[state].finished += weight * len(tokens)

    def _link(self) -> None:
        """Failure links, and what shorter beginnings have to say, from the shortest on."""
        layer = [0]
        while layer:
            following: list[int] = []
            for state in layer:
                for token, target in self._nodes[state].following.items():
                    node = self._nodes[target]
                    node.fail = self.advance(self._nodes[state].fail, token) if state else 0
                    shorter = self._nodes[node.fail]
                    node.finished += shorter.finished
                    node.ahead = max(node.ahead, shorter.ahead)
                    following.append(target)
            layer = following


def read_boost(path: str | Path, tokenizer: Tokenizer, language: str = "en") -> dict[str, float]:
    """The phrases of a boost file, normalised, with their weights. Raises GuidanceError."""
    found: dict[str, float] = {}
    admitted = _Admitted(tokenizer, language)
    if Path(path).suffix.lower() in (*YAML_NAMES, *JSGF_NAMES):
        raise GuidanceError(
            f"{path}: a phrase file by its name; give it as phrases (--phrases), or a list of words here"
        )
    for number, line in enumerate(_text(Path(path)).split("\n"), 1):
        kept = _COMMENT.sub("", line).rstrip() if line else ""
        if not kept:
            continue
        written, *weight = _STAR.split(kept, maxsplit=1)
        rest = written
        try:
            phrase, _ = admitted.admit(written, f"on line {number}")
            rest = "".join(weight)
            found[phrase] = _checked(_number(rest)) if weight else WEIGHT
        except GuidanceError as error:
            column = (0 if rest is written else len(kept) - len(rest)) + len(rest) - len(rest.lstrip()) + 1
            raise GuidanceError(f"{path}:{number}:{column}: {error}") from None
    if not found:
        raise GuidanceError(f"{path}:1:1: no phrase in the file; write one per line")
    return found


class _Admitted:
    """The phrases of a list so far: no more than may be, and none twice."""

    def __init__(self, tokenizer: Tokenizer, language: str) -> None:
        self._tokenizer, self._language = tokenizer, language
        self._places: dict[str, str] = {}
        self._tokens = 0

    def admit(self, written: str, place: str) -> tuple[str, list[int]]:
        """One more, normalised, and its tokens. place: where it stands, for errors. Raises GuidanceError."""
        if len(self._places) == MAX_PHRASES:
            raise GuidanceError(f"more than {MAX_PHRASES:,} phrases; leave some out")
        phrase, tokens = _tokenized(written, self._tokenizer, self._language)
        if phrase in self._places:
            raise GuidanceError(f"{brief(phrase)} is there already, {self._places[phrase]}; take one of them away")
        self._tokens += len(tokens)
        if self._tokens >= _MAX_TOKENS:
            raise GuidanceError(f"up to here, {_MAX_TOKENS:,} tokens of phrases or more; leave some out")
        self._places[phrase] = place
        return phrase, tokens


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise GuidanceError(f"{path}: more than {MAX_BYTES >> 20} MB; leave phrases out")
        data = path.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a path with a null character
        reason = getattr(error, "strerror", None) or error
        raise GuidanceError(f"{path}: can't be read ({reason}); give the path of a boost file") from None
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        line, column = before.count(b"\n") + 1, len(before) - before.rfind(b"\n")
        raise GuidanceError(f"{path}:{line}:{column}: not UTF-8 text; save the file as UTF-8") from None


def _tokenized(written: str, tokenizer: Tokenizer, language: str) -> tuple[str, list[int]]:
    """A phrase normalised, and its tokens."""
    if not isinstance(written, str):  # as callers without a type checker may give it
        raise GuidanceError("a phrase must be text; write it as it is said")
    _check_length(written.strip())
    phrase = normalise(written, language)
    _check_length(phrase)
    tokens = tokenizer.encode(phrase)
    if not tokens:
        raise GuidanceError(f"{brief(written.strip())} holds no word; write it as it is said")
    if tokenizer.unk_id in tokens:
        raise GuidanceError(f"{brief(written.strip())}: the model has no letters for it; write it as it is said")
    return phrase, tokens


def _check_length(phrase: str) -> None:
    if len(phrase) > MAX_CHARACTERS:
        raise GuidanceError(
            f"a phrase of {len(phrase):,} characters, more than {MAX_CHARACTERS}; write each word or phrase on its own"
        )


def _number(text: str) -> float:
    try:
        return float(text.strip())
    except ValueError:
        raise GuidanceError(f"{brief(text.strip())} is no weight; write a number after *, such as 2 or -1.5") from None


def _checked(weight: float) -> float:
    found = number_in(weight)
    if found is None:
        raise GuidanceError(f"weight {brief(weight)} is no number; write one such as 2 or -1.5")
    if not (math.isfinite(found) and found and abs(found) <= LARGEST_WEIGHT):
        raise GuidanceError(
            f"weight {found:g} is 0 or beyond ±{LARGEST_WEIGHT:g} nats per token; write one such as 2 or -1.5"
        )
    return found
