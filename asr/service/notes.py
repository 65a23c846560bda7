"""What is logged and counted of every answer, by whichever door it was asked for."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fastapi import FastAPI

    from asr.results import Result
    from asr.service.metrics import Metrics
    from asr.service.state import State

_log = logging.getLogger("cepstra.service")


def note(result: Result, metrics: Metrics | None, *, log_text: bool, via: str | None = None) -> None:
    """A recording that was transcribed. log_text: whether what was said may be written. via: the kind of stream."""
    fields: dict[str, float | str] = {"seconds": round(result.duration, 2)}
    if via is not None:
        fields["via"] = via
    if log_text:
        fields["text"] = result.text
    _log.info("transcribed", extra=fields)
    if metrics is None:
        return
    if result.no_speech:
        metrics.rejected.labels("no-speech").inc()
    elif result.meaning is not None and result.meaning.rejected is not None:
        metrics.rejected.labels(result.meaning.rejected).inc()


@dataclass(frozen=True)
class Notes:
    """Of one kind of stream."""

    via: str
    metrics: Metrics | None = None
    log_text: bool = False

    @classmethod
    def of(cls, app: FastAPI, via: str) -> Notes:
        """As the app's settings say, where it has such."""
        state: State | None = getattr(app.state, "service", None)
        return cls(via, getattr(app.state, "metrics", None), state is not None and state.settings.log_text)

    def transcribed(self, result: Result) -> None:
        """An utterance that is answered."""
        note(result, self.metrics, log_text=self.log_text, via=self.via)

    def refused(self, code: str) -> None:
        """An error that a client is told. Its message stays out of the log: clients have a say in it."""
        _log.info("refused", extra={"code": code, "via": self.via})
        if self.metrics is not None:
            self.metrics.errors.labels(code).inc()
