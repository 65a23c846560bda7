"""What it costs to hold the search to phrases: one recording at a time, against free decoding with as wide a beam.

  python benchmarks/held.py [FILE…] [--model BUNDLE] [--repeats N]

Without files: those in data_manifests/phrases, and six numbers in a row (10^12 sentences). The recordings are the
samples of the project. All ways take turns; a figure is the median over the repeats of the seconds for all recordings,
in CPU time of one thread. "held" is whole: search, meaning and confidence, encoder included.
"""

from __future__ import annotations

import argparse
import statistics
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from asr.bundle import read_bundle
from asr.held import NARROWEST, Held
from asr.phrases import PhraseSet
from asr.recognizer import DEFAULT_BUNDLE
from asr.runtime import OnnxBackend
from asr.search import CTC_WEIGHT, SearchOptions, decode
from audio.reading import read_audio

if TYPE_CHECKING:
    from collections.abc import Callable

DATA = Path(__file__).resolve().parent.parent / "data_manifests"
SIX_NUMBERS = "intents: {code: 'code {n:a} {n:b} {n:c} {n:d} {n:e} {n:f}'}\nlists: {n: 0..100}"


def main() -> None:
    """Take turns, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="*")
    parser.add_argument("--model", type=Path, default=DEFAULT_BUNDLE)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    bundle = read_bundle(arguments.model)
    backend = OnnxBackend(bundle, 1)
    texts = {
        path.name: path.read_text(encoding="utf-8") for path in arguments.files or sorted((DATA / "phrases").iterdir())
    }
    if not arguments.files:
        texts["six numbers"] = SIX_NUMBERS
    clips = [read_audio(path) for path in sorted((DATA / "samples").glob("*.wav"))]
    seconds = [len(clip) / 16000 for clip in clips]
    wide = SearchOptions(beam=NARROWEST, ctc_weight=CTC_WEIGHT)

    def free(options: SearchOptions) -> Callable[[], None]:
        def run() -> None:
            for clip, length in zip(clips, seconds, strict=True):
                decode(backend, backend.encode([clip]), [length], options)

        return run

    def held(phrases: Held) -> Callable[[], None]:
        def run() -> None:
            for clip, length in zip(clips, seconds, strict=True):
                phrases.search(backend, backend.encode([clip]), [length])

        return run

    ways = {"greedy": free(replace(wide, beam=1, ctc_weight=0.0)), f"free, beam {NARROWEST}": free(wide)}
    for name, text in texts.items():
        ways[f"held to {name}"] = held(Held.of(PhraseSet.parse(text, name), bundle, SearchOptions()))
    times = in_turns(ways, arguments.repeats)
    base = statistics.median(times[f"free, beam {NARROWEST}"])
    table = Table(f"{len(clips)} recordings, {sum(seconds):.1f} s", "ms each", "a second", "of free")
    for name, taken in times.items():
        median = statistics.median(taken)
        table.add_row(name, f"{1000 * median / len(clips):.1f}", f"{len(clips) / median:.1f}", f"{median / base:.2f}")
    Console(width=100).print(table)


def in_turns(ways: dict[str, Callable[[], None]], repeats: int) -> dict[str, list[float]]:
    """CPU seconds of each way, by name; a turn before the first warms up."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(repeats + 1):
        for name, run in ways.items():
            begin = time.process_time()
            run()
            if turn:
                times[name].append(time.process_time() - begin)
    return times


if __name__ == "__main__":
    main()
