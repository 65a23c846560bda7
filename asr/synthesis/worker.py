"""A process that makes utterances: jobs come as lines of JSON on standard input, outcomes go out the same way."""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asr.errors import CepstraError
from asr.synthesis.making import Job, Maker, Outcome, Setup
from asr.synthesis.surroundings import Sounds, Surroundings
from audio.synthesis import EngineSpec

if TYPE_CHECKING:
    from typing import NoReturn


def main() -> None:
    """The first line is the setup, the others are jobs; ends with its input."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started it decides
    signal.signal(signal.SIGTERM, _end)
    # Libraries print what they like; only outcomes may get through
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def answer(outcome: Outcome) -> None:
        answers.write(json.dumps(asdict(outcome)) + "\n")
        answers.flush()

    try:
        maker = Maker(read_setup(json.loads(sys.stdin.readline())))
    except CepstraError as error:
        answer(Outcome(-1, fatal=str(error)))
        return
    for line in sys.stdin:
        given = json.loads(line)
        job = Job(**given["job"])
        try:
            outcome = maker.make(job, Path(given["path"]))
        except CepstraError as error:  # the file can't be written, and so no other one
            outcome = Outcome(job.index, fatal=str(error))
        answer(outcome)


def read_setup(values: dict[str, Any]) -> Setup:
    """What asdict made of a Setup, and JSON of that."""
    surroundings = values["surroundings"]
    return Setup(
        values["seed"],
        tuple(EngineSpec(**spec) for spec in values["engines"]),
        {
            split: {engine: tuple(voices) for engine, voices in pools.items()}
            for split, pools in values["voices"].items()
        },
        None if surroundings is None else Surroundings(**{name: _sounds(one) for name, one in surroundings.items()}),
    )


def _sounds(values: dict[str, Any] | None) -> Sounds | None:
    if values is None:
        return None
    return Sounds(values["path"], tuple((int(start), int(count)) for start, count in values["spans"]))


def _end(*_: object) -> NoReturn:
    """Through the blocks that end programs which are running."""
    raise SystemExit(143)
