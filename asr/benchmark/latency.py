"""How long a recording takes, warm, from its file to its text, and which stage has how much of it."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import soxr

from asr.benchmark.flops import seconds_at, work_of
from asr.benchmark.trace import TimedBackend, spans
from asr.hearing import looks_beside, speech_in
from asr.pieces import cut
from asr.recognizer import Recognizer
from audio.reading import audio_info, read_audio

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from asr.benchmark.flops import Precision
    from asr.benchmark.trace import Call
    from asr.bundle import Bundle
    from asr.search.backend import Backend

STAGES = ("read", "resample", "speech", "encoder", "decoder", "search", "words")
WARM_UP = 3  # runs that aren't counted


class Timed:
    """A recogniser with a clock in it."""

    def __init__(self, name: str, bundle: Bundle, backend: Backend, threads: int) -> None:
        """name: of the back end; threads: those it was made with."""
        self.name = name
        self.bundle = bundle
        self.backend = TimedBackend(backend)
        self.threads = threads
        self.recognizer = Recognizer(bundle, backend=self.backend, threads=threads)

    def run(self, path: Path) -> Run:
        """Transcribe a file once."""
        self.backend.calls = []
        start = time.perf_counter()
        result = self.recognizer.transcribe(path)
        end = time.perf_counter()
        calls = self.backend.calls
        found = spans(calls, start, end)
        stages = front_stages(path, self.bundle.front_end.sample_rate, self.threads)
        stages |= {name: getattr(found, name) for name in ("encoder", "decoder", "search", "words")}
        return Run(end - start, stages, tuple(calls), result.text)


@dataclass(frozen=True)
class Run:
    """One transcription."""

    seconds: float
    stages: dict[str, float]  # seconds of each of STAGES
    calls: tuple[Call, ...]
    text: str


@dataclass(frozen=True)
class Latency:
    """Many runs over one clip, one after the other."""

    backend: str
    threads: int
    seconds: float  # of sound
    runs: tuple[Run, ...]

    @property
    def median(self) -> float:
        """Seconds from file to text."""
        return statistics.median(run.seconds for run in self.runs)

    @property
    def fastest(self) -> float:
        """Seconds of the run that was disturbed least."""
        return min(run.seconds for run in self.runs)

    @property
    def p95(self) -> float:
        """Seconds that 95 of 100 runs don't exceed."""
        return float(np.percentile([run.seconds for run in self.runs], 95))

    @property
    def stages(self) -> dict[str, float]:
        """Median seconds of each stage, and the rest, with which they are the whole."""
        medians = {name: statistics.median(run.stages[name] for run in self.runs) for name in STAGES}
        return {**medians, "rest": self.median - sum(medians.values())}

    @property
    def steps(self) -> int:
        """Of the decoder, each of which reads one token or several at once."""
        return sum(call.kind == "step" for call in self.runs[0].calls)

    @property
    def tokens(self) -> int:
        """That the decoder read in all steps, those that weren't written in the end among them."""
        return sum(call.tokens * len(call.sizes) for call in self.runs[0].calls if call.kind == "step")

    @property
    def decoded(self) -> list[int]:
        """Samples of each piece that the encoder was given: where somebody speaks."""
        return [size for call in self.runs[0].calls if call.kind == "encode" for size in call.sizes]

    def shares(self, bundle: Bundle, peaks: Mapping[Precision, float]) -> dict[str, float | None]:
        """How much of the machine's peak encoder and decoder reach: the time at peak, by the time of the fastest run.

        The peak is that of the fastest product, and what else a busy machine does is no fault of the model's.
        """
        found: dict[str, float | None] = {}
        for stage, work in zip(("encoder", "decoder"), work_of(self.runs[0].calls, bundle), strict=True):
            fastest = min(run.stages[stage] for run in self.runs)
            found[stage] = seconds_at(work, peaks) / fastest if fastest else None
        return found

    def to_dict(self, bundle: Bundle, peaks: Mapping[Precision, float] | None) -> dict[str, Any]:
        """As JSON holds it; without peaks there are no shares of them."""
        encoder, decoder = work_of(self.runs[0].calls, bundle)
        stages = self.stages
        found: dict[str, Any] = {
            "backend": self.backend,
            "threads": self.threads,
            "seconds": self.seconds,
            "pieces": len(self.decoded),
            "decoded_seconds": round(sum(self.decoded) / bundle.front_end.sample_rate, 3),
            "decoder_steps": self.steps,
            "decoder_tokens": self.tokens,
            "runs": len(self.runs),
            "fastest_ms": _ms(self.fastest),
            "median_ms": _ms(self.median),
            "p95_ms": _ms(self.p95),
            "real_time_factor": round(self.median / self.seconds, 5),
            "stages_ms": {name: _ms(value) for name, value in stages.items()},
            "decoder_step_ms": _ms(stages["decoder"] / self.steps) if self.steps else None,
            "decoder_token_ms": _ms(stages["decoder"] / self.tokens) if self.tokens else None,
            "operations": {"encoder": dict(encoder), "decoder": dict(decoder)},
            "text": self.runs[0].text,
        }
        if peaks is not None:
            found["share_of_peak"] = {
                name: None if share is None else round(share, 4) for name, share in self.shares(bundle, peaks).items()
            }
        return found


def front_stages(path: Path, rate: int, threads: int) -> dict[str, float]:
    """Seconds that reading a file, resampling it and looking for speech take, each by itself, as recognisers do it.

    Looking for speech takes none where another thread does it while the sound is encoded.
    """
    own = audio_info(path).sample_rate
    start = time.perf_counter()
    samples = read_audio(path, sample_rate=own)
    read = time.perf_counter()
    if own != rate:
        samples = soxr.resample(samples, own, rate)
    resampled = time.perf_counter()
    pieces = [samples[first:last] for first, last in cut(samples, rate)]
    stages = {"read": read - start, "resample": resampled - read, "speech": 0.0}
    if not looks_beside(pieces, rate, threads):
        looking = time.perf_counter()
        for piece in pieces:
            speech_in(piece, rate, detect=True)
        stages["speech"] = time.perf_counter() - looking
    return stages


def measure(
    timed: Sequence[Timed],
    path: Path,
    *,
    seconds: float,
    runs: int,
    done: Callable[[int], None] = lambda _rounds: None,
) -> list[Latency]:
    """Each of these recognisers over one file, in turn, so that what disturbs one disturbs all.

    seconds: the file's length. done: called with 1 after each round.
    """
    found: list[list[Run]] = [[] for _ in timed]
    for number in range(WARM_UP + runs):
        for recognizer, kept in zip(timed, found, strict=True):
            run = recognizer.run(path)
            if number >= WARM_UP:
                kept.append(run)
        done(1)
    return [
        Latency(recognizer.name, recognizer.threads, seconds, tuple(kept))
        for recognizer, kept in zip(timed, found, strict=True)
    ]


def ratio(latency: Latency, reference: Latency) -> float:
    """How many times as long as the reference it takes: the median over the rounds that both ran in."""
    pairs = zip(latency.runs, reference.runs, strict=True)
    return statistics.median(run.seconds / other.seconds for run, other in pairs)


def _ms(seconds: float) -> float:
    return round(1000 * seconds, 4)
