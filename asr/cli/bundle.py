"""`cepstra bundle`: what a model file holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from asr.bundle import Bundle

bundle_app = typer.Typer(name="bundle", help="What a model file holds.", no_args_is_help=True)


@bundle_app.callback()
def _bundle() -> None:
    """What a model file holds."""  # a callback makes `show` a command of its own, though there is no other yet


@bundle_app.command()
def show(
    file: Annotated[Path | None, typer.Argument(help="The bundle; without it, the one that ships.")] = None,
    *,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of lines.")] = False,
) -> None:
    """Front end, model, sizes, training data, licence and measured error rates of a bundle."""
    from asr.bundle import read_bundle
    from asr.recognizer import DEFAULT_BUNDLE
    from asr.writers import to_json

    path = DEFAULT_BUNDLE if file is None else file
    facts = describe(read_bundle(path), path.stat().st_size)
    if json:
        print(to_json(facts, indent=1))
    else:
        print(f"{path}\n" + "\n".join(_lines(facts)))


def describe(bundle: Bundle, size: int) -> dict[str, Any]:
    """What a bundle of `size` bytes is, says and was made from."""
    return {
        "name": bundle.name,
        "language": bundle.language,
        "bytes": {"file": size, "encoder": len(bundle.encoder), "decoder": len(bundle.decoder)},
        "precision": bundle.precision,
        "vocabulary": bundle.tokenizer.vocab_size,
        "model": bundle.model.to_dict(),
        "front_end": bundle.front_end.to_dict(),
        **bundle.facts,
    }


def _lines(values: Mapping[str, Any], indent: str = "") -> Iterator[str]:
    """Keys and values, one a line; what lies within another thing is indented, and long lists are cut."""
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            yield f"{indent}{key}:"
            yield from _lines(value, indent + "  ")
        else:
            yield f"{indent}{key}: {_shown(value)}"


def _shown(value: object) -> str:
    if value is None or value in ({}, []):
        return "none"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list):
        more = f", … ({len(value)} in all)" if len(value) > 8 else ""
        return ", ".join(map(_shown, value[:8])) + more
    return " ".join(str(value).split())
