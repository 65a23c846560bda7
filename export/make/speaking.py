"""The recordings that are learnt from: of the phrase file's sentences, of others, and the user's own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from asr.errors import ManifestError
from asr.manifest import read_manifest, write_manifest
from asr.manifest.split import canonical_split, divide
from asr.synthesis import prompts_from, synthesize
from asr.text import normalise
from export.make.settings import SPLIT

if TYPE_CHECKING:
    from collections.abc import Callable

    from asr.manifest import Utterance
    from asr.phrases import PhraseSet
    from export.make.settings import MakeSettings, Workshop

EVERYDAY: Final = Path(__file__).with_name("everyday.txt")  # commands of all kinds, numbers, spelling, general English
SHOWN: Final = 3  # failures of an engine
FEW_SPEAKERS: Final = 10  # of fewer none is held out: their recordings are


def speak(
    settings: MakeSettings, phrases: PhraseSet, place: Workshop, progress: Callable[[int, int], None],
    say: Callable[[str], None],
) -> None:  # fmt: skip
    """Make what isn't made yet. Both folders draw voices by one seed, so that their splits agree about them.

    Raises SynthesisError where no engine speaks.
    """
    sentences = prompts_from(str(settings.phrases), settings.count, seed=settings.seed, language=settings.language)
    others = other_sentences(phrases, settings.language)
    total = settings.count + settings.others
    for texts, folder, count, before in (
        (sentences, place.speech, settings.count, 0),
        (others, place.others, settings.others, settings.count),
    ):
        made = synthesize(
            texts, folder, count=count, engines=settings.engines, seed=settings.seed, split=SPLIT,
            language=settings.language, progress=_after(before, total, progress), say=say,
        )  # fmt: skip
        for failure in made.failures[:SHOWN]:
            say(f"warning: {failure}")


def _after(before: int, total: int, progress: Callable[[int, int], None]) -> Callable[[int, int], None]:
    """The progress of a part that begins when so many are done."""
    return lambda done, _: progress(before + done, total)


def other_sentences(phrases: PhraseSet, language: str) -> list[str]:
    """Everyday sentences that aren't the phrase file's, in an order that has nothing to do with their letters."""
    lines = EVERYDAY.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if phrases.command(normalise(line, language)) is None]


def divide_own(settings: MakeSettings, place: Workshop) -> int:
    """The user's recordings, by speaker, or by recording where speakers are few; returns how many there are.

    Where rows say which split they are of, these keep it, and the others are learnt from. Raises ManifestError.
    """
    rows: list[Utterance] = []
    for manifest in settings.recordings:
        found = [row for row in read_manifest(manifest) if normalise(row.text, settings.language)]
        if not found:
            raise ManifestError(f"{manifest}: holds no text; recordings need their words")
        rows += found
    if not rows:
        return 0
    speakers = {row.speaker for row in rows}
    by_file = len(speakers) < FEW_SPEAKERS or None in speakers
    rows = [replace(row, split=canonical_split(row.split or "")) for row in rows]
    free = [row for row in rows if row.split is None]
    divided = [row for row in rows if row.split is not None]
    if len(rows) < FEW_SPEAKERS or divided:  # too few to measure anything with, or what it is measured with is stated
        divided += [replace(row, split="train") for row in free]
    else:
        divided = _divided(free, settings.seed, by_file=by_file)
    for split in SPLIT:
        part = [row for row in divided if row.split == split]
        if part:
            write_manifest(place.own(split), part)
    return len(rows)


def _divided(rows: list[Utterance], seed: int, *, by_file: bool) -> list[Utterance]:
    """Each split gets some, if there is a seed that does so."""
    for other in range(seed, seed + 1000):
        try:
            return divide(rows, SPLIT, seed=other, by_file=by_file)
        except ManifestError:
            continue
    order = np.random.default_rng(seed).permutation(len(rows)).tolist()
    held = {order[0]: "dev", order[1]: "test"}
    return [replace(row, split=held.get(i, "train")) for i, row in enumerate(rows)]
