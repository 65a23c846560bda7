"""What is done without a search held to phrases: write freely, then take the sentence that is nearest by letters.

Here to be compared with. Its confidence is a similarity, and no probability.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from asr.edits import Texts
from asr.errors import PhrasesError
from asr.evaluation.commands import Trial
from asr.text import normalise

if TYPE_CHECKING:
    from asr.phrases import Command, PhraseSet

MOST = 20_000  # sentences, for each of which every text is compared


class Nearest:
    """The sentence of a phrase file that is nearest to a text."""

    def __init__(self, phrases: PhraseSet) -> None:
        """Raises PhrasesError where the file has more sentences than can be compared one by one."""
        if phrases.sentences > MOST:
            raise PhrasesError(
                f"{phrases.name}: has {phrases.sentences} sentences, too many to compare one by one (up to {MOST}); "
                "measure without the nearest sentence"
            )
        self.phrases = phrases
        self.sentences = phrases.samples(MOST)
        self._texts = Texts(self.sentences)
        self._lengths = np.array([len(sentence) for sentence in self.sentences])

    def trial(self, name: str, group: str, reference: str, meant: Command | None, text: str) -> Trial:
        """What comes of a text that was written freely. Nothing written is nothing found.

        The confidence is 1 - edit distance in letters / the longer text's length, and every sentence is accepted.
        """
        text = normalise(text, self.phrases.grammar.language)
        if not text:
            return Trial(name, group, reference, meant, None, 0.0, accepted=False, rejected="no-speech")
        similar = 1 - self._texts.distances(text) / np.maximum(self._lengths, len(text))
        nearest = int(similar.argmax())
        command = self.phrases.command(self.sentences[nearest])
        return Trial(name, group, reference, meant, command, float(similar[nearest]), accepted=True)
