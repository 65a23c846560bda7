"""How fast a bundle answers: ONNX Runtime beside torch in one run, and the command line from a cold start.

  python benchmarks/inference.py CHECKPOINT BUNDLE [--seconds 2] [--repeats 60]

CHECKPOINT and BUNDLE are the same model. Both transcribe the same clip, greedily, one at a time, on two threads, in
turn; medians and the median of the ratios are printed.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from rich.console import Console
from rich.table import Table

from asr.bundle import read_bundle
from asr.model.backend import TorchBackend
from asr.runtime import OnnxBackend
from asr.search import SearchOptions, decode
from asr.training.checkpoint import read_checkpoint
from audio.reading import read_audio

if TYPE_CHECKING:
    from asr.search.backend import Backend, Floats

SAMPLES = Path(__file__).parent.parent / "data_manifests" / "samples"


def answer(backend: Backend, clip: Floats) -> tuple[tuple[int, ...], float, float]:
    """Tokens, seconds in the encoder, seconds in the decoder."""
    start = time.perf_counter()
    memory = backend.encode([clip])
    middle = time.perf_counter()
    hypothesis = decode(backend, memory, [len(clip) / 16000], SearchOptions())[0]
    return hypothesis.tokens, middle - start, time.perf_counter() - middle


# A process of its own measures: a child's peak counts what its parent held when it was forked, and ours holds torch
MEASURE = """
import resource, subprocess, sys, time
start = time.perf_counter()
subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)
print(time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024)
"""


def cold_start(bundle: Path, clip: Path, repeats: int) -> tuple[float, float]:
    """Median seconds and largest resident MiB of the whole command `cepstra transcribe`."""
    command = [str(Path(sys.executable).with_name("cepstra")), "transcribe", str(clip), "--model", str(bundle)]
    times, peaks = [], []
    for _ in range(repeats):
        run = subprocess.run([sys.executable, "-c", MEASURE, *command], capture_output=True, text=True, check=True)
        seconds, peak = run.stdout.split()
        times.append(float(seconds))
        peaks.append(float(peak))
    return statistics.median(times), max(peaks)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--repeats", type=int, default=60)
    arguments = parser.parse_args()
    torch.set_num_threads(2)
    source = next(p for p in sorted(SAMPLES.glob("*.wav")) if len(read_audio(p)) >= arguments.seconds * 16000)
    clip = read_audio(source)[: int(arguments.seconds * 16000)]
    backends: dict[str, Backend] = {
        "ONNX Runtime": OnnxBackend(read_bundle(arguments.bundle), threads=2),
        "torch": TorchBackend(read_checkpoint(arguments.checkpoint).model),
    }
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in backends}
    texts = set()
    for repeat in range(arguments.repeats + 5):
        for name, backend in backends.items():
            tokens, encoder, decoder = answer(backend, clip)
            texts.add(tokens)
            if repeat >= 5:  # the first ones warm up
                times[name].append((encoder, decoder))
    table = Table(
        title=f"{arguments.seconds} s clip, {len(next(iter(texts)))} tokens, 2 threads, median of {arguments.repeats}"
    )
    for column in ("", "encoder ms", "decoder ms", "total ms", "times ONNX"):
        table.add_column(column, justify="right")
    reference = [sum(t) for t in times["ONNX Runtime"]]
    for name, values in times.items():
        encoder, decoder = (statistics.median(v[i] for v in values) * 1000 for i in range(2))
        ratio = statistics.median(sum(v) / r for v, r in zip(values, reference, strict=True))
        table.add_row(name, f"{encoder:.2f}", f"{decoder:.2f}", f"{encoder + decoder:.2f}", f"{ratio:.2f}")
    console = Console()
    console.print(table)
    console.print("the same tokens from both" if len(texts) == 1 else "DIFFERENT TOKENS")
    seconds, peak = cold_start(arguments.bundle, source, 7)
    console.print(f"cepstra transcribe, cold: {seconds:.2f} s in all, {peak:.0f} MiB resident at most")


if __name__ == "__main__":
    main()
