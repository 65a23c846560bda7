"""A whole run: texts to recordings and manifests."""

from __future__ import annotations

import hashlib
import json
import math
import shutil
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from asr.errors import ConfigError, SynthesisError
from asr.files import real_path
from asr.manifest import Utterance
from asr.manifest.parallel import cores
from asr.manifest.split import canonical_split
from asr.synthesis.engines import choose_engines, divide_voices, open_all
from asr.synthesis.folder import Folder
from asr.synthesis.making import Job, Outcome, Setup
from asr.synthesis.prompts import MAX_COUNT, Prompt, checked
from asr.synthesis.surroundings import Surroundings, gather
from asr.synthesis.workers import Workers
from asr.text import normalise

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from audio.synthesis import EngineSpec

FAILURES_IN_A_ROW: Final = 20  # of one engine: then the run stops
_BYTES_PER_LETTER: Final = 1500  # of FLAC, for what fits onto the disk: 0.08 s


@dataclass
class Made:
    """What came of a run."""

    manifests: dict[str, Path]  # by split; one whose name is empty without splits
    asked: int
    seconds: dict[str, float] = field(default_factory=dict)  # by split
    rows: dict[str, int] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)  # reasons: the sound can't be its text
    failures: list[str] = field(default_factory=list)  # one line each: the engine failed
    stood_in: dict[str, str] = field(default_factory=dict)  # engines that failed where another try did not, and why


def synthesize(
    texts: Iterable[str | Prompt],
    folder: str | Path,
    *,
    count: int = 0,
    engines: Sequence[EngineSpec] | Sequence[str] = (),
    seed: int = 0,
    split: Mapping[str, float] | None = None,
    hold_out: Sequence[str] = (),
    vary: bool = False,
    noises: str | Path | None = None,
    rooms: str | Path | None = None,
    language: str = "en",
    workers: int | None = None,
    restart: bool = False,
    progress: Callable[[int, int], None] | None = None,
    say: Callable[[str], None] = print,
) -> Made:
    """Recordings of texts in `folder`/audio, and the manifest that lists them.

    texts: each is said at least once if `count` allows; with a larger count again, in other voices.
    count: 0 is each text once.
    engines: from `choose_engines`, or names as it takes them; none are all that are installed.
    seed: the same one, texts and engines give the same rows and, of engines that leave nothing to chance, the same
    sound, whatever the number of workers.
    split: shares by name, as train=0.9; no two share a speaker or a voice. Without it there is one manifest.
    hold_out: names of engines that speak in the test split alone, and nobody else there.
    vary: rooms, noise and silence around the speech; noises, rooms: folders or manifests of recordings of them.
    workers: processes; None is one for each core. restart: throw away what the folder holds of an earlier run.
    progress: is called with the utterances done and all of them. say: is called with what should be known.
    What is in the folder with the same settings isn't made again. Raises SynthesisError, ConfigError, ManifestError;
    KeyboardInterrupt leaves what is done in its place.
    """
    prompts = checked(texts, "the texts", language)
    total = _count(count, len(prompts))
    specs = _specs(engines, language)
    shares, held = _splits(split, hold_out, specs)
    parts = _parts(shares, total)
    with_voices = open_all(specs)
    voices = divide_voices(with_voices, shares, seed, held)
    jobs = _jobs(prompts, parts, seed, language)
    place = Folder(real_path(folder))
    settings = {
        "seed": seed, "texts": _digest(prompts), "count": total, "language": language, "split": shares,
        "engines": [[spec.name, spec.kind, spec.weight, dict(spec.options)] for spec in specs], "voices": voices,
        "vary": vary or noises is not None or rooms is not None, "noises": noises and str(noises),
        "rooms": rooms and str(rooms), "splits": list(shares),
    }  # fmt: skip
    with place.held(say):
        entries = place.begin(settings, list(shares), restart=restart)
        waiting = [job for job in jobs if job.index not in entries]
        _check_space(place.path, waiting)
        made = Made({}, total)
        if waiting:
            try:
                around = _surroundings(place, noises, rooms) if settings["vary"] else None
                setup = Setup(seed, tuple(specs), voices, around)
                count_of = min(workers or cores(), len(waiting))
                _run(place, setup, waiting, count_of, made, entries=entries, progress=progress, total=total)
            finally:
                for name in ("noises", "rooms"):
                    place.cache(name).unlink(missing_ok=True)
        made.left_out = Counter(entry["left_out"] for entry in entries.values() if entry.get("left_out"))
        utterances = _rows(place, jobs, entries, shares)
        if not any(utterances.values()):
            reason = made.failures[0] if made.failures else f"all are {next(iter(made.left_out), 'missing')}"
            raise SynthesisError(f"{place.path}: nothing could be made ({reason}); try another engine")
        made.manifests = place.write_manifests(utterances)
    for name, rows in utterances.items():
        made.rows[name], made.seconds[name] = len(rows), math.fsum(row.duration for row in rows)
    return made


def _run(
    place: Folder, setup: Setup, jobs: list[Job], workers: int, made: Made, *, entries: dict[int, dict[str, Any]],
    progress: Callable[[int, int], None] | None, total: int,
) -> None:  # fmt: skip
    """Make what is waiting, and write down what is done. Raises SynthesisError where going on is no use."""
    in_a_row: Counter[str] = Counter()
    done = total - len(jobs)
    if progress is not None:
        progress(done, total)
    with place.noting() as note, Workers(setup, workers) as crew:
        for outcome in crew.make((job, place.sound(job.index)) for job in jobs):
            done += 1
            faults = outcome.faults or ([[outcome.engine, outcome.failure]] if outcome.failure else [])
            in_a_row.update(engine for engine, _ in faults)
            if outcome.failure:
                made.failures.append(f"utterance {outcome.index}: {outcome.failure}")
            else:
                in_a_row[outcome.engine] = 0
                made.stood_in.update(dict(faults))
                entries[outcome.index] = _entry(outcome)
                note(entries[outcome.index])
            if progress is not None:
                progress(done, total)
            for engine, reason in faults:
                if in_a_row[engine] >= FAILURES_IN_A_ROW:
                    raise SynthesisError(
                        f"{engine}: {FAILURES_IN_A_ROW} failures in a row, the last: {reason}; mend or leave out the "
                        "engine, and the same command goes on"
                    )


def _entry(outcome: Outcome) -> dict[str, Any]:
    said = {"row": outcome.row} if outcome.row else {"left_out": outcome.left_out}
    return {"index": outcome.index, **said}


def _rows(
    place: Folder, jobs: list[Job], entries: dict[int, dict[str, Any]], shares: Mapping[str, float]
) -> dict[str, list[Utterance]]:
    """Split to its utterances, in order."""
    found: dict[str, list[Utterance]] = {split: [] for split in shares}
    for job in jobs:
        row = entries.get(job.index, {}).get("row")
        if row:
            utterance = Utterance(
                place.sound(job.index), row["duration"], job.text, speaker=row["speaker"], source=row["source"],
                split=job.split or None, extra=job.extra,
            )  # fmt: skip
            found[job.split].append(utterance)
    return found


def _count(count: int, texts: int) -> int:
    if count < 0:
        raise ConfigError(f"count is {count}; use 0 (each text once) or more")
    if (count or texts) > MAX_COUNT:
        raise ConfigError(
            f"{count or texts} utterances: a folder holds at most {MAX_COUNT}; make several, each with its own seed"
        )
    return count or texts


def _specs(engines: Sequence[EngineSpec] | Sequence[str], language: str) -> list[EngineSpec]:
    names = [engine for engine in engines if isinstance(engine, str)]
    chosen = [engine for engine in engines if not isinstance(engine, str)]
    return chosen + (choose_engines(names, language=language) if names or not chosen else [])


def _splits(
    split: Mapping[str, float] | None, hold_out: Sequence[str], specs: Sequence[EngineSpec]
) -> tuple[dict[str, float], dict[str, str]]:
    """Shares, and the split of each engine that is held out. Without splits there is one without a name."""
    if not split and not hold_out:
        return {"": 1.0}, {}
    shares = {name: share for name, share in (split or {"train": 0.9, "test": 0.1}).items() if share > 0}
    if not hold_out:
        return shares, {}
    tests = [name for name in shares if canonical_split(name) == "test"]
    if len(tests) != 1 or len(shares) < 2:
        raise ConfigError("an engine is held out for the test split; name one so, as in train=0.9,test=0.1")
    known = [spec.name for spec in specs]
    for name in hold_out:
        if name not in known:
            raise ConfigError(f"engine {name!r} is to be held out, and doesn't speak; there are {', '.join(known)}")
    if set(hold_out) == set(known):
        raise ConfigError("all engines are held out, and none is left for training; add another one")
    return shares, dict.fromkeys(hold_out, tests[0])


def _parts(shares: Mapping[str, float], total: int) -> dict[str, int]:
    """Utterances of each split: its share, and one at least."""
    whole = math.fsum(shares.values())
    if total < len(shares):
        raise ConfigError(f"{total} utterances can't be divided into {len(shares)} splits; ask for more")
    parts = {name: max(1, math.floor(share / whole * total)) for name, share in shares.items()}
    largest = max(shares, key=lambda name: shares[name])
    parts[largest] += total - sum(parts.values())
    return parts


def _jobs(prompts: list[Prompt], parts: Mapping[str, int], seed: int, language: str) -> list[Job]:
    """The utterances, the splits one behind the other: each goes on with the texts where the one before has ended.

    So all texts are in all splits as soon as these are large enough.
    """
    total = sum(parts.values())
    order: Iterable[int] = range(len(prompts))
    if len(parts) > 1 or total < len(prompts):
        order = np.random.default_rng([seed, len(prompts)]).permutation(len(prompts)).tolist()
    order = list(order)
    texts = {i: normalise(prompts[i].say, language) for i in order[:total]}
    splits = [name for name, count in parts.items() for _ in range(count)]
    return [
        Job(index, prompts[i].say, texts[i], split, _extra(prompts[i]))
        for index, split in enumerate(splits)
        for i in [order[index % len(order)]]
    ]


def _extra(prompt: Prompt) -> dict[str, Any]:
    found = {"domain": prompt.domain, "intent": prompt.intent, "slots": dict(prompt.slots)}
    return {key: value for key, value in found.items() if value}


def _surroundings(place: Folder, noises: str | Path | None, rooms: str | Path | None) -> Surroundings:
    given = {"noises": noises, "rooms": rooms}
    return Surroundings(
        **{
            name: gather(Path(source), place.cache(name), f"--{name}")
            for name, source in given.items()
            if source is not None
        }
    )


def _check_space(folder: Path, jobs: Sequence[Job]) -> None:
    """Refuse what plainly doesn't fit onto the disk."""
    needed = _BYTES_PER_LETTER * sum(len(job.text) for job in jobs)
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise SynthesisError(
            f"{folder}: {len(jobs)} recordings need about {needed / 1e9:.1f} GB, and {free / 1e9:.1f} GB are free; "
            "make fewer, or choose another disk"
        )


def _digest(prompts: Sequence[Prompt]) -> str:
    found = hashlib.blake2b(digest_size=16)
    for prompt in prompts:
        found.update(json.dumps([prompt.say, _extra(prompt)], ensure_ascii=False).encode("utf-8", "surrogatepass"))
    return found.hexdigest()
