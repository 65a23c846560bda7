"""All that a benchmark measures, in an order in which nothing disturbs what comes after."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asr.benchmark.latency import WARM_UP, Latency, Timed, measure
from asr.benchmark.machine import machine
from asr.benchmark.memory import Curve, curve_of_process
from asr.benchmark.process import Cold, cold_start, peak_memory
from asr.benchmark.products import peaks
from asr.runtime import OnnxBackend

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from asr.benchmark.flops import Precision
    from asr.benchmark.sound import Sound
    from asr.bundle import Bundle
    from asr.search.backend import Backend

LENGTHS = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0)  # seconds of sound
COLD_SECONDS = 2.0  # of the clip for cold starts: the length nearest to it
PLAIN = "onnxruntime"  # the back end that recognisers have


@dataclass(frozen=True)
class Plan:
    """What is to be measured."""

    lengths: tuple[float, ...] = LENGTHS
    threads: tuple[int, ...] = (1, 2)
    runs: int = 20
    cold_runs: int = 5
    memory: int = 0  # utterances; 0 leaves the curve out

    @property
    def cold_length(self) -> float:
        """Seconds of the clip that new processes transcribe."""
        return min(self.lengths, key=lambda seconds: abs(seconds - COLD_SECONDS))

    @property
    def rounds(self) -> int:
        """Of which progress is told."""
        timed = len(self.threads) * len(self.lengths) * (WARM_UP + self.runs)
        return self.memory + timed + len(self.lengths) + self.cold_runs


@dataclass(frozen=True)
class Report:
    """What was measured, and of what."""

    bundle: Bundle
    model: Path
    sound: str
    machine: Mapping[str, str | int]
    latencies: tuple[Latency, ...]
    peaks: Mapping[int, Mapping[Precision, float]]  # threads -> operations per second
    resident: Mapping[float, int]  # seconds of sound -> bytes at most, with the most threads
    cold: Cold
    curve: Curve | None

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {
            "model": {
                "name": self.bundle.name,
                "file": str(self.model),
                "precision": self.bundle.precision,
                "bytes": self.model.stat().st_size,
            },
            "machine": dict(self.machine),
            "sound": self.sound,
            "latency": [
                # Torch computes in float32, whatever the bundle does
                each.to_dict(self.bundle, self.peaks[each.threads] if each.backend == PLAIN else None)
                for each in self.latencies
            ],
            "peak_operations_per_second": {
                str(threads): {name: round(value) for name, value in found.items()}
                for threads, found in self.peaks.items()
            },
            "resident_mb": [
                {"seconds": seconds, "peak_mb": round(size / 1e6, 2)} for seconds, size in self.resident.items()
            ],
            "cold_start": self.cold.to_dict(),
            "memory": None if self.curve is None else self.curve.to_dict(),
        }


def run(
    bundle: Bundle,
    model: Path,
    sound: Sound,
    plan: Plan,
    *,
    others: Callable[[int], Sequence[tuple[str, Backend]]] = lambda _threads: (),
    done: Callable[[int], None] = lambda _rounds: None,
) -> Report:
    """Measure everything.

    bundle: that of the file `model`, which new processes read. others: back ends to compare with, by name, for so many
    threads; made when their turn comes. done: called with rounds that are over, plan.rounds in all. Raises
    CepstraError where a new process fails.
    """
    most = max(plan.threads)
    with tempfile.TemporaryDirectory() as folder:
        clips = {seconds: Path(folder) / f"{seconds:g}.wav" for seconds in plan.lengths}
        for seconds, path in clips.items():
            sound.write(path, seconds)
        curve = None
        if plan.memory:
            speech = Path(folder) / "speech.wav"
            sound.write(speech, len(sound.samples) / sound.rate)
            curve = curve_of_process(model, speech, plan.memory, threads=most, done=done)
        resident: dict[float, int] = {}
        for seconds, path in clips.items():
            resident[seconds] = peak_memory(model, path, most)
            done(1)
        cold = cold_start(
            model, clips[plan.cold_length], seconds=plan.cold_length, threads=most, runs=plan.cold_runs, done=done
        )
        latencies: list[Latency] = []
        best: dict[int, Mapping[Precision, float]] = {}
        for threads in plan.threads:
            best[threads] = peaks(threads)
            timed = [Timed(PLAIN, bundle, OnnxBackend(bundle, threads), threads)]
            timed += [Timed(name, bundle, backend, threads) for name, backend in others(threads)]
            for seconds, path in clips.items():
                latencies += measure(timed, path, seconds=seconds, runs=plan.runs, done=done)
    return Report(bundle, model, sound.name, machine(), tuple(latencies), best, resident, cold, curve)
