"""From a phrase file to a bundle, step by step; what was done before an interruption isn't done again."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from asr.bundle import read_bundle, write_bundle
from asr.calibration import calibrate
from asr.errors import ConfigError
from asr.files import real_path, write_atomically
from asr.hearing import FACT
from asr.phrases import PhraseSet
from asr.phrases import check as checking
from asr.recognizer import DEFAULT_BUNDLE, DEFAULT_WEIGHTS
from export.loss import MAX_WER_LOSS, LossError, read_development
from export.make.inputs import check_inputs
from export.make.learning import learn, write_settings
from export.make.measuring import Figures, measure
from export.make.settings import SPLIT, MakeSettings, Workshop
from export.make.speaking import divide_own, speak

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

    from export.convert import Precision

STEPS = 6
FEW = 200  # recordings: a threshold chosen with fewer is left to chance
WORDS_BY_CHANCE = 3  # more or less are wrong whatever is rounded: of few recordings they are many points


class Display(Protocol):
    """What tells a person how far it is."""

    def say(self, line: str) -> None:
        """A line that stays."""
        ...

    def bar(self, title: str) -> AbstractContextManager[Callable[[int, int], None]]:
        """A bar that is gone when the block ends: done, of so many."""
        ...


@dataclass(frozen=True)
class Made:
    """The bundle and its figures, beside those of the model that it began as."""

    bundle: Path
    before: Figures
    after: Figures
    report: dict[str, Any]


def make(settings: MakeSettings, output: Path, work: Path, display: Display, *, restart: bool = False) -> Made:
    """Check, speak, learn, export, calibrate, measure.

    output: the bundle; it is written when all is done. work: the folder for what is made on the way.
    Raises CepstraError for whatever stands against it; KeyboardInterrupt leaves what is done in its place.
    """
    place = Workshop(real_path(work))
    check_inputs(settings, place, output)
    phrases = PhraseSet.read(settings.phrases, settings.language)
    _check(phrases, display)
    with place.begun(settings, display.say, restart=restart):
        own = divide_own(settings, place)
        display.say(_step(2, f"speaking: {settings.count} commands and {settings.others} other sentences"))
        with display.bar("speaking") as progress:
            speak(settings, phrases, place, progress, display.say)
        spoken = sum(len(place.rows(split)) for split in SPLIT)
        whose = f", {own} of them your own" if own else ""
        display.say(_indented(f"{spoken} recordings{whose} in {place.path}"))
        display.say(_step(3, f"learning: {settings.steps} steps from {settings.start_from.name}"))
        write_settings(settings, place)
        checkpoint = learn(place)
        draft = place.draft
        _export(checkpoint, output.stem, settings, place, display)
        _calibrate(draft, place, display)
        made = _measure(draft, phrases, place, display, output)
        draft.unlink(missing_ok=True)
    return made


def _step(number: int, text: str) -> str:
    return f"[{number}/{STEPS}] {text}"


def _indented(text: str) -> str:
    return f"      {text}"


def _check(phrases: PhraseSet, display: Display) -> None:
    report = checking.check(phrases, read_bundle(DEFAULT_BUNDLE).tokenizer)
    display.say(_step(1, f"phrases: {report.sentences:,} sentences, intents: {report.intents}, words: {report.words}"))
    for pair in report.alike[:3]:
        display.say(f"      {pair.one!r} and {pair.other!r} sound alike and mean different things")
    for ambiguity in report.ambiguities[:3]:
        display.say(f"      {ambiguity.said!r} means two things: the first counts")


def _export(checkpoint: Path, name: str, settings: MakeSettings, place: Workshop, display: Display) -> None:
    from export.convert import export  # noqa: PLC0415  torch, which takes seconds to load

    words = sum(len(row.text.split()) for row in place.rows("dev"))
    most = max(MAX_WER_LOSS, 100 * WORDS_BY_CHANCE / words)
    development = read_development(place.manifests("dev"))
    precisions: tuple[Precision, ...] = (settings.precision, "float16")
    display.say(_step(4, f"exporting in {settings.precision}"))
    for precision in dict.fromkeys(precisions):
        try:
            exported = export(
                checkpoint, place.draft, name=name, precision=precision,
                development=() if precision == "float32" else development, max_wer_loss=most,
                facts={"phrases": settings.phrases.name, **_inherited(settings)},
                stage=lambda what: display.say(_indented(what)),
            )  # fmt: skip
        except LossError as error:
            if precision == "float16":
                raise
            display.say(_indented(f"{error}; float16 is taken instead"))
            continue
        rates = (f"word error rate of held-out voices, {loss.told(precision)}" for loss in exported.losses)
        for line in (f"{place.draft.stat().st_size / 1e6:.1f} MB, {precision}", *rates):
            display.say(_indented(line))
        return


def _inherited(settings: MakeSettings) -> dict[str, Any]:
    """How the shipped model tells words from noise and commands from others: the nearest there is, to begin with."""
    if settings.start_from != real_path(DEFAULT_WEIGHTS):
        return {}
    facts = read_bundle(DEFAULT_BUNDLE).facts
    return {name: facts[name] for name in ("commands", FACT) if name in facts}


def _calibrate(draft: Path, place: Workshop, display: Display) -> None:
    bundle = read_bundle(draft)
    rows = place.rows("dev")
    if len(rows) < FEW and "commands" in bundle.facts:
        display.say(
            _step(5, f"{len(rows)} recordings are too few to calibrate with: the shipped model's threshold stays")
        )
        return
    display.say(_step(5, f"calibrating on {len(rows)} recordings"))
    try:
        with display.bar("calibrating") as progress:
            result = calibrate(bundle, rows, progress=progress)
    except ConfigError as error:  # too little was understood: no reason to throw the model away
        display.say(_indented(f"not calibrated, confidences are a guess: {error}"))
        return
    write_bundle(draft, replace(bundle, facts={**bundle.facts, "commands": result.judge.to_dict()}))
    display.say(_indented(f"threshold {result.judge.threshold:.2f}"))


def _measure(draft: Path, phrases: PhraseSet, place: Workshop, display: Display, output: Path) -> Made:
    bundle = read_bundle(draft)
    rows = len(place.rows("test"))
    display.say(_step(6, f"measuring with {rows} recordings that nothing has learnt from"))
    figures = []
    for name, which in (("measuring", bundle), ("measuring the shipped model", None)):
        with display.bar(name) as progress:
            figures.append(measure(which, phrases, place.manifests("test"), progress))
    after, before = figures
    display.say(_indented(f"the figures are in {place.report}"))
    report = {"after": after.to_dict(), "before": before.to_dict()}
    write_atomically(place.report, json.dumps(report, indent=1) + "\n")
    total = after.commands.total
    measured = {
        "commands": total.commands, "understood": total.understood, "others": total.others,
        "false_accepts": total.false_accepts, "wer": after.wer_commands,
    }  # fmt: skip
    write_bundle(output, replace(bundle, facts={**bundle.facts, "made": measured}))
    return Made(output, before, after, report)
