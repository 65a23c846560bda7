"""A training run from settings to checkpoint and report; started again, it goes on where it stopped.

Torch is imported once all that can be refused without it has been looked at: that takes a moment, torch ten seconds.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from asr.errors import CepstraError, ConfigError, ManifestError
from asr.model.config import PRESETS
from asr.tokenizer import Tokenizer
from asr.training.advice import advice
from asr.training.batches import BatchStream
from asr.training.config import TrainConfig
from asr.training.console import near, say
from asr.training.corpus import Packed, load, shared, usable
from asr.training.folder import Folder
from asr.training.signals import SignalledError, Signals
from audio.augmentation import Augmenter
from audio.mfcc import MfccSpec, mfcc

if TYPE_CHECKING:
    from collections.abc import Iterator

    from asr.training.checkpoint import Trained


def train(config: TrainConfig, *, restart: bool = False) -> Path:
    """Train as configured; returns the checkpoint to export, `best.ckpt` in the output folder.

    A run that was interrupted goes on from its last checkpoint, unless restart. Raises CepstraError; that is a
    SignalledError where Ctrl-C or SIGTERM ended it.
    """
    folder, signals = Folder(Path(config.output)), Signals()
    with signals.listening():
        try:
            with folder.held():
                return _train(config, folder, signals, restart=restart)
        except CepstraError:
            raise
        except BaseException:  # KeyboardInterrupt, and what libraries make of it
            if signals.told is None:
                raise
            last = near(folder.last) if folder.last.exists() else None
            how = f"the same command goes on from {last}" if last else "the same command begins anew"
            raise SignalledError(f"stopped at once; {how}", signals.told) from None


def _train(config: TrainConfig, folder: Folder, signals: Signals, *, restart: bool) -> Path:
    asked = config
    last = folder.goes_on_from(config, restart=restart)
    if last and folder.report.exists() and folder.best.exists():
        say(f"{folder.path}: this run is finished, its model is {near(folder.best)}; --restart begins anew")
        return folder.best
    sounds, augmenter = _load(config)
    tokenizer, config, source = _start(config, sounds.training, last)
    training, validation = _usable(sounds, tokenizer, augmenter, config)
    stream = BatchStream(
        training, config.data, config.stages, augmenter, accumulate=config.optimiser.accumulate, seed=config.seed,
        world=config.devices,
    )  # fmt: skip
    for line in advice(config, training, tokenizer, stream):
        say(line)

    from asr.training.data import Data  # noqa: PLC0415
    from asr.training.fit import fit  # noqa: PLC0415

    data = Data(training, validation, tokenizer, augmenter, config)
    fit(data, folder, signals, asked=asked, source=source, last=last, restart=restart)
    return folder.best


def _check_files(config: TrainConfig) -> None:
    """Whether the files that the settings name are there, asked before the first of them is worked through.

    Raises ConfigError or ManifestError.
    """
    for name, example in (("train", "train.jsonl"), ("validation", "dev.jsonl")):
        if not getattr(config.data, name):
            raise ConfigError(
                f"setting data.{name}: names no manifest; write data.{name}=[{{manifest: {example}}}]"
                + ("" if name == "train" else ", and split one off with `cepstra manifest split`")
            )
    for name in ("train", "validation", "silences", "noises", "rooms"):
        for source in getattr(config.data, name):
            if not Path(source.manifest).exists():
                raise ManifestError(f"setting data.{name}: no such manifest: {source.manifest}; check the path")
    if config.start_from and not Path(config.start_from).exists():
        raise ConfigError(f"setting start_from: no such file: {config.start_from}; give best.ckpt of a run's folder")


class _Sounds(NamedTuple):
    """What the manifests name."""

    training: Packed
    validation: Packed
    silences: Packed


def _load(config: TrainConfig) -> tuple[_Sounds, Augmenter]:
    _check_files(config)
    cache = Path(config.data.cache)
    training = load(config.data.train, cache, config.language, "training")
    validation = load(config.data.validation, cache, config.language, "validation")
    both = shared(training, validation)
    if both:
        raise ManifestError(
            f"{both[0].audio_filepath} and {len(both) - 1} other utterances of the validation are in the training data "
            "too; take them out of one"
        )
    silences = load(config.data.silences, cache, config.language, "silences")
    noises = load(config.data.noises, cache, config.language, "noise")
    rooms = load(config.data.rooms, cache, config.language, "rooms")
    augmenter = Augmenter(
        config.augmentation,
        [noises.samples(i) for i in range(len(noises))],
        [rooms.samples(i) for i in range(len(rooms))],
    )
    return _Sounds(training, validation, silences), augmenter


def _start(config: TrainConfig, training: Packed, last: Path | None) -> tuple[Tokenizer, TrainConfig, Trained | None]:
    """Vocabulary, front end and shape of the model: from the checkpoint gone on or started from, else from the data.

    Returns the model of that checkpoint as well.
    """
    path = last or (Path(config.start_from) if config.start_from else None)
    if path:
        from asr.training.checkpoint import read_checkpoint  # noqa: PLC0415

        source = read_checkpoint(path)
        for line in _kept(config, source) if path is not last else ():
            say(line)
        shape = replace(source.model.config, dropout=config.model.dropout)
        return source.tokenizer, replace(config, model=shape, front_end=source.model.spec), source
    tokenizer = Tokenizer.train([t for t in training.texts if t], config.vocab_size)
    spec = config.front_end
    if spec.spread is None:
        spec = replace(spec, spread=measure_spread(training, spec))
    return tokenizer, replace(config, front_end=spec), None


def _kept(config: TrainConfig, source: Trained) -> Iterator[str]:
    """A line for each setting that was stated, as it differs from what is usual, and doesn't count."""
    pieces = source.tokenizer.vocab_size
    for heading, asked, usual, its in (
        ("model.", config.model.to_dict(), PRESETS[config.preset].to_dict(), source.model.config.to_dict()),
        ("front_end.", config.front_end.to_dict(), MfccSpec().to_dict(), source.model.spec.to_dict()),
        ("", {"vocab_size": config.vocab_size}, {"vocab_size": TrainConfig.vocab_size}, {"vocab_size": pieces}),
    ):
        for name, value in asked.items():
            if name != "dropout" and value not in (usual[name], its[name]):
                yield f"setting {heading}{name}: the model of {config.start_from} has {its[name]}, and keeps it"


def measure_spread(data: Packed, spec: MfccSpec, most: int = 1000) -> tuple[float, ...]:
    """What all cepstra are divided by: one number, their standard deviation around their utterances' means.

    Over up to `most` utterances. Not each by its own: the higher a cepstrum, the smaller it is and the less it says of
    words, and a model that begins with all of them as large has to find that out first.
    """
    squares, count = 0.0, 0
    for i in np.linspace(0, len(data) - 1, min(most, len(data))).astype(int):
        cepstra = mfcc(data.samples(int(i)), replace(spec, spread=None, normalisation="utterance")).astype(np.float64)
        squares += float((cepstra**2).sum())
        count += cepstra.size
    spread = round(float(np.sqrt(squares / max(1, count))), 5)
    # Cepstra that never move tell nothing: they are left as they are, not blown up
    return (spread if spread > 1e-6 else 1.0,) * spec.n_cepstra


def _usable(sounds: _Sounds, tokenizer: Tokenizer, augmenter: Augmenter, config: TrainConfig) -> tuple[Packed, Packed]:
    """Training data, with silences, and validation data: without what can't be learnt from.

    Of the training data that is also what can't when it is played fast and its start is lost.
    """
    spec, model = config.front_end, config.model
    fastest = max((1.0, *(config.augmentation.speed_factors if config.augmentation.speed_probability else ())))

    def positions(samples: int) -> int:
        return model.memory_length(spec.frames(samples))

    remedy = _more_places(config)
    training = usable(
        sounds.training, tokenizer, config.data, lambda n: positions(augmenter.min_length(n, fastest)), "training",
        remedy=remedy,
    )  # fmt: skip
    if config.data.silences:
        training = training.with_more(
            usable(sounds.silences, tokenizer, config.data, positions, "silences", silent=True)
        )
    validation = usable(sounds.validation, tokenizer, config.data, positions, "validation", remedy=remedy)
    evenly = np.linspace(0, len(validation) - 1, min(config.data.max_validation, len(validation)))
    if len(evenly) < config.devices:
        raise ConfigError(f"setting devices: {config.devices} can't share {len(evenly)} validation utterances")
    return training, validation.take(evenly.astype(np.int64))


def _more_places(config: TrainConfig) -> str:
    """What gives a text of many tokens the positions that it needs, of what isn't set already."""
    if config.start_from:  # with its tokens and its shape
        return f"so it is with the model of {config.start_from}; without start_from, other settings of the model count"
    remedies = ["a larger vocab_size needs fewer tokens"]
    if config.model.halves:
        remedies.append("model.halve_after=0 leaves more places")
    elif config.model.stride > 1:
        remedies.append(f"model.stride={config.model.stride - 1} leaves more places")
    return ", ".join(remedies)
