"""The folder that a run writes: what was asked for, what is done, and the manifests once all is."""

from __future__ import annotations

import json
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from asr.asked import check_asked, read_asked
from asr.errors import ConfigError, SynthesisError
from asr.files import make_folder, write_atomically
from asr.lock import held
from asr.manifest import Utterance, write_manifest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

FORMAT = 1


@dataclass(frozen=True)
class Folder:
    """Names of what a run writes."""

    path: Path

    @property
    def audio(self) -> Path:
        """The recordings."""
        return self.path / "audio"

    @property
    def settings(self) -> Path:
        """What was asked for."""
        return self.path / "synthesis.json"

    @property
    def done(self) -> Path:
        """A line for each utterance that is made, or was left out."""
        return self.path / ".done.jsonl"

    def sound(self, index: int) -> Path:
        """An utterance."""
        return self.audio / f"{index:06d}.flac"

    def manifest(self, split: str) -> Path:
        """A split's; the only one's name is empty."""
        return self.path / f"{split or 'manifest'}.jsonl"

    def cache(self, name: str) -> Path:
        """Something that is gone when the run ends."""
        return self.path / f".{name}.cache"

    def held(self, say: Callable[[str], None]) -> AbstractContextManager[None]:
        """Keep other runs out. Raises SynthesisError where one is in it, or where it can't be written."""
        make_folder(self.path.parent, SynthesisError)
        return held(self.path, "synthesis", SynthesisError, say)

    def begin(self, settings: dict[str, Any], splits: Sequence[str], *, restart: bool) -> dict[int, dict[str, Any]]:
        """What earlier runs have done with the same settings, by index.

        restart: take away what they left, and nothing else. Raises ConfigError where the folder holds a run with other
        settings, or files of the same names that no run has written.
        """
        settings = json.loads(json.dumps({"format": FORMAT, **settings}))  # as it is read
        old = read_asked(self.settings)
        if old is None:
            foreign = [path.name for path in (self.audio, *map(self.manifest, splits)) if path.exists()]
            if foreign:
                raise ConfigError(f"{self.path}: holds {foreign[0]}, not written by a run; choose another folder")
        elif restart:
            self._clear(old.get("splits", []))
        else:
            check_asked(self.path, old, settings, "choose another folder, or --restart")
        make_folder(self.audio, SynthesisError)
        for part in self.audio.glob(".*.part"):  # of a run that was killed
            part.unlink(missing_ok=True)
        write_atomically(self.settings, json.dumps(settings, ensure_ascii=False, indent=1) + "\n", SynthesisError)
        return {index: entry for index, entry in self._entries() if not entry.get("row") or self._whole(index)}

    @contextmanager
    def noting(self) -> Iterator[Callable[[dict[str, Any]], None]]:
        """A function that writes down what was done. Raises SynthesisError where the disk is full."""

        def failed(error: OSError) -> SynthesisError:
            reason = error.strerror or str(error)
            return SynthesisError(f"{self.done}: can't be written ({reason}); check folder, permissions and space")

        try:
            file = self.done.open("ab", buffering=0)
        except OSError as error:
            raise failed(error) from None
        with file:
            # The last line may be half a line
            begin = b"\n" if file.tell() else b""

            def note(entry: dict[str, Any]) -> None:
                nonlocal begin
                try:
                    file.write(begin + json.dumps(entry).encode() + b"\n")
                except OSError as error:
                    raise failed(error) from None
                begin = b""

            yield note

    def write_manifests(self, utterances: dict[str, list[Utterance]]) -> dict[str, Path]:
        """Split to its manifest. Raises ManifestError."""
        paths = {split: self.manifest(split) for split in utterances}
        for split, path in paths.items():
            write_manifest(path, utterances[split])
        return paths

    def _whole(self, index: int) -> bool:
        """Whether an utterance's file is there and holds something: a full disk may leave it empty."""
        path = self.sound(index)
        return path.is_file() and path.stat().st_size > 0

    def _entries(self) -> Iterator[tuple[int, dict[str, Any]]]:
        if not self.done.exists():
            return
        with self.done.open(encoding="utf-8", errors="replace") as file:
            for line in file:
                with suppress(ValueError, KeyError, TypeError):  # half a line: the run was killed while it wrote
                    entry = json.loads(line)
                    yield int(entry["index"]), entry

    def _clear(self, splits: Sequence[str]) -> None:
        self.done.unlink(missing_ok=True)
        for split in splits:
            self.manifest(split).unlink(missing_ok=True)
        for path in self.audio.glob("[0-9][0-9][0-9][0-9][0-9][0-9].flac"):
            path.unlink(missing_ok=True)
