"""A service as its users meet it: `cepstra serve` in a process of its own, and clients that know no manners."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

from tests.heard import written

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[3]
SAMPLES = ROOT / "data_manifests" / "samples"
SPEED_UP = SAMPLES / "computer_speed_up.wav"
LONGEST_START = 90.0  # seconds, on a machine that is busy
BOUNDARY = "a-boundary"
HEAD = (
    f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n'
).encode()  # fmt: skip
TAIL = f"\r\n--{BOUNDARY}--\r\n".encode()


class Live:
    """A running service."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path, temporary: Path) -> None:
        self.process, self.log, self.temporary = process, log, temporary
        self.url = self._url()
        self.port = int(self.url.rstrip("/").rpartition(":")[2])

    def _url(self) -> str:
        end = time.monotonic() + LONGEST_START
        while time.monotonic() < end and self.process.poll() is None:
            found = re.search(r"^listening at (\S+)", self.log.read_text(), re.MULTILINE)
            if found:
                return found[1].rstrip("/")
            time.sleep(0.05)
        raise AssertionError(f"the service did not start: {self.log.read_text()}")

    def lines(self) -> list[dict[str, Any]]:
        """Of the log; every one is JSON, but the one for people."""
        return [json.loads(line) for line in self.log.read_text().splitlines() if not line.startswith("listening at ")]

    def workers(self) -> list[int]:
        """Processes that it has started and that live."""
        return [pid for pid in children(self.process.pid) if not is_zombie(pid)]

    def spool(self) -> list[str]:
        """Files of the service's own, but copies of the bundle."""
        return sorted(file.name for file in self.temporary.glob("cepstra-*/*") if not file.name.startswith("bundle-"))

    def transcribe(self, file: Path = SPEED_UP, **fields: str) -> httpx.Response:
        """One request."""
        with file.open("rb") as sound:
            return httpx.post(f"{self.url}/v1/audio/transcriptions", files={"file": sound}, data=fields, timeout=60.0)

    def health(self) -> dict[str, Any]:
        """What it says of itself."""
        answer: dict[str, Any] = httpx.get(f"{self.url}/health", timeout=30.0).json()
        return answer

    def is_well(self) -> bool:
        """Ready, and a good request is answered well."""
        answer = self.transcribe()
        return (
            bool(self.health()["ready"])
            and answer.status_code == 200
            and answer.json()["text"] == written("computer_speed_up")
        )

    def connect(self) -> socket.socket:
        """A client of no manners; reads give up after half a minute."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=30.0)

    def end(self, number: int = signal.SIGTERM, seconds: float = 60.0) -> int:
        """Its exit status."""
        self.process.send_signal(number)
        return self.process.wait(seconds)


@contextmanager
def served(
    folder: Path, *arguments: object, environment: dict[str, str] | None = None, prefix: tuple[str, ...] = (),
    **settings: object,
) -> Iterator[Live]:  # fmt: skip
    """A service of two workers unless told otherwise, whose temporary files lie in the folder; ended in any case.

    settings: by name. prefix: a command that starts it.
    """
    temporary = folder / "tmp"
    temporary.mkdir(exist_ok=True)
    log = folder / "log"
    chosen = {"workers": 2, **settings}
    variables = {
        **os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(temporary),
        **{f"CEPSTRA_SERVE_{name.upper()}": str(value) for name, value in chosen.items()}, **(environment or {}),
    }  # fmt: skip
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*prefix, sys.executable, "-m", "asr", "serve", "--port", "0", *map(str, arguments)],
            env=variables, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=folder,
        )  # fmt: skip
    try:
        yield Live(process, log, temporary)
    finally:
        if process.poll() is None:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(20)
            process.kill()
        process.wait()


def form(sound: bytes) -> bytes:
    """The body of a request with a recording."""
    return HEAD + sound + TAIL


def head(length: int, path: str = "/v1/audio/transcriptions") -> bytes:
    """The first lines of such a request."""
    return (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {length}\r\n"
        f"Content-Type: multipart/form-data; boundary={BOUNDARY}\r\n\r\n"
    ).encode()


def read_all(connection: socket.socket) -> bytes:
    """Until the other side closes, or resets."""
    found = b""
    with suppress(ConnectionError):
        while chunk := connection.recv(1 << 16):
            found += chunk
    return found


def children(pid: int) -> list[int]:
    """Processes whose parent it is."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError):
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[1]) == pid:
                found.append(int(stat.parent.name))
    return found


def is_zombie(pid: int) -> bool:
    """Ended, and nobody has asked how."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return False


def is_there(pid: int) -> bool:
    """Whether such a process runs."""
    return Path(f"/proc/{pid}").exists() and not is_zombie(pid)


def eventually(condition: Any, seconds: float = 30.0) -> bool:
    """Whether it comes true within so many seconds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return bool(condition())
