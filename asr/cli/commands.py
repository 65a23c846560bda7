"""All commands, for whoever wants them as one application."""

from asr.cli.application import application

app = application()
