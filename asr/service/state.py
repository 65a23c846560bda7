"""What the routes work with: one of each for the life of the service."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from fastapi import Request

    from asr.service.metrics import Metrics
    from asr.service.pool import Pool
    from asr.service.settings import Settings
    from asr.service.store import PhraseStore


@dataclass
class State:
    """The service's parts."""

    settings: Settings
    metrics: Metrics
    phrases: PhraseStore
    pool: Pool
    spool: Path  # what is received lies here until it is answered
    started: int = field(default_factory=lambda: int(time.time()))
    uploads: int = 0  # requests that are being received or answered

    def check_room(self) -> None:
        """Before a recording is received. Raises BusyError."""
        self.pool.refuse_if_full()


def state_of(request: Request) -> State:
    """The state of the application that a request came to."""
    state: State = request.app.state.service
    return state
