"""What else than the sound may have a say in free decoding: language models, words to expect."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

if TYPE_CHECKING:
    from asr.search.backend import Floats

State = TypeVar("State")


class Guide(Protocol[State]):
    """Says of every text under way what it thinks of each next token. States are data: hashable, never changed."""

    def start(self) -> State:
        """The state before the first token."""

    def advance(self, state: State, token: int) -> State:
        """The state after one token more; not asked for the end."""

    def scores(self, state: State) -> Floats:
        """What is added to the log-probability of each next token, the end included. (V,), not to be written to."""


@dataclass(frozen=True)
class Blend:
    """Several guides with weights above 0, as one: the weighted sum of their scores."""

    parts: tuple[tuple[Guide[Any], float], ...]

    def start(self) -> tuple[Any, ...]:
        """Their states."""
        return tuple(guide.start() for guide, _ in self.parts)

    def advance(self, state: tuple[Any, ...], token: int) -> tuple[Any, ...]:
        """Their states."""
        return tuple(guide.advance(s, token) for (guide, _), s in zip(self.parts, state, strict=True))

    def scores(self, state: tuple[Any, ...]) -> Floats:
        """(V,) summed."""
        weighted = [weight * guide.scores(s) for (guide, weight), s in zip(self.parts, state, strict=True)]
        total: Floats = np.sum(weighted, axis=0, dtype=np.float32)
        return total
