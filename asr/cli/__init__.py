"""The command line: where everything is put together."""

import sys


def main() -> None:
    """Entry of the `cepstra` command.

    Exit codes: 0, 1 for what went wrong, 2 for wrong usage, 130 for Ctrl-C; 143 for SIGTERM that ends a training.
    """
    try:
        from asr.cli.running import run  # here, so that Ctrl-C while this loads is no traceback either

        run()
    except KeyboardInterrupt:
        sys.exit(130)
