"""What can be refused before minutes are spent: each error names the option of `cepstra make` that it is about."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from asr.errors import CepstraError, ConfigError, ManifestError
from asr.files import make_folder, real_path
from asr.manifest import read_manifest
from asr.manifest.sounds import check_sounds
from asr.synthesis import choose_engines
from asr.synthesis.engines import divide_voices, open_all
from asr.text import normalise
from export.make.settings import SPLIT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from asr.manifest import Utterance
    from asr.tokenizer import Tokenizer
    from export.make.settings import MakeSettings, Workshop

BUNDLE = b"PK"


def check_inputs(settings: MakeSettings, place: Workshop, output: Path) -> None:
    """Raises CepstraError for the first thing that stands against it."""
    with _naming("--work"):
        if place.path.exists() and not place.path.is_dir():
            raise ConfigError(f"{place.path}: is no folder; name another place")
        make_folder(place.path.parent, ConfigError)
    with _naming("--output"):
        if place.path in real_path(output).parents:
            raise ConfigError(f"{output}: lies in the folder that is worked in; name a file outside of {place.path}")
    with _naming("--engine"):
        engines = open_all(choose_engines(settings.engines, language=settings.language))
        try:
            divide_voices(engines, SPLIT, settings.seed, {})
        except CepstraError:
            raise ConfigError(
                f"{', '.join(engines)}: too few voices to learn from some and measure with others; add an engine "
                "(`cepstra synthesize --engines` lists them)"
            ) from None
    rows = {
        option: [_read(option, manifest) for manifest in manifests]
        for option, manifests in (("--recordings", settings.recordings), ("--base", settings.base))
    }
    with _naming("--start-from"):
        tokenizer = _tokenizer(settings.start_from)
    for option, manifests in (("--recordings", settings.recordings), ("--base", settings.base)):
        for manifest, found in zip(manifests, rows[option], strict=True):
            with _naming(option):
                _check_texts(manifest, found, tokenizer, settings.language)


def _read(option: str, manifest: Path) -> list[Utterance]:
    """Its rows, whose sound must be there."""
    with _naming(option):
        rows = read_manifest(manifest)
        if not any(row.text.split() for row in rows):
            raise ManifestError(f"{manifest}: holds no text; recordings need their words")
        check_sounds(manifest, rows)
    return rows


def _tokenizer(weights: Path) -> Tokenizer:
    from asr.training.checkpoint import read_checkpoint  # noqa: PLC0415  torch, which takes seconds to load

    if weights.is_file():
        with weights.open("rb") as file:
            if file.read(2) == BUNDLE and weights.suffix != ".ckpt":
                raise ConfigError(
                    f"{weights}: is a bundle, which is only for listening; give weights (.safetensors) or a checkpoint"
                )
    return read_checkpoint(weights).tokenizer


def _check_texts(manifest: Path, rows: list[Utterance], tokenizer: Tokenizer, language: str) -> None:
    for row in rows:
        if tokenizer.unk_id in tokenizer.encode(normalise(row.text, language)):
            raise ManifestError(
                f"{manifest}:{row.line}: the model can't write {row.text!r}; take the row out, or begin with weights "
                "that know these letters"
            )


@contextmanager
def _naming(option: str) -> Iterator[None]:
    try:
        yield
    except CepstraError as error:
        raise type(error)(f"{option} {error}") from error
