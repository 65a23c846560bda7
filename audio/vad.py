"""Where somebody speaks (Silero VAD 6.2, MIT licence, run by ONNX Runtime), in a recording and in a stream.

The network is the original one with its convolutions written as matrix products: see export.speech_detector.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from audio.errors import AudioError
from audio.speech import speech_power

if TYPE_CHECKING:
    from collections.abc import Iterator

Array = NDArray[np.float32]

MODEL = Path(__file__).parent / "silero_vad.onnx"
RATE = 16000  # Hz, the network's
CHUNK = 512  # samples (32 ms): a probability for each
CONTEXT = 64  # samples before a chunk that the network sees with it
BLOCK = 512  # chunks that are given to the network at once
LEAD = 16  # chunks of silence before a recording: the network misses words that start with the first sample
TAIL = 8  # and after it: it says "speech" a few chunks late
LOUDNESS = 10 ** (-23 / 10)  # mean power that sound is brought to: the network hardly hears what is faint
SILENCE = 1e-8  # mean power (-80 dBFS) below which no recording holds speech

# Chosen on development recordings: words and digits cut tightly, sentences of many speakers, and 40 minutes of noise
SPOKEN = 0.5  # probability of a chunk from which on somebody speaks
FADING = 0.3  # while somebody speaks, the end is where it falls below this
LEAST = 0.4  # a recording without a tenth of a second above this holds no speech
MARGIN_SECONDS = 0.5  # kept before and after speech
JOINED_SECONDS = 1.0  # gaps no longer than this are part of what is said
RELEASE_DB = 3.0  # per second, by which a stream's level follows sound that becomes quieter


@dataclass(frozen=True)
class Event:
    """Something that a stream has come to. Positions are samples from the stream's beginning."""

    kind: Literal["started", "ended"]
    position: int  # first sample of an utterance, or one past its last; a margin of quiet is included
    speech: int  # where speech itself starts or ends, to a chunk


def probabilities(samples: Array) -> Array:
    """Probability of speech in each chunk of a recording: (N,) at 16 kHz -> (ceil(N / CHUNK) + TAIL,), 0 … 1.

    The last TAIL of them come from silence put after the recording, since the network answers late. The level doesn't
    matter, nor does a constant offset; what lies beyond full scale is clipped. Empty for a recording without any sound.
    """
    samples = _clipped(samples)
    power = speech_power(samples, RATE)
    if power < SILENCE:
        return np.zeros(0, np.float32)
    count = -(-len(samples) // CHUNK)
    padded = np.zeros(CONTEXT + (count + TAIL) * CHUNK, np.float32)
    loudness = np.float32(math.sqrt(LOUDNESS / power))
    padded[CONTEXT : CONTEXT + len(samples)] = (samples - samples.mean()) * loudness
    return _Network(_after_silence())(padded)


def certainty(chunks: Array) -> float:
    """How surely there is speech among these: the highest mean of three neighbouring probabilities; 0.0 for none."""
    if not len(chunks):
        return 0.0
    width = min(3, len(chunks))
    return float(np.convolve(chunks, np.full(width, 1 / width), "valid").max())


def spans(chunks: Array, length: int) -> list[tuple[int, int]]:
    """Where somebody speaks, with margins: [(start, end), ...] in samples, in order and apart, end exclusive.

    chunks: probabilities of a recording; length: its samples. Gaps up to JOINED_SECONDS between spans are closed.
    Where there is any speech at all (certainty of LEAST), there is a span.
    """
    if certainty(chunks) < LEAST:
        return []
    highest = float(chunks.max())
    margin, gap = round(MARGIN_SECONDS * RATE), round(JOINED_SECONDS * RATE)
    found: list[tuple[int, int]] = []
    for first, last in _runs(chunks, min(SPOKEN, highest), FADING):
        start, end = max(0, min(first * CHUNK, length) - margin), min(length, last * CHUNK + margin)
        if found and start - found[-1][1] + 2 * margin <= gap:
            start, _ = found.pop()
        elif found:  # margins may meet, but are no one's twice
            start = max(start, found[-1][1])
        found.append((start, end))
    return found


def find_speech(samples: Array, sample_rate: int) -> tuple[list[tuple[int, int]], float]:
    """The spans of speech in a recording of any rate, in its samples, and how surely they are speech (0 … 1)."""
    if sample_rate == RATE:
        chunks = probabilities(samples)
        return spans(chunks, len(samples)), certainty(chunks)
    import soxr  # noqa: PLC0415  what has the detector's rate needs none

    chunks = probabilities(soxr.resample(samples, sample_rate, RATE))
    scale = sample_rate / RATE
    found = spans(chunks, math.ceil(len(samples) / scale))
    return [(round(a * scale), min(len(samples), round(b * scale))) for a, b in found], certainty(chunks)


class Endpointer:
    """Where utterances start and end in a stream at 16 kHz: the same whatever the sizes of the blocks it comes in.

    >>> endpointer = Endpointer(pause_seconds=0.5)
    >>> events = endpointer.feed(np.zeros(16000, np.float32))
    """

    def __init__(self, *, pause_seconds: float = 0.5, max_seconds: float = 30.0) -> None:
        """pause_seconds: without speech that end an utterance. max_seconds: after which it is ended in any case.

        Raises AudioError for a pause below 0.1 s or above max_seconds / 2.
        """
        if not 0.1 <= pause_seconds <= max_seconds / 2:
            raise AudioError(f"a pause of {pause_seconds:g} s: give 0.1 to {max_seconds / 2:g} s")
        self._network = _Network()
        self._pause = round(pause_seconds * RATE)
        self._longest = math.floor(max_seconds * RATE)
        self._margin = min(round(MARGIN_SECONDS * RATE), self._pause)
        self._waiting = np.zeros(CONTEXT, np.float32)  # the context of the next chunk, and what there is of that chunk
        self._level = 0.0
        self._done = 0  # samples that were judged
        self._start: int | None = None  # of the utterance that is being spoken
        self._spoken = 0  # where speech was last heard to end
        self._free = 0  # from where on samples belong to no utterance

    @property
    def level(self) -> float:
        """Mean power about which the stream is at present."""
        return self._level

    @property
    def needed(self) -> int:
        """The first sample that a coming event may still name; what lies before it can be forgotten."""
        return self._start if self._start is not None else max(self._free, self._done - self._margin - CHUNK)

    def feed(self, samples: Array) -> list[Event]:
        """What the stream comes to with these samples, (N,) of full scale ±1; what lies beyond that is clipped."""
        self._waiting = np.concatenate([self._waiting, _clipped(samples)])
        events: list[Event] = []
        at = 0
        while len(self._waiting) - at >= CONTEXT + CHUNK:
            events += self._judge(self._waiting[at : at + CONTEXT + CHUNK])
            at += CHUNK
        self._waiting = self._waiting[at:].copy()
        return events

    def finish(self) -> list[Event]:
        """The stream is over: what is being spoken ends here."""
        rest = len(self._waiting) - CONTEXT
        events = self.feed(np.zeros(CHUNK - rest, np.float32)) if rest else []
        total = self._done - (CHUNK - rest if rest else 0)
        events = [Event(e.kind, min(e.position, total), min(e.speech, total)) for e in events]
        if self._start is not None:
            events += self._end(min(total, self._spoken + self._margin), min(total, self._spoken))
        return events

    def _judge(self, window: Array) -> list[Event]:
        chunk = window[CONTEXT:]
        power = float(np.dot(chunk, chunk)) / CHUNK - float(chunk.mean()) ** 2
        self._level = max(power, self._level * 10 ** (-RELEASE_DB / 10 * CHUNK / RATE))
        begin = self._done
        self._done += CHUNK
        gain = math.sqrt(LOUDNESS / max(self._level, SILENCE))
        probability = float(self._network((window - window.mean()) * np.float32(gain))[0])
        if self._start is None:
            if probability >= SPOKEN:
                self._start, self._spoken = max(self._free, begin - self._margin), self._done
                return [Event("started", self._start, begin)]
            return []
        if probability >= FADING:
            self._spoken = self._done
        if self._done - self._spoken >= self._pause:
            return self._end(self._spoken + self._margin, self._spoken)
        if self._done - self._start > self._longest - CHUNK:
            return self._end(self._done, self._done)
        return []

    def _end(self, position: int, speech: int) -> list[Event]:
        self._start, self._free = None, position
        return [Event("ended", position, speech)]


class _Network:
    """The recurrent network, with its memory of what came before."""

    def __init__(self, memory: tuple[Array, Array] | None = None) -> None:
        """memory: of what came before; without it, nothing did."""
        self._session = _session()
        nothing = np.zeros((1, 1, 128), np.float32)
        self._hidden, self._cell = (nothing, nothing) if memory is None else memory

    def __call__(self, samples: Array) -> Array:
        """Probabilities of consecutive chunks, after the context: (CONTEXT + T CHUNK,) -> (T,)."""
        if len(samples) == CONTEXT + CHUNK:  # of a stream; making views of it would take a quarter of the time
            windows = samples[np.newaxis]
        else:
            windows = np.lib.stride_tricks.sliding_window_view(samples, CONTEXT + CHUNK)[::CHUNK]
        found: list[Array] = []
        for start in range(0, len(windows), BLOCK):
            block = np.ascontiguousarray(windows[start : start + BLOCK], np.float32)
            inputs = {"input": block, "h": self._hidden, "c": self._cell}
            chunks, self._hidden, self._cell = self._session.run(["speech_probs", "hn", "cn"], inputs)
            found.append(chunks)
        return np.concatenate(found)

    @property
    def memory(self) -> tuple[Array, Array]:
        """Of what it has heard."""
        return self._hidden, self._cell


@cache
def _after_silence() -> tuple[Array, Array]:
    """What the network remembers after LEAD chunks of silence: the same before each recording."""
    network = _Network()
    network(np.zeros(CONTEXT + LEAD * CHUNK, np.float32))
    return network.memory


@cache
def _session() -> Any:  # noqa: ANN401  ONNX Runtime has no types
    import onnxruntime  # noqa: PLC0415  a third of a second, and sound is read without it

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1  # the network is too small to be shared out
    options.enable_mem_pattern = options.enable_cpu_mem_arena = False  # what each length needs would be kept
    return onnxruntime.InferenceSession(str(MODEL), options, providers=["CPUExecutionProvider"])


def _clipped(samples: Array) -> Array:
    """What any recorder could have delivered: one absurd sample must not set the level of all others."""
    clipped: Array = np.clip(np.nan_to_num(samples, posinf=1, neginf=-1), -1, 1).astype(np.float32, copy=False)
    return clipped


def _runs(chunks: Array, above: float, until: float) -> Iterator[tuple[int, int]]:
    """Runs of chunks that reach `above` and go on, both ways, while they are not below `until`."""
    low = np.concatenate([[0], (chunks >= min(until, above)).astype(np.int8), [0]])
    edges = np.flatnonzero(np.diff(low))
    for first, last in zip(edges[::2], edges[1::2], strict=True):
        if chunks[first:last].max() >= above:
            yield int(first), int(last)
