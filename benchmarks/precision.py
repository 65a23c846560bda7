"""What a precision costs and saves: size, speed and error rates of the same weights in float32, float16 and int8.

  python benchmarks/precision.py CHECKPOINT [--manifest dev.jsonl ...] [--repeats 40] [--seconds 0.5 2.15 5 10]

CHECKPOINT is one of `cepstra train`, or weights (.safetensors). All precisions encode and decode the same sound in
turn, one clip at a time; the fastest of the repeats counts, since others may be at work on the machine. On one thread
that is the thread's own time, on two threads time as it passes. With manifests, error rates follow, greedily and with a
beam of 4, and how many texts batches of 16 change.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import numpy as np
from rich.console import Console
from rich.table import Table

from asr.evaluation.scoring import score
from asr.evaluation.table import percent
from asr.manifest import read_manifest
from asr.recognizer import Recognizer
from asr.runtime import OnnxBackend
from asr.search import SearchOptions, decode
from asr.training.checkpoint import read_checkpoint
from audio.reading import read_audio
from export.convert import Precision, round_weights, to_bundle

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from asr.bundle import Bundle
    from asr.manifest.records import Utterance
    from asr.search.backend import Floats

SAMPLES = Path(__file__).parent.parent / "data_manifests" / "samples"
STEPS = 8  # of the decoder in one measurement


@dataclass
class Fastest:
    """Seconds, each the least of all repeats."""

    load: float = np.inf
    encode: float = np.inf
    step: float = np.inf  # of the decoder, one row
    whole: float = np.inf  # greedily, from samples to tokens


def sound(seconds: float) -> Floats:
    """That much of the samples that ship, joined."""
    clips = [read_audio(path) for path in sorted(SAMPLES.glob("*.wav"))]
    joined = np.concatenate(clips)
    return np.asarray(np.tile(joined, 1 + int(seconds * 16000) // len(joined))[: int(seconds * 16000)])


def measure(backend: OnnxBackend, clip: Floats, fastest: Fastest, clock: Callable[[], float]) -> None:
    """Once more."""
    start = clock()
    memory = backend.encode([clip])
    encoded = clock()
    decode(backend, memory, [len(clip) / 16000], SearchOptions())
    decoded = clock()
    cache, tokens = memory.cache, np.ones((1, 1), np.int64)
    for _ in range(STEPS):
        _, cache = backend.step(tokens, cache)
    stepped = clock()
    fastest.encode = min(fastest.encode, encoded - start)
    fastest.whole = min(fastest.whole, decoded - start)
    fastest.step = min(fastest.step, (stepped - decoded) / STEPS)


def speeds(bundles: dict[str, Bundle], seconds: Sequence[float], threads: int, repeats: int) -> Table:
    """Everything as a multiple of float32's time, which stands in milliseconds."""
    table = Table(title=f"{threads} thread{'s' if threads > 1 else ''}; float32 in ms, the others as a share of it")
    for column in ("sound", "precision", "load", "encoder", "decoder step", "greedy, in all"):
        table.add_column(column, justify="right")
    clock = time.thread_time if threads == 1 else time.perf_counter
    for length in seconds:
        clip, fastest = sound(length), {name: Fastest() for name in bundles}
        backends = {name: OnnxBackend(bundle, threads) for name, bundle in bundles.items()}
        for repeat in range(repeats):
            for name, bundle in bundles.items():
                if repeat < 5:
                    start = clock()
                    OnnxBackend(bundle, threads)
                    fastest[name].load = min(fastest[name].load, clock() - start)
                measure(backends[name], clip, fastest[name], clock)
        base = vars(fastest["float32"])
        for name, values in fastest.items():
            cells = [
                f"{1000 * value:.2f}" if name == "float32" else f"{value / base[key]:.2f}"
                for key, value in vars(values).items()
            ]
            table.add_row(f"{length:g} s", name, *cells)
    return table


def texts(bundle: Bundle, beam: int, utterances: Sequence[Utterance], batch: int) -> list[str]:
    """Of utterances of about the same length at a time."""
    recognizer = Recognizer(bundle, beam=beam)
    found: dict[int, str] = {}
    order = sorted(range(len(utterances)), key=lambda i: utterances[i].duration)
    for start in range(0, len(order), batch):
        chosen = order[start : start + batch]
        results = recognizer.transcribe([utterances[i] for i in chosen])
        found |= {i: result.text for i, result in zip(chosen, results, strict=True)}
    return [found[i] for i in range(len(utterances))]


def rates(bundles: dict[str, Bundle], manifests: Sequence[Path]) -> Table:
    """Word error rates by manifest."""
    rows = [(path.stem, row) for path in manifests for row in read_manifest(path)]
    utterances = [row for _, row in rows]
    names = sorted({name for name, _ in rows})
    table = Table(title=f"word error rate in %, {len(rows)} utterances")
    for column in ("", "precision", "total", *names, "other texts than float32", "other texts in batches"):
        table.add_column(column, justify="right")
    for beam in (1, 4):
        reference: list[str] = []
        for name, bundle in bundles.items():
            heard = texts(bundle, beam, utterances, 16)
            reference = reference or heard
            alone = texts(bundle, beam, utterances, 1) if beam == 1 else heard
            evaluation = score([row.text for row in utterances], heard, groups=[name for name, _ in rows], resamples=0)
            table.add_row(
                "greedy" if beam == 1 else f"beam {beam}", name, percent(evaluation.total.wer),
                *(percent(group.wer) for group in evaluation.groups),
                str(sum(a != b for a, b in zip(heard, reference, strict=True))),
                str(sum(a != b for a, b in zip(heard, alone, strict=True))) if beam == 1 else "-",
            )  # fmt: skip
    return table


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--manifest", type=Path, nargs="*", default=[])
    parser.add_argument("--repeats", type=int, default=40)
    parser.add_argument("--seconds", type=float, nargs="+", default=[0.5, 2.15, 5, 10])
    arguments = parser.parse_args()
    exact = to_bundle(read_checkpoint(arguments.checkpoint), "measured", {})
    bundles = {name: exact if name == "float32" else round_weights(exact, name) for name in get_args(Precision)}
    console = Console()
    for name, bundle in bundles.items():
        console.print(f"{name}: {(len(bundle.encoder) + len(bundle.decoder)) / 1e6:.2f} MB of graphs")
    for threads in (1, 2):
        console.print(speeds(bundles, arguments.seconds, threads, arguments.repeats))
    if arguments.manifest:
        console.print(rates(bundles, arguments.manifest))


if __name__ == "__main__":
    main()
