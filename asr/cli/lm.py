"""`cepstra lm`: language models for free decoding."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

lm_app = typer.Typer(name="lm", help="Language models for free text (see docs/guidance.md).", no_args_is_help=True)


class LmKind(StrEnum):
    """Kinds of models: the names of asr.lm.training."""

    NGRAM = "ngram"
    SKIPS = "skips"


@lm_app.callback()
def _lm() -> None:
    """Language models for free text (see docs/guidance.md)."""


@lm_app.command()
def train(
    texts: Annotated[
        list[Path],
        typer.Argument(
            metavar="TEXT",
            help="Files of a sentence per line, manifests (.jsonl), phrase files (.yaml, .jsgf).",
            show_default=False,
        ),
    ],
    *,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="Where to write the model.")],
    kind: Annotated[
        LmKind, typer.Option(help="What it looks at: the last tokens, or pairs of the last and each earlier one.")
    ] = LmKind.NGRAM,
    order: Annotated[int, typer.Option(min=1, max=5, metavar="N", help="Tokens of the longest n-gram.")] = 3,
    model: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The bundle that it is to guide; without it, the one that ships."),
    ] = None,
    held_out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Sentences to measure with; without it, a tenth of TEXT.", show_default=False
        ),
    ] = None,
) -> None:
    """Learn from text which tokens follow which."""
    from dataclasses import replace

    from asr.bundle import read_bundle
    from asr.cli.messages import naming
    from asr.cli.outputs import check_outputs
    from asr.lm.file import write_lm
    from asr.lm.texts import read_sentences
    from asr.lm.training import train_lm
    from asr.recognizer import DEFAULT_BUNDLE

    check_outputs([("--output", output)], [*texts, model or DEFAULT_BUNDLE, held_out])
    with naming("--model" if model else ""):
        bundle = read_bundle(model or DEFAULT_BUNDLE)
    sentences = read_sentences(texts, bundle.language)
    others = None
    if held_out is not None:
        with naming("--held-out"):
            others = read_sentences([held_out], bundle.language)
    names = (", ".join(map(str, texts[:3])) + (" …" if len(texts) > 3 else ""), f"--held-out {held_out}")
    learnt = train_lm(sentences, bundle.tokenizer, kind=kind.value, order=order, held_out=others, names=names)
    size = write_lm(output, replace(learnt, name=str(output)))
    print(f"{output}: {_described(learnt.facts)}; {size / 1e6:.1f} MB")
    print(f"Use it with --beam 4 --lm {output}: greedy search, which is the default, gains nothing by it")


@lm_app.command()
def show(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A language model.", show_default=False)],
) -> None:
    """What a language model was learnt from, and how well it foretells."""
    from asr.lm import NGram, read_lm

    model = read_lm(file)
    kind = f"n-grams of order {model.lm.order}" if isinstance(model.lm, NGram) else "pairs with skips"
    print(f"{file}: {kind}, {_described(model.facts)}")


def _described(facts: dict[str, float]) -> str:
    """Counts and perplexity in words."""
    text = f"{facts.get('sentences', 0):,} sentences, {facts.get('tokens', 0):,} tokens{_left_out(facts, 'left_out')}"
    if not {"held_out_sentences", "perplexity", "word_perplexity"} <= set(facts):
        return text
    return (
        f"{text}; perplexity {facts['perplexity']:.1f} per token, {facts['word_perplexity']:.0f} per word, on "
        f"{facts['held_out_sentences']:,} sentences held out{_left_out(facts, 'held_out_left_out')}"
    )


def _left_out(facts: dict[str, float], which: str) -> str:
    return f" ({facts[which]:,} left out: they have letters that the model hasn't)" if which in facts else ""
