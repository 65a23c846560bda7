"""What is to be made, and the folder in which it is worked on."""

from __future__ import annotations

import json
import shutil
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from asr.asked import check_asked, digest_of
from asr.errors import ConfigError
from asr.files import real_path, write_atomically
from asr.lock import locked
from asr.manifest import read_manifest
from asr.recognizer import DEFAULT_WEIGHTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from asr.manifest import Utterance
    from export.convert import Precision

SPLIT: Final = {"train": 0.76, "dev": 0.12, "test": 0.12}  # of the speakers: learnt from, chosen by, measured with
FORMAT: Final = 1
_MARK: Final = "cepstra make"  # tells our folders from others with a file of the same name
LEAST, MOST = 200, 100_000  # recordings: of fewer, those held out would be too few to calibrate with


@dataclass(frozen=True)
class MakeSettings:
    """All that the result depends on, but for what the files hold."""

    phrases: Path
    count: int = 1200  # recordings of the phrase file's sentences
    others: int = 1200  # recordings of other sentences, so that the model forgets nothing
    engines: tuple[str, ...] = ()  # that speak; none: all that are installed
    recordings: tuple[Path, ...] = ()  # manifests of the user's own, which count more
    base: tuple[Path, ...] = ()  # manifests of other speech to learn from
    steps: int = 400  # of the optimiser
    precision: Precision = "int8"  # of the bundle
    start_from: Path = DEFAULT_WEIGHTS
    language: str = "en"
    seed: int = 1

    def __post_init__(self) -> None:
        for name in ("phrases", "start_from"):
            object.__setattr__(self, name, real_path(getattr(self, name)))  # it may be gone on with from elsewhere
        for name in ("recordings", "base"):
            object.__setattr__(self, name, tuple(map(real_path, getattr(self, name))))
        for name, value in (("count", self.count), ("others", self.others)):
            if not LEAST <= value <= MOST:
                raise ConfigError(f"{name} is {value}; use {LEAST} to {MOST}")
        if not 1 <= self.steps <= 1_000_000:
            raise ConfigError(f"steps is {self.steps}; use 1 to 1000000")

    def to_dict(self) -> dict[str, Any]:
        """With digests of the files, so that a changed one is noticed."""
        found = asdict(self)
        files = [self.phrases, *self.recordings, *self.base, self.start_from]
        found["digests"] = [digest_of(path) for path in files]
        found[_MARK] = FORMAT
        plain: dict[str, Any] = json.loads(json.dumps(found, default=str))
        return plain


@dataclass(frozen=True)
class Workshop:
    """The folder with everything that is made on the way. Each part is made once."""

    path: Path

    @property
    def settings(self) -> Path:
        """What was asked for."""
        return self.path / "make.json"

    @property
    def speech(self) -> Path:
        """Recordings of the sentences, and their manifests."""
        return self.path / "speech"

    @property
    def others(self) -> Path:
        """Recordings of other sentences, and their manifests."""
        return self.path / "others"

    @property
    def draft(self) -> Path:
        """The bundle until it is measured."""
        return self.path / ".draft.cepstra"

    @property
    def report(self) -> Path:
        """All figures."""
        return self.path / "report.json"

    @property
    def training(self) -> Path:
        """Settings of the training, for whoever wants to change them and train again."""
        return self.path / "train.yaml"

    @property
    def run(self) -> Path:
        """What the training writes."""
        return self.path / "run"

    def own(self, split: str) -> Path:
        """The user's recordings of a split."""
        return self.path / f"recordings.{split}.jsonl"

    def manifests(self, split: str) -> list[Path]:
        """Everything that is said in a split, the phrase file's sentences first."""
        places = (self.speech / f"{split}.jsonl", self.own(split), self.others / f"{split}.jsonl")
        return [path for path in places if path.exists()]

    def rows(self, split: str) -> list[Utterance]:
        """What these manifests list."""
        return [row for manifest in self.manifests(split) for row in read_manifest(manifest)]

    @contextmanager
    def begun(self, settings: MakeSettings, say: Callable[[str], None], *, restart: bool) -> Iterator[None]:
        """Keep other runs out, and remember what is asked for. Raises ConfigError where that was something else."""
        with ExitStack() as stack:
            try:
                stack.enter_context(locked(self.path, "make", ConfigError, say))
            except OSError as error:
                fault = f"{self.path}: can't be written ({error.strerror})"
                raise ConfigError(f"{fault}; name another folder with --work") from None
            asked = settings.to_dict()
            old = self._old()
            if old is None:
                if any(path.name != ".lock" for path in self.path.iterdir()):
                    raise ConfigError(f"{self.path}: holds something else; name another folder with --work")
            elif restart or not self.speech.exists():  # nothing was made
                self._clear()
            else:
                remedy = "--restart begins anew, and --work names another folder"
                check_asked(self.path, old, asked, remedy)
            write_atomically(self.settings, json.dumps(asked, indent=1) + "\n", ConfigError)
            yield

    def _old(self) -> dict[str, Any] | None:
        """What an earlier run was asked for; None where no run has been here."""
        try:
            found = json.loads(self.settings.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return None
        return found if isinstance(found, dict) and found.get(_MARK) == FORMAT else None

    def _clear(self) -> None:
        """Throw away what an earlier run has left, and nothing that isn't its own."""
        for folder in (self.speech, self.others, self.run, self.path / "cache"):
            shutil.rmtree(folder, ignore_errors=True)
        for file in (self.training, self.settings, self.draft, self.report, *(self.own(split) for split in SPLIT)):
            file.unlink(missing_ok=True)
