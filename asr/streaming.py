"""Encoding sound while it comes, without torch: a graph of `cepstra export --graph streaming` in ONNX Runtime.

>>> model = read_streaming("model.stream.onnx")
>>> for words in live_text(model, blocks):  # blocks: arrays (N,) of samples, of any length
...     print(words, end="", flush=True)
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from asr.errors import BundleError, CepstraError
from asr.model.config import ModelConfig
from asr.model.stream_shape import StreamShape
from asr.runtime import open_session, run_session
from asr.search.hypothesis import BLANK
from asr.tokenizer import SPECIALS, WORD_START, Tokenizer
from audio.mfcc_spec import MfccSpec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from asr.search.backend import Floats, Ints

FORMAT = 1  # raised when older programs can't read newer graphs
KIND = "cepstra streaming encoder"
MAX_BYTES = 1 << 30  # of a graph
MOST_BLOCKS = 128  # at a time: attention of more would be memory for masked scores


class Stepper(Protocol):
    """A streaming encoder, torch or ONNX; see `asr.model.streaming.StreamingEncoder.forward`."""

    @property
    def shape(self) -> StreamShape:
        """Its sizes."""

    @property
    def vocab_size(self) -> int:
        """Of the CTC log-probabilities."""

    def step(
        self, samples: Floats, position: Ints, total: Ints, state: Floats
    ) -> tuple[Floats, Floats, Floats, Floats]:
        """memory_k, memory_v, CTC log-probabilities and the next state."""


@dataclass(frozen=True)
class Encoded:
    """Positions of the memory, one after the other, as the encoder of a whole bundle gives them (T may be 0)."""

    memory_k: Floats  # (L, H, T, K)
    memory_v: Floats  # (L, H, T, K)
    ctc: Floats  # (T, V) log-probabilities


class EncoderStream:
    """One stream of sound; what it holds doesn't grow."""

    def __init__(self, encoder: Stepper) -> None:
        self._encoder, self._shape = encoder, encoder.shape
        self._state = np.zeros((1, self._shape.state), np.float32)
        self._waiting = np.zeros(0, np.float32)  # less than a block
        self._blocks = 0  # that the encoder has had
        self._samples = 0  # that were fed
        self._finished = False

    def feed(self, samples: Floats) -> Encoded:
        """The positions that are complete with these samples, (N,) of any number, full scale ±1.

        A long N is encoded in parts, but what comes of it is held: feed a file in blocks. Raises CepstraError for
        samples in whole numbers, in several channels, or after the end.
        """
        samples = np.asarray(samples)
        if samples.ndim != 1 or not np.issubdtype(samples.dtype, np.floating):
            raise CepstraError(
                f"stream: samples are {samples.dtype} of shape {samples.shape}; pass one channel (N,) of floats, full "
                "scale ±1"
            )
        if self._finished:
            raise CepstraError("stream: it has ended; begin another one")
        self._samples += len(samples)
        samples = np.concatenate([self._waiting, samples.astype(np.float32, copy=False)])
        whole = len(samples) // self._shape.block
        self._waiting = samples[whole * self._shape.block :].copy()
        return self._encode(samples[: whole * self._shape.block], total=-1)

    def finish(self) -> Encoded:
        """The sound is over: the positions that are left. Raises CepstraError where it was over before."""
        if self._finished:
            raise CepstraError("stream: it has ended; begin another one")
        self._finished = True
        count = self._shape.positions(self._samples)
        rest = np.zeros((count + self._shape.lag - self._blocks) * self._shape.block, np.float32)
        rest[: len(self._waiting)] = self._waiting
        return self._encode(rest, total=self._samples)

    def _encode(self, samples: Floats, total: int) -> Encoded:
        blocks = samples.reshape(1, -1, self._shape.block)
        parts = [self._nothing()]
        for start in range(0, blocks.shape[1], MOST_BLOCKS):
            part = blocks[:, start : start + MOST_BLOCKS]
            position = np.array([self._blocks], np.int64)
            k, v, ctc, self._state = self._encoder.step(part, position, np.array([total], np.int64), self._state)
            early = max(0, self._shape.lag - self._blocks)  # positions before the beginning
            self._blocks += part.shape[1]
            parts.append(Encoded(k[:, 0, :, early:], v[:, 0, :, early:], ctc[0, early:]))
        return Encoded(
            np.concatenate([part.memory_k for part in parts], axis=2),
            np.concatenate([part.memory_v for part in parts], axis=2),
            np.concatenate([part.ctc for part in parts]),
        )

    def _nothing(self) -> Encoded:
        config = self._shape.config
        memory = np.zeros((config.decoder_layers, config.heads, 0, config.d_model // config.heads), np.float32)
        return Encoded(memory, memory, np.zeros((0, self._encoder.vocab_size), np.float32))


@dataclass(frozen=True)
class StreamingModel:
    """A graph with what belongs to it; thread-safe, for any number of streams at once."""

    shape: StreamShape
    tokenizer: Tokenizer
    language: str
    name: str
    session: Any  # onnxruntime.InferenceSession

    @property
    def vocab_size(self) -> int:
        """Of the CTC log-probabilities."""
        return self.tokenizer.vocab_size

    def step(
        self, samples: Floats, position: Ints, total: Ints, state: Floats
    ) -> tuple[Floats, Floats, Floats, Floats]:
        """See `asr.model.streaming.StreamingEncoder.forward`. Raises BundleError where ONNX Runtime fails."""
        inputs = {"samples": samples, "position": position, "total": total, "state": state}
        memory_k, memory_v, ctc, following = run_session(self.session, self.name, inputs)
        return memory_k, memory_v, ctc, following


def read_streaming(path: str | Path, *, threads: int = 1) -> StreamingModel:
    """A model that encodes sound while it comes. Raises BundleError for a file that is no such graph, or damaged."""
    path = Path(path)
    try:
        if path.stat().st_size > MAX_BYTES:
            raise BundleError(f"{path}: larger than a streaming encoder may be ({MAX_BYTES} bytes)")
        graph = path.read_bytes()
    except OSError as error:
        raise BundleError(f"{path}: can't be read ({error.strerror}); {_REMEDY}") from None
    return load_streaming(graph, str(path), threads=threads)


def load_streaming(graph: bytes, name: str, *, threads: int = 1) -> StreamingModel:
    """The same of a file's content; name: what errors call it."""
    session = open_session(graph, name, threads)
    metadata = session.get_modelmeta().custom_metadata_map
    if metadata.get("kind") != KIND:
        raise BundleError(f"{name}: not a streaming encoder; {_REMEDY}")
    if metadata.get("format") != str(FORMAT):
        raise BundleError(
            f"{name}: format {metadata.get('format')}, this program reads {FORMAT}; export it again, or install the "
            "version of Cepstra that wrote it"
        )
    try:
        config = ModelConfig.from_dict(json.loads(metadata["model"]))
        spec = MfccSpec.from_dict(json.loads(metadata["front_end"]))
        model = StreamingModel(
            StreamShape(config, spec),
            Tokenizer.from_json(metadata["tokenizer"]),
            metadata["language"],
            metadata["name"],
            session,
        )
    except CepstraError as error:
        raise BundleError(f"{name}: {error}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise BundleError(f"{name}: its metadata can't be used ({type(error).__name__}: {error}); {_REMEDY}") from None
    _check(name, model)
    return model


_REMEDY = "give a file of `cepstra export CHECKPOINT --graph streaming`"


def describe(shape: StreamShape, tokenizer: Tokenizer, language: str, name: str) -> dict[str, str]:
    """The metadata of a graph: what this program needs as JSON, and single numbers for others."""
    return {
        "kind": KIND,
        "format": str(FORMAT),
        "name": name,
        "language": language,
        "sample_rate": str(shape.spec.sample_rate),
        "block": str(shape.block),
        "lag": str(shape.lag),
        "front_end": json.dumps(shape.spec.to_dict()),
        "model": json.dumps(shape.config.to_dict()),
        "tokenizer": tokenizer.to_json(),
    }


def _check(name: str, model: StreamingModel) -> None:
    """A graph whose sizes aren't those of its metadata would fail in the middle of a stream."""
    found = {value.name: value.shape for value in (*model.session.get_inputs(), *model.session.get_outputs())}
    sizes = {"samples": model.shape.block, "state": model.shape.state, "ctc": model.vocab_size}
    for key, size in sizes.items():
        if found.get(key, [None])[-1] != size:
            raise BundleError(f"{name}: {key} isn't of the size that its metadata says ({size}); export it again")


def live_text(model: StreamingModel, blocks: Iterable[Floats]) -> Iterator[str]:
    """The text of a stream as it becomes known, by CTC alone and greedily: joined, the parts are the whole text.

    blocks: samples (N,) at the model's rate, full scale ±1, of any length. A part may be half a word, and comes as
    late as the model's delay (`model.shape.delay`, in seconds). Words are written for noise too: nothing here tells
    speech from it.
    """
    stream, text = EncoderStream(model), GreedyText(model.tokenizer)
    for block in blocks:
        if part := text.add(stream.feed(block).ctc):
            yield part
    if part := text.add(stream.finish().ctc):
        yield part


class GreedyText:
    """CTC's best path as text (`asr.search.ctc.best_path`), position by position."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._last = BLANK
        self._begun = self._space = False

    def add(self, ctc: Floats) -> str:
        """What the next positions, (T, V) log-probabilities, add to the text."""
        added = ""
        for token in map(int, ctc.argmax(axis=1)):
            if token != self._last and token >= len(SPECIALS):
                for character in self._tokenizer.token(token):
                    if character == WORD_START:
                        self._space = self._begun
                        continue
                    added += f" {character}" if self._space else character
                    self._begun, self._space = True, False
            self._last = token
        return added
