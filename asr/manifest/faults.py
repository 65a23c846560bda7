"""What can be wrong with a manifest: one record per fault, so that all of them can be listed and not just the first."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from asr.errors import ManifestError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

Severity = Literal["error", "warning"]


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong, where, and what mends it. Line 0 speaks of the whole file, key "" of the whole row."""

    manifest: Path
    line: int  # counted from 1, blank lines included
    key: str
    code: str  # short name that never changes, such as "missing-audio"
    problem: str
    remedy: str
    severity: Severity = "error"

    def __str__(self) -> str:
        place = (
            str(self.manifest) + (f", line {self.line}" if self.line else "") + (f", {self.key}" if self.key else "")
        )
        return f"{place}: {self.problem}: {self.remedy}"

    def to_dict(self) -> dict[str, Any]:
        """As JSON would hold it."""
        return {**asdict(self), "manifest": str(self.manifest)}


class FaultyManifestError(ManifestError):
    """A manifest with faulty rows. `faults` holds each fault found; the message names the first few, on one line."""

    def __init__(self, faults: Sequence[Fault], *, shown: int = 3) -> None:
        self.faults = list(faults)
        message = "; ".join(map(str, self.faults[:shown]))
        if len(self.faults) > shown:
            manifest = self.faults[0].manifest
            message += f"; and {len(self.faults) - shown} more: `cepstra manifest check {manifest}` lists them all"
        super().__init__(message)

    def __reduce__(self) -> tuple[type[FaultyManifestError], tuple[list[Fault]]]:
        return type(self), (self.faults,)


def has_errors(faults: Iterable[Fault]) -> bool:
    """Whether any of them is more than a warning."""
    return any(fault.severity == "error" for fault in faults)
