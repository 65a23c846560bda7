"""A stand-in for an engine of speech: `python -S synthesis_engine.py OUT TEXT...` writes a tone as long as its text.

What the text holds decides how it goes wrong: the tests of synthesis say which words.
"""

from __future__ import annotations

import math
import os
import resource
import struct
import sys
import time
import wave


def main() -> None:
    """Half a second, and 80 ms for each sign of the text."""
    out, text = sys.argv[1:3]
    most = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))  # the disk that is full is another one
    if "refuse" in text:
        sys.exit(f"can't say {text!r}")
    if "nothing" in text:
        return
    if "crash" in text:
        os.abort()
    if "rubbish" in text:
        with open(out, "wb") as file:  # noqa: PTH123  no pathlib: it has to start quickly
            file.write(b"no sound at all" * 100)
        return
    if "hang" in text:
        time.sleep(1000)
    if "slow" in text:
        time.sleep(0.3)
    seconds = 0.5 + 0.08 * len(text)
    if "hurry" in text:
        seconds = 0.02
    if "forever" in text:
        seconds = 60.0
    level = 0.0 if "silence" in text else 2.0 if "loud" in text else 0.3
    values = [level * math.sin(2 * math.pi * 200 * n / 16000) for n in range(round(seconds * 16000))]
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16000)
        file.writeframes(struct.pack(f"<{len(values)}h", *(round(32767 * max(-1, min(1, v))) for v in values)))


main()
