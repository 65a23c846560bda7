"""The output folder of a run: what lies in it, and whether a run may begin or go on there."""

from __future__ import annotations

import csv
import json
import shutil
import zipfile
from contextlib import ExitStack, contextmanager
from dataclasses import MISSING, asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, TypeAlias

import yaml

from asr.errors import ConfigError, TrainingError
from asr.files import write_atomically
from asr.lock import locked
from asr.model.config import PRESETS
from asr.settings_file import read_settings
from asr.training.config import TrainConfig, usual_warmup
from asr.training.console import rank, say
from asr.training.refusals import inner_settings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


History: TypeAlias = "list[tuple[int, dict[str, float]]]"  # step from 0, and what was measured


@dataclass(frozen=True)
class Folder:
    """Names of what a run writes."""

    path: Path

    @property
    def last(self) -> Path:
        """What a run goes on from."""
        return self.path / "last.ckpt"

    @property
    def best(self) -> Path:
        """What it was all for."""
        return self.path / "best.ckpt"

    @property
    def checkpoints(self) -> Path:
        """The best few, to be averaged."""
        return self.path / "checkpoints"

    @property
    def settings(self) -> Path:
        """All settings, also those that were left at their defaults."""
        return self.path / "config.yaml"

    @property
    def metrics(self) -> Path:
        """What was measured on the way."""
        return self.path / "metrics.csv"

    @property
    def report(self) -> Path:
        """What came of it; there once the run is finished."""
        return self.path / "report.json"

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep other trainings out; a folder made for it goes again, unless the run begins.

        Raises TrainingError where another one is in it, ConfigError where it can't be written.
        """
        if rank():  # the first process holds it for all
            yield
            return
        with ExitStack() as stack:
            try:
                stack.enter_context(locked(self.path, "training", TrainingError, say))
            except OSError as error:
                raise ConfigError(f"{self.path}: can't be written ({error.strerror}); choose another output") from None
            yield

    def goes_on_from(self, config: TrainConfig, *, restart: bool) -> Path | None:
        """The checkpoint to go on from, if there is one and restart doesn't throw it away. Changes nothing.

        Raises ConfigError where the folder holds a run with other settings, or something that is no run at all.
        """
        old = self._old_settings() if rank() == 0 else {}
        if restart or not self.last.exists():
            return None
        if rank() == 0:
            changed = ", ".join(_changed(_with_defaults(old), _plain(config)))
            if changed:
                raise ConfigError(
                    f"{self.path}: holds a run with other settings ({changed}); choose another output, or --restart"
                )
            if not zipfile.is_zipfile(self.last):
                raise ConfigError(f"{self.last}: damaged; begin anew with --restart")
        return self.last

    def begin(self, config: TrainConfig, *, restart: bool) -> None:
        """Write the settings down. restart: take away what an earlier run left, and nothing else.

        Raises ConfigError where that can't be written.
        """
        if rank():
            return
        try:
            if restart:
                self._clear()
            elif not self.last.exists():
                self.report.unlink(missing_ok=True)  # of a run whose checkpoint somebody took away
            text = yaml.safe_dump(_plain(config), sort_keys=False, allow_unicode=True)
        except OSError as error:
            raise ConfigError(f"{self.path}: can't be written ({error.strerror}); choose another output") from None
        write_atomically(self.settings, text, ConfigError)

    def history(self, steps: int) -> History:
        """What was measured in the first steps."""
        if not self.metrics.exists():
            return []
        rows: History = []
        with self.metrics.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                try:
                    values = {name: float(value) for name, value in row.items() if value}
                    step = int(values.pop("step"))
                except (ValueError, KeyError):  # half a row: the run was killed while it wrote
                    continue
                if step < steps:
                    rows.append((step, values))
        return rows

    def _old_settings(self) -> dict[str, Any]:
        """Those of the run that is there already. Raises ConfigError for a config.yaml that somebody else wrote."""
        if not self.settings.exists():
            return {}
        try:
            old = read_settings(self.settings)
        except ConfigError:
            old = None
        if not isinstance(old, dict) or not {"model", "front_end", "data", "augmentation", "optimiser"} <= set(old):
            raise ConfigError(f"{self.settings}: not written by a run, and would be replaced; choose another output")
        return old

    def _clear(self) -> None:
        for name in ("checkpoints", "attention", "tensorboard"):
            shutil.rmtree(self.path / name, ignore_errors=True)
        for file in (
            self.last,
            self.best,
            self.metrics,
            self.report,
            self.path / "report.txt",
            self.path / "curves.png",
        ):
            file.unlink(missing_ok=True)


def _plain(settings: Any) -> Any:  # noqa: ANN401  a dataclass, a tuple of them, or a value
    """As YAML would give it back."""
    return json.loads(json.dumps(settings, default=asdict))


def _with_defaults(old: dict[str, Any], kind: type = TrainConfig) -> dict[str, Any]:
    """What an earlier version wrote, with the settings that it didn't know as they are unless stated."""
    found = dict(old)
    for field in fields(kind):
        value, inner = old.get(field.name), inner_settings(kind, field.name)
        if field.name in old:
            if inner and isinstance(value, dict):
                found[field.name] = _with_defaults(value, inner)
            elif inner and isinstance(value, list):
                found[field.name] = [_with_defaults(item, inner) if isinstance(item, dict) else item for item in value]
        elif field.default_factory is not MISSING:
            found[field.name] = _plain(field.default_factory())
        elif field.default is not MISSING:
            found[field.name] = _plain(field.default)
    return found


def _changed(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Names of the settings that differ, but for those that follow from others."""
    follow = _as_they_follow(old) & _as_they_follow(new)
    return [name for name in _differences(old, new) if name not in follow]


def _as_they_follow(settings: dict[str, Any]) -> set[str]:
    """Names of the settings that are what they are where only the steps, or the preset, are stated."""
    steps, optimiser, name, model = (settings[key] for key in ("steps", "optimiser", "preset", "model"))
    found = set()
    if isinstance(steps, int) and isinstance(optimiser, dict) and optimiser["warmup_steps"] == usual_warmup(steps):
        found.add("optimiser.warmup_steps")
    if isinstance(name, str) and name in PRESETS and isinstance(model, dict):
        found |= {f"model.{key}" for key, value in _plain(PRESETS[name]).items() if model.get(key) == value}
    return found


def _differences(old: object, new: object, name: str = "") -> list[str]:
    """Names of the settings that differ."""
    if isinstance(old, dict) and isinstance(new, dict):
        return [
            difference
            for key in {**old, **new}
            for difference in _differences(old.get(key), new.get(key), f"{name}.{key}" if name else str(key))
        ]
    return [] if old == new else [name]
