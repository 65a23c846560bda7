"""From sound to text with a bundle: what the caller uses. No torch.

>>> recognizer = Recognizer()  # the model that ships
>>> recognizer.transcribe("lights.wav").text
'turn on the lights'
"""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from asr.bundle import Bundle, read_bundle
from asr.errors import AudioError, CepstraError, ConfigError
from asr.manifest.records import Utterance
from asr.results import Result
from asr.runtime import OnnxBackend
from asr.search import SearchOptions, decode
from asr.timing import Piece, assemble
from audio.reading import read_audio
from audio.speech import pieces

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from audio.reading import RawFormat

Source: TypeAlias = str | PathLike[str] | bytes | BinaryIO | NDArray[np.floating] | Utterance

DEFAULT_BUNDLE = Path(__file__).parent / "bundles" / "en-commands.cepstra"
PIECE_SECONDS = 30.0  # longer sound is cut at pauses
BATCH_SECONDS = 60.0  # padding included, of what is decoded together
BATCH_FILES = 8  # read before any of them is decoded
SILENCE = 1e-4  # of full scale (-80 dBFS): below this no recording holds speech


@dataclass(frozen=True)
class _Clip:
    """A recording, read."""

    name: str | None
    samples: NDArray[np.float32]


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
    ) -> None:
        """bundle: a path, or one that was read; None is the model that ships.

        threads: of the CPU. beam: hypotheses kept, 1 is greedy. ctc_weight: CTC's share in the score of a beam, 0 to
        1; None is 0.3 with a beam, and none in greedy decoding. max_seconds: longer recordings are refused.
        raw: how to read headerless samples. channel: which to take; None mixes all of them.
        Raises BundleError where the bundle can't be used, ConfigError for a setting out of range.
        """
        if threads < 1:
            raise ConfigError(f"threads={threads} must be at least 1")
        self.bundle = bundle if isinstance(bundle, Bundle) else read_bundle(DEFAULT_BUNDLE if bundle is None else bundle)
        if ctc_weight is None:
            ctc_weight = 0.3 if beam > 1 else 0.0
        self.options = SearchOptions(beam=beam, ctc_weight=ctc_weight)
        self._backend = OnnxBackend(self.bundle, threads)
        self._max_seconds, self._raw, self._channel = max_seconds, raw, channel

    @overload
    def transcribe(self, source: Source) -> Result: ...
    @overload
    def transcribe(self, source: list[Source] | list[Utterance] | list[str] | list[Path]) -> list[Result]: ...
    def transcribe(
        self, source: Source | list[Source] | list[Utterance] | list[str] | list[Path]
    ) -> Result | list[Result]:
        """One recording's text, or the texts of many, which are decoded together.

        source: a path ("-" is standard input), a file's bytes, an open file, samples (N,) of mono sound at 16 kHz and
        full scale ±1, a manifest's row, or a list of these. Raises AudioError where one can't be read.
        """
        if not isinstance(source, list):
            return self._recognise([self._load(source)])[0]
        answers = list(self.transcribe_each(source))
        for answer in answers:
            if isinstance(answer, CepstraError):
                raise answer
        return [answer for answer in answers if isinstance(answer, Result)]

    def transcribe_each(self, sources: Iterable[Source]) -> Iterator[Result | CepstraError]:
        """Answers in order as they come; one that can't be read gives its error, and the rest goes on."""
        waiting: list[_Clip | CepstraError] = []
        for source in sources:
            try:
                waiting.append(self._load(source))
            except CepstraError as error:
                waiting.append(error)
            if len(waiting) == BATCH_FILES:
                yield from self._answer(waiting)
                waiting = []
        yield from self._answer(waiting)

    def _answer(self, waiting: list[_Clip | CepstraError]) -> Iterator[Result | CepstraError]:
        results = iter(self._recognise([clip for clip in waiting if isinstance(clip, _Clip)]))
        for clip in waiting:
            yield next(results) if isinstance(clip, _Clip) else clip

    def _load(self, source: Source) -> _Clip:
        if isinstance(source, np.ndarray):
            return _Clip(None, _checked(source))
        if isinstance(source, Utterance):
            samples = read_audio(
                source.audio_filepath, offset=source.offset, duration=source.duration, channel=self._channel,
                max_seconds=self._max_seconds,
            )  # fmt: skip
            return _Clip(str(source.audio_filepath), samples)
        name = fspath(source) if isinstance(source, str | PathLike) else None
        samples = read_audio(
            source if not isinstance(source, PathLike) else Path(source),
            channel=self._channel, max_seconds=self._max_seconds, raw=self._raw,
        )  # fmt: skip
        return _Clip(name, samples)

    def _recognise(self, clips: Sequence[_Clip]) -> list[Result]:
        rate = self.bundle.front_end.sample_rate
        cut = [
            (i, start, clip.samples[start:end])
            for i, clip in enumerate(clips)
            for start, end in pieces(clip.samples, rate, max_seconds=PIECE_SECONDS)
        ]
        decoded: dict[int, Piece] = {}
        for batch in _batches([len(samples) for _, _, samples in cut], rate):
            decoded |= zip(batch, self._decode([cut[j][2] for j in batch]), strict=True)
        return [
            assemble(
                clip.name,
                len(clip.samples) / rate,
                [(start / rate, decoded[j]) for j, (owner, start, _) in enumerate(cut) if owner == i],
            )
            for i, clip in enumerate(clips)
        ]

    def _decode(self, batch: list[NDArray[np.float32]]) -> list[Piece]:
        """Pieces of sound, all of them at once."""
        spec, tokenizer = self.bundle.front_end, self.bundle.tokenizer
        seconds = [len(samples) / spec.sample_rate for samples in batch]
        spoken = [j for j, samples in enumerate(batch) if np.abs(samples).max(initial=0.0) >= SILENCE]
        answers = [Piece((), 1.0)] * len(batch)
        if not spoken:
            return answers
        memory = self._backend.encode([batch[j] for j in spoken])
        hypotheses = decode(self._backend, memory, [seconds[j] for j in spoken], self.options)
        position = spec.hop * self.bundle.model.stride / spec.sample_rate  # seconds
        for row, (j, hypothesis) in enumerate(zip(spoken, hypotheses, strict=True)):
            ctc = memory.ctc[row, : memory.lengths[row]]
            answers[j] = Piece.of(hypothesis, ctc, tokenizer, position, seconds[j])
        return answers


def _checked(samples: NDArray[np.floating]) -> NDArray[np.float32]:
    if samples.ndim != 1 or not np.issubdtype(samples.dtype, np.floating):
        raise AudioError(
            f"samples: {samples.dtype} of shape {samples.shape}; give mono samples (N,) as floats of full scale ±1, "
            "16 kHz (16-bit integers divided by 32768)"
        )
    if not np.isfinite(samples).all():
        raise AudioError("samples: some are not finite; check what made them")
    return samples.astype(np.float32, copy=False)


def _batches(lengths: list[int], rate: int) -> list[list[int]]:
    """Indices of what to decode together: of about the same length, so that little is padding."""
    batches: list[list[int]] = []
    longest = 0
    for i in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if not batches or (len(batches[-1]) + 1) * longest > BATCH_SECONDS * rate:
            batches.append([])
            longest = max(1, lengths[i])
        batches[-1].append(i)
    return batches
