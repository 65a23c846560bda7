"""Any program that turns text into a sound file, as a command line."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final

from audio.errors import SynthesisError
from audio.synthesis.engine import Voice
from audio.synthesis.program import SECONDS, spoken_by

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from audio.synthesis.engine import Array

_PLACE: Final = re.compile(r"\{(text|out)\}")


class Command:
    """A command line such as `mytts --speed 1.1 {text} {out}`.

    It is split as a shell would, and run without one. {text} and {out} (a .wav file that it is to write; any format
    that Cepstra reads may be in it) are then put in, wherever they stand in an argument. The text also goes to its
    standard input. Its one voice is its name.
    """

    makes_speakers = False

    def __init__(self, command: str, name: str, seconds: float = SECONDS) -> None:
        self._parts, self._seconds = split(command), seconds
        self.voices = (name,)

    def draw(self, voice: str, others: Sequence[str], rng: np.random.Generator) -> Voice:
        """As it is."""
        del others, rng
        return Voice(voice)

    def speak(self, text: str, voice: Voice, rng: np.random.Generator) -> Array:
        """As `Engine.speak`."""
        del voice, rng

        def command(out: Path) -> list[str]:
            values = {"text": text, "out": str(out)}
            return [_PLACE.sub(lambda found: values[found[1]], part) for part in self._parts]

        return spoken_by(command, text, seconds=self._seconds)


def split(command: str) -> list[str]:
    """The arguments of a command line, {text} and {out} still in them. Raises SynthesisError for what can't be run."""
    try:
        parts = shlex.split(command)
    except ValueError as error:
        raise SynthesisError(f"{command!r} can't be split into arguments ({error}); close its quotes") from None
    if not parts:
        raise SynthesisError("the command is empty; write, for example, 'cmd: mytts {text} {out}'")
    if not any("{out}" in part for part in parts[1:]):
        raise SynthesisError(f"{command!r} has no {{out}}, the file that it is to write; put it in")
    if shutil.which(parts[0]) is None:
        raise SynthesisError(f"there is no program {parts[0]!r} to run; check its name, or give its whole path")
    return parts


def name_of(command: str) -> str:
    """The program's own name. Raises SynthesisError as `split` does."""
    return Path(split(command)[0]).name
