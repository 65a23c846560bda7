"""Writers against documents written by hand, and against ffmpeg's subtitle readers where it is installed."""

import csv
import io
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asr.errors import ConfigError
from asr.results import Result, Segment, Word
from asr.writers import FORMATS, render, to_json

LIGHTS = Result(
    audio_filepath="tür/lights.wav",
    duration=3725.5,
    text="light on the kitchen",
    confidence=0.9,
    words=(Word("light", 0.5, 0.8, 0.9),),
    segments=(Segment(0.5, 1.2345, "light on"), Segment(3723.0, 3725.4999, "the kitchen")),
)
SILENCE = Result(audio_filepath="silence.wav", duration=1.0, text="", confidence=1.0)
AWKWARD = "a --> b\n\n<b>R&D</b>\ttab\u2028end"


def with_text(text: str) -> Result:
    return Result("x.wav", 2.0, text, 0.5, (), (Segment(0.25, 1.75, text),))


def test_text() -> None:
    assert render(LIGHTS) == "light on the kitchen\n"
    assert render([LIGHTS, SILENCE], "text") == "tür/lights.wav: light on the kitchen\nsilence.wav: \n"
    assert render([], "text") == ""


def test_json_is_one_object_per_line_and_recording() -> None:
    lines = render([LIGHTS, SILENCE], "json").splitlines()
    assert [json.loads(line) for line in lines] == [LIGHTS.to_dict(), SILENCE.to_dict()]
    assert "tür" in lines[0]


def test_srt() -> None:
    assert render(LIGHTS, "srt") == (
        "1\n00:00:00,500 --> 00:00:01,234\nlight on\n\n2\n01:02:03,000 --> 01:02:05,500\nthe kitchen\n\n"
    )


def test_vtt() -> None:
    assert render(LIGHTS, "vtt") == (
        "WEBVTT\n\n00:00:00.500 --> 00:00:01.234\nlight on\n\n01:02:03.000 --> 01:02:05.500\nthe kitchen\n"
    )


def test_tsv() -> None:
    assert render(LIGHTS, "tsv") == "start\tend\ttext\n500\t1234\tlight on\n3723000\t3725500\tthe kitchen\n"


def test_nothing_said_is_a_valid_document() -> None:
    documents = {name: render(SILENCE, name) for name in FORMATS if name != "json"}
    assert documents == {"text": "\n", "srt": "", "vtt": "WEBVTT\n", "tsv": "start\tend\ttext\n"}
    assert json.loads(render(SILENCE, "json"))["text"] == ""


def test_segments_without_words_make_no_cue() -> None:
    result = Result("x.wav", 2.0, "", 0.5, (), (Segment(0.0, 1.0, " "), Segment(1.0, 2.0, "yes")))
    assert render(result, "srt") == "1\n00:00:01,000 --> 00:00:02,000\nyes\n\n"


def test_awkward_text_is_escaped() -> None:
    result = with_text(AWKWARD)
    assert render(result, "text") == "a --> b <b>R&D</b> tab end\n"
    assert render(result, "srt").splitlines()[2:] == ["a -> b <b>R&D</b> tab end", ""]
    assert render(result, "vtt").splitlines()[3:] == ["a --&gt; b &lt;b&gt;R&amp;D&lt;/b&gt; tab end"]
    assert render(result, "tsv").splitlines()[1:] == ["250\t1750\ta --> b <b>R&D</b> tab end"]
    assert json.loads(render(result, "json"))["text"] == AWKWARD


def test_a_cue_lasts_at_least_a_millisecond() -> None:
    result = Result("x.wav", 2.0, "yes", 0.5, (), (Segment(1.0001, 1.0002, "yes"), Segment(-0.0001, 0.5, "no")))
    assert render(result, "tsv").splitlines()[1:] == ["1000\t1001\tyes", "0\t500\tno"]


def test_file_names_that_are_not_unicode_can_be_printed() -> None:
    path = b"caf\xe9.wav".decode("utf-8", "surrogateescape")
    result = Result(path, 1.0, "año", 1.0)
    assert json.loads(render(result, "json").encode())["audio_filepath"] == path
    assert render([result, result], "text").encode() == "caf?.wav: año\n".encode() * 2


def test_numbers_that_json_lacks_are_refused() -> None:
    with pytest.raises(ValueError, match="JSON"):
        to_json({"confidence": float("nan")})


@pytest.mark.parametrize("name", ["srt", "vtt", "tsv"])
def test_one_subtitle_document_is_one_recording(name: str) -> None:
    with pytest.raises(ConfigError, match=f"format {name}: holds one recording, not 2; write each to its own file"):
        render([LIGHTS, SILENCE], name)


def test_unknown_format_names_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="'docx': not known; choose one of text, json, srt, vtt, tsv"):
        render(LIGHTS, "docx")


def test_suffixes() -> None:
    assert {name: each.suffix for name, each in FORMATS.items()} == {
        "text": ".txt",
        "json": ".json",
        "srt": ".srt",
        "vtt": ".vtt",
        "tsv": ".tsv",
    }


@settings(derandomize=True, max_examples=100)
@given(st.text(max_size=30), st.floats(0, 1e5), st.floats(0, 30))
def test_any_text_stays_one_cue(text: str, start: float, length: float) -> None:
    result = Result("x.wav", 1e6, text, 0.5, (), (Segment(start, start + length, text),))
    said = " ".join(text.split())
    times = r"(\d\d+):([0-5]\d):([0-5]\d)[,.](\d{3})"
    for name in ("srt", "vtt"):
        document = render(result, name)
        assert len(re.findall(f"^{times} --> {times}$", document, re.MULTILINE)) == bool(said)
        assert document.count("-->") == bool(said)
        assert (
            document.count("\n")
            == {("srt", True): 4, ("vtt", True): 4, ("srt", False): 0, ("vtt", False): 1}[name, bool(said)]
        )
    rows = list(csv.reader(io.StringIO(render(result, "tsv"), newline="\n"), delimiter="\t", quoting=csv.QUOTE_NONE))
    assert [row[2] for row in rows[1:]] == ([said] if said else [])
    assert all(int(row[0]) < int(row[1]) for row in rows[1:])


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="ffmpeg, the independent reader, is not installed")
@pytest.mark.parametrize("name", ["srt", "vtt"])
def test_ffmpeg_reads_the_same_cues(name: str, tmp_path: Path) -> None:
    path = tmp_path / f"x{FORMATS[name].suffix}"
    segments = (*LIGHTS.segments, Segment(3726.0, 3727.0, "black & white"))
    path.write_text(render(Result("x.wav", 4000.0, "", 1.0, (), segments), name), encoding="utf-8")
    read = subprocess.run(
        ["ffmpeg", "-loglevel", "error", "-i", str(path), "-f", "srt", "-"],
        capture_output=True,
        check=True,
        encoding="utf-8",
    )
    assert read.stderr == ""
    assert re.findall(r"([\d:,]+) --> ([\d:,]+)\n(.*)\n", read.stdout) == [
        ("00:00:00,500", "00:00:01,234", "light on"),
        ("01:02:03,000", "01:02:05,500", "the kitchen"),
        ("01:02:06,000", "01:02:07,000", "black & white"),
    ]
