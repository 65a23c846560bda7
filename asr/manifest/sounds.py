"""Whether the sound of a manifest's rows is there: asked before long work that needs every one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from asr.errors import ManifestError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from asr.manifest.records import Utterance


def check_sounds(manifest: Path, rows: Iterable[Utterance]) -> None:
    """Raise ManifestError that names the line of a row whose sound is no file. None is opened."""
    for row in rows:
        if not row.audio_filepath.is_file():
            raise ManifestError(
                f"{manifest}:{row.line}: {row.audio_filepath} isn't there; mend the path, or take the row out"
            )
