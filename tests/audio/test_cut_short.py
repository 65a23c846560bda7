"""Files that end before their container says: told with the file's name, and what is there is read."""

from __future__ import annotations

import io
import subprocess
import sys
import warnings
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from audio.errors import AudioError
from audio.reading import AudioWarning, audio_info, read_audio

RATE = 16000
SAMPLES = np.random.default_rng(0).normal(scale=0.1, size=6 * RATE)
OGG = "it ends without the page that is marked as the last, so it was cut short"
TOLD = {
    ("OGG", "VORBIS"): OGG,
    ("OGG", "OPUS"): OGG,
    ("FLAC", "PCM_16"): "damaged at",
    ("MP3", "MPEG_LAYER_III"): "it promises 6.00 s of sound",
    ("AIFF", "PCM_16"): "its header promises 192054 bytes",  # FORM's 54 and 96000 samples of 2 bytes
    ("AU", "PCM_16"): "its header promises 192024 bytes",
    ("W64", "PCM_16"): "its header promises 192104 bytes",
    ("NIST", "PCM_16"): "its header promises 96000 samples",
    ("WAV", "PCM_16"): "its header promises 6.00 s of sound",
}


def written(container: str, subtype: str) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, SAMPLES, RATE, format=container, subtype=subtype)
    return file.getvalue()


FILES = {kind: written(*kind) for kind in TOLD}


def told(data: bytes) -> tuple[float, list[str]]:
    """Seconds read, and warnings."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always", AudioWarning)
        seconds = len(read_audio(data)) / RATE
    return seconds, [str(each.message) for each in found]


@pytest.mark.parametrize("kind", TOLD)
@settings(deadline=None, max_examples=20)
@given(share=st.floats(0.3, 0.95))
def test_half_a_file_is_read_and_told(kind: tuple[str, str], share: float) -> None:
    seconds, said = told(FILES[kind][: round(share * len(FILES[kind]))])
    assert 0 < seconds < 6
    (line,) = said
    assert line.startswith(f"the given bytes: {TOLD[kind]}")


@pytest.mark.parametrize("kind", TOLD)
def test_a_whole_file_says_nothing(kind: tuple[str, str]) -> None:
    assert told(FILES[kind]) == (6.0, [])


@pytest.mark.parametrize("kind", [("OGG", "VORBIS"), ("OGG", "OPUS")])
def test_the_end_of_ogg_is_found_whatever_lies_around_it(kind: tuple[str, str]) -> None:
    data = FILES[kind]
    last = data.rindex(b"OggS")
    assert told(data + b"\0" * 100)[1] == []  # what copies leave behind it
    assert told(data + b"OggS\0\0")[1] == []  # no page
    for cut in (data[:last], data[: last + 20], data[:-1]):  # before, within its header, and by one byte
        assert told(cut)[1] == [f"the given bytes: {OGG}; read what is there"]
    unmarked = bytearray(data)
    unmarked[last + 5] &= ~4  # a recorder that was killed
    with pytest.warns(AudioWarning, match=OGG):
        assert audio_info(bytes(unmarked)).sample_rate


@settings(deadline=None, max_examples=50)
@given(data=st.binary(max_size=300))
def test_any_bytes_behind_a_page_end_in_a_result_or_an_error(data: bytes) -> None:
    with suppress(AudioError):
        told(FILES["OGG", "OPUS"][:2000] + data)


def test_a_size_that_a_recorder_left_open_is_no_promise() -> None:
    au = bytearray(FILES["AU", "PCM_16"])
    au[8:12] = b"\xff" * 4
    assert told(bytes(au)) == (6.0, [])


def test_the_command_line_names_the_file_and_gives_the_text(tmp_path: Path) -> None:
    sample = Path(__file__).resolve().parents[2] / "data_manifests" / "samples" / "turn_the_speaker_down.wav"
    samples, rate = soundfile.read(sample)
    file = io.BytesIO()
    soundfile.write(file, np.concatenate([samples, SAMPLES * 0]), rate, format="OGG", subtype="OPUS")
    (tmp_path / "a.ogg").write_bytes(file.getvalue()[:-100])
    ended = subprocess.run(
        [sys.executable, "-m", "asr", "transcribe", str(tmp_path / "a.ogg")], capture_output=True, text=True, check=True
    )
    assert ended.stdout.startswith("turn the speaker ")
    assert ended.stderr == f"cepstra: warning: {tmp_path / 'a.ogg'}: {OGG}; read what is there\n"
