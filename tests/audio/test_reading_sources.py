"""Where sound may come from, and what is refused of it: paths, bytes, file objects, pipes, standard input."""

from __future__ import annotations

import io
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import soundfile

from audio import sources
from audio.errors import AudioError, CepstraError
from audio.reading import RawFormat, audio_info, read_audio

VALUES = np.random.default_rng(5).integers(-32768, 32767, 3200, dtype=np.int16)  # noise, so that FLAC isn't short
EXPECTED = VALUES.astype(np.float32) / np.float32(32768)


def sound(container: str = "WAV") -> bytes:
    file = io.BytesIO()
    soundfile.write(file, VALUES, 16000, format=container, subtype="PCM_16")
    return file.getvalue()


class Pipe(io.RawIOBase):
    """Delivers what it is given in small pieces, for ever if endless; can't seek."""

    def __init__(self, data: bytes, *, endless: bytes = b"") -> None:
        self.file = io.BytesIO(data)
        self.endless = endless
        self.delivered = 0

    def read(self, size: int = -1, /) -> bytes:
        data = self.file.read(min(size, 1000)) or (self.endless * size)[:size]
        self.delivered += len(data)
        return data

    def seekable(self) -> bool:
        return False


class OnlyRead:
    """The least of file objects."""

    def __init__(self, data: bytes | str) -> None:
        self.read = io.BytesIO(data).read if isinstance(data, bytes) else io.StringIO(data).read


class Failing(io.BytesIO):
    """A file on a disk that fails after some bytes."""

    def read(self, size: int | None = -1, /) -> bytes:
        if self.tell() >= 1000:
            raise OSError(5, "Input/output error")
        return super().read(min(size or 0, 1000 - self.tell()))


@pytest.mark.parametrize("container", ["WAV", "FLAC"])
@pytest.mark.parametrize("name", ["a.wav", "größe/語音 🎤.wav", "with space", "-", "new\nline.wav"])
def test_paths(name: str, container: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(sound(container))
    for given in (path, str(path)):
        np.testing.assert_array_equal(read_audio(given), EXPECTED)
        assert audio_info(given).frames == len(EXPECTED)


def test_a_name_that_is_no_utf8(tmp_path: Path) -> None:
    path = os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xfe.wav")
    Path(path).write_bytes(sound())
    np.testing.assert_array_equal(read_audio(path), EXPECTED)
    with pytest.raises(AudioError) as caught:
        read_audio(path + "x")
    assert str(caught.value).encode("utf-8")


@pytest.mark.parametrize("container", ["WAV", "FLAC"])
def test_bytes_and_file_objects(container: str, tmp_path: Path) -> None:
    data = sound(container)
    path = tmp_path / "a.wav"
    path.write_bytes(data)
    for given in (data, bytearray(data), memoryview(data), io.BytesIO(data), Pipe(data), OnlyRead(data)):
        np.testing.assert_array_equal(read_audio(given), EXPECTED)  # type: ignore[arg-type]  # OnlyRead is no BinaryIO
    with path.open("rb") as file:
        np.testing.assert_array_equal(read_audio(file), EXPECTED)
        assert not file.closed
    with path.open("rb", buffering=0) as raw:
        np.testing.assert_array_equal(read_audio(raw), EXPECTED)
    before = io.BytesIO(b"something else" + data)
    before.seek(14)
    np.testing.assert_array_equal(read_audio(before), EXPECTED)


@pytest.mark.parametrize("container", ["WAV", "FLAC"])
@pytest.mark.parametrize("how", ["pipe", "file", "/dev/stdin"])
def test_standard_input(container: str, how: str, tmp_path: Path) -> None:
    program = "import sys; from audio.reading import read_audio; print(len(read_audio(sys.argv[1])))"
    argument = "/dev/stdin" if how == "/dev/stdin" else "-"
    command = [sys.executable, "-c", program, argument]
    path = tmp_path / "a.wav"
    path.write_bytes(sound(container))
    if how == "file":
        with path.open("rb") as file:
            done = subprocess.run(command, stdin=file, capture_output=True, check=True)
    else:
        done = subprocess.run(command, input=path.read_bytes(), capture_output=True, check=True)
    assert done.stdout == b"3200\n"
    assert done.stderr == b""


def test_standard_input_without_sound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    with pytest.raises(AudioError, match=r"standard input: empty \(0 bytes\)"):
        read_audio("-")
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(AudioError, match="standard input: closed; pipe a sound file"):
        read_audio(Path("-"))
    terminal = io.BytesIO(b"")
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(terminal))
    with pytest.raises(AudioError, match="standard input: a terminal"):
        read_audio("-")


def test_named_pipes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    writer = threading.Thread(target=lambda: fifo.write_bytes(sound() + bytes(200_000)))
    writer.start()
    np.testing.assert_array_equal(read_audio(fifo), EXPECTED)
    writer.join()
    monkeypatch.setattr(sources, "FIFO_SECONDS", 0.05)
    with pytest.raises(AudioError, match=r"fifo: a pipe through which nothing came for 0\.05 s; start its writer"):
        read_audio(fifo)


def test_process_substitution(tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_bytes(sound())
    program = "import sys; from audio.reading import read_audio; print(len(read_audio(sys.argv[1])))"
    script = f'"{sys.executable}" -c "{program}" <(cat "{tmp_path}/a.wav")'
    done = subprocess.run(["bash", "-c", script], capture_output=True, check=True)
    assert done.stdout == b"3200\n"


@pytest.mark.parametrize("device", ["/dev/null", "/dev/zero", "/dev/urandom"])
def test_devices_are_refused(device: str) -> None:
    with pytest.raises(AudioError, match=f"{device}: a device, not a sound file; record"):
        read_audio(device)


def test_a_socket_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # its name may not be long
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        with pytest.raises(AudioError, match="socket: can't be opened"):
            read_audio("socket")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("absent.wav", r"absent\.wav: no such file; check the name"),
        ("absent/folder.wav", r"absent/folder\.wav: no such file"),
        ("https://example.com/a.wav", "no such file; download it first"),
        ("", "'': no such file"),
        ("nul\0byte", "can't be opened"),
        ("x" * 300, "can't be opened"),
        ("line\nbreak", r"'line\\nbreak': no such file"),
        (".", "a folder, not a sound file; give the files in it"),
        (b"", r"the given bytes: empty \(0 bytes\)"),
        (io.StringIO("text"), "opened as text; open it with mode"),
        (12, "an object of type int: not a source of sound"),
        (None, "an object of type NoneType: not a source of sound"),
        (OnlyRead(b""), "the given file object: empty"),
    ],
)
def test_what_can_not_be_opened(given: object, said: str) -> None:
    for function in (read_audio, audio_info):
        with pytest.raises(AudioError, match=said) as caught:
            function(given)  # type: ignore[arg-type]  # wrong on purpose
        assert "\n" not in str(caught.value)
        assert isinstance(caught.value, CepstraError)


def test_an_empty_file(tmp_path: Path) -> None:
    path = tmp_path / "empty.wav"
    path.touch()
    with pytest.raises(AudioError, match=r"empty\.wav: empty \(0 bytes\); record or copy it again"):
        read_audio(path)


def test_no_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "locked.wav"
    path.write_bytes(sound())
    path.chmod(0)
    if os.geteuid() == 0:  # who may read everything

        def refused(*_: object) -> int:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(os, "open", refused)
    with pytest.raises(AudioError, match=r"locked\.wav: no permission to read it; allow it"):
        read_audio(path)


def test_file_objects_that_can_not_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = io.BytesIO(sound())
    closed.close()
    with pytest.raises(AudioError, match="can't be read"):
        read_audio(closed)
    ended = io.BytesIO(sound())
    ended.read()
    with pytest.raises(AudioError, match=r"from where it stands on.*; seek to its start first"):
        read_audio(ended)
    path = tmp_path / "new.wav"
    with path.open("wb") as written, pytest.raises(AudioError, match=r"new\.wav: "):
        read_audio(written)
    with pytest.raises(AudioError, match="delivers str instead of bytes"):
        read_audio(OnlyRead("text"))  # type: ignore[arg-type]
    unready = Pipe(b"")
    monkeypatch.setattr(unready, "read", lambda _: None)
    with pytest.raises(AudioError, match="open it in blocking mode"):
        read_audio(unready)  # type: ignore[arg-type]


@pytest.mark.parametrize("container", ["WAV", "FLAC", "AIFF"])
def test_a_failing_disk_is_said(
    container: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(AudioError, match=r"can't be read \(Input/output error\); check the disk"):
        read_audio(Failing(sound(container) + bytes(3000)))
    pipe = Pipe(sound(container))
    monkeypatch.setattr(pipe, "read", Failing(sound(container)).read)
    with pytest.raises(AudioError, match=r"can't be read \(Input/output error\); check whatever delivers it"):
        read_audio(pipe)  # type: ignore[arg-type]
    assert capfd.readouterr() == ("", "")


def test_endless_pipes_end() -> None:
    for endless, said in [(b"\0", "begins with zeros"), (b"y\n", "text"), (b"<html>", "HTML")]:
        pipe = Pipe(b"", endless=endless)
        with pytest.raises(AudioError, match=said):
            read_audio(pipe)  # type: ignore[arg-type]
        assert pipe.delivered < 200_000
    streamed = sound()[:40] + b"\xff\xff\xff\xff"
    pipe = Pipe(streamed, endless=b"\1\2")
    with pytest.raises(AudioError, match=r"longer than the limit: more than .* MB came through it; cut it, or raise"):
        read_audio(pipe, max_seconds=60)  # type: ignore[arg-type]
    assert 60 * 32000 < pipe.delivered < 60 * 32000 + 3e6
    pipe = Pipe(b"", endless=b"\1\2")
    with pytest.raises(AudioError, match="longer than the limit"):
        read_audio(pipe, max_seconds=60, raw=RawFormat("PCM_16", 16000))  # type: ignore[arg-type]
    pipe = Pipe(sound("FLAC"), endless=b"\1\2")
    with pytest.raises(AudioError, match="longer than the limit"):
        read_audio(pipe, max_seconds=5)  # type: ignore[arg-type]


def test_a_pipe_with_a_long_chunk_before_its_samples() -> None:
    data = sound()
    long = data[:12] + b"JUNK" + (200_000).to_bytes(4, "little") + bytes(200_000) + data[12:]
    np.testing.assert_array_equal(read_audio(Pipe(long)), EXPECTED)  # type: ignore[arg-type]


def test_many_threads_read_at_once(tmp_path: Path) -> None:
    path = tmp_path / "a.flac"
    path.write_bytes(sound("FLAC"))
    results: list[bool] = []

    def work() -> None:
        results.extend(np.array_equal(read_audio(path), EXPECTED) for _ in range(20))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 160
