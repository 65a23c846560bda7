"""`cepstra transcribe` from its arguments to lines and exit codes."""

from __future__ import annotations

import io
import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
import soundfile
import typer

from asr.cli.recordings import Recording
from asr.cli.transcribe import Format, transcribe_with
from asr.errors import AudioError, CepstraError
from asr.recognizer import GROUP_FILES, Interrupted, Recognizer
from asr.results import Result
from asr.writers import FORMATS, render
from tests.terminal import read_all

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.asr.transcribe.conftest import Run

RATE = 16000
COMMAND = [sys.executable, "-c", "from asr.cli import main; main()", "transcribe", "--no-speech-detection"]


def test_the_formats_are_those_of_the_writers() -> None:
    assert [format_.value for format_ in Format] == list(FORMATS)


def test_one_file_is_just_its_text(run: Run, clips: list[Path], results: list[Result]) -> None:
    assert results[1].text
    assert run(clips[1]) == (0, results[1].text + "\n", "")


def test_several_files_are_named(run: Run, clips: list[Path], results: list[Result]) -> None:
    expected = "".join(f"{clip}: {result.text}\n" for clip, result in zip(clips, results, strict=True))
    assert run(*clips) == (0, expected, "")


@pytest.mark.parametrize("format_", Format)
def test_formats_of_one_file(run: Run, clips: list[Path], results: list[Result], format_: Format) -> None:
    assert run(clips[3], "--format", format_) == (0, render(results[3], format_), "")


def test_json_is_an_object_per_line_and_file(run: Run, clips: list[Path], results: list[Result]) -> None:
    code, out, err = run(*clips, "-f", "json")
    assert (code, err) == (0, "")
    lines = [json.loads(line) for line in out.splitlines()]
    assert [line["audio_filepath"] for line in lines] == [str(clip) for clip in clips]
    assert list(lines[0]) == [
        "audio_filepath",
        "duration",
        "text",
        "confidence",
        "words",
        "segments",
        "no_speech",
        "seconds_cut",
    ]
    for line, result in zip(lines, results, strict=True):
        assert line["text"] == result.text
        assert line["duration"] == round(result.duration, 3)
        assert line["confidence"] == pytest.approx(result.confidence, abs=1.1e-3)


def test_each_answer_is_printed_before_the_next_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    recordings = [Recording(name, name, None) for name in ("a.wav", "b.wav")]

    def answer(_sources: Iterable[object]) -> Iterator[Result]:
        yield Result("a.wav", 1.0, "lights on", 1.0)
        assert json.loads(capsys.readouterr().out)["text"] == "lights on"
        yield Result("b.wav", 1.0, "lights off", 1.0)

    assert transcribe_with(answer, recordings, Format.JSON, alone=False) == 0


def test_ctrl_c_says_how_far_it_came(capsys: pytest.CaptureFixture[str]) -> None:
    recordings = [Recording(name, name, None) for name in ("a.wav", "b.wav", "c.wav")]

    def answer(_sources: Iterable[object]) -> Iterator[Result | CepstraError]:
        yield Result("a.wav", 1.0, "lights on", 1.0)
        yield AudioError("b.wav: empty")
        raise KeyboardInterrupt

    with pytest.raises(typer.Exit) as end:
        transcribe_with(answer, recordings, Format.TEXT, alone=False)
    assert end.value.exit_code == 130
    assert capsys.readouterr() == (
        "a.wav: lights on\n",
        "cepstra: b.wav: empty\ncepstra: interrupted; 2 of 3 done\n",
    )


def test_ctrl_c_in_a_long_recording_prints_what_was_heard(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    def answer(_sources: Iterable[object]) -> Iterator[Result]:
        yield Result("a.wav", 1.0, "lights on", 1.0)
        raise Interrupted(Result("b.wav", 240.2, "lights off", 1.0))

    for folder in (None, tmp_path):
        targets = [None if folder is None else folder / name for name in ("a.txt", "b.txt", "c.txt")]
        recordings = [Recording(name, name, target) for name, target in zip(("a", "b", "c"), targets, strict=True)]
        with pytest.raises(typer.Exit) as end:
            transcribe_with(answer, recordings, Format.TEXT, alone=False)
        assert end.value.exit_code == 130
        out, err = capsys.readouterr()
        if folder is None:
            assert out == "a: lights on\nb: lights off\n"
            assert err == "cepstra: interrupted; 1 of 3 done, and the first 240 s of b\n"
        else:  # a file is written whole or not at all
            assert (out, err) == ("", "cepstra: interrupted; 1 of 3 done\n")
            assert [path.name for path in folder.iterdir()] == ["a.txt"]


def test_ctrl_c_while_standard_input_is_awaited(model: Path) -> None:
    process = subprocess.Popen(
        [*COMMAND, "--model", model, "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdin is not None
    header = io.BytesIO()
    soundfile.write(header, np.zeros(1), RATE, format="WAV")
    # More than a pipe holds: written only when the command has begun to read
    process.stdin.write(header.getvalue()[:40] + b"\xff\xff\xff\x7f" + bytes(1 << 18))
    process.stdin.flush()
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    out, err = process.communicate()
    assert (out, err) == (b"", b"cepstra: interrupted; 0 of 1 done\n")


def test_a_reader_that_has_enough_is_no_error(model: Path, clips: list[Path]) -> None:
    process = subprocess.Popen(
        [*COMMAND, "--model", model, *clips, *clips], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == b""
    assert process.wait(60) in {0, 1}
    process.stderr.close()


def test_standard_input(run: Run, clips: list[Path], results: list[Result], tmp_path: Path) -> None:
    data = clips[2].read_bytes()
    assert run("-", stdin=data) == (0, results[2].text + "\n", "")
    code, out, _ = run("-", "-f", "json", stdin=data)
    assert (code, json.loads(out)["audio_filepath"]) == (0, "-")
    assert run("-", "-o", tmp_path, stdin=data) == (0, "", "")
    assert (tmp_path / "stdin.txt").read_text() == results[2].text + "\n"
    code, out, err = run("-", stdin=b"")
    assert (code, out) == (1, "")
    assert err.startswith("cepstra: standard input: empty")


def test_bad_files_are_reported_and_the_rest_goes_on(run: Run, clips: list[Path], tmp_path: Path) -> None:
    (tmp_path / "page.wav").write_text("<html></html>" * 100)
    bad = [tmp_path / "none.wav", tmp_path, tmp_path / "page.wav"]
    _, expected, _ = run(*clips)
    code, out, err = run(bad[0], *clips[:3], bad[1], *clips[3:], bad[2])
    assert (code, out) == (1, expected)
    lines = err.splitlines()
    assert [line.partition(": ")[0] for line in lines] == ["cepstra"] * 3
    assert all(str(path) in line for path, line in zip(bad, lines, strict=True))
    assert "a folder, not a sound file; give the files in it" in lines[1]
    folder = tmp_path / "out"
    assert run(bad[0], *clips, "-o", folder)[0] == 1
    assert len(list(folder.iterdir())) == len(clips)
    assert len(clips) > GROUP_FILES


def test_a_transcript_that_cannot_be_written_is_one_failure(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "a.txt").mkdir()
    recordings = [Recording(name, f"{name}.wav", tmp_path / f"{name}.txt") for name in "ab"]

    def answer(sources: Iterable[object]) -> Iterator[Result]:
        return (Result(str(source), 1.0, "lights on", 1.0) for source in sources)

    assert transcribe_with(answer, recordings, Format.TEXT, alone=False) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"cepstra: {tmp_path / 'a.txt'}: ")
    assert err.count("\n") == 1
    assert (tmp_path / "b.txt").read_text() == "lights on\n"


def test_warnings_are_one_line_each(run: Run, clips: list[Path], tmp_path: Path) -> None:
    data = clips[4].read_bytes()
    for name in ("one.wav", "two.wav"):
        (tmp_path / name).write_bytes(data[:-6400])
    code, out, err = run(tmp_path / "one.wav", tmp_path / "two.wav")
    assert (code, out.count("\n")) == (0, 2)
    warnings = err.splitlines()
    assert len(warnings) == 2
    for name, line in zip(("one.wav", "two.wav"), warnings, strict=True):
        assert line.startswith(f"cepstra: warning: {tmp_path / name}: its header promises")


def test_settings_reach_the_recogniser(run: Run, model: Path, clips: list[Path], tmp_path: Path) -> None:
    samples, _ = soundfile.read(clips[5], dtype="int16")
    other, _ = soundfile.read(clips[6], dtype="int16")
    soundfile.write(tmp_path / "two.wav", np.stack([other[: len(samples)], samples], axis=1), RATE)
    (tmp_path / "one.raw").write_bytes(samples.astype("<i2").tobytes())
    expected = run(clips[5])
    assert run(tmp_path / "two.wav", "--channel", 1) == expected
    assert run(tmp_path / "one.raw", "--raw", "pcm_16:16000:1") == expected
    assert run(tmp_path / "one.raw", "--raw", "PCM_16:16000") == expected
    assert run(clips[5], "--threads", 1) == expected
    code, _, err = run(clips[5], "--max-seconds", 0.5)
    assert code == 1
    assert "above the limit of 0.5 s" in err
    code, out, _ = run(clips[5], "--beam", 3, "-f", "json")
    assert code == 0
    beam = Recognizer(model, beam=3, speech_detection=False).transcribe(str(clips[5]))
    assert json.loads(out) == beam.to_dict()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "name a sound file, or rows with --manifest"),
        (("a.wav", "--format", "docx"), "docx"),
        (("a.wav", "--formt", "json"), "No such option"),
        (("a.wav", "--beam", "0"), "--beam"),
        (("a.wav", "--threads", "0"), "--threads"),
        (("a.wav", "--channel", "-1"), "--channel"),
        (("a.wav", "--max-seconds", "0"), "--max-seconds"),
        (("a.wav", "--max-seconds", "nan"), "--max-seconds"),
        (("-", "a.wav", "-"), "FILE: - is given twice, but standard input can be read only once"),
        (("a.raw", "--raw", "16000"), "--raw: '16000' is not ENCODING:RATE:CHANNELS"),
        (("a.raw", "--raw", "PCM_16:fast:1"), "is not ENCODING:RATE:CHANNELS"),
        (("a.raw", "--raw", "PCM_16:16000:1:little"), "is not ENCODING:RATE:CHANNELS"),
        (("a.raw", "--raw", "PCM_17:16000:1"), "unknown encoding 'PCM_17'; use one of PCM_U8"),
        (("a.raw", "--raw", "PCM_16:16000:0"), "0 channels"),
    ],
)
def test_wrong_usage_is_2_and_says_what_is_right(run: Run, arguments: tuple[str, ...], message: str) -> None:
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("Usage: cepstra transcribe ")
    assert message in err


def test_what_a_file_asks_for_is_told_in_options(run: Run, clips: list[Path], tmp_path: Path) -> None:
    (tmp_path / "a.raw").write_bytes(bytes([7, 1, 250, 3]) * 1000)
    for arguments, message in (
        ((clips[5], "--max-seconds", 0.5), "0.90 s long, above the limit of 0.5 s; cut it, or raise --max-seconds"),
        ((tmp_path / "a.raw",), "samples without a header need --raw"),
        ((clips[5], "--raw", "PCM_16:16000"), "has a header, though raw samples were stated; leave --raw out"),
        ((clips[5], "--channel", 3), "it has 1, counted from 0; choose another --channel, or none to take the mean"),
        ((clips[5], "--manifest", tmp_path / "none.jsonl"), f"--manifest {tmp_path}/none.jsonl: no such manifest"),
    ):
        code, out, err = run(*arguments)
        assert (code, out, err.count("\n")) == (1, "", 1)
        assert message in err


def test_a_model_that_is_none(run: Run, clips: list[Path], tmp_path: Path) -> None:
    for model, problem in ((tmp_path / "none.cepstra", "no such file"), (clips[0], "not a bundle")):
        code, out, err = run(clips[1], "--model", model)
        assert (code, out, err.count("\n")) == (1, "", 1)
        assert err.startswith(f"cepstra: --model {model}: {problem}")


def test_names_that_are_no_unicode(run: Run, clips: list[Path], tmp_path: Path) -> None:
    path = os.fsdecode(os.fsencode(tmp_path) + b"/\xfc\xe9.wav")
    Path(path).write_bytes(clips[0].read_bytes())
    assert run(clips[0], path, "-f", "json")[0] == 0
    code, out, err = run(clips[0], path)
    assert (code, err) == (0, "")
    assert f"\n{tmp_path}/\\udcfc\\udce9.wav: " in out
    assert run(path, "-o", tmp_path / "out") == (0, "", "")
    assert len(list((tmp_path / "out").iterdir())) == 1


def test_output_is_utf_8_whatever_the_terminal_speaks(model: Path, clips: list[Path], tmp_path: Path) -> None:
    path = tmp_path / "lüks 語.wav"
    path.write_bytes(clips[0].read_bytes())
    for name, format_ in (("text", Format.TEXT), ("json", Format.JSON)):
        ended = subprocess.run(
            [*COMMAND, "--model", model, path, clips[0], "-f", name],
            capture_output=True, check=True, env={**os.environ, "PYTHONIOENCODING": "ascii"},
        )  # fmt: skip
        assert ended.stderr == b""
        assert str(path) in ended.stdout.decode("utf-8")
        if format_ is Format.JSON:
            assert json.loads(ended.stdout.splitlines()[0])["audio_filepath"] == str(path)


def test_a_bar_shows_on_a_terminal_and_nowhere_else(model: Path, clips: list[Path], results: list[Result]) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, "--model", model, *clips, "none.wav"], stdout=subprocess.PIPE, stderr=theirs,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
    )  # fmt: skip
    os.close(theirs)
    out = process.communicate(timeout=120)[0].decode()
    shown = read_all(ours)
    assert process.returncode == 1
    assert out == "".join(f"{clip}: {result.text}\n" for clip, result in zip(clips, results, strict=True))
    assert b"transcribing" in shown
    assert b"/11" in shown
    assert b"cepstra: none.wav: no such file" in shown


def test_on_one_terminal_lines_come_above_the_bar(model: Path, clips: list[Path], results: list[Result]) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, "--model", model, *clips[:2]], stdout=theirs, stderr=theirs, env={**os.environ, "TERM": "xterm"}
    )
    os.close(theirs)
    shown = b""
    try:
        while chunk := os.read(ours, 4096):
            shown += chunk
    except OSError:
        pass
    os.close(ours)
    assert process.wait(60) == 0
    for clip, result in zip(clips[:2], results[:2], strict=True):
        assert f"{clip}: {result.text}\r\n".encode() in shown


def test_a_name_makes_no_second_line(run: Run, clips: list[Path], tmp_path: Path) -> None:
    path = tmp_path / "a\nb.wav"
    path.write_bytes(clips[0].read_bytes())
    code, out, err = run(path, clips[0], f"{tmp_path}/c\nd.wav")
    assert (code, out.count("\n"), err.count("\n")) == (1, 2, 1)
    assert out.startswith(f"'{tmp_path}/a\\nb.wav': ")
