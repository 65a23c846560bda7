"""What a recogniser may be given to transcribe, before any of it is read."""

from __future__ import annotations

import stat
import warnings
from os import PathLike, fspath
from pathlib import Path
from typing import BinaryIO, TypeAlias

import numpy as np
from numpy.typing import NDArray

from asr.errors import AudioError
from asr.manifest.records import Utterance
from asr.pieces import PIECE_SECONDS
from audio.errors import AudioWarning

Source: TypeAlias = str | PathLike[str] | bytes | BinaryIO | NDArray[np.floating] | Utterance

QUICK_BYTES = 1 << 21  # a file of more than that may take a second to read
LOUD = 16.0  # times full scale: samples on another scale, most likely


def name_of(source: Source) -> str | None:
    """Its path, where it has one."""
    if isinstance(source, Utterance):
        return str(source.audio_filepath)
    return fspath(source) if isinstance(source, str | PathLike) else None


def is_quick(source: Source) -> bool:
    """Whether reading it takes next to no time; a pipe may be silent for long, and an hour takes seconds to decode."""
    if isinstance(source, np.ndarray):
        return True
    if isinstance(source, Utterance):
        return source.duration <= PIECE_SECONDS
    if isinstance(source, bytes):
        return len(source) <= QUICK_BYTES
    if not isinstance(source, str | PathLike) or source == "-":
        return False
    try:
        status = Path(source).stat()
    except (OSError, ValueError):  # which reading it will say
        return True
    return not stat.S_ISFIFO(status.st_mode) and status.st_size <= QUICK_BYTES


def checked(samples: NDArray[np.floating], rate: int) -> NDArray[np.float32]:
    """Samples as the model takes them, (N,) float32. Raises AudioError for anything else than mono sound in floats.

    rate: the model's, in Hz. A scale that is most likely another one is warned of.
    """
    if samples.ndim != 1 or not np.issubdtype(samples.dtype, np.floating):
        raise AudioError(
            f"samples: {samples.dtype} of shape {samples.shape}; give mono samples (N,) as floats of full scale ±1, "
            f"{rate} Hz (16-bit integers divided by 32768, channels averaged)"
        )
    peak = np.abs(samples).max(initial=0.0)
    if not peak <= np.finfo(np.float32).max:
        raise AudioError("samples: some are not finite; check what made them")
    if peak > LOUD:
        message = f"samples reach {peak:,.0f} times full scale; if that is another scale, divide by it (16-bit: 32768)"
        warnings.warn(message, AudioWarning, stacklevel=2)
    return samples.astype(np.float32, copy=False)
