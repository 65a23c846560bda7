"""A process that transcribes for the service: tasks come through a socket, answers go back the same way.

What it reads was sent by strangers. If that ends the process, or takes for ever, it costs one request.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import resource
import signal
import sys
import time
import traceback
import warnings
from collections import OrderedDict
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from asr.errors import AudioError, CepstraError, GuidanceError
from asr.judge import Judge
from asr.phrases import PhraseSet
from asr.phrases.check import check
from asr.phrases.findings import sentences
from asr.pieces import PIECE_SECONDS, cut
from asr.recognizer import Recognizer
from asr.service.errors import NO_ROOM, FullError, ServiceError, TooLargeError
from asr.service.work import Checked, CheckPhrases, Long, Manner, Open, Opened, Part, Ready, Setup, Timed, Transcribe
from audio.errors import AudioWarning, TooLongError
from audio.reading import SHORTER, audio_info, read_audio, too_long

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from asr.results import Result
    from asr.service.transcriber import Sound
    from asr.service.work import Task
    from asr.timing import Piece

T = TypeVar("T")

MANNERS = 8  # made ready, that are remembered
SAMPLES = 8  # sentences of a phrase file that are shown
UNWORKABLE = "this recording can't be worked on; if others can, send it to whoever looks after the service"
NO_MEMORY = ServiceError("not enough memory for this; send less at once")
MOST_WORDS, MOST_CHARACTERS = 1000, 100_000  # of a phrase file whose sentences are compared with each other
UNEXAMINED = "too large to be examined here; `cepstra phrases check` finds what sounds alike or means two things"
_DIE_WITH_PARENT = 1  # prctl's PR_SET_PDEATHSIG


@dataclass(frozen=True)
class _Clip:
    """A short recording."""

    samples: NDArray[np.float32]
    warnings: tuple[str, ...] = ()


def main() -> None:
    """`python -c … DESCRIPTOR`: the socket is inherited. Ends when the other end does."""
    for each in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):  # whoever started it decides, also where all are told
        signal.signal(each, signal.SIG_IGN)
    if sys.platform == "linux":  # also while it is at something that never ends
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # libraries print what they like
    with Connection(int(sys.argv[1])) as connection:
        try:
            worker = Worker(connection.recv())
        except CepstraError as error:
            connection.send(Timed(error))
            return
        try:
            connection.send(Timed(worker.ready))
            while True:
                connection.send(worker.answer(connection.recv()))
        except (EOFError, ConnectionError):
            return


class Worker:
    """A recogniser and what it was lately held to."""

    def __init__(self, setup: Setup) -> None:
        os.nice(setup.niceness)
        if setup.memory_bytes:
            resource.setrlimit(resource.RLIMIT_DATA, (setup.memory_bytes, setup.memory_bytes))
        warnings.simplefilter("ignore")  # nobody sees them; what is said of a recording goes into its answer
        self._recognizer = Recognizer(
            setup.bundle, threads=setup.threads, beam=setup.beam, max_seconds=setup.max_seconds
        )
        self._max_seconds = setup.max_seconds
        self._digest = hashlib.sha256(setup.bundle.read_bytes()).hexdigest()[:16]
        self._rate = self._recognizer.bundle.front_end.sample_rate
        self._manners: OrderedDict[Manner, Recognizer] = OrderedDict()
        self._seconds: dict[str, float] = {}
        self._recognizer.transcribe(np.zeros(self._rate, np.float32))  # ONNX Runtime plans at the first run

    @property
    def ready(self) -> Ready:
        """What it says when it has started."""
        bundle = self._recognizer.bundle
        return Ready(bundle.name, bundle.language, self._rate, self._digest, Judge.of(bundle).threshold)

    def answer(self, task: Task) -> Timed:
        """Whatever happens."""
        self._seconds = {}
        self._faults: list[str] = []
        answers: Mapping[type, Callable[[Any], Any]] = {
            Transcribe: self._transcribe, Open: self._open, Part: self._part, CheckPhrases: self._check
        }  # fmt: skip
        try:
            answer: Any = answers[type(task)](task)
        except CepstraError as error:
            answer = error
        except MemoryError:
            answer = NO_MEMORY
        except OSError as error:
            answer = _of_disk(error)
        except Exception:  # noqa: BLE001  a library's, that isn't documented: one request fails, and no worker ends
            answer = self._fault()
        return Timed(answer, self._seconds, tuple(self._faults))

    def _fault(self) -> ServiceError:
        """What is answered, and a traceback for the log."""
        self._faults.append(traceback.format_exc())
        return ServiceError(UNWORKABLE)

    def _transcribe(self, task: Transcribe) -> list[Result | Long | CepstraError]:
        recognizer = self._manner(task.manner)
        sounds = self._timed("read", lambda: [self._short(sound) for sound in task.sounds])
        clips = [sound for sound in sounds if isinstance(sound, _Clip)]
        results = iter(self._timed("decode", lambda: self._each(recognizer, clips)))
        return [next(results) if isinstance(sound, _Clip) else sound for sound in sounds]

    def _short(self, sound: Sound) -> _Clip | Long | CepstraError:
        if isinstance(sound, np.ndarray):
            return _Clip(sound)
        try:
            if self._duration(sound) > PIECE_SECONDS:
                return Long()
            clip = self._read(sound)
        except CepstraError as error:
            return _without_path(error, sound)
        except Exception as error:  # noqa: BLE001  the others of its batch are none the worse for it
            return NO_MEMORY if isinstance(error, MemoryError) else self._fault()
        return Long() if len(clip.samples) > PIECE_SECONDS * self._rate else clip

    def _each(self, recognizer: Recognizer, clips: list[_Clip]) -> list[Result | CepstraError]:
        """Together, or one by one, where together they fail, so that what is at fault takes nothing with it."""
        try:
            results = recognizer.transcribe([clip.samples for clip in clips])
            return [replace(result, warnings=clip.warnings) for clip, result in zip(clips, results, strict=True)]
        except Exception as error:  # noqa: BLE001  as in `answer`
            if len(clips) > 1:
                return [answer for clip in clips for answer in self._each(recognizer, [clip])]
            if isinstance(error, MemoryError):
                return [NO_MEMORY]
            return [error if isinstance(error, CepstraError) else self._fault()]

    def _duration(self, sound: Path) -> float:
        """As the header states it. Raises AudioError."""
        seconds = audio_info(sound).duration
        if seconds > self._max_seconds:
            raise too_long(str(sound), f"{seconds:,.2f} s", self._max_seconds)
        return seconds

    def _read(self, sound: Path) -> _Clip:
        with warnings.catch_warnings(record=True, action="always", category=AudioWarning) as caught:
            samples = read_audio(sound, sample_rate=self._rate, max_seconds=self._max_seconds)
        said = (_nameless(str(warning.message), sound) for warning in caught)
        return _Clip(samples, tuple(dict.fromkeys(said)))

    def _open(self, task: Open) -> Opened:
        try:
            self._duration(task.sound)
            clip = self._timed("read", lambda: self._read(task.sound))
        except CepstraError as error:
            raise _without_path(error, task.sound) from None
        with task.samples.open("r+b") as file:  # not there any more: nobody waits for it
            file.write(clip.samples.data)
        return Opened(len(clip.samples) / self._rate, tuple(cut(clip.samples, self._rate)), clip.warnings)

    def _part(self, task: Part) -> list[tuple[float, Piece]]:
        recognizer = self._manner(task.manner)
        pieces = [
            (start, np.fromfile(task.samples, np.float32, end - start, offset=4 * start)) for start, end in task.pieces
        ]
        return self._timed("decode", lambda: recognizer.transcribe_pieces(pieces))

    def _check(self, task: CheckPhrases) -> Checked:
        bundle = self._recognizer.bundle
        phrases = PhraseSet.parse(task.text, task.name, bundle.language)
        if len(task.text) <= MOST_CHARACTERS and len(phrases.words) <= MOST_WORDS:
            surprises = sentences(check(phrases, bundle.tokenizer, samples=0))  # which compiles them
        else:
            self._recognizer.sharing(phrases=phrases)
            surprises = (UNEXAMINED,)
        samples = tuple(phrases.samples(SAMPLES))
        return Checked(phrases.sentences, phrases.intents, len(phrases.words), samples, surprises)

    def _manner(self, manner: Manner) -> Recognizer:
        if manner == Manner():
            return self._recognizer
        if manner.phrases and manner.threshold is not None:  # another one of what takes long to make
            return self._manner(replace(manner, threshold=None)).at_threshold(manner.threshold)
        if manner not in self._manners:
            self._manners[manner] = self._timed("compile", lambda: self._made(manner))
            if len(self._manners) > MANNERS:
                self._manners.popitem(last=False)
        self._manners.move_to_end(manner)
        return self._manners[manner]

    def _made(self, manner: Manner) -> Recognizer:
        if manner.phrases:
            phrases = PhraseSet.parse(manner.phrases, manner.name, self._recognizer.bundle.language)
            return self._recognizer.sharing(phrases=phrases)
        boost = dict(manner.boost)
        if manner.lenient:
            boost = {phrase: weight for phrase, weight in boost.items() if self._can_boost(phrase, weight)}
        return self._recognizer.sharing(boost=boost) if boost else self._recognizer

    def _can_boost(self, phrase: str, weight: float) -> bool:
        try:
            self._recognizer.sharing(boost={phrase: weight})
        except GuidanceError:
            return False
        return True

    def _timed(self, stage: str, work: Callable[[], T]) -> T:
        began = time.monotonic()
        try:
            return work()
        finally:
            self._seconds[stage] = self._seconds.get(stage, 0.0) + time.monotonic() - began


def _of_disk(error: OSError) -> ServiceError:
    if error.errno in NO_ROOM:
        return FullError("the service has no room for this; try again later")
    return ServiceError(f"the service can't keep this on its disk ({error.strerror}); try again later")


def _without_path(error: CepstraError, sound: Path) -> CepstraError:
    """The same words, but whoever sent it knows only the form's field, and nothing of the service's files."""
    if not isinstance(error, AudioError):
        return error
    message = _nameless(str(error), sound)
    if isinstance(error, TooLongError):
        return TooLargeError(message.replace(SHORTER, "send it in parts"), param="file")
    return AudioError(message)


def _nameless(message: str, sound: Path) -> str:
    return message.replace(str(sound), "file")
