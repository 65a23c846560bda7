"""Live: utterances out of a stream of sound, each answered when it has ended."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import time
import warnings
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import soxr
from numpy.typing import NDArray

from asr.errors import AudioError, CepstraError, ConfigError
from asr.inflow import PcmInflow
from asr.utterances import BLOCK_SECONDS, Began, Spoken, Utterances
from audio.errors import AudioWarning
from audio.identify import is_wave
from audio.reading import read_audio
from audio.riff import wave_extent
from audio.sources import Window, unusable
from audio.vad import RATE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from asr.phrases import PhraseSet
    from asr.recognizer import Recognizer
    from asr.results import Result
    from audio.pcm import RawFormat

Array = NDArray[np.float32]

MOST_RUNNING = 8  # commands of --on-command at once
LONGEST_WAIT = 5.0  # seconds, for all of them together, at the end
LARGEST_HEADER = 1 << 20  # bytes
LARGEST_BLOCK = 1 << 20  # bytes read at once: a header may claim 65535 channels at 384 kHz
ENDLESS = 0x7FFFF000  # a size of a stream's samples from which on it is unknown: recorders write 2 or 4 GiB


@dataclass(frozen=True)
class Heard:
    """One utterance of a stream."""

    result: Result  # its times count from the start of the utterance
    start: float  # seconds of the stream
    end: float
    decoding: float  # seconds that the answer took
    latency: float  # seconds from the end of speech to the answer: what the pause lasted, and decoding

    @classmethod
    def of(cls, spoken: Spoken, result: Result, decoding: float) -> Heard:
        """What was heard in the sound of an utterance, which took so many seconds to decode."""
        return cls(result, spoken.start, spoken.end, decoding, spoken.waited + decoding)

    def to_dict(self) -> dict[str, Any]:
        """As a line of JSON: times of words and segments count from the start of the stream."""
        fields = self.result.to_dict()
        del fields["audio_filepath"], fields["no_speech"], fields["seconds_cut"]
        for each in (*fields["words"], *fields["segments"], *fields.get("commands", ())):
            each["start"], each["end"] = round(each["start"] + self.start, 3), round(each["end"] + self.start, 3)
        times = {"start": self.start, "end": self.end, "latency": self.latency, "decoding": self.decoding}
        return {name: round(value, 3) for name, value in times.items()} | fields


class Listener:
    """Takes a stream apart into utterances and has each recognised; holds no more than one utterance."""

    def __init__(self, recognizer: Recognizer, *, pause_seconds: float = 0.5) -> None:
        """Raises AudioError for a pause that can't be, ConfigError for a model of another sample rate than 16 kHz."""
        rate = recognizer.bundle.front_end.sample_rate
        if rate != RATE:
            raise ConfigError(f"the model wants {rate} Hz, but a stream is listened to at {RATE} Hz; use another model")
        self._recognizer = recognizer
        self._utterances = Utterances(pause_seconds=pause_seconds)

    @property
    def level(self) -> float:
        """Mean power about which the stream is at present."""
        return self._utterances.level

    @property
    def held(self) -> int:
        """Samples that are in memory."""
        return self._utterances.held

    def feed(self, samples: Array) -> Iterator[Heard]:
        """What was said until these samples, (N,) at 16 kHz; utterances in which nothing was said are left out."""
        yield from self._answers(self._utterances.feed(samples))

    def finish(self) -> Iterator[Heard]:
        """The stream is over."""
        yield from self._answers(self._utterances.finish())

    def _answers(self, events: Iterable[Began | Spoken]) -> Iterator[Heard]:
        for spoken in events:
            if isinstance(spoken, Began):
                continue
            began = time.monotonic()
            result = self._recognizer.transcribe(spoken.samples)
            if not result.no_speech and (result.text or result.meaning):
                yield Heard.of(spoken, result, time.monotonic() - began)


def blocks_of(stream: BinaryIO, raw: RawFormat | None, name: str) -> Iterator[Array]:
    """Mono sound at 16 kHz, as it comes: of a WAV file, or of samples without a header.

    raw: what those are; without it, a header of WAV must come first. Raises AudioError for whatever is neither.
    """
    if raw is not None:
        return _blocks(stream, raw, name, remedy="check the format that --raw states")
    form, rest, left = _header(stream, name)
    return _blocks(stream, form, name, rest=rest, left=left)


def blocks_of_file(file: BinaryIO, name: str) -> Iterator[Array]:
    """Mono sound at 16 kHz of a file of any kind: WAV bit by bit, however long it is; others whole, an hour at most.

    Raises AudioError where it can't be read, warns with AudioWarning where it holds less than it promises.
    """
    window = Window(file, 0, file.seek(0, os.SEEK_END), name)
    if is_wave(window.at(0, 12)) and (extent := wave_extent(window)) is not None:
        for warning in extent.warnings:
            warnings.warn(f"{name}: {warning}", AudioWarning, stacklevel=2)
        file.seek(extent.start)
        yield from _blocks(file, extent.format, name, left=extent.size)
        return
    file.seek(0)
    try:
        yield read_audio(file)
    except AudioError as error:
        remedy = "or convert it to WAV, which may be of any length"
        message = str(error).replace("read a part (offset, duration) or raise max_seconds", remedy)
        raise AudioError(message) from None


def _blocks(
    stream: BinaryIO,
    form: RawFormat,
    name: str,
    *,
    rest: bytes = b"",
    left: int | None = None,
    remedy: str = "give 16-bit PCM",
) -> Iterator[Array]:
    """Samples of that format, mono at 16 kHz. rest: bytes of them that were read; left: how many there are, in all."""
    inflow = PcmInflow(form, name, remedy=remedy)
    read: Callable[[int], bytes] = getattr(stream, "read1", stream.read)  # what is there, rather than a full block
    size = max(1, min(round(BLOCK_SECONDS * form.sample_rate), LARGEST_BLOCK // form.block)) * form.block
    data = rest
    warned = False
    while data or (data := read(size)):
        if left is not None:
            data, left = data[:left], max(0, left - len(data))
        for samples in inflow.feed(data):
            if inflow.warning is not None and not warned:
                warnings.warn(inflow.warning, AudioWarning, stacklevel=2)
                warned = True
            yield samples
        data = b""
        if left == 0:
            break
    yield from inflow.finish()


def _header(stream: BinaryIO, name: str) -> tuple[RawFormat, bytes, int | None]:
    """Of a WAV stream: what its samples are, the first bytes of them, and how many there will be, if that is told."""
    head = _take(stream, 12)
    if not head:
        raise unusable(name, "empty (0 bytes)", "record or copy it again")
    if not is_wave(head):
        raise AudioError(f"{name}: not a WAV stream; state the format of samples without a header with --raw")
    while (chunk := _take(stream, 8))[:4] != b"data":
        size = int.from_bytes(chunk[4:], "big" if head[:4] == b"RIFX" else "little")
        if len(chunk) < 8 or len(head) + size > LARGEST_HEADER:
            raise AudioError(f"{name}: a damaged WAV header; send it again, or state --raw")
        head += chunk + _take(stream, size + size % 2)
    first = _take(stream, 64)
    more = bytes(LARGEST_BLOCK) if len(first) == 64 else b""  # a frame of many channels is longer than that
    whole = head + chunk + first + more
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AudioWarning)
        extent = wave_extent(Window(BytesIO(whole), 0, len(whole), name))
    if extent is None:
        raise AudioError(f"{name}: compressed WAV; send PCM, such as PCM_16")
    claimed = int.from_bytes(chunk[4:], "big" if head[:4] == b"RIFX" else "little")
    return extent.format, first, None if claimed == 0 or claimed >= ENDLESS else claimed


def _take(stream: BinaryIO, count: int) -> bytes:
    """So many bytes, or fewer where the stream ends."""
    data = b""
    while len(data) < count and (more := stream.read(count - len(data))):
        data += more
    return data


def microphone(device: str | None) -> Iterator[Array]:
    """Sound of an input device (its number or a part of its name; None is the default), mono at 16 kHz, without end.

    Raises CepstraError where there is no such device, no PortAudio, or the device goes away.
    """
    try:
        import sounddevice  # noqa: PLC0415  an extra
    except ImportError:
        raise CepstraError("a microphone needs sounddevice; run: pip install 'cepstra[listen]'") from None
    except OSError:  # sounddevice is there, the library below it isn't
        raise CepstraError("PortAudio is missing; install it (Debian: apt install libportaudio2)") from None
    chosen = int(device) if device is not None and device.isdecimal() else device
    try:
        rate = float(sounddevice.query_devices(chosen, "input")["default_samplerate"])  # few take all
        resampler = soxr.ResampleStream(rate, RATE, 1, dtype="float32")
        count = round(BLOCK_SECONDS * rate)
        with sounddevice.InputStream(rate, count, chosen, 1, "float32") as stream:
            while True:
                samples, _overflowed = stream.read(count)
                yield resampler.resample_chunk(samples[:, 0])
    except (sounddevice.PortAudioError, ValueError) as error:
        remedy = "name another with --device; `python -m sounddevice` lists them"
        reason = " ".join(str(error).split())
        raise CepstraError(f"--device {device or 'default'}: {reason}; plug it in, or {remedy}") from None


class Reaction:
    """Runs a program for each command, without a shell and without waiting for it."""

    def __init__(self, command: str, complain: Callable[[str], None]) -> None:
        """command: split as a shell would, but run without one.

        Raises ConfigError where it can't be split, or there is no such program.
        """
        try:
            self._words = shlex.split(command)
        except ValueError as error:
            reason = str(error)[:1].lower() + str(error)[1:]
            raise ConfigError(f"{command!r}: {reason}; close every quotation, and double every backslash") from None
        if not self._words or not self._words[0]:
            raise ConfigError(f"{command!r}: names no program; give one, and its arguments")
        if shutil.which(self._words[0]) is None:
            remedy = "give its path, and make it executable (chmod +x)"
            raise ConfigError(f"{self._words[0]!r}: no such program; {remedy}")
        self._complain = complain
        self._running: list[subprocess.Popen[bytes]] = []

    def __call__(self, heard: Heard) -> None:
        """Start it for each command in order, or for a free text, told by its environment; faults are said, no more."""
        for told in environments(heard):
            self.check()
            if len(self._running) >= MOST_RUNNING:
                self._complain(f"--on-command: {MOST_RUNNING} are still running; not run for {told['CEPSTRA_TEXT']!r}")
            else:
                self._start(told)

    def _start(self, told: dict[str, str]) -> None:
        try:
            self._running.append(
                subprocess.Popen(
                    self._words,
                    env={**_inherited(), **told},
                    stdin=subprocess.DEVNULL,
                    stdout=sys.__stderr__,  # standard output is for what was heard
                )
            )
        except (OSError, ValueError) as error:
            self._complain(f"--on-command: {self._words[0]}: {getattr(error, 'strerror', None) or error}")

    def check(self) -> None:
        """Say which have failed since."""
        for process in [each for each in self._running if each.poll() is not None]:
            self._running.remove(process)
            if process.returncode:
                self._complain(f"--on-command: {self._words[0]}: ended with exit code {process.returncode}")

    def finish(self) -> None:
        """Wait a moment for those that run; what still runs then, or at Ctrl-C, is left to itself."""
        deadline = time.monotonic() + LONGEST_WAIT
        try:
            for process in self._running:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=max(0.0, deadline - time.monotonic()))
        finally:
            self.check()
            if self._running:
                self._complain(f"--on-command: {self._words[0]}: {len(self._running)} still running at the end")


def environments(heard: Heard) -> Iterator[dict[str, str]]:
    """What a program is told of each command: CEPSTRA_TEXT, _CONFIDENCE, _INTENT, _SLOT_NAME, and the line as _JSON.

    Of free text the first two and the line; of an utterance that was compared with phrases and holds none, nothing.
    """
    result = heard.result
    line = json.dumps(heard.to_dict(), ensure_ascii=False)
    if result.meaning is None:
        yield _told(result.text, result.confidence, line)
    for said in result.commands:
        slots = {_variable(name): str(value) for name, value in said.command.slots.items()}
        yield _told(said.command.sentence, said.confidence, line, CEPSTRA_INTENT=said.command.intent, **slots)


def _told(text: str, confidence: float, line: str, **more: str) -> dict[str, str]:
    variables = {"CEPSTRA_TEXT": text, "CEPSTRA_CONFIDENCE": f"{confidence:.3f}", "CEPSTRA_JSON": line, **more}
    return {name: value.replace("\0", " ") for name, value in variables.items()}


def check_variables(phrases: PhraseSet) -> None:
    """ConfigError where two slots of a sentence would become the same variable, of which a program saw but one."""
    for intent, sentences in phrases.grammar.intents.items():
        for sentence in sentences:
            slots: dict[str, str] = {}
            for name in sentence.node.facts.slots:
                variable = _variable(name)
                other = slots.setdefault(variable, name)
                if other != name:
                    fault = f"its slots {other!r} and {name!r} would both be {variable} of --on-command"
                    raise ConfigError(f"{phrases.file_of(intent)}: intent {intent!r}: {fault}; rename one")


def _variable(slot: str) -> str:
    return f"CEPSTRA_SLOT_{''.join(sign if sign.isalnum() else '_' for sign in slot).upper()}"


def _inherited() -> dict[str, str]:
    """Without what an outer command was told."""
    return {name: value for name, value in os.environ.items() if not name.startswith("CEPSTRA_")}
