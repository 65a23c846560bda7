"""Engines that are programs: run without a shell, for a limited time, and read from the file that they write."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from audio.errors import SynthesisError
from audio.reading import read_audio
from audio.synthesis.engine import SAMPLE_RATE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from audio.synthesis.engine import Array

SECONDS: Final = 60.0  # that one text may take
LONGEST: Final = 300.0  # s of sound that is read


def spoken_by(command: Callable[[Path], Sequence[str]], text: str, *, seconds: float = SECONDS) -> Array:
    """What a program makes of a text: (N,) at SAMPLE_RATE.

    command: from the sound file that it is to write, its name and arguments. text: goes to its standard input.
    Raises SynthesisError where it fails or takes too long, AudioError where what it wrote is no sound.
    """
    with tempfile.TemporaryDirectory(prefix="cepstra-") as folder:
        out = Path(folder) / "out.wav"
        _run([str(part) for part in command(out)], text, seconds)
        if not out.exists():
            raise SynthesisError("wrote no sound file")
        return read_audio(out, sample_rate=SAMPLE_RATE, max_seconds=LONGEST)


def listed(*command: str) -> str:
    """What a program prints of its voices; empty where it can't be run."""
    try:
        ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=20, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    return ended.stdout.decode("utf-8", "replace")


def _run(command: list[str], text: str, seconds: float) -> None:
    name = Path(command[0]).name
    with tempfile.TemporaryFile() as errors:
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=errors, start_new_session=True
            )
        except (OSError, ValueError) as error:
            raise SynthesisError(f"{name} can't be run ({getattr(error, 'strerror', None) or error})") from None
        try:
            process.communicate((text + "\n").encode(), timeout=seconds)
        except subprocess.TimeoutExpired:
            raise SynthesisError(f"took more than {seconds:g} s") from None
        finally:
            if process.poll() is None:  # too long, or this process is to end
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)  # what it has started as well: nobody else would end it
                process.wait()
        if process.returncode:
            how = f"exit code {process.returncode}" if process.returncode > 0 else f"signal {-process.returncode}"
            raise SynthesisError(f"failed with {how}{_last_line(errors.fileno())}")


def _last_line(errors: int) -> str:
    size = os.fstat(errors).st_size
    lines = os.pread(errors, 4000, max(0, size - 4000)).decode("utf-8", "replace").split("\n")
    said = [" ".join(line.split()) for line in lines if line.strip()]
    return f" ({said[-1]:.200})" if said else ""
