"""The training data at hand: sound decoded once into one flat file, and what is said in it.

Decoding and resampling a recording costs more than a training step spends on it, so each manifest's sound is written
to the cache once, as 16-bit samples, and mapped into memory from there: nothing is loaded but what a batch needs.
"""

from __future__ import annotations

import hashlib
import json
import os
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import Progress

from asr.errors import AudioError, ManifestError, TrainingError
from asr.manifest import Utterance, read_manifest
from asr.text import normalise
from audio.reading import read_audio

if TYPE_CHECKING:
    from asr.tokenizer import Tokenizer
    from asr.training.config import DataConfig, Source

SAMPLE_RATE = 16000
_console = Console(stderr=True)


@dataclass(frozen=True)
class Packed:
    """Utterances with their sound."""

    utterances: tuple[Utterance, ...]
    texts: tuple[str, ...]  # normalised
    repeats: NDArray[np.float64]  # (n,) how often each comes in one pass
    files: tuple[Path, ...]
    where: NDArray[np.int64]  # (n, 3): file, first sample, number of samples

    def __len__(self) -> int:
        return len(self.utterances)

    def samples(self, i: int) -> NDArray[np.float32]:
        """(N,) full scale ±1."""
        file, start, count = self.where[i]
        # A memory map is opened anew in each process that needs it: cheap, and nothing to share or to close
        data = np.memmap(self.files[file], np.int16, "r", offset=2 * int(start), shape=(int(count),)) if count else []
        return np.asarray(data, np.float32) / np.float32(32768)

    def seconds(self) -> NDArray[np.float64]:
        """(n,) durations."""
        return self.where[:, 2] / SAMPLE_RATE

    def take(self, kept: NDArray[np.int64]) -> Packed:
        """Only these utterances, in this order."""
        return Packed(
            tuple(self.utterances[i] for i in kept),
            tuple(self.texts[i] for i in kept),
            self.repeats[kept],
            self.files,
            self.where[kept],
        )


def load(sources: tuple[Source, ...], cache: Path, language: str, what: str) -> Packed:
    """Read manifests, decode what is not in the cache yet, and put all of it side by side.

    Raises ManifestError where there is nothing to use; recordings that can't be read are named, counted and left out.
    """
    utterances: list[Utterance] = []
    repeats: list[float] = []
    files: list[Path] = []
    where: list[tuple[int, int, int]] = []
    for source in sources:
        rows = [r for r in read_manifest(source.manifest) if not source.sources or r.source in source.sources]
        if not rows:
            raise ManifestError(f"{source.manifest}: holds no row to use for {what}")
        path, spans = _pack(rows, cache, Path(source.manifest))
        good = [i for i, (_, count) in enumerate(spans) if count > 0]
        utterances += [rows[i] for i in good]
        repeats += [source.repeat] * len(good)
        where += [(len(files), *spans[i]) for i in good]
        files.append(path)
    if sources and not utterances:
        raise ManifestError(f"{sources[0].manifest}: none of its recordings can be read")
    return Packed(
        tuple(utterances),
        tuple(normalise(u.text, language) for u in utterances),
        np.array(repeats, np.float64),
        tuple(files),
        np.array(where, np.int64).reshape(-1, 3),
    )


def usable(data: Packed, tokenizer: Tokenizer, config: DataConfig, positions_per_second: float, fastest: float) -> Packed:
    """Without utterances that can't be learnt from; says how many and why.

    CTC needs a position for each token and one more between equal ones, also when played at the fastest speed.
    """
    kept, why = [], {"without text": 0, "too short": 0, "too long": 0, "with more text than their frames can carry": 0}
    for i, (text, seconds) in enumerate(zip(data.texts, data.seconds(), strict=True)):
        tokens = tokenizer.encode(text)
        needed = len(tokens) + sum(a == b for a, b in zip(tokens, tokens[1:], strict=False))
        if not tokens:
            why["without text"] += 1
        elif seconds < config.min_seconds:
            why["too short"] += 1
        elif seconds > config.max_seconds:
            why["too long"] += 1
        elif needed > int(seconds / fastest * positions_per_second):
            why["with more text than their frames can carry"] += 1
        else:
            kept.append(i)
    left_out = ", ".join(f"{count} {reason}" for reason, count in why.items() if count)
    if left_out:
        _console.print(f"left out of {len(data)} utterances: {left_out}")
    if not kept:
        raise TrainingError(f"no utterance can be used (left out: {left_out}); see `cepstra manifest check`")
    return data.take(np.array(kept, np.int64))


def _pack(rows: list[Utterance], cache: Path, manifest: Path) -> tuple[Path, list[tuple[int, int]]]:
    """The file of these rows' sound, made if needed, and where each row lies in it (start, count)."""
    names = sorted({row.audio_filepath for row in rows})
    key = hashlib.sha256()
    for name in names:
        try:
            state = name.stat()
            stamp = f"{state.st_size}|{state.st_mtime_ns}"
        except OSError:
            stamp = "missing"
        key.update(f"{name}|{stamp}\n".encode())
    path = cache / f"{key.hexdigest()[:20]}.i16"  # by content alone: manifests of the same recordings share it
    index = path.with_suffix(".json")
    if not (path.exists() and index.exists()):
        _decode_all(names, path, index, manifest)
    spans = dict(zip(names, json.loads(index.read_text()), strict=True))
    return path, [_slice(row, *spans[row.audio_filepath]) for row in rows]


def _slice(row: Utterance, start: int, count: int) -> tuple[int, int]:
    """Where a row lies, given its recording's first sample and number of samples."""
    first = min(count, round(row.offset * SAMPLE_RATE))
    return start + first, min(count - first, round(row.duration * SAMPLE_RATE))


def _decode_all(names: list[Path], path: Path, index: Path, manifest: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    spans: list[tuple[int, int]] = []
    bad: list[str] = []
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    start = 0
    with part.open("wb") as out, ProcessPoolExecutor() as pool, Progress(console=_console, transient=True) as progress:
        answers = pool.map(_decode, names, chunksize=32)
        for answer in progress.track(answers, total=len(names), description=f"decoding {manifest.name}"):
            samples = np.zeros(0, np.int16) if isinstance(answer, str) else answer
            if isinstance(answer, str):
                bad.append(answer)
            out.write(samples.tobytes())
            spans.append((start, len(samples)))
            start += len(samples)
    part.replace(path)
    part_index = index.with_name(f"{index.name}.{os.getpid()}.part")
    part_index.write_text(json.dumps(spans))
    part_index.replace(index)
    for fault in bad[:20]:
        _console.print(fault, markup=False, highlight=False, soft_wrap=True)
    if bad:
        _console.print(f"{manifest}: {len(bad)} of {len(names)} recordings can't be read and are left out")


def _decode(name: Path) -> NDArray[np.int16] | str:
    try:
        samples = read_audio(name, sample_rate=SAMPLE_RATE)
    except AudioError as error:
        return str(error)
    return np.clip(np.round(samples * 32768), -32768, 32767).astype(np.int16)
