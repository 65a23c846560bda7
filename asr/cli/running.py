"""A command from its beginning to its end, and what becomes of whatever goes wrong in it."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING

from asr.cli.application import COMMANDS, GROUPS, application
from asr.cli.messages import explain, one_line_warnings

if TYPE_CHECKING:
    from collections.abc import Sequence


def run() -> None:
    """Run the command of sys.argv, and end with SystemExit. What goes wrong is said in one line, without traceback."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # JSON and subtitles are UTF-8, whatever the terminal's language
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        with one_line_warnings():
            try:
                application(_wanted(sys.argv))(prog_name="cepstra")
            finally:
                if sys.stdout is not None:
                    sys.stdout.flush()  # a full disk shows here at the latest
    except BrokenPipeError:  # whoever read the output has had enough
        sys.stdout = io.StringIO()  # what is left in it would be written, and fail, once more at the end
        sys.exit(1)
    except Exception as error:  # noqa: BLE001  nobody is above who could do better
        sys.stdout = io.StringIO()
        if _interrupted(error):
            raise KeyboardInterrupt from None
        explain(error)
        sys.exit(1)


def _wanted(arguments: Sequence[str]) -> str | None:
    """The command that is named; None where that isn't sure, or help on all of them is wanted."""
    named = arguments[1] if len(arguments) > 1 else ""
    return named if named in COMMANDS or named in GROUPS else None


def _interrupted(error: BaseException | None) -> bool:
    """Whether Ctrl-C lies behind it: libraries that load while it comes make an ImportError of it."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None
