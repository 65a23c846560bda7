"""A run with blocks of two rows, MANIFEST FOLDER ADDRESS GO: from the fourth block on workers wait for the file GO.

A row with "poison" takes its worker down.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from asr.batch import ray_engine
from asr.batch.parts import Folder
from asr.batch.run import transcribe

manifest, folder, address, go = sys.argv[1:]


class Worker(ray_engine._Worker):
    """Is sent to the workers as it stands here, which is in no module."""

    tries = 1
    go = go

    def __call__(self, unit: dict[str, Any]) -> dict[str, Any]:
        while unit["block"]["number"] >= 3 and not Path(self.go).exists():
            time.sleep(0.05)
        return super().__call__(unit)

    def _transcribed(self, rows: list[Any]) -> list[Any]:
        if any("poison" in row.extra for row in rows):
            os.kill(os.getpid(), signal.SIGKILL)
        return super()._transcribed(rows)


ray_engine._Worker = Worker  # type: ignore[misc]
with ray_engine.RayEngine(Path(manifest), {}, address) as engine:
    done = transcribe(Path(manifest), Folder(Path(folder)), {}, engine, progress=lambda *_: None, say=print, rows=2)
sys.stdout.write("".join(f"{line}\n" for line in (done.rows, *done.reasons)))
