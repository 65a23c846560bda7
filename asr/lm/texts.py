"""Where a language model's sentences come from: text files, phrase files and manifests."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from asr.errors import CepstraError, GuidanceError
from asr.text import normalise

if TYPE_CHECKING:
    from collections.abc import Iterable

MANIFESTS: Final = (".jsonl", ".json")
PHRASE_FILES: Final = (".yaml", ".yml", ".jsgf", ".gram")
DRAWN: Final = 10_000  # sentences of a phrase file that has more
MAX_BYTES: Final = 1 << 30


def read_sentences(paths: Iterable[str | Path], language: str = "en") -> list[str]:
    """Every sentence of these files, normalised; those that hold no word are left out.

    A manifest (.jsonl, .json) gives its texts; a phrase file (.yaml, .yml, .jsgf, .gram) all its sentences, or 10,000
    drawn from them, the same each time; any other file its lines. Raises GuidanceError, and ManifestError or
    PhrasesError for such a file.
    """
    found = [normalise(text, language) for path in map(Path, paths) for text in _texts(path, language)]
    return [text for text in found if text]


def _texts(path: Path, language: str) -> list[str]:
    suffix = path.suffix.lower()
    if suffix in MANIFESTS:
        from asr.manifest import read_manifest  # noqa: PLC0415  not everyone's texts are in one

        return [row.text for row in read_manifest(path)]
    if suffix in PHRASE_FILES:
        from asr.phrases import PhraseSet  # noqa: PLC0415  nor in one of these

        return PhraseSet.read(path, language).samples(DRAWN)
    try:
        if path.stat().st_size > MAX_BYTES:
            raise GuidanceError(f"{path}: more than {MAX_BYTES >> 30} GB of text; divide the file, or take a part")
        return path.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise GuidanceError(f"{path}: not UTF-8 text (byte {error.start}); save the file as UTF-8") from None
    except CepstraError:
        raise
    except (OSError, ValueError) as error:  # ValueError: a path with a null character
        reason = getattr(error, "strerror", None) or error
        raise GuidanceError(f"{path}: can't be read ({reason}); give the path of a text file") from None
