"""Phrases made ready for one model: their graph, the search that is held to it, and what is made of its answers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from os import PathLike
from typing import TYPE_CHECKING, TypeAlias

from asr.commands import Meaning, understand
from asr.errors import ConfigError
from asr.given import brief
from asr.judge import Judge, Witness
from asr.phrases import PhraseSet
from asr.search import CTC_WEIGHT, beam

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from asr.bundle import Bundle
    from asr.phrases import TokenGraph
    from asr.search import Backend, Hypothesis, Memory, SearchOptions
    from asr.tokenizer import Tokenizer

Phrases: TypeAlias = str | PathLike[str] | PhraseSet | list[str] | tuple[str, ...]

NARROWEST = 8  # hypotheses: below it, commands that only CTC tells apart are lost


@dataclass(frozen=True)
class Held:
    """A set of phrases and a model."""

    phrases: PhraseSet
    graph: TokenGraph
    judge: Judge
    options: SearchOptions
    tokenizer: Tokenizer

    @classmethod
    def of(cls, phrases: Phrases, bundle: Bundle, options: SearchOptions, threshold: float | None = None) -> Held:
        """Read and compile. options: of free decoding; the beam is widened. threshold: in place of the bundle's.

        Raises PhrasesError, BundleError, ConfigError.
        """
        if isinstance(phrases, list | tuple) and all(isinstance(line, str) for line in phrases):
            phrases = PhraseSet.parse("\n".join(phrases), "phrases", bundle.language)
        elif isinstance(phrases, str | PathLike):
            phrases = PhraseSet.read(str(phrases), bundle.language)
        elif not isinstance(phrases, PhraseSet):
            raise ConfigError(f"phrases={brief(phrases)}: give a phrase file, a list of sentences, or a PhraseSet")
        judge = Judge.of(bundle)
        if threshold is not None:
            judge = replace(judge, threshold=threshold)
        wide = replace(
            options, beam=max(NARROWEST, options.beam), ctc_weight=options.ctc_weight or CTC_WEIGHT, repeat_limit=1000
        )
        return cls(phrases, phrases.compile(bundle.tokenizer), judge, wide, bundle.tokenizer)

    @property
    def nothing_said(self) -> Meaning:
        """What silence means."""
        return Meaning(None, 0.0, (), "no-speech")

    def search(self, backend: Backend, memory: Memory, seconds: list[float]) -> list[tuple[Meaning, Hypothesis | None]]:
        """What each utterance of the memory meant, and the hypothesis that says so."""
        found = beam(backend, memory, seconds, self.options, self.graph)
        answers: list[tuple[Meaning, Hypothesis | None]] = []
        for row, hypotheses in enumerate(found):
            ctc: NDArray[np.float32] = memory.ctc[row, : memory.lengths[row]]
            witness = Witness.of(ctc)
            if witness.best:
                answers.append(understand(hypotheses, witness, self.phrases, self.tokenizer, self.judge))
            else:
                answers.append((self.nothing_said, None))
        return answers
