"""The training data at hand: sound decoded once into one flat file, and what is said in it.

Decoding and resampling a recording costs more than a training step spends on it, so each manifest's sound is written
to the cache once, as 16-bit samples, and mapped into memory from there: nothing is loaded but what a batch needs.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich.progress import Progress

from asr.errors import AudioError, ConfigError, ManifestError, TrainingError
from asr.manifest import Utterance, read_manifest
from asr.manifest.parallel import parallel
from asr.manifest.sound_warnings import heard, recorded_warnings
from asr.text import normalise
from asr.training.console import console, say
from audio.reading import read_audio

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from asr.tokenizer import Tokenizer
    from asr.training.config import DataConfig, Source

SAMPLE_RATE = 16000
REMARKS_SHOWN = 20
CROWDED_SHARE = 0.02  # of utterances: that more are left out is told with a remedy
_CROWDED = "with more text than their frames can carry"


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
        file, start, count = (int(n) for n in self.where[i])  # count is never 0, which can't be mapped
        # A memory map is opened anew in each process that needs it: cheap, and nothing to share or to close
        sound = np.memmap(self.files[file], np.int16, "r", offset=2 * start, shape=(count,))
        return sound.astype(np.float32) / np.float32(32768)

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

    def with_more(self, more: Packed) -> Packed:
        """These utterances and then the others."""
        where = more.where + np.array([len(self.files), 0, 0], np.int64)
        return Packed(
            self.utterances + more.utterances,
            self.texts + more.texts,
            np.concatenate([self.repeats, more.repeats]),
            self.files + more.files,
            np.concatenate([self.where, where]),
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
        raise ManifestError(
            f"{sources[0].manifest}: none of its recordings can be used for {what}; see `cepstra manifest check`"
        )
    return Packed(
        tuple(utterances),
        tuple(normalise(u.text, language) for u in utterances),
        np.array(repeats, np.float64),
        tuple(files),
        np.array(where, np.int64).reshape(-1, 3),
    )


def usable(
    data: Packed,
    tokenizer: Tokenizer,
    config: DataConfig,
    positions: Callable[[int], int],
    what: str,
    *,
    silent: bool = False,
    remedy: str = "",
) -> Packed:
    """Without utterances that can't be learnt from; says how many and why.

    silent: those with text are what can't be learnt from, and not those without.
    positions: number of samples -> the fewest CTC positions that they may come to. CTC needs one for each token and one
    more between equal ones. remedy: what is advised where many utterances have too much text for theirs.
    Raises TrainingError where no utterance is left.
    """
    wrong = "with text" if silent else "without text"
    kept, why = [], {wrong: 0, "too short": 0, "too long": 0, _CROWDED: 0}
    for i, (text, seconds) in enumerate(zip(data.texts, data.seconds(), strict=True)):
        tokens = tokenizer.encode(text)
        needed = len(tokens) + sum(a == b for a, b in pairwise(tokens))
        if bool(tokens) == silent:
            why[wrong] += 1
        elif seconds < config.min_seconds:
            why["too short"] += 1
        elif seconds > config.max_seconds:
            why["too long"] += 1
        elif needed > positions(int(data.where[i, 2])):
            why[_CROWDED] += 1
        else:
            kept.append(i)
    left_out = ", ".join(f"{count} {reason}" for reason, count in why.items() if count)
    if left_out:
        say(f"{what}: left out of {len(data)} utterances: {left_out}")
        if why[_CROWDED] > len(data) * CROWDED_SHARE:
            say(f"{what}: {_CROWDED}: {remedy}")
    if not kept:
        raise TrainingError(f"{what}: no utterance can be used ({left_out}); see `cepstra manifest check`")
    return data.take(np.array(kept, np.int64))


def shared(training: Packed, validation: Packed) -> list[Utterance]:
    """Validation utterances whose sound is in the training data too, wholly or in part."""
    stretches: dict[Path, list[tuple[float, float]]] = {}
    for u in training.utterances:
        stretches.setdefault(u.audio_filepath, []).append((u.offset, u.offset + u.duration))
    return [
        u
        for u in validation.utterances
        if any(start < u.offset + u.duration and u.offset < end for start, end in stretches.get(u.audio_filepath, ()))
    ]


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
        try:
            _decode_all(names, path, index, manifest)
        except OSError as error:
            raise ConfigError(
                f"setting data.cache: {cache} can't be written ({error.strerror}); choose another folder"
            ) from None
    entries = json.loads(index.read_text())  # first sample, number of samples and, where there is one, a remark
    remarks = [entry[2] for entry in entries if len(entry) > 2]
    for remark in remarks[:REMARKS_SHOWN]:
        say(remark)
    if len(remarks) > REMARKS_SHOWN:
        say(f"… and {len(remarks) - REMARKS_SHOWN} more; `cepstra manifest check` lists all of them")
    bad = sum(entry[1] == 0 for entry in entries)
    if bad:
        say(f"{manifest}: {bad} of {len(names)} recordings can't be read and are left out")
    found = {name: (entry[0], entry[1]) for name, entry in zip(names, entries, strict=True)}
    spans = [_slice(row, *found[row.audio_filepath]) for row in rows]
    beyond = [row.line for row, span in zip(rows, spans, strict=True) if not span[1] and found[row.audio_filepath][1]]
    if beyond:
        say(f"{manifest}: {len(beyond)} rows hold no sound and are left out, the first in line {beyond[0]}")
    return path, spans


def _slice(row: Utterance, start: int, count: int) -> tuple[int, int]:
    """Where a row lies, given its recording's first sample and number of samples."""
    first = min(count, round(row.offset * SAMPLE_RATE))
    return start + first, min(count - first, round(row.duration * SAMPLE_RATE))


def _decode_all(names: list[Path], path: Path, index: Path, manifest: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    parts = [file.with_name(f".{file.name}.{os.getpid()}") for file in (path, index)]
    entries: list[tuple[int, int] | tuple[int, int, str]] = []
    start = 0
    bar = Progress(console=console(), transient=True, disable=not console().is_terminal)
    try:
        with parts[0].open("wb") as out, recorded_warnings(), bar as progress:
            task = progress.add_task(f"decoding {manifest.name}", total=len(names))
            for samples, remark in parallel(_decode, names, workers=None, progress=lambda n: progress.advance(task, n)):
                out.write(samples.tobytes())
                entries.append((start, len(samples), remark) if remark else (start, len(samples)))
                start += len(samples)
        parts[1].write_text(json.dumps(entries))
        parts[0].replace(path)
        parts[1].replace(index)
    finally:
        for part in parts:
            part.unlink(missing_ok=True)


def _decode(name: Path) -> tuple[NDArray[np.int16], str]:
    """The sound, and what there is to say about it."""
    try:
        samples = read_audio(name, sample_rate=SAMPLE_RATE)
    except AudioError as error:
        return np.zeros(0, np.int16), str(error)
    return np.clip(np.round(samples * 32768), -32768, 32767).astype(np.int16), "; ".join(heard())
