"""The options that guide a search, the same for every command that has them."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from asr.cli.messages import naming
from asr.errors import CepstraError, PhrasesError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from asr.bundle import Bundle
    from asr.phrases import PhraseSet

LmOption = Annotated[
    Path | None,
    typer.Option("--lm", metavar="FILE", help="A language model that has a say; see `lm train`.", show_default=False),
]
LmWeightOption = Annotated[
    float | None,
    typer.Option(
        "--lm-weight", min=0, max=10, metavar="N", help="How much of a say it has; 0.2 without it.", show_default=False
    ),
]
BoostOption = Annotated[
    Path | None,
    typer.Option("--boost", metavar="FILE", help="Words and phrases to expect, one per line.", show_default=False),
]
ThresholdOption = Annotated[
    float | None,
    typer.Option(
        "--threshold", min=0, max=1, metavar="N", help="With --phrases: the least confidence that makes a command.",
        show_default="the model's own",
    ),
]  # fmt: skip


def read_phrases(files: Sequence[Path]) -> PhraseSet | None:
    """What --phrases names, several files as one set; None without any. Raises PhrasesError that names the option."""
    if not files:
        return None
    from asr.phrases import PhraseSet, merged

    with naming("--phrases"):
        return merged([PhraseSet.read(file) for file in files])


@contextmanager
def naming_inputs(model: Path | None) -> Iterator[None]:
    """Errors in the block are about phrases or the model, and say first which option gave them."""
    try:
        with naming("--model" if model else ""):
            yield
    except CepstraError as error:
        if isinstance(error.__cause__ or error, PhrasesError):
            raise CepstraError(f"--phrases {error.__cause__ or error}") from error
        raise


def check_together(phrases: Sequence[Path], threshold: float | None, lm: Path | None, boost: Path | None) -> None:
    """Raise typer.BadParameter for options of which one leaves nothing for another to do."""
    if threshold is not None and not phrases:
        raise typer.BadParameter("there are no commands without --phrases; give both", param_hint="--threshold")
    if phrases and (lm is not None or boost is not None):
        raise typer.BadParameter(
            "leaves no free text for --lm and --boost to guide; give either", param_hint="--phrases"
        )


def read_guides(
    model: Path | None, lm: Path | None, lm_weight: float | None, boost: Path | None
) -> tuple[Bundle | Path | None, dict[str, Any]]:
    """What to give to a Recognizer: the model, and the arguments that the options come to.

    Raises CepstraError that names the option, typer.BadParameter for a weight of nothing.
    """
    if lm_weight is not None and lm is None:
        raise typer.BadParameter("there is no --lm to weigh; give both", param_hint="--lm-weight")
    if lm is None and boost is None:
        return model, {}
    from asr.bundle import read_bundle
    from asr.recognizer import DEFAULT_BUNDLE

    with naming("--model" if model else ""):
        bundle = read_bundle(model or DEFAULT_BUNDLE)
    arguments: dict[str, Any] = {}
    if lm is not None:
        from asr.lm import read_lm

        with naming("--lm"):
            language_model = read_lm(lm)
            language_model.guide(bundle.tokenizer)
        arguments |= {"lm": language_model, "lm_weight": lm_weight}
    if boost is not None:
        from asr.boost import read_boost

        with naming("--boost"):
            arguments["boost"] = read_boost(boost, bundle.tokenizer, bundle.language)
    return bundle, arguments
