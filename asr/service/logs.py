"""Logs as lines of JSON."""

from __future__ import annotations

import json
import logging
import re
import sys
import time
from contextvars import ContextVar
from datetime import UTC, datetime

_UNSEEN = re.compile(r"[\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_OWN = set(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message", "taskName"}


request_id: ContextVar[str] = ContextVar("request_id", default="")
"""Of the request that is being answered, so that its lines can be told from others."""


class JsonLines(logging.Formatter):
    """time, level, logger, message, and whatever else a call gave."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, whatever a message holds."""
        fields = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **({"request": request_id.get()} if request_id.get() else {}),
            **{name: value for name, value in vars(record).items() if name not in _OWN},
        }
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        line = json.dumps(fields, ensure_ascii=False, default=str)
        # Clients have a say in it: nothing ends a line early, or is an order to a terminal
        return _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", line)


class _Unlike(logging.Filter):
    """Of like lines of a library one a second: without descriptors asyncio has thousands to say, each with a trace."""

    def __init__(self) -> None:
        super().__init__()
        self._last: tuple[str, str, str] = ("", "", "")
        self._until = 0.0

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether it is written."""
        this = (record.name, record.levelname, str(record.msg))
        if this == self._last and time.monotonic() < self._until and not record.name.startswith("cepstra"):
            return False
        self._last, self._until = this, time.monotonic() + 1
        return True


def install(level: int = logging.INFO) -> None:
    """On standard error: our loggers, and warnings of all others, uvicorn's and asyncio's among them."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    handler.addFilter(_Unlike())
    logging.captureWarnings(capture=True)
    for name in ("", "cepstra"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level if name else logging.WARNING)
    logging.getLogger("python_multipart").setLevel(logging.ERROR)  # a client's damaged form is answered, and no warning
