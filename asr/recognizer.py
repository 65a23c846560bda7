"""From sound to text with a bundle: what the caller uses. No torch.

>>> recognizer = Recognizer()  # the model that ships
>>> recognizer.transcribe("lights.wav").text
'turn on the lights'
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar, overload

import numpy as np

from asr import given
from asr.beside import Beside
from asr.bundle import Bundle, read_bundle
from asr.errors import AudioError, CepstraError, ConfigError
from asr.hearing import UNTAUGHT, Ear, Speech, evidence_of_speech, looks_beside, speech_in
from asr.manifest.records import Utterance
from asr.pieces import BATCH_SECONDS, PIECE_SECONDS, WINDOW_SECONDS, batches, breaths, cut, windows
from asr.runtime import OnnxBackend
from asr.search import CTC_WEIGHT, SearchOptions, decode
from asr.source import Source, checked, is_quick, name_of
from asr.timing import Piece, assemble
from audio.reading import RawFormat, read_sound

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from os import PathLike

    from numpy.typing import NDArray

    from asr.commands import Meaning
    from asr.guidance import BoostSource, LmSource
    from asr.held import Held, Phrases
    from asr.results import Result
    from asr.search import Backend, Guide, Hypothesis, Memory
    from audio.speech import Sound

AnySource = TypeVar("AnySource", bound=Source)

DEFAULT_BUNDLE = Path(__file__).parent / "bundles" / "en-commands.cepstra"
DEFAULT_WEIGHTS = DEFAULT_BUNDLE.with_suffix(".safetensors")  # of the same model, to train on from
SHIPPED = "the one that ships with Cepstra"  # what it is called where a path stands otherwise
GROUP_FILES = 8  # so many short recordings, or a batch full of sound, are read before any of them is decoded
MOST_THREADS = 1024
SURE = 0.9  # confidence from which a command is no two
WIDEST_BEAM = 64  # a wider one finds nothing better, and would search for minutes


class Interrupted(KeyboardInterrupt):
    """Ctrl-C in the middle of a long recording, with what was heard of it until then."""

    def __init__(self, result: Result) -> None:
        """result: its duration is that of the sound that was transcribed."""
        super().__init__()
        self.result = result


@dataclass(frozen=True)
class _Clip:
    """A recording, read."""

    name: str | None
    samples: Sound


class Recognizer:
    """Transcribes. One may be used by several threads at once."""

    def __init__(
        self,
        bundle: str | PathLike[str] | Bundle | None = None,
        *,
        threads: int = 2,
        beam: int = 1,
        ctc_weight: float | None = None,
        max_seconds: float = 3600.0,
        raw: RawFormat | None = None,
        channel: int | None = None,
        phrases: Phrases | Mapping[str, Phrases] | None = None,
        threshold: float | None = None,
        lm: LmSource | None = None,
        lm_weight: float | None = None,
        boost: BoostSource | None = None,
        speech_detection: bool = True,
        backend: Backend | None = None,
    ) -> None:
        """bundle: a path, or one that was read; None is the model that ships. What is read here is kept without graphs.

        threads: of the CPU; with more than one, a short recording is looked through for speech while it is encoded
        already. beam: hypotheses kept, 1 is greedy. ctc_weight: CTC's share in the score, 0 to 1;
        None is 0.3; without any, greedy decoding of a young model errs by whole phrases. max_seconds: longer
        recordings are refused. raw: how to read headerless samples. channel: which to take; None mixes all of them.
        phrases: what may be said, a phrase file, one that was read, or a list of sentences: the command meant is
        looked for in place of free text, with a beam of 8 at least. Or several by name, of which each call may name
        one. threshold: the least confidence, 0 to 1, that makes a command; None is the bundle's own.
        lm, lm_weight: a language model that has a say in free text (a file of `cepstra lm train`, or one that was
        read), and how much of one. boost: a file of words and phrases to expect, or these with their weights.
        speech_detection: decode only where somebody speaks; without it, whatever sounds is taken for words.
        backend: what runs the model in place of the bundle's graphs, with threads of its own.
        Raises BundleError where the bundle can't be used, ConfigError for a setting out of range or of another type,
        PhrasesError for a phrase file with faults, GuidanceError for a language model or boost file that can't be used.
        """
        self._threads = given.whole_number("threads", threads, 1, MOST_THREADS)
        beam = given.whole_number("beam", beam, 1, WIDEST_BEAM)
        share = CTC_WEIGHT if ctc_weight is None else given.number("ctc_weight", ctc_weight, 0, 1, ", or None")
        self._max_seconds = given.seconds("max_seconds", max_seconds)
        self._raw: RawFormat | None = given.instance("raw", raw, RawFormat, "give a RawFormat, or None")
        self._channel = None if channel is None else given.whole_number("channel", channel, 0, otherwise=", or None")
        self._detects = given.switch("speech_detection", speech_detection)
        read_here = not isinstance(bundle, Bundle)
        if not isinstance(bundle, Bundle):
            wanted = "give the path of a bundle, one that was read, or None"
            bundle = read_bundle(Path(DEFAULT_BUNDLE if bundle is None else given.path("bundle", bundle, wanted)))
        self.options = SearchOptions(beam=beam, ctc_weight=share)
        given.having("backend", backend, ("encode", "step"))
        self._backend: Backend = OnnxBackend(bundle, self._threads) if backend is None else backend
        self.bundle = bundle.without_graphs() if read_here else bundle
        self._hold(phrases, threshold, lm, lm_weight, boost)
        self._ear = Ear.of(self.bundle)

    def sharing(
        self,
        *,
        phrases: Phrases | Mapping[str, Phrases] | None = None,
        threshold: float | None = None,
        lm: LmSource | None = None,
        lm_weight: float | None = None,
        boost: BoostSource | None = None,
    ) -> Recognizer:
        """Another one of the same model and settings, but held to or guided by something else.

        The model is in memory once, however many share it. Raises what the constructor does.
        """
        other = copy(self)
        other._hold(phrases, threshold, lm, lm_weight, boost)  # noqa: SLF001  one of ours
        return other

    def at_threshold(self, threshold: float) -> Recognizer:
        """Another one that is held to the same phrases, but takes a command from this confidence on, 0 to 1."""
        threshold = given.number("threshold", threshold, 0, 1)
        other = copy(self)
        at = {name: replace(held, judge=replace(held.judge, threshold=threshold)) for name, held in self._held.items()}
        other._held = at  # noqa: SLF001  one of ours
        return other

    def _hold(
        self,
        phrases: Phrases | Mapping[str, Phrases] | None,
        threshold: float | None,
        lm: LmSource | None,
        lm_weight: float | None,
        boost: BoostSource | None,
    ) -> None:
        if threshold is not None:
            threshold = given.number("threshold", threshold, 0, 1, ", or None")
        self._held: dict[str, Held] = {}
        self._alone = phrases is not None and not isinstance(phrases, Mapping)
        if phrases is not None:
            from asr.held import Held  # noqa: PLC0415  phrase files are not everyone's, and take a while to load

            named = phrases if isinstance(phrases, Mapping) else {"": phrases}
            given.names("phrases", named)
            self._held = {name: Held.of(each, self.bundle, self.options, threshold) for name, each in named.items()}
        self._guide: Guide[Any] | None = None
        if lm is not None or lm_weight is not None or boost is not None:
            from asr.guidance import guide_of  # noqa: PLC0415  seldom wanted

            if self._alone:
                raise ConfigError("lm and boost guide free text, phrases leave no room for it; take either")
            self._guide = guide_of(self.bundle, lm, lm_weight, boost)

    @overload
    def transcribe(self, source: Source, *, phrases: str | None = None) -> Result: ...
    @overload
    def transcribe(self, source: list[AnySource], *, phrases: str | None = None) -> list[Result]: ...
    def transcribe(self, source: Source | list[AnySource], *, phrases: str | None = None) -> Result | list[Result]:
        """One recording's text, or the texts of many, which are decoded together.

        source: a path ("-" is standard input), a file's bytes, an open file, samples (N,) of mono sound at the model's
        rate (16 kHz) and full scale ±1, a manifest's row, or a list of these. Times count from the start of what was
        given: of a manifest's row, from its offset. phrases: the name of those to compare with, where several were
        given; none of them without it. Raises AudioError where one can't be read, ConfigError for an unknown name.
        """
        held = self._compared(phrases)
        results: list[Result] = []
        for group in self._groups(source if isinstance(source, list) else [source], GROUP_FILES):
            for answer in self._answer(group, held):
                if isinstance(answer, CepstraError):
                    raise answer
                results.append(answer)
        return results if isinstance(source, list) else results[0]

    def transcribe_each(
        self, sources: Iterable[Source], *, phrases: str | None = None
    ) -> Iterator[Result | CepstraError]:
        """Answers in order as they come; one that can't be read gives its error, and the rest goes on.

        The first is there before the second is read. Later on a few short recordings are read ahead of what is
        answered, to be decoded together; nothing waits for a long one, or a pipe, that comes after it. Ctrl-C in the
        middle of a long one raises Interrupted, a KeyboardInterrupt. phrases: as in `transcribe`.
        """
        held = self._compared(phrases)
        return (answer for group in self._groups(sources, 1) for answer in self._answer(group, held))

    def _compared(self, name: str | None) -> Held | None:
        if name is None:
            return self._held[""] if self._alone else None
        if not isinstance(name, str) or name not in self._held or self._alone:
            known = ", ".join(self._held) if self._held and not self._alone else "none by name"
            raise ConfigError(f"phrases={given.brief(name)}: there are no such; given were {known}")
        return self._held[name]

    def _groups(self, sources: Iterable[Source], room: int) -> Iterator[list[_Clip | CepstraError]]:
        """What is decoded together: one batch, so that no answer waits for another one, or one long recording.

        room: recordings in the first group; later ones have twice as many, up to GROUP_FILES.
        """
        group: list[_Clip | CepstraError] = []
        longest = 0
        rate = self.bundle.front_end.sample_rate
        for source in sources:
            if group and not is_quick(source):
                yield group
                group, longest = [], 0
            clip = self._read(source)
            samples = len(clip.samples) if isinstance(clip, _Clip) else 0
            if group and (len(group) + 1) * max(longest, samples) > BATCH_SECONDS * rate:
                yield group
                group, longest = [], 0
            group.append(clip)
            longest = max(longest, samples)
            if len(group) >= room or samples > PIECE_SECONDS * rate:
                yield group
                group, longest, room = [], 0, min(2 * room, GROUP_FILES)
        if group:
            yield group

    def _answer(self, group: list[_Clip | CepstraError], held: Held | None) -> list[Result | CepstraError]:
        clips = [clip for clip in group if isinstance(clip, _Clip)]
        try:
            results = iter(self._recognise(clips, held))
        except (CepstraError, MemoryError) as error:
            if len(group) > 1:  # one by one, so that what is at fault takes nothing with it
                return [answer for clip in group for answer in self._answer([clip], held)]
            reason = str(error) or "not enough memory"
            return [CepstraError(f"{clip.name or 'samples'}: can't be transcribed ({reason})") for clip in clips]
        return [next(results) if isinstance(clip, _Clip) else clip for clip in group]

    def _read(self, source: Source) -> _Clip | CepstraError:
        try:
            return self._load(source)
        except CepstraError as error:
            return error
        except (MemoryError, OSError) as error:  # OSError: no room for the copy of what a pipe delivers
            reason = getattr(error, "strerror", None) or str(error) or "not enough memory"
            return AudioError(f"{name_of(source) or 'sound'}: can't be read ({reason}); cut it into shorter files")

    def _load(self, source: Source) -> _Clip:
        if isinstance(source, np.ndarray):
            return _Clip(None, checked(source, self.bundle.front_end.sample_rate))
        if not isinstance(source, Utterance):
            return _Clip(name_of(source), self._sound(source))
        if source.duration <= 0:
            raise AudioError(f"{source.audio_filepath}: a row of 0 s; state how long the words last, or leave it out")
        return _Clip(name_of(source), self._sound(source.audio_filepath, source.offset, source.duration))

    def _sound(
        self, file: str | PathLike[str] | bytes | BinaryIO, offset: float = 0.0, duration: float | None = None
    ) -> Sound:
        return read_sound(
            file, sample_rate=self.bundle.front_end.sample_rate, channel=self._channel, offset=offset,
            duration=duration, max_seconds=self._max_seconds, raw=self._raw, held_seconds=WINDOW_SECONDS,
        )  # fmt: skip

    def _recognise(self, clips: Sequence[_Clip], held: Held | None) -> list[Result]:
        rate = self.bundle.front_end.sample_rate
        pieces = [(i, start, end) for i, clip in enumerate(clips) for start, end in cut(clip.samples, rate)]
        decoded: list[list[tuple[float, Piece]]] = []  # of each what was found, with where it starts, in seconds
        try:
            for window in windows([end - start for _, start, end in pieces], rate):
                here = pieces[window.start : window.stop]
                decoded += self._window([(start, clips[i].samples[start:end]) for i, start, end in here], held)
        except KeyboardInterrupt:
            if len(clips) > 1 or not decoded:
                raise
            so_far = [piece for found in decoded for piece in found]
            raise Interrupted(assemble(clips[0].name, pieces[len(decoded) - 1][2] / rate, so_far)) from None
        return [
            assemble(
                clip.name,
                len(clip.samples) / rate,
                [piece for j, (owner, _, _) in enumerate(pieces) if owner == i for piece in decoded[j]],
            )
            for i, clip in enumerate(clips)
        ]

    def transcribe_pieces(self, pieces: Sequence[tuple[int, NDArray[np.float32]]]) -> list[tuple[float, Piece]]:
        """Pieces of one recording, as `cut` takes it apart, each with its first sample in it.

        Returns where each starts, in seconds, and its words: what asr.timing.assemble makes a result of. Whoever has
        others waiting decodes a long recording like this, a few pieces at a time.
        """
        return [found for each in self._window(pieces, self._compared(None)) for found in each]

    def _window(
        self, pieces: Sequence[tuple[int, NDArray[np.float32]]], held: Held | None
    ) -> Iterator[list[tuple[float, Piece]]]:
        """Pieces, each with its first sample in the recording -> where each starts in seconds, and its words.

        One that holds several commands becomes several.
        """
        rate = self.bundle.front_end.sample_rate
        found, memory = self._looked_through([samples for _, samples in pieces])
        spoken = {j: speech for j, speech in enumerate(found) if speech is not None}
        answers: dict[int, Piece] = {}
        for batch in batches({j: speech.end - speech.start for j, speech in spoken.items()}, rate):
            clips = [pieces[j][1][spoken[j].start : spoken[j].end] for j in batch]
            answers |= zip(batch, self._decode(clips, [spoken[j] for j in batch], held, memory), strict=True)
        for j, (start, samples) in enumerate(pieces):
            if j not in spoken:
                yield [(start / rate, _silent(held))]
                continue
            first, part = start + spoken[j].start, samples[spoken[j].start : spoken[j].end]
            yield [
                ((first + offset) / rate, piece) for offset, piece in self._several(part, spoken[j], answers[j], held)
            ]

    def _looked_through(self, pieces: Sequence[NDArray[np.float32]]) -> tuple[list[Speech | None], Memory | None]:
        """Where somebody speaks in each of these, and what the encoder says of a single one, if that is there already.

        A single one that is most likely decoded from end to end is looked through by one thread and encoded by
        another. The answer is the same, only sooner.
        """
        rate = self.bundle.front_end.sample_rate
        if not (self._detects and looks_beside(pieces, rate, self._threads)):
            return [speech_in(samples, rate, detect=self._detects) for samples in pieces], None
        (samples,) = pieces
        try:
            looking = Beside(partial(speech_in, samples, rate, detect=True))
        except RuntimeError:  # as many threads as there may be
            return [speech_in(samples, rate, detect=True)], None
        memory = self._backend.encode([samples])
        speech = looking.result()
        whole = speech is not None and (speech.start, speech.end) == (0, len(samples))
        return [speech], memory if whole else None

    def _several(
        self, samples: NDArray[np.float32], speech: Speech, whole: Piece, held: Held | None
    ) -> list[tuple[int, Piece]]:
        """A piece that is no command as it is, but commands one after the other, becomes these, each with its start.

        That is so where every part between two short pauses is one: there is little else than commands that is. Where
        the piece is one as well, but not surely, as a sentence said twice may be, each part must be a surer one.
        """
        meaning = whole.meaning
        if held is not None and meaning is not None and meaning.rejected != "too-short" and meaning.confidence < SURE:
            spans = breaths(samples, self.bundle.front_end.sample_rate)
            if len(spans) > 1:
                parts = list(self._decode([samples[a:b] for a, b in spans], [speech] * len(spans), held))
                least = 0.0 if meaning.command is None else meaning.confidence
                found = [part.meaning for part in parts if part.meaning is not None]
                if len(found) == len(parts) and all(m.command is not None and m.confidence > least for m in found):
                    return [(start, part) for (start, _), part in zip(spans, parts, strict=True)]
        return [(0, whole)]

    def _decode(
        self,
        batch: list[NDArray[np.float32]],
        speech: Sequence[Speech],
        held: Held | None,
        memory: Memory | None = None,
    ) -> Iterator[Piece]:
        """What is said in stretches of sound, all of them at once. memory: what the encoder says of them, if it has."""
        spec, tokenizer = self.bundle.front_end, self.bundle.tokenizer
        seconds = [len(samples) / spec.sample_rate for samples in batch]
        memory = self._backend.encode(batch) if memory is None else memory
        position = spec.hop * self.bundle.model.frames_per_position / spec.sample_rate  # seconds
        found: Sequence[tuple[Meaning | None, Hypothesis | None]] = (
            [(None, hypothesis) for hypothesis in decode(self._backend, memory, seconds, self.options, self._guide)]
            if held is None
            else held.search(self._backend, memory, seconds)
        )
        for row, (meaning, hypothesis) in enumerate(found):
            ctc = memory.ctc[row, : memory.lengths[row]]
            if hypothesis is None:
                yield _without_command(meaning, seconds[row])
                continue
            said = evidence_of_speech(hypothesis, speech[row], ctc, seconds[row])
            # A judge goes by other evidence than an ear, and one that was never taught adds nothing to that
            if held is not None and meaning is not None and self._detects and self._ear is not UNTAUGHT:
                meaning = meaning.where_spoken(self._ear.log_odds(said), held.judge.threshold)  # noqa: PLW2901
            if meaning is not None and meaning.command is None:
                yield _without_command(meaning, seconds[row])
                continue
            piece = replace(Piece.of(hypothesis, ctc, tokenizer, position, seconds[row]), meaning=meaning)
            if held is not None or not self._detects or (piece.words and self._ear.hears(said)):
                yield piece
            else:
                yield replace(_silent(None), seconds=seconds[row])


def _without_command(meaning: Meaning | None, seconds: float) -> Piece:
    """Where none of the phrases was meant. seconds: that were decoded."""
    silent = meaning is not None and meaning.rejected == "no-speech"
    return Piece((), 1.0 if silent else 0.0, meaning, seconds, silent=silent)


def _silent(held: Held | None) -> Piece:
    """What is said where nobody speaks."""
    return Piece((), 1.0, None if held is None else held.nothing_said, silent=True)
