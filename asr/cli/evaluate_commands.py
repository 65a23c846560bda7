"""`cepstra evaluate --phrases`: how many commands are understood, and how much else is taken for one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from asr.cli.evaluate import Asked
    from asr.manifest.records import Utterance
    from asr.phrases import PhraseSet
    from asr.results import Result


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
    nearby = Nearest(phrases) if nearest else None
    recogniser = commander()
    asked = replace(asked, digest=digest_of(recogniser))
    heard, run = transcribe_rows(_Held(recogniser), rows, asked)
    meant = [phrases.command(each.utterance.text) for each in heard]
    trials = [
        Trial.of(each.name, each.group, each.utterance.text, command, each.result.meaning)
        for each, command in zip(heard, meant, strict=True)
        if each.result.meaning is not None
    ]
    evaluation, beside = CommandEvaluation.of(trials), None
    if nearby is not None:
        read = {id(each.utterance) for each in heard}  # what couldn't be was said once
        free, _ = transcribe_rows(recogniser, [row for row in rows if id(row[1]) in read], asked)
        trials = [
            nearby.trial(
                each.name, each.group, each.utterance.text, phrases.command(each.utterance.text), each.result.text
            )
            for each in free
        ]
        beside = CommandEvaluation.of(trials)
    asked.out.print(command_summary(evaluation, run, beside))

    def figures() -> dict[str, object]:
        compared = {} if beside is None else {"nearest": beside.to_dict()}
        return {"run": run.to_dict(), **evaluation.to_dict(), **compared}

    write_files(asked, figures, lambda: command_report(evaluation, run, beside))
    return 1 if run.failures else 0
