"""`cepstra evaluate --phrases`: how many commands are understood, and how much else is taken for one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from asr.cli.evaluate import Asked
    from asr.manifest.records import Utterance
    from asr.phrases import Command, PhraseSet
    from asr.results import Result

# Fewer commands than either are told
FEW: Final = 10
SHARE: Final = 0.05  # of the texts


class Commander(Protocol):
    """A recogniser with a set of phrases named PHRASES."""

    def transcribe(self, sources: list[Utterance], /, *, phrases: str | None = None) -> Sequence[Result]:
        """One result per utterance: of free decoding, or held to the phrases of that name."""
        ...


@dataclass(frozen=True)
class _Held:
    """The recogniser, held to the phrases."""

    commander: Commander

    def transcribe(self, sources: list[Utterance], /) -> Sequence[Result]:
        from asr.cli.evaluate import PHRASES

        return self.commander.transcribe(sources, phrases=PHRASES)


def evaluate_commands_with(
    commander: Callable[[], Commander], asked: Asked, phrases: PhraseSet, *, nearest: bool
) -> int:
    """The whole command with any recogniser, which is made only when manifests and output paths are known to be good.

    A row whose text is a sentence of the phrase file is a command; every other one, speech or not, is to be refused.
    nearest: also measure free decoding with the nearest sentence. Returns the exit code: 1 if an utterance couldn't be
    transcribed. Raises CepstraError where nothing can be measured.
    """
    from rich.text import Text

    from asr.cli.evaluate import read_all, transcribe_rows, write_files
    from asr.cli.identity import digest_of
    from asr.cli.outputs import check_outputs
    from asr.evaluation.command_page import command_report
    from asr.evaluation.command_table import command_summary
    from asr.evaluation.commands import CommandEvaluation, Trial
    from asr.evaluation.nearest import Nearest
    from asr.held import NARROWEST

    check_outputs([("--report", asked.report), ("--json", asked.json)], asked.read)
    beam = max(NARROWEST, asked.settings.get("beam", 1))
    asked = replace(asked, settings={**asked.settings, "beam": beam, "phrases": phrases.name})
    rows = read_all(asked.manifests, asked.limit)
    meant = {id(utterance): phrases.command(utterance.text) for _, utterance in rows}
    nearby = Nearest(phrases) if nearest else None
    recogniser = commander()
    if doubt := _doubt([(utterance.text, meant[id(utterance)]) for _, utterance in rows], asked, phrases):
        asked.err.print(Text(doubt), soft_wrap=True)
    asked = replace(asked, digest=digest_of(recogniser))
    heard, run = transcribe_rows(_Held(recogniser), rows, asked)
    trials = [
        Trial.of(each.name, each.group, each.utterance.text, meant[id(each.utterance)], each.result.meaning)
        for each in heard
        if each.result.meaning is not None
    ]
    evaluation, beside = CommandEvaluation.of(trials), None
    if nearby is not None:
        read = {id(each.utterance) for each in heard}  # what couldn't be was said once
        free, _ = transcribe_rows(recogniser, [row for row in rows if id(row[1]) in read], asked)
        trials = [
            nearby.trial(each.name, each.group, each.utterance.text, meant[id(each.utterance)], each.result.text)
            for each in free
        ]
        beside = CommandEvaluation.of(trials)
    asked.out.print(command_summary(evaluation, run, beside))

    def figures() -> dict[str, object]:
        compared = {} if beside is None else {"nearest": beside.to_dict()}
        return {"run": run.to_dict(), **evaluation.to_dict(), **compared}

    write_files(asked, figures, lambda: command_report(evaluation, run, beside))
    return 1 if run.failures else 0


def _doubt(said: Sequence[tuple[str, Command | None]], asked: Asked, phrases: PhraseSet) -> str:
    """What to say where manifest and phrase file hardly belong together, and the figures would mean nothing; or "".

    said: each row's text, which may be that of noise, and its command.
    """
    from asr.phrases.faults import shown
    from asr.text import normalise

    texts = [(text, command) for text, command in said if normalise(text, phrases.grammar.language)]
    commands = sum(command is not None for _, command in texts)
    if not texts or commands >= min(FEW, SHARE * len(texts)):
        return ""
    other = next(text for text, command in texts if command is None)
    return (
        f"{', '.join(map(str, asked.manifests))}: {commands} of {len(texts)} texts are sentences of {phrases.name} "
        f"({shown(other)} is none), so the figures hardly say how well its commands are understood; give the phrase "
        "file that belongs to these recordings, or recordings of its sentences"
    )
