"""What every engine of synthetic speech can do."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Array = NDArray[np.float32]

SAMPLE_RATE: Final = 16000  # Hz, of what all engines give


@dataclass(frozen=True)
class Voice:
    """How an utterance is to be said."""

    name: str  # the same for all utterances of one voice
    settings: Mapping[str, Any] = field(default_factory=dict)  # speed, pitch and the like: the engine's own


class Engine(Protocol):
    """Text to sound."""

    @property
    def voices(self) -> tuple[str, ...]:
        """Names of its real voices, at least one; training and test may share none of them."""

    @property
    def makes_speakers(self) -> bool:
        """Whether each voice that is drawn is a speaker that no other utterance has."""

    def draw(self, voice: str, others: Sequence[str], rng: np.random.Generator) -> Voice:
        """How that voice speaks this time. others: what it may be blended with."""

    def speak(self, text: str, voice: Voice, rng: np.random.Generator) -> Array:
        """The text, said: (N,) float32 at SAMPLE_RATE, finite, full scale ±1.

        text: one line without control characters, square brackets and leading dashes. rng: for what an engine leaves
        to chance. Raises SynthesisError, with a reason that reads well behind the engine's name; AudioError where what
        it wrote is no sound.
        """
