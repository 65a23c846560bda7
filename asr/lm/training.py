"""Learning a language model from sentences, and how well one foretells others."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import compress
from typing import TYPE_CHECKING, Any, Final, Literal

from asr.errors import ConfigError, GuidanceError
from asr.lm.file import LanguageModel, Lm, digest_of
from asr.lm.ngram import HIGHEST_ORDER, NGram
from asr.lm.skips import Skips
from asr.search.hypothesis import EOS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from asr.search import Guide
    from asr.tokenizer import Tokenizer

Kind = Literal["ngram", "skips"]

HELD_OUT: Final = 10  # one sentence of so many, where none are given to measure with


@dataclass(frozen=True)
class Perplexity:
    """How many tokens, or words, the model wavers between on the average; the end of a sentence is one of them."""

    sentences: int
    per_token: float
    per_word: float


def train_lm(
    sentences: Sequence[str],
    tokenizer: Tokenizer,
    *,
    kind: Kind = "ngram",
    order: int = 3,
    held_out: Sequence[str] | None = None,
    names: tuple[str, str] = ("sentences", "held_out"),
) -> LanguageModel:
    """A model of all the sentences, which are normalised; its facts say how many, and its perplexity.

    order: of the n-grams, 1 to 5; models with skips have none. held_out: sentences to measure the perplexity with;
    without them, every tenth one is foretold by a model of the others. Sentences that the tokenizer has no letters
    for are left out; the facts say how many. names: what errors call the two. Raises GuidanceError, ConfigError.
    """
    if order not in range(1, HIGHEST_ORDER + 1):
        raise ConfigError(f"order={order!r} must be a whole number from 1 to {HIGHEST_ORDER}")
    known, texts = _spelt(sentences, tokenizer, f"{names[0]}: no sentence to learn from")
    facts: dict[str, float] = {"sentences": len(texts), "tokens": sum(map(len, texts))}
    if len(texts) < len(sentences):
        facts["left_out"] = len(sentences) - len(texts)
    others: list[str] | None = None
    if held_out is not None:
        others, _ = _spelt(held_out, tokenizer, f"{names[1]}: no sentence to measure with")
        if len(others) < len(held_out):
            facts["held_out_left_out"] = len(held_out) - len(others)
    lm = _learn(texts, tokenizer.vocab_size, kind, order)
    measured: Perplexity | None = None
    if others is not None:
        measured = perplexity(lm, others, tokenizer)
    elif len(texts) >= HELD_OUT:
        rest = [text for place, text in enumerate(texts, 1) if place % HELD_OUT]
        measured = perplexity(
            _learn(rest, tokenizer.vocab_size, kind, order), known[HELD_OUT - 1 :: HELD_OUT], tokenizer
        )
    if measured is not None:
        facts["held_out_sentences"] = measured.sentences
        facts["perplexity"] = round(measured.per_token, 3)
        facts["word_perplexity"] = round(measured.per_word, 3)
    return LanguageModel(lm, digest_of(tokenizer), facts)


def perplexity(lm: Guide[Any], sentences: Sequence[str], tokenizer: Tokenizer) -> Perplexity:
    """Of a model on normalised sentences. Raises GuidanceError where there is none."""
    if not sentences:
        raise GuidanceError("no sentence to measure with; give a file with a sentence per line")
    total, tokens, words = 0.0, 0, 0
    for sentence in sentences:
        state = lm.start()
        for token in tokenizer.encode(sentence):
            total -= float(lm.scores(state)[token])
            state = lm.advance(state, token)
            tokens += 1
        total -= float(lm.scores(state)[EOS])
        words += len(sentence.split())
    ends = len(sentences)
    return Perplexity(ends, math.exp(total / (tokens + ends)), math.exp(total / (words + ends)))


def _spelt(sentences: Sequence[str], tokenizer: Tokenizer, none: str) -> tuple[list[str], list[list[int]]]:
    """Those that the tokenizer has letters for, and their tokens. Raises GuidanceError, as stated, for none."""
    tokens = [tokenizer.encode(sentence) for sentence in sentences]
    spelt = [tokenizer.unk_id not in each for each in tokens]
    if not any(spelt):
        reason = f" (the model has no letters for any of {len(tokens):,})" if tokens else ""
        raise GuidanceError(f"{none}{reason}; give sentences of the model's language, one per line")
    return list(compress(sentences, spelt)), list(compress(tokens, spelt))


def _learn(texts: Sequence[Sequence[int]], vocabulary: int, kind: Kind, order: int) -> Lm:
    return Skips.train(texts, vocabulary) if kind == "skips" else NGram.train(texts, vocabulary, order)
