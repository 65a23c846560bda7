"""`cepstra bundle`: what a model file holds, and what is noted in it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from asr.bundle import Bundle

bundle_app = typer.Typer(name="bundle", help="What a model file holds, and what is noted in it.", no_args_is_help=True)


@bundle_app.command()
def show(
    file: Annotated[Path | None, typer.Argument(help="The bundle; without it, the one that ships.")] = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of lines.")] = False,
) -> None:
    """Show what a bundle is, its licence and its error rates.

    Front end, model, sizes, training data, licence and measured error rates.
    """
    from asr.bundle import read_bundle
    from asr.recognizer import DEFAULT_BUNDLE
    from asr.writers import to_json

    path = DEFAULT_BUNDLE if file is None else file
    facts = described(read_bundle(path), path.stat().st_size)
    if as_json:
        print(to_json(facts, indent=1))
    else:
        print(f"{path}\n" + "\n".join(_lines(facts)))


@bundle_app.command()
def describe(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The bundle.")],
    *,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write another bundle, and leave this one as it is."),
    ] = None,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="What the model is called.")] = None,
    licence: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Under which terms it may be used, or its data were.")
    ] = None,
    note: Annotated[str | None, typer.Option(metavar="TEXT", help="What else its users should know.")] = None,
    evaluation: Annotated[
        list[Path] | None,
        typer.Option(metavar="FIGURES", help="Figures of `cepstra evaluate --json`: error rates by set and beam."),
    ] = None,
) -> None:
    """Note name, licence and measured error rates in a bundle."""
    from asr.bundle import read_bundle, write_bundle
    from asr.cli.outputs import check_outputs
    from asr.errors import CepstraError

    texts = {key: text for key, text in (("licence", licence), ("note", note)) if text is not None}
    if name is None and not texts and not evaluation:
        raise CepstraError("nothing to note: give --name, --licence, --note or --evaluation")
    target = output or file
    check_outputs([("--output" if output else "FILE", target)], evaluation or [])
    bundle = read_bundle(file)
    measured = dict(bundle.facts.get("error_rates", {}))
    for path in evaluation or []:
        setting, rates = error_rates(path, file)
        measured[setting] = {**measured.get(setting, {}), **rates}
    facts = {**bundle.facts, **texts, **({"error_rates": measured} if measured else {})}
    write_bundle(target, replace(bundle, name=name or bundle.name, facts=facts))
    print(f"{target}: noted; see `cepstra bundle show {target}`")


def error_rates(path: Path, bundle: Path) -> tuple[str, dict[str, dict[str, Any]]]:
    """How the search was set, and each set's figures, of a file of `cepstra evaluate --json`.

    Raises CepstraError where it is no such file, or its figures are another model's.
    """
    from asr.errors import CepstraError
    from asr.recognizer import DEFAULT_BUNDLE, SHIPPED

    try:
        figures = json.loads(path.read_text(encoding="utf-8"))
        by, beam = figures["run"]["by"], int(figures["run"]["settings"]["beam"])
        model = DEFAULT_BUNDLE if figures["run"]["model"] == SHIPPED else Path(figures["run"]["model"])
        rates = {
            str(group["name"]): {key: group[key] for key in ("utterances", "wer", "cer")} for group in figures["groups"]
        }
    except OSError as error:
        raise CepstraError(
            f"{path}: can't be read ({error.strerror}); give a file of `cepstra evaluate --json`"
        ) from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise CepstraError(f"{path}: not figures; give a file of `cepstra evaluate --json`") from None
    if model.exists() and bundle.exists() and not model.samefile(bundle):
        raise CepstraError(f"{path}: figures of another model, {model}; evaluate {bundle}")
    if by != "source":
        raise CepstraError(f"{path}: error rates by {by}; people's names stay out of a bundle: evaluate by source")
    return ("greedy" if beam == 1 else f"beam {beam}"), rates


def described(bundle: Bundle, size: int) -> dict[str, Any]:
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
        if isinstance(value, Mapping) and value.keys() == {"utterances", "wer", "cer"}:
            wer, cer = _percent(value["wer"]), _percent(value["cer"])
            yield f"{indent}{_shown(key)}: WER {wer}, CER {cer}, {value['utterances']} utterances"
        elif isinstance(value, Mapping) and value.keys() == {"float32", "written"}:
            before, after = (f"{100 * value[key]:.2f} %" for key in ("float32", "written"))
            yield f"{indent}{_shown(key)}: WER {before} in float32, {after} as written"
        elif isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
            for number, item in enumerate(value, start=1):
                yield from _lines({f"{key} {number}": item}, indent)
        elif isinstance(value, Mapping) and value:
            yield f"{indent}{_shown(key)}:"
            yield from _lines(value, indent + "  ")
        else:
            yield f"{indent}{_shown(key)}: {_shown(value)}"


def _percent(rate: float | None) -> str:
    return "unknown" if rate is None else f"{100 * rate:.1f} %"


def _shown(value: object) -> str:
    if value is None or value in ({}, []):
        return "none"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list):
        shown = value if all(isinstance(item, str) for item in value) else value[:8]  # names, or numbers
        return ", ".join(map(_shown, shown)) + (f", … ({len(value)} in all)" if len(shown) < len(value) else "")
    # What a bundle says of itself is anyone's text: none of it may move the cursor
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in " ".join(str(value).split()))
