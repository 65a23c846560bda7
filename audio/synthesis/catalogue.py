"""Which engines there are, which of them are installed, and how to install the others."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from audio.errors import SynthesisError
from audio.synthesis import command, espeak, flite, hibari, kokoro, piper

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from audio.synthesis.engine import Engine


@dataclass(frozen=True)
class EngineSpec:
    """An engine, chosen: what another process needs to open it."""

    kind: str  # a name in KINDS
    name: str  # in manifests
    weight: float = 1.0  # of its share of the utterances
    options: Mapping[str, Any] = field(default_factory=dict)  # of its kind


@dataclass(frozen=True)
class Kind:
    """A kind of engine."""

    about: str
    install: str
    weight: float  # unless another is asked for
    open: Callable[..., Engine]  # from the options that it takes
    missing: Callable[..., str | None]  # the same options, but for the language: why it can't be used
    takes: tuple[str, ...] = ()  # names of its options
    english_only: bool = False


# fmt: off
KINDS: Final[dict[str, Kind]] = {
    "hibari": Kind("natural, every utterance a speaker of its own", hibari.INSTALL, 4, hibari.Hibari, hibari.missing,
                   english_only=True),
    "kokoro": Kind("the most natural voices, and blends of them; slow", kokoro.INSTALL, 2, kokoro.Kokoro,
                   kokoro.missing, ("folder",), english_only=True),
    "piper": Kind("natural voices of recorded speakers", piper.INSTALL, 2, piper.Piper, piper.missing,
                  ("models", "language")),
    "flite": Kind("four recorded speakers, a little muffled", flite.INSTALL, 1, flite.Flite, flite.missing,
                  english_only=True),
    "espeak": Kind("many accents and timbres, robotic", espeak.INSTALL, 1, espeak.Espeak, espeak.missing,
                   ("language",)),
    "cmd": Kind("any program: --engine 'cmd: mytts {text} {out}'", "", 2, command.Command, lambda: None,
                ("command", "name")),
}
# fmt: on


def open_engine(spec: EngineSpec) -> Engine:
    """The engine. Raises SynthesisError that begins with its name."""
    try:
        return KINDS[spec.kind].open(**spec.options)
    except SynthesisError as error:
        raise SynthesisError(f"engine {spec.name}: {error}") from None


def why_missing(kind: str, options: Mapping[str, Any]) -> str | None:
    """Why a kind of engine can't be used with these options; None: it can."""
    return KINDS[kind].missing(**{name: value for name, value in options.items() if name != "language"})
