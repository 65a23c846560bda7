"""Samples that lie on the disk while they wait: an hour of sound takes no more memory than a minute."""

from __future__ import annotations

import tempfile
import weakref
from typing import TYPE_CHECKING

import numpy as np

from audio.errors import AudioError

if TYPE_CHECKING:
    from numpy.typing import NDArray


class StoredSamples:
    """(N,) float32 in a temporary file, which is gone once this is; a part of it is read when it is asked for."""

    def __init__(self) -> None:
        """Raises OSError where no such file can be made, and `append` where the disk is full."""
        # Unbuffered: what a full disk refuses is told here, and not when something is read or the file is closed
        self._file = tempfile.TemporaryFile(prefix="cepstra-", buffering=0)  # noqa: SIM115  closed with this
        self._length = 0
        weakref.finalize(self, self._file.close)

    def append(self, part: NDArray[np.float32]) -> None:
        """Put it behind what is there; where that fails, what was there stays."""
        self._file.seek(self._length * np.dtype(np.float32).itemsize)
        left = np.ascontiguousarray(part, np.float32).data.cast("B")
        while left:  # a disk that is nearly full takes a part
            left = left[self._file.write(left) :]
        self._length += len(part)

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, part: slice, /) -> NDArray[np.float32]:
        """Neighbouring samples, as an array of their own. Raises AudioError where the file can't be read any more."""
        start, stop, step = part.indices(self._length)
        if step != 1:
            raise ValueError("only neighbouring samples can be asked for")
        samples = np.empty(max(0, stop - start), np.float32)
        left = samples.data.cast("B")
        try:
            self._file.seek(start * samples.itemsize)
            while left and (count := self._file.readinto(left)):
                left = left[count:]
        except OSError as error:
            raise AudioError(f"long sound: its temporary file can't be read ({error.strerror}); try again") from error
        if left:
            raise AudioError("long sound: its temporary file was cut short; leave the folder for such files alone")
        return samples
