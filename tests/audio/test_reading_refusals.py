"""What isn't usable sound is refused in one line that names the file, the fault and the remedy."""

from __future__ import annotations

import io
import math
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from audio.errors import AudioError
from audio.reading import AudioWarning, audio_info, read_audio

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n"


def floats(samples: NDArray[Any], subtype: str = "FLOAT", container: str = "WAV") -> bytes:
    file = io.BytesIO()
    soundfile.write(file, samples, 16000, format=container, subtype=subtype)
    return file.getvalue()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"turn on the light\n", "not sound but text"),
        ("schalte das Licht an, höre\n".encode() * 999, "not sound but text"),
        (b"\xef\xbb\xbfone,two\r\n", "not sound but text"),
        ("text".encode("utf-16"), r"not sound but text \(UTF-16\)"),
        ("aaaa ÿ 語".encode("utf-16-be"), "not a sound file|not sound"),
        (b"  <!DOCTYPE html><html><body>404</body></html>", "an HTML page"),
        (b"<html>", "an HTML page"),
        (b"<?xml version='1.0'?><svg/>", "XML text"),
        (b'{"error": "not found"}', "not sound but text"),
        (LFS, "Git LFS pointer to it; fetch it: git lfs pull"),
        (b"\x89PNG\r\n\x1a\n" + bytes(99), "a PNG picture"),
        (b"\xff\xd8\xff\xe0\x00\x10JFIF" + bytes(99), "a JPEG picture"),
        (b"GIF89a" + bytes(99), "a GIF picture"),
        (b"RIFF\x64\0\0\0WEBPVP8 " + bytes(99), "a WebP picture"),
        (b"RIFF\x64\0\0\0AVI LIST" + bytes(99), "an AVI video.*; convert it: ffmpeg"),
        (b"\0\0\0\x20ftypisom" + bytes(99), "an MPEG-4 or QuickTime file.*; convert it: ffmpeg"),
        (b"\0\0\0\x20ftypM4A " + bytes(99), "M4A.*; convert it: ffmpeg"),
        (b"\x1a\x45\xdf\xa3" + bytes(99), "Matroska or WebM.*; convert it: ffmpeg"),
        (b"\xff\xf1\x50\x80\x2b\x9f\xfc" + bytes(99), "AAC sound, which can't be read here; convert it: ffmpeg"),
        (b"#!AMR\n" + bytes(99), "AMR sound"),
        (b"%PDF-1.7\n%\xe2\xe3\xcf\xd3" + bytes(99), "a PDF document"),
        (b"PK\x03\x04" + bytes(99), "a ZIP archive"),
        (b"\x7fELF" + bytes(99), "a program"),
        (bytes(9999), "begins with zeros"),
        (b"\x81\x93" * 5000, "not a sound file, or of an unknown kind; .*need their format stated"),
        (b"\0", "begins with zeros"),
        (b"RIF", "not sound but text"),
        (b"fLaC", "damaged: cut off within its header; record or copy it again"),
        (b"fLaC" + bytes(999), "can't be decoded"),
        (b"OggS" + bytes(999), "can't be decoded"),
        (b"ID3\x04" + bytes(999), "can't be decoded"),
        (b"FORM\0\0\0\x10AIFF" + bytes(999), "can't be decoded"),
        (b"caff" + bytes(999), "can't be decoded"),
    ],
)
@pytest.mark.parametrize("name", ["sound.wav", "picture"])
def test_what_is_no_sound(content: bytes, said: str, name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    for function in (read_audio, audio_info):
        with pytest.raises(AudioError, match=rf"{name}: .*({said})") as caught:
            function(path)
        message = str(caught.value)
        assert "\n" not in message
        assert "; " in message


@pytest.mark.parametrize("kind", ["FLAC", "OGG", "MP3"])
def test_what_is_cut_off_in_its_header(kind: str) -> None:
    whole = io.BytesIO()
    soundfile.write(whole, np.sin(np.arange(16000) / 5), 16000, format=kind)
    for length in (4, 7, 10, 30, 41):
        with pytest.raises(AudioError, match=r"; record (or copy )?it again$"):
            read_audio(whole.getvalue()[:length])


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="ffmpeg is not installed")
@pytest.mark.parametrize("suffix", ["mp4", "mkv", "avi", "webm", "flv", "mpg", "mov", "ogv", "m4a", "aac", "wma"])
def test_videos_without_sound_and_sound_that_can_not_be_read(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"file.{suffix}"
    kind = ["sine=d=1"] if suffix in ("m4a", "aac", "wma") else ["testsrc=d=1:s=64x64:r=25"]
    done = subprocess.run(["ffmpeg", "-loglevel", "error", "-f", "lavfi", "-i", *kind, path], check=False)
    if done.returncode:
        pytest.skip("this ffmpeg doesn't write it")
    with pytest.raises(AudioError, match=rf"file\.{suffix}: .*; convert it: ffmpeg"):
        read_audio(path)


@pytest.mark.parametrize("container", ["WAV", "AIFF"])
@pytest.mark.parametrize("subtype", ["FLOAT", "DOUBLE"])
@pytest.mark.parametrize(
    ("value", "said"), [(math.nan, r"not a number \(NaN\)"), (math.inf, "infinite"), (-math.inf, "infinite")]
)
def test_samples_that_are_not_finite(value: float, said: str, subtype: str, container: str) -> None:
    samples = np.zeros((16000, 2))
    samples[4000, 1] = value
    data = floats(samples, subtype, container)
    with pytest.raises(AudioError, match=rf"the sample at 0\.250 s is ({said}); write the file again"):
        read_audio(data)
    assert not read_audio(data, channel=0).any()
    assert len(read_audio(data, offset=0.5)) == 8000


def test_samples_beyond_float32_and_beyond_any_scale() -> None:
    with pytest.raises(AudioError, match=r"the sample at 0\.000 s is infinite"):
        read_audio(floats(np.full(100, 1e300), "DOUBLE"))
    with pytest.raises(AudioError, match=r"the sample at 0\.000 s is 1e\+30"):
        read_audio(floats(np.full(100, 1e30)))
    with pytest.raises(AudioError, match=r"infinite|NaN"):
        read_audio(floats(np.full((100, 2), 3e38)))


def test_floats_on_another_scale_are_kept_with_a_warning() -> None:
    samples = np.full(1600, 12000.0)
    with pytest.warns(AudioWarning, match="samples reach 12,000 times full scale"):
        np.testing.assert_array_equal(read_audio(floats(samples)), samples)
    assert read_audio(floats(np.full(1600, 1.5))).max() == 1.5  # louder than full scale is no fault of floats


@pytest.mark.parametrize(
    "wrong",
    [
        {"offset": -1},
        {"offset": math.nan},
        {"offset": math.inf},
        {"duration": 0},
        {"duration": -1},
        {"duration": math.nan},
        {"max_seconds": 0},
        {"max_seconds": math.nan},
        {"sample_rate": 0},
        {"sample_rate": 10**9},
        *({name: value} for name in ("sample_rate", "channel") for value in ("1", 1.5, True)),
        *({name: value} for name in ("offset", "duration", "max_seconds") for value in ("1", [1], True)),
    ],
)
def test_requests_that_no_file_could_meet(wrong: dict[str, object]) -> None:
    with pytest.raises(AudioError, match=rf"{next(iter(wrong))}: .*; give"):
        read_audio(floats(np.zeros(100)), **wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("container", ["WAV", "AIFF", "FLAC"])
def test_an_offset_past_the_end(container: str) -> None:
    data = floats(np.zeros(16000), "PCM_16", container)
    for offset in (1.0, 1e9):
        with pytest.raises(AudioError, match=r"offset .* s lies past the end \(1\.00 s\); give a smaller one"):
            read_audio(data, offset=offset)
    assert len(read_audio(data, offset=0.99995)) == 1


def test_no_limit() -> None:
    assert len(read_audio(floats(np.zeros(100)), max_seconds=math.inf)) == 100


@given(
    st.binary(max_size=300),
    st.sampled_from([b"", b"fLaC", b"OggS", b"ID3\4", b"\xff\xfb\x90\0", b".snd", b"NIST_1A\n"]),
)
@settings(max_examples=300, derandomize=True, deadline=None)
def test_any_bytes_give_finite_samples_or_an_audio_error(body: bytes, magic: bytes) -> None:
    try:
        samples = read_audio(magic + body)
    except AudioError:
        return
    assert np.isfinite(samples).all()


@given(
    changes=st.lists(st.tuples(st.integers(0, 3000), st.integers(0, 255)), min_size=1, max_size=5),
    kind=st.sampled_from(
        [("FLAC", "PCM_16"), ("OGG", "VORBIS"), ("OGG", "OPUS"), ("AIFF", "FLOAT"), ("CAF", "ALAC_16")]
    ),
)
@settings(max_examples=150, derandomize=True, deadline=None)
@pytest.mark.filterwarnings("ignore::audio.reading.AudioWarning")
def test_damaged_files_give_finite_samples_or_an_audio_error(
    changes: list[tuple[int, int]], kind: tuple[str, str]
) -> None:
    data = bytearray(_GOOD.setdefault(kind, floats(np.random.default_rng(0).uniform(-1, 1, 4000), kind[1], kind[0])))
    for at, value in changes:
        data[at % len(data)] = value
    try:
        samples = read_audio(bytes(data))
    except AudioError:
        return
    assert np.isfinite(samples).all()


_GOOD: dict[tuple[str, str], bytes] = {}
