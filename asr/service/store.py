"""Phrase sets by name, in memory and, where there is a folder for them, on disk."""

from __future__ import annotations

import hashlib
import json
import logging
import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from asr.errors import CepstraError, PhrasesError
from asr.files import make_folder, write_atomically
from asr.service.errors import ConflictError, FullError, NotFoundError, RequestError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from asr.service.work import Checked

NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
MOST = 1000  # sets
MAX_BYTES = 1 << 20  # of a set's text
_log = logging.getLogger("cepstra.service")


@dataclass(frozen=True)
class Stored:
    """A phrase set, as it was checked when it came."""

    name: str
    text: str
    sentences: int
    intents: tuple[str, ...]
    words: int
    samples: tuple[str, ...]
    fixed: bool = False  # given when the service was started; no client changes it
    warnings: tuple[str, ...] = ()

    @classmethod
    def of(cls, name: str, text: str, checked: Checked, *, fixed: bool = False) -> Stored:
        """A text, and what was found in it."""
        return cls(name, text, fixed=fixed, **asdict(checked))

    def summary(self) -> dict[str, Any]:
        """As lists show it."""
        fields = asdict(self)
        del fields["text"], fields["samples"], fields["warnings"]
        return fields


class PhraseStore:
    """What is said by whom is not its matter: texts come checked."""

    def __init__(self, folder: Path | None) -> None:
        """folder: what is in it is read, what is put is kept there. Raises CepstraError where it can't be used."""
        self._folder = folder
        self._sets: dict[str, Stored] = {}
        if folder is not None:
            make_folder(folder)
            for file in sorted(folder.glob("*.json")):
                stored = _read(file)
                self._sets[stored.name] = stored

    def names(self) -> list[str]:
        """In alphabetical order."""
        return sorted(self._sets)

    def get(self, name: str) -> Stored:
        """Raises NotFoundError."""
        if name not in self._sets:
            known = ", ".join(self.names()[:20]) or "none yet"
            raise NotFoundError(f"phrases: there is no set of this name; there are {known}", param="phrases")
        return self._sets[name]

    def text(self, name: str) -> str:
        """Of the phrase file. Raises NotFoundError."""
        return self.get(name).text

    def check_name(self, name: str) -> None:
        """Whether a client may put a set of this name. Raises RequestError, ConflictError."""
        if not NAME.fullmatch(name):
            raise RequestError("name: use 1 to 64 of a-z, 0-9, - and _, beginning with a letter or digit", param="name")
        if name in self._sets and self._sets[name].fixed:
            raise ConflictError("name: this set was given when the service was started; use another name", param="name")
        if name not in self._sets and len(self._sets) >= MOST:
            raise ConflictError(f"there are {MOST} sets already; delete one first", param="name")

    def put(self, stored: Stored) -> bool:
        """Keep it; whether its name is new. Raises FullError where it can't be written; then nothing changes."""
        if self._folder is not None and not stored.fixed:
            try:
                write_atomically(self._file(stored.name), json.dumps(asdict(stored)))
            except CepstraError as error:
                _log.error("a phrase set was not kept: %s", error)
                raise FullError("the service can't keep this on its disk; try again later") from None
        new = stored.name not in self._sets
        self._sets[stored.name] = stored
        return new

    def delete(self, name: str) -> None:
        """Raises NotFoundError, ConflictError."""
        self.get(name)
        self.check_name(name)
        if self._folder is not None:
            self._file(name).unlink(missing_ok=True)
        del self._sets[name]

    def _file(self, name: str) -> Path:
        """What a client calls it is no part of a path."""
        assert self._folder is not None  # noqa: S101  asked before
        return self._folder / f"{hashlib.sha256(name.encode()).hexdigest()[:32]}.json"


def decoded(name: str, data: bytes) -> str:
    """The text of a phrase file as it was sent. Raises PhrasesError, with line and column."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        *before, last = data[: error.start].decode("utf-8-sig").split("\n")
        place = f"{name}:{len(before) + 1}:{len(last) + 1}"
        raise PhrasesError(f"{place}: not UTF-8 text; send the file as UTF-8") from None


def _read(file: Path) -> Stored:
    try:
        fields = {"warnings": ()} | json.loads(file.read_text(encoding="utf-8"))  # the first kept had none
        lists: dict[str, Sequence[str]] = {name: tuple(fields[name]) for name in ("intents", "samples", "warnings")}
        stored = Stored(**fields | lists)
    except (OSError, ValueError, TypeError, KeyError) as error:
        reason = getattr(error, "strerror", None) or "damaged"
        raise CepstraError(f"{file}: a stored phrase set can't be read ({reason}); delete the file") from None
    whole = isinstance(stored.text, str) and isinstance(stored.sentences, int) and isinstance(stored.words, int)
    if not whole:
        raise CepstraError(f"{file}: a stored phrase set can't be read (damaged); delete the file")
    if not NAME.fullmatch(str(stored.name)):
        raise CepstraError(f"{file}: a stored phrase set has an impossible name; delete the file")
    return stored
