"""Which engines speak, and which of their voices in which split."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from asr.errors import SynthesisError
from audio.synthesis import KINDS, EngineSpec, open_engine
from audio.synthesis.catalogue import why_missing
from audio.synthesis.command import name_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from audio.synthesis import Engine

COMMAND: Final = "cmd:"


def choose_engines(
    names: Sequence[str] = (),
    *,
    language: str = "en",
    kokoro: str | Path | None = None,
    piper_models: Sequence[str | Path] = (),
) -> list[EngineSpec]:
    """Engines by name; without names, all that are there.

    names: a kind of engine, perhaps with its weight (`hibari=3`), or `cmd: PROGRAM ... {text} {out}`. kokoro: the
    folder of its model. piper_models: ONNX files, in place of the installed voices.
    Raises SynthesisError for an engine that isn't there, with how to install it.
    """
    options: dict[str, Any] = {
        "language": language,
        "folder": None if kokoro is None else str(kokoro),
        "models": [str(path) for path in piper_models],
    }
    if not names:
        found = [_spec(kind, options) for kind in KINDS if kind != "cmd" and _usable(kind, options)]
        if not found:
            raise SynthesisError(
                f"no engine is installed that speaks {language!r}; the simplest: pip install 'cepstra[synthesis]', or "
                "apt install espeak-ng; `cepstra synthesize --engines` lists all"
            )
        return found
    specs: list[EngineSpec] = []
    for name in names:
        spec = _command(name) if name.startswith(COMMAND) else _named(name, options)
        taken = {other.name for other in specs}
        if spec.name in taken and spec.kind != "cmd":
            raise SynthesisError(f"engine {spec.name}: is there twice; name it once")
        number = 2
        while spec.name in taken:
            again = f"{name_of(spec.options['command'])}-{number}"
            spec = EngineSpec("cmd", again, spec.weight, {**spec.options, "name": again})
            number += 1
        specs.append(spec)
    return specs


def open_all(specs: Sequence[EngineSpec]) -> dict[str, Engine]:
    """The engines, by name."""
    return {spec.name: open_engine(spec) for spec in specs}


def divide_voices(
    engines: Mapping[str, Engine], shares: Mapping[str, float], seed: int, held_out: Mapping[str, str]
) -> dict[str, dict[str, tuple[str, ...]]]:
    """Split to engine to voices, so that no two splits share one, but for engines that make their speakers.

    shares: of each split. Engines with fewer voices than splits have them divided together, so that two programs of one
    voice each may speak in one split each; a single one speaks in that of the largest share.
    held_out: engines that speak in one split alone, where no other engine does, and that split.
    Raises SynthesisError where a split would have no voice.
    """
    voices: dict[str, dict[str, tuple[str, ...]]] = {split: {} for split in shares}
    rng = np.random.default_rng(seed)
    open_splits = sorted((one for one in shares if one not in held_out.values()), key=lambda split: -shares[split])
    few: list[tuple[str, str]] = []
    for name, engine in engines.items():
        pool = [(name, voice) for voice in engine.voices]
        if name in held_out:
            _give(voices, [held_out[name]], [pool])
        elif len(pool) >= len(open_splits):
            _give(voices, open_splits, _cut(pool, [shares[split] for split in open_splits], rng))
        elif engine.makes_speakers:
            _give(voices, open_splits, [pool] * len(open_splits))
        else:
            few += pool
    _give(voices, open_splits, _cut(few, [shares[split] for split in open_splits], rng))
    for split, found in voices.items():
        if not found:
            raise SynthesisError(
                f"split {split!r}: no engine has a voice left for it, since no two splits share one; add an engine"
            )
    return voices


def _give(
    voices: dict[str, dict[str, tuple[str, ...]]], splits: Sequence[str], pools: Sequence[list[tuple[str, str]]]
) -> None:
    """Put (engine, voice) pairs down for their splits."""
    for split, pool in zip(splits, pools, strict=True):
        for name, voice in pool:
            voices[split][name] = (*voices[split].get(name, ()), voice)


def _cut(voices: list[tuple[str, str]], shares: list[float], rng: np.random.Generator) -> list[list[tuple[str, str]]]:
    """Mixed, and cut by shares, which fall; one each at least, as far as they go."""
    voices = [voices[int(i)] for i in rng.permutation(len(voices))]
    counts = [1 if i < len(voices) else 0 for i in range(len(shares))]
    for _ in range(len(voices) - sum(counts)):
        total = sum(shares)
        lacking = [share / total * len(voices) - count for share, count in zip(shares, counts, strict=True)]
        counts[int(np.argmax(lacking))] += 1
    return [voices[start:end] for start, end in pairwise(np.cumsum([0, *counts]))]


def _usable(kind: str, options: Mapping[str, Any]) -> bool:
    """Whether it is there and speaks the language."""
    taken = _taken(kind, options)
    if why_missing(kind, taken) is not None or not _speaks(kind, options["language"]):
        return False
    try:
        open_engine(EngineSpec(kind, kind, 1, taken))
    except SynthesisError:  # the language has no voice there
        return False
    return True


def _named(name: str, options: Mapping[str, Any]) -> EngineSpec:
    kind, equals, weight = name.partition("=")
    if kind not in KINDS or kind == "cmd":
        known = ", ".join(kind for kind in KINDS if kind != "cmd")
        raise SynthesisError(
            f"no engine {name!r:.60}; there are {known}, and any program: 'cmd: mytts {{text}} {{out}}'"
        )
    if not _speaks(kind, options["language"]):
        raise SynthesisError(
            f"engine {kind}: speaks English alone, not {options['language']!r}; choose espeak or piper"
        )
    if (why := why_missing(kind, _taken(kind, options))) is not None:
        raise SynthesisError(f"engine {kind}: {why}; install it: {KINDS[kind].install}")
    spec = _spec(kind, options)
    if not equals:
        return spec
    try:
        number = float(weight)
    except ValueError:
        number = 0.0
    if not 0 < number < 1e6:
        raise SynthesisError(f"engine {name!r}: {weight!r} is no weight; write a number above 0, as in {kind}=2")
    return EngineSpec(spec.kind, spec.name, number, spec.options)


def _command(name: str) -> EngineSpec:
    command = name.removeprefix(COMMAND).strip()
    own = name_of(command)
    return EngineSpec("cmd", own, KINDS["cmd"].weight, {"command": command, "name": own})


def _spec(kind: str, options: Mapping[str, Any]) -> EngineSpec:
    return EngineSpec(kind, kind, KINDS[kind].weight, _taken(kind, options))


def _taken(kind: str, options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: options[name] for name in KINDS[kind].takes if name in options}


def _speaks(kind: str, language: str) -> bool:
    return not KINDS[kind].english_only or language.replace("_", "-").split("-")[0].lower() == "en"
