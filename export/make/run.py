"""From a phrase file to a bundle, step by step; what was done before an interruption isn't done again."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from asr.bundle import read_bundle, write_bundle
from asr.calibration import calibrate
from asr.errors import CepstraError
from asr.files import real_path, write_atomically
from asr.manifest import read_manifest
from asr.phrases import PhraseSet
from asr.phrases import check as checking
from asr.recognizer import DEFAULT_BUNDLE
from asr.synthesis import choose_engines
from export.loss import MAX_WER_LOSS
from export.make.learning import learn, write_settings
from export.make.measuring import Figures, measure
from export.make.settings import MakeSettings, Workshop
from export.make.speaking import divide_own, speak

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

    from export.convert import Precision

STEPS = 6
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
    phrases = PhraseSet.read(settings.phrases, settings.language)
    place = Workshop(real_path(work))
    _check(phrases, display)
    _check_inputs(settings)
    with place.begun(settings, display.say, restart=restart):
        own = divide_own(settings, place)
        with display.bar("speaking") as progress:
            speak(settings, phrases, place, progress, display.say)
        spoken = sum(len(read_manifest(path)) for split in ("train", "dev", "test") for path in place.manifests(split))
        display.say(
            _step(
                2, f"speech: {spoken} recordings" + (f", {own} of them your own" if own else "") + f" in {place.path}"
            )
        )
        display.say(_step(3, f"learning, {settings.steps} steps from {settings.start_from.name}"))
        write_settings(settings, place)
        checkpoint = learn(place)
        draft = place.path / output.name
        _export(checkpoint, draft, settings, place, display)
        _calibrate(draft, place, display)
        made = _measure(draft, phrases, place, display, output)
        draft.unlink(missing_ok=True)
    return made


def _step(number: int, text: str) -> str:
    return f"[{number}/{STEPS}] {text}"


def _check(phrases: PhraseSet, display: Display) -> None:
    report = checking.check(phrases, read_bundle(DEFAULT_BUNDLE).tokenizer)
    display.say(_step(1, f"phrases: {report.sentences:,} sentences, {report.intents} intents, {report.words} words"))
    for pair in report.alike[:3]:
        display.say(f"      {pair.one!r} and {pair.other!r} sound alike and mean different things")
    for ambiguity in report.ambiguities[:3]:
        display.say(f"      {ambiguity.said!r} means two things: the first counts")


def _check_inputs(settings: MakeSettings) -> None:
    """Whatever can be refused is, before minutes are spent on it."""
    from asr.training.checkpoint import read_checkpoint  # noqa: PLC0415  torch, which takes seconds to load

    choose_engines(settings.engines, language=settings.language)
    for manifest in settings.base:
        read_manifest(manifest)
    read_checkpoint(settings.start_from)


def _export(checkpoint: Path, draft: Path, settings: MakeSettings, place: Workshop, display: Display) -> None:
    from export.convert import export  # noqa: PLC0415  torch, which takes seconds to load

    words = sum(len(row.text.split()) for manifest in place.manifests("dev") for row in read_manifest(manifest))
    most = max(MAX_WER_LOSS, 100 * WORDS_BY_CHANCE / words)
    precisions: tuple[Precision, ...] = (settings.precision, "float16")
    for precision in dict.fromkeys(precisions):
        try:
            exported = export(
                checkpoint, draft, precision=precision, manifests=place.manifests("dev"),
                max_wer_loss=most, facts={"phrases": settings.phrases.name},
            )  # fmt: skip
        except CepstraError as error:
            if precision == "float16":
                raise
            display.say(f"      {error}; float16 is taken instead")
            continue
        size = draft.stat().st_size / 1e6
        display.say(
            _step(
                4,
                f"exported: {size:.1f} MB, {precision}; " + "; ".join(loss.told(precision) for loss in exported.losses),
            )
        )
        return


def _calibrate(draft: Path, place: Workshop, display: Display) -> None:
    bundle = read_bundle(draft)
    rows = [row for manifest in place.manifests("dev") for row in read_manifest(manifest)]
    with display.bar("calibrating") as progress:
        result = calibrate(bundle, rows, progress=progress)
    write_bundle(draft, replace(bundle, facts={**bundle.facts, "commands": result.judge.to_dict()}))
    display.say(_step(5, f"calibrated on {len(rows)} recordings: threshold {result.judge.threshold:.2f}"))


def _measure(draft: Path, phrases: PhraseSet, place: Workshop, display: Display, output: Path) -> Made:
    bundle = read_bundle(draft)
    figures = []
    for name, which in (("measuring", bundle), ("measuring the shipped model", None)):
        with display.bar(name) as progress:
            figures.append(measure(which, phrases, place.manifests("test"), progress))
    after, before = figures
    display.say(_step(6, f"measured; the figures are in {place.path / 'report.json'}"))
    report = {"after": after.to_dict(), "before": before.to_dict()}
    write_atomically(place.path / "report.json", json.dumps(report, indent=1) + "\n")
    total = after.commands.total
    measured = {
        "commands": total.commands, "understood": total.understood, "others": total.others,
        "false_accepts": total.false_accepts, "wer": after.wer_commands,
    }  # fmt: skip
    write_bundle(output, replace(bundle, facts={**bundle.facts, "made": measured}))
    return Made(output, before, after, report)
