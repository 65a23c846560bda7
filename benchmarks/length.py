"""What longer sound costs: seconds and memory to transcribe files of several lengths, cut into pieces as ever.

  python benchmarks/length.py [--model BUNDLE] [--seconds 5 10 20 30 3600] [--threads 2]

Each file is the shipped samples one after the other, with pauses of 0.7 s, and is transcribed in a process of its own:
the seconds are those of `Recognizer.transcribe` (the fastest of three up to a minute), the memory is the largest that
the process held. The last columns are in proportion to the first file.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import soundfile
from rich.console import Console
from rich.table import Table

from asr.recognizer import DEFAULT_BUNDLE
from audio.reading import read_audio

SAMPLES = Path(__file__).parent.parent / "data_manifests" / "samples"
RATE = 16000
MEASURE = """
import resource, sys, time
from asr.recognizer import Recognizer
recognizer = Recognizer(sys.argv[1], threads=int(sys.argv[3]))
times = []
for _ in range(int(sys.argv[4])):
    start = time.perf_counter()
    recognizer.transcribe(sys.argv[2])
    times.append(time.perf_counter() - start)
print(min(times), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=DEFAULT_BUNDLE)
    parser.add_argument("--seconds", type=float, nargs="+", default=[5, 10, 20, 30, 3600])
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    gap = np.zeros(int(0.7 * RATE), np.float32)
    speech = np.concatenate([part for path in sorted(SAMPLES.glob("*.wav")) for part in (read_audio(path), gap)])
    table = Table("sound s", "seconds", "MiB", "times sound", "times seconds", "times MiB")
    first: tuple[float, float, float] | None = None
    with tempfile.TemporaryDirectory() as folder:
        for seconds in arguments.seconds:
            file = Path(folder) / "speech.wav"
            # Bit by bit: a child's peak counts what its parent held
            with soundfile.SoundFile(file, "w", RATE, 1, subtype="PCM_16") as recording:
                for start in range(0, int(seconds * RATE), len(speech)):
                    recording.write(speech[: int(seconds * RATE) - start])
            repeats = 3 if seconds <= 60 else 1
            command = [arguments.model, file, arguments.threads, repeats]
            run = subprocess.run(
                [sys.executable, "-c", MEASURE, *map(str, command)], capture_output=True, text=True, check=True
            )
            took, peak = map(float, run.stdout.split())
            first = first or (seconds, took, peak)
            ratios = [f"{now / then:.2f}" for now, then in zip((seconds, took, peak), first, strict=True)]
            table.add_row(f"{seconds:g}", f"{took:.2f}", f"{peak:.0f}", *ratios)
    Console().print(table)


if __name__ == "__main__":
    main()
