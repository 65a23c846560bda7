"""Signals, killed workers, new bundles and a full disk, while `cepstra serve` is at work."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import httpx
import numpy as np
import pytest
import soundfile

from asr.bundle import read_bundle, write_bundle
from asr.recognizer import DEFAULT_BUNDLE
from tests.asr.service.live import HEAD, ROOT, SAMPLES, Live, eventually, head, is_there, read_all, served
from tests.heard import written

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def long(tmp_path: Path) -> Path:
    """A recording that takes seconds: the samples, one after the other, a few times."""
    gap = np.zeros(12_000, np.float32)
    clips = [soundfile.read(file, dtype="float32")[0] for file in sorted(SAMPLES.glob("*.wav"))]
    path = tmp_path / "long.wav"
    soundfile.write(path, np.concatenate([part for clip in clips * 3 for part in (clip, gap)]), 16000)
    return path


def _is_working(live: Live) -> bool:
    text = httpx.get(f"{live.url}/metrics", timeout=30).text
    return any(line.startswith("cepstra_working ") and float(line.split()[1]) > 0 for line in text.splitlines())


def _is_refused(live: Live) -> bool:
    try:
        live.connect().close()
    except ConnectionError:
        return True
    return False


def _nothing_is_left(live: Live, workers: list[int]) -> None:
    assert eventually(lambda: not any(is_there(pid) for pid in workers))
    assert not list(live.temporary.glob("cepstra-*"))
    assert "Traceback" not in live.log.read_text()


def test_killed_workers_new_bundles_and_sigterm_under_load_lose_no_request(tmp_path: Path, long: Path) -> None:
    """All of it at one service, since starting one takes seconds."""
    model = tmp_path / "model.cepstra"
    shutil.copyfile(DEFAULT_BUNDLE, model)
    with served(tmp_path, "--model", model, workers=2) as live, ThreadPoolExecutor(6) as threads:
        answers: list[httpx.Response] = []
        over = threading.Event()

        def client() -> None:
            while not over.is_set():
                answers.append(live.transcribe())

        clients = [threads.submit(client) for _ in range(4)]
        workers = live.workers()
        assert eventually(lambda: len(answers) >= 4)
        for pid in workers:
            os.kill(pid, signal.SIGKILL)
        assert eventually(lambda: len(live.workers()) == 3 and not set(workers) & set(live.workers()))

        second = tmp_path / "second.cepstra"
        write_bundle(second, replace(read_bundle(DEFAULT_BUNDLE), name="second"))
        second.replace(model)
        live.process.send_signal(signal.SIGHUP)
        assert eventually(lambda: live.health()["model"] == "second")
        assert eventually(lambda: len(live.workers()) == 3)
        model.write_bytes(b"damaged")
        live.process.send_signal(signal.SIGHUP)
        assert eventually(lambda: any("was not taken" in line["message"] for line in live.lines()))
        model.unlink()
        os.kill(live.workers()[0], signal.SIGKILL)
        assert eventually(lambda: len(live.workers()) == 3)
        count = len(answers)
        assert eventually(lambda: len(answers) > count + 4)
        assert live.health()["model"] == "second"

        over.set()
        for each in clients:
            each.result()
        assert {answer.status_code for answer in answers} == {200}
        assert {answer.json()["text"] for answer in answers} == {written("computer_speed_up")}

        # What is taken when the signal comes is finished, long as it is; nobody else gets in
        taken = threads.submit(live.transcribe, long)
        assert eventually(lambda: _is_working(live))
        workers = live.workers()
        live.process.send_signal(signal.SIGTERM)
        assert eventually(lambda: _is_refused(live))
        assert taken.result().status_code == 200
        assert taken.result().json()["text"].count("five five two eight five") >= 2
        assert live.process.wait(60) == 0
        _nothing_is_left(live, workers)


@pytest.mark.parametrize("signals", [[signal.SIGTERM], [signal.SIGINT, signal.SIGINT]])
def test_what_is_not_done_in_time_is_told_to_come_back(tmp_path: Path, long: Path, signals: list[int]) -> None:
    """Once the time to stop is over, and at once where it is asked for a second time, as by pressing Ctrl-C again."""
    samples, rate = soundfile.read(long, dtype="float32")
    soundfile.write(long, np.tile(samples, 20), rate)  # of a quarter of an hour, which no machine does in a second
    seconds = 1 if len(signals) == 1 else 300
    with served(tmp_path, workers=1, stop_seconds=seconds, idle_seconds=100) as live, ThreadPoolExecutor(2) as threads:
        with live.connect() as uploading:
            uploading.sendall(head(100_000) + HEAD)
            taken = threads.submit(live.transcribe, long)
            assert eventually(lambda: _is_working(live))
            workers = live.workers()
            for number in signals:
                live.process.send_signal(number)
                assert eventually(lambda: _is_refused(live))
            assert taken.result().status_code == 503
            assert int(taken.result().headers["Retry-After"]) >= 1
            if len(signals) == 1:
                assert read_all(uploading).startswith(b"HTTP/1.1 503")
            assert live.process.wait(60) == 0  # whoever is still connected
        _nothing_is_left(live, workers)


def test_systemd_is_told_when_it_is_ready_and_when_it_stops(tmp_path: Path) -> None:
    address = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(address)
        listener.settimeout(60)
        with served(tmp_path, workers=1, environment={"NOTIFY_SOCKET": address}) as live:
            assert listener.recv(100) == b"READY=1"
            for pid in [live.process.pid, *live.workers()]:  # as where a whole control group is told
                os.kill(pid, signal.SIGTERM)
            assert listener.recv(100) == b"STOPPING=1"
            assert live.process.wait(60) == 0
            assert not [line for line in live.lines() if line["level"] != "info"]  # no worker had to be replaced


def test_streams_and_connections_that_say_nothing_do_not_keep_it_from_stopping(tmp_path: Path) -> None:
    with served(tmp_path, workers=1, stop_seconds=2) as live, ExitStack() as stack:
        streams = [stack.enter_context(live.connect()) for _ in range(3)]
        for stream, more in zip(streams, (b"", b"\x82\xfe\xff\xff\0\0\0\0", None), strict=True):
            if more is not None:
                stream.sendall(
                    b"GET /v1/stream HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n" + more
                )
                assert stream.recv(1000).startswith(b"HTTP/1.1 101")
        workers = live.workers()
        live.process.send_signal(signal.SIGTERM)
        for stream in streams:
            read_all(stream)  # until it is closed
        assert live.process.wait(60) == 0
        _nothing_is_left(live, workers)


def test_workers_end_with_a_server_that_is_killed_whatever_they_are_at(tmp_path: Path, long: Path) -> None:
    with served(tmp_path, workers=1) as live, ThreadPoolExecutor(1) as threads:
        taken = threads.submit(live.transcribe, long)
        assert eventually(lambda: _is_working(live))
        workers = live.workers()
        os.kill(workers[0], signal.SIGSTOP)  # it would never see that its socket has ended
        live.process.kill()
        assert eventually(lambda: not any(is_there(pid) for pid in workers))
        with pytest.raises(httpx.TransportError):
            taken.result()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_start_that_is_interrupted_ends_quietly(tmp_path: Path, number: int) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    with subprocess.Popen(
        [sys.executable, "-m", "asr", "serve", "--port", "0", "--workers", "1"], stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(temporary)}, cwd=tmp_path,
    ) as process:  # fmt: skip
        assert eventually(lambda: list(temporary.glob("cepstra-*")), 60)
        process.send_signal(number)
        _, log = process.communicate(timeout=60)
    assert process.returncode == 0
    assert b"Traceback" not in log
    assert not list(temporary.glob("cepstra-*"))


def test_a_bundle_that_cannot_be_used_is_one_line_and_no_service(tmp_path: Path) -> None:
    model = tmp_path / "model.cepstra"
    model.write_bytes(DEFAULT_BUNDLE.read_bytes()[:-5000])
    done = subprocess.run(
        [sys.executable, "-m", "asr", "serve", "--port", "0", "--workers", "1", "--model", str(model)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}, cwd=tmp_path, capture_output=True,
        text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    (said,) = [line for line in done.stderr.splitlines() if not line.startswith("{")]
    assert str(model) in said
    assert not list(tmp_path.glob("cepstra-*"))


@contextmanager
def _small_disk(folder: Path, megabytes: int) -> Iterator[bool]:
    """Whether a file system of that size could be mounted there."""
    mounted = False
    with suppress(OSError):
        command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)]
        mounted = subprocess.run(command, check=False, capture_output=True).returncode == 0
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.parametrize("limit", ["disk", "file"])
def test_a_full_disk_is_told_and_others_are_served(tmp_path: Path, limit: str) -> None:
    """disk: the service's folder has 10 MB. file: it may write none of more than 8 MB, which needs no rights."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    hour = tmp_path / "hour.flac"  # of silence: little to send, 19 MB of samples
    soundfile.write(hour, np.zeros(300 * 16000, np.float32), 16000)
    large = tmp_path / "large.wav"  # 44 bytes more than a file may have: a last write that is cut short is no success
    soundfile.write(large, np.zeros(4 << 20, np.int16), 16000)
    with _small_disk(temporary, 10) if limit == "disk" else _no_disk() as mounted:
        if limit == "disk" and not mounted:
            pytest.skip("no right to mount a file system")
        prefix = () if limit == "disk" else ("prlimit", f"--fsize={8 << 20}")
        if prefix and shutil.which(prefix[0]) is None:
            pytest.skip("no prlimit here")
        with served(tmp_path, workers=1, state=temporary / "state", prefix=prefix) as live:
            for file in (large, hour):
                answer = live.transcribe(file)
                assert answer.status_code == 507
                assert answer.json()["error"]["code"] == "disk_full"
                assert str(tmp_path) not in answer.text
                assert live.is_well()
            assert live.spool() == []
            if limit == "disk":
                room = temporary / "full"
                with suppress(OSError):
                    room.write_bytes(bytes(20 << 20))
                answer = httpx.put(f"{live.url}/v1/phrases/home", content="turn on the light\n", timeout=60)
                assert answer.status_code == 507
                assert str(tmp_path) not in answer.text
                assert live.transcribe().status_code == 507
                live.process.send_signal(signal.SIGHUP)  # no room for another copy of the bundle
                assert eventually(lambda: any("was not taken" in line["message"] for line in live.lines()))
                room.unlink()
                answer = httpx.put(f"{live.url}/v1/phrases/home", content="turn on the light\n", timeout=60)
                assert answer.status_code == 201
            assert live.is_well()
            assert live.end() == 0
            assert "Traceback" not in live.log.read_text()
            for line in live.lines():
                assert "traceback" not in line


@contextmanager
def _no_disk() -> Iterator[bool]:
    yield False
