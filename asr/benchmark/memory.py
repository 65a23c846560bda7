"""Whether memory grows with use: many utterances of changing length through one recogniser."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from asr.errors import CepstraError
from asr.recognizer import Recognizer
from audio.reading import read_audio

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy as np
    from numpy.typing import NDArray

    from asr.results import Result

SHORTEST, LONGEST = 0.2, 10.0  # seconds
POINTS = 200  # of the curve
WARM_UP = 0.1  # of the utterances: by then every length came


class Transcriber(Protocol):
    """A recogniser, or a stand-in for one."""

    def transcribe(self, source: NDArray[np.float32], /) -> Result:
        """The text of mono samples (N,)."""
        ...


@dataclass(frozen=True)
class Curve:
    """Resident memory over utterances."""

    utterances: tuple[int, ...]  # that were done at each point
    resident: tuple[int, ...]  # bytes at each point

    @property
    def warm(self) -> int:
        """Utterances after which growth counts."""
        return round(WARM_UP * self.utterances[-1])

    @property
    def growth(self) -> float:
        """Bytes by which it grew after the warm-up: the median of the last tenth less that of the first after it."""
        after = [bytes_ for done, bytes_ in zip(self.utterances, self.resident, strict=True) if done >= self.warm]
        tenth = max(1, len(after) // 10)
        return statistics.median(after[-tenth:]) - statistics.median(after[:tenth])

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {
            "utterances": list(self.utterances),
            "resident_mb": [round(bytes_ / 1e6, 3) for bytes_ in self.resident],
            "warm_up": self.warm,
            "growth_mb": round(self.growth / 1e6, 3),
        }


def resident() -> int:
    """Bytes of this process that are in memory; where the system doesn't say, the most there ever were."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024
    return pages * os.sysconf("SC_PAGE_SIZE")


def utterances(samples: NDArray[np.float32], rate: int, count: int) -> Iterator[NDArray[np.float32]]:
    """Stretches of these samples, from SHORTEST to LONGEST seconds, as many short as long ones by ratio.

    The golden ratio's multiples spread evenly over any stretch of the run, and come the same every time.
    """
    for number in range(count):
        share, place = number * 0.6180339887 % 1, number * 0.7548776662 % 1
        length = min(len(samples), round(SHORTEST * (LONGEST / SHORTEST) ** share * rate))
        start = int(place * (len(samples) - length + 1))
        yield samples[start : start + length]


def points(transcriber: Transcriber, samples: NDArray[np.float32], rate: int, count: int) -> Iterator[tuple[int, int]]:
    """Transcribe so many stretches of samples at this rate; now and then how many are done, and bytes resident."""
    every = max(1, count // POINTS)
    yield 0, resident()
    for number, clip in enumerate(utterances(samples, rate, count), 1):
        transcriber.transcribe(clip)
        if number % every == 0 or number == count:
            yield number, resident()


def curve_of_process(
    model: Path, speech: Path, count: int, *, threads: int, done: Callable[[int], None] = lambda _: None
) -> Curve:
    """The curve of a new process that does nothing else.

    model: a bundle; speech: the file that utterances are cut from. done: called with the utterances since the last
    call. Raises CepstraError where the process fails.
    """
    command = [sys.executable, "-m", __name__, str(model), str(speech), str(count), str(threads)]
    numbers: list[int] = []
    sizes: list[int] = []
    with (
        tempfile.TemporaryFile() as faults,
        subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=faults, text=True
        ) as process,
    ):  # fmt: skip
        try:
            for line in process.stdout or ():
                number, size = line.split()
                done(int(number) - (numbers[-1] if numbers else 0))
                numbers.append(int(number))
                sizes.append(int(size))
        except BaseException:
            process.kill()
            raise
        if process.wait() or not numbers or numbers[-1] < count:
            faults.seek(0)
            lines = faults.read().decode(errors="replace").strip().splitlines()
            reason = lines[-1] if lines else f"it ended with {process.returncode}"
            raise CepstraError(f"the process whose memory is watched failed ({reason})")
    return Curve(tuple(numbers), tuple(sizes))


def _main(model: str, speech: str, count: str, threads: str) -> None:
    recognizer = Recognizer(model, threads=int(threads))
    rate = recognizer.bundle.front_end.sample_rate
    for number, size in points(recognizer, read_audio(speech, sample_rate=rate), rate, int(count)):
        sys.stdout.write(f"{number} {size}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _main(*sys.argv[1:])
