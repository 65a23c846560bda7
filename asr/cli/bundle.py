"""`cepstra bundle`: what a model file holds, and what is noted in it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from asr.cli.bundle_summary import percent, shown

if TYPE_CHECKING:
    from asr.bundle import Bundle

MOST = 1e9  # utterances, or errors to a word
LONGEST = 1000  # characters of a name, which may be a path

bundle_app = typer.Typer(name="bundle", help="What a model file holds, and what is noted in it.", no_args_is_help=True)


@bundle_app.command()
def show(
    file: Annotated[Path | None, typer.Argument(help="The bundle; without it, the one that ships.")] = None,
    *,
    everything: Annotated[
        bool, typer.Option("--all", help="Show also the front end, the model and all that is noted.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print all of it as one JSON object.")] = False,
) -> None:
    """Show what a bundle is, its licence and its error rates.

    Size, sound, training data, licence, error rates and what it is calibrated for; with --all, all that it holds.
    """
    from asr.bundle import read_bundle
    from asr.cli.bundle_summary import summary
    from asr.recognizer import DEFAULT_BUNDLE
    from asr.writers import to_json

    path = DEFAULT_BUNDLE if file is None else file
    facts = described(read_bundle(path), path.stat().st_size)
    if as_json:
        print(to_json(facts, indent=1))
        return
    lines = [str(path), *summary(facts)]
    lines += ["", *_lines(facts)] if everything else ["everything else: with --all"]
    print("\n".join(lines))


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
    from asr.cli.identity import digest
    from asr.cli.outputs import check_outputs
    from asr.errors import CepstraError

    texts = {key: text for key, text in (("licence", licence), ("note", note)) if text is not None}
    if name is None and not texts and not evaluation:
        raise CepstraError("nothing to note: give --name, --licence, --note or --evaluation")
    target = output or file
    check_outputs([("--output" if output else "FILE", target)], evaluation or [])
    bundle = read_bundle(file)
    own = digest(bundle)
    noted = bundle.facts.get("error_rates")
    measured: dict[str, Any] = dict(noted) if isinstance(noted, Mapping) else {}
    for path in evaluation or []:
        setting, rates = error_rates(path, file, own)
        before = measured.get(setting)
        measured[setting] = {**(before if isinstance(before, Mapping) else {}), **rates}
    facts = {**bundle.facts, **texts, **({"error_rates": measured} if measured else {})}
    write_bundle(target, replace(bundle, name=name or bundle.name, facts=facts))
    print(f"{target}: noted; see `cepstra bundle show {target}`")


def error_rates(path: Path, bundle: Path, own: str) -> tuple[str, dict[str, dict[str, Any]]]:
    """How the search was set, and each set's figures, of a file of `cepstra evaluate --json`.

    own: the bundle's digest. Raises CepstraError where it is no such file, or its figures are another model's.
    """
    from asr.cli.identity import check_measured
    from asr.errors import CepstraError

    figures: Any = None
    try:
        figures = json.loads(path.read_text(encoding="utf-8"))
        by, beam = figures["run"]["by"], _number(figures["run"]["settings"]["beam"], int)
        model, measured = _words(figures["run"]["model"]), _digest_in(figures["run"])
        rates = _all_rates(figures["groups"])
    except OSError as error:
        raise CepstraError(
            f"{path}: can't be read ({error.strerror}); give a file of `cepstra evaluate --json`"
        ) from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        if isinstance(figures, dict) and "trials" in figures:
            raise CepstraError(
                f"{path}: figures of commands, not of words; give a file of `cepstra evaluate --json` without --phrases"
            ) from None
        raise CepstraError(f"{path}: not figures; give a file of `cepstra evaluate --json`") from None
    check_measured(path, model, measured, bundle, own)
    if by != "source":
        raise CepstraError(f"{path}: error rates by {by}; people's names stay out of a bundle: evaluate by source")
    if not rates:
        raise CepstraError(f"{path}: no recording was measured; give a file of `cepstra evaluate --json` of some")
    return ("greedy" if beam == 1 else f"beam {beam}"), rates


def _all_rates(groups: list[Any]) -> dict[str, dict[str, Any]]:
    """By name. Raises ValueError for what isn't figures, or there twice, and others for what isn't of their form."""
    rates = {_words(group["name"]): _rates(group) for group in groups}
    if len(rates) < len(groups):
        raise ValueError("one name twice")
    return rates


def _rates(group: Mapping[str, Any]) -> dict[str, float | None]:
    rates = {key: None if group[key] is None else _number(group[key], int | float) for key in ("wer", "cer")}
    return {"utterances": _number(group["utterances"], int), **rates}


def _number(value: object, kinds: UnionType | type[int]) -> float:
    """A number from 0 on. Raises TypeError, ValueError."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not isinstance(value, kinds):
        raise TypeError("no number")
    if not 0 <= value <= MOST:
        raise ValueError("no figure")
    return value


def _words(value: object) -> str:
    """A name that can be shown. Raises ValueError."""
    if not isinstance(value, str) or not value.isprintable() or len(value) > LONGEST:
        raise ValueError("no name")
    return value


def _digest_in(run: Mapping[str, Any]) -> str | None:
    if not isinstance(digest := run.get("digest"), str | None):
        raise TypeError("a digest is text")
    return digest


def described(bundle: Bundle, size: int) -> dict[str, Any]:
    """What a bundle of `size` bytes is, says and was made from."""
    from asr.cli.identity import digest

    own = {
        "name": bundle.name,
        "language": bundle.language,
        "digest": digest(bundle),
        "bytes": {"file": size, "encoder": len(bundle.encoder), "decoder": len(bundle.decoder)},
        "precision": bundle.precision,
        "vocabulary": bundle.tokenizer.vocab_size,
        "model": bundle.model.to_dict(),
        "front_end": bundle.front_end.to_dict(),
    }
    return own | {key: value for key, value in bundle.facts.items() if key not in own}


def _lines(values: Mapping[str, Any], indent: str = "") -> Iterator[str]:
    """Keys and values, one a line; what lies within another thing is indented, and long lists are cut."""
    for key, value in values.items():
        if isinstance(value, Mapping) and value.keys() == {"utterances", "wer", "cer"}:
            wer, cer = percent(value["wer"]), percent(value["cer"])
            yield f"{indent}{shown(key)}: WER {wer}, CER {cer}, {value['utterances']} utterances"
        elif isinstance(value, Mapping) and value.keys() == {"float32", "written"}:
            before, after = (percent(value[key], 2) for key in ("float32", "written"))
            yield f"{indent}{shown(key)}: WER {before} in float32, {after} as written"
        elif isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
            for number, item in enumerate(value, start=1):
                yield from _lines({f"{key} {number}": item}, indent)
        elif isinstance(value, Mapping) and value:
            yield f"{indent}{shown(key)}:"
            yield from _lines(value, indent + "  ")
        else:
            yield f"{indent}{shown(key)}: {shown(value)}"
