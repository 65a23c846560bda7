"""The service under load, from a process of its own on the same machine: requests a second, latency, memory, overload.

    python benchmarks/service.py                     # load and a command behind a long recording, about 2 minutes
    python benchmarks/service.py --mixed-minutes 20  # and mixed load, with the memory that it takes
    python benchmarks/service.py --overload-minutes 20

A server is started for each part (`python -m asr serve --port 0`). Commands are the middle 2 s of recordings that ship
with the project, posted to /v1/audio/transcriptions over connections that stay open.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import os
import random
import re
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import soundfile

from audio.reading import read_audio

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent
SAMPLES = sorted((ROOT / "data_manifests" / "samples").glob("*.wav"))
PHRASES = ROOT / "data_manifests" / "phrases" / "lights.yaml"
RATE = 16000
BOUNDARY = "d3f1a7c0"


@dataclass
class Server:
    """A running service."""

    host: str
    port: int
    pid: int

    def memory(self) -> float:
        """MB of it and its workers; what processes share is counted once."""
        pids = [self.pid, *(int(pid) for pid in _children(self.pid))]
        return sum(_proportional(pid) for pid in pids) / 1000


@contextmanager
def served(*options: str) -> Iterator[Server]:
    """A server for the block; it must end well."""
    process = subprocess.Popen(
        [sys.executable, "-m", "asr", "serve", "--port", "0", "--phrases", str(PHRASES), *options],
        stderr=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert process.stderr is not None
    for line in process.stderr:
        found = re.search(r"listening at http://(.+):(\d+)/", line)
        if found:
            break
    else:
        raise SystemExit("the service did not start")
    drain = subprocess.Popen(["cat"], stdin=process.stderr, stdout=subprocess.DEVNULL)  # logs must not stop it
    try:
        yield Server(found[1], int(found[2]), process.pid)
    finally:
        process.terminate()
        code = process.wait(60)
        drain.terminate()
        if code:
            raise SystemExit(f"the service ended with {code}")


def commands(seconds: float, count: int = 8) -> list[bytes]:
    """WAV files that long, out of the samples."""
    found = []
    for path in SAMPLES[:count]:
        samples = read_audio(path, sample_rate=RATE)
        want = round(seconds * RATE)
        samples = np.resize(samples, want) if len(samples) < want else samples[(len(samples) - want) // 2 :][:want]
        found.append(wav(samples))
    return found


def wav(samples: np.ndarray) -> bytes:
    """A file's bytes."""
    file = io.BytesIO()
    soundfile.write(file, samples, RATE, format="WAV", subtype="PCM_16")
    return file.getvalue()


def request(path: str, sound: bytes, **fields: str) -> bytes:
    """A whole HTTP request."""
    head = f"--{BOUNDARY}\r\nContent-Disposition: form-data; name="
    parts = [f'{head}"{name}"\r\n\r\n{value}\r\n' for name, value in fields.items()]
    file = f'{head}"file"; filename="a.wav"\r\n\r\n'
    body = "".join((*parts, file)).encode() + sound + f"\r\n--{BOUNDARY}--\r\n".encode()
    return (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary={BOUNDARY}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    ).encode() + body


@dataclass
class Seen:
    """What clients saw."""

    latencies: list[float] = field(default_factory=list)  # seconds, of what was answered with 200
    statuses: Counter[int] = field(default_factory=Counter)  # 0: the connection failed
    without_retry: int = 0  # refusals that don't say when to come back

    def row(self, seconds: float) -> dict[str, float]:
        """Requests a second, and milliseconds."""
        found = np.array(self.latencies) * 1000
        percent = {f"p{p}": round(float(np.percentile(found, p)), 1) for p in (50, 95, 99)} if len(found) else {}
        return {"per_second": round(len(found) / seconds, 1), **percent}


class Client:
    """One connection that stays open."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(self, message: bytes, seen: Seen) -> bytes:
        """The answer's body; what was seen is noted."""
        began = time.perf_counter()
        try:
            if self._streams is None:
                self._streams = await asyncio.open_connection(self._server.host, self._server.port)
            reader, writer = self._streams
            writer.write(message)
            await writer.drain()
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            status = int(head.split()[1])
            length = re.search(r"content-length: (\d+)", head, re.IGNORECASE)
            body = await reader.readexactly(int(length[1])) if length else b""
            if "connection: close" in head.lower():
                self.close()
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            seen.statuses[0] += 1
            self.close()
            return b""
        seen.statuses[status] += 1
        if status == 200:
            seen.latencies.append(time.perf_counter() - began)
        elif status == 503 and "retry-after" not in head.lower():
            seen.without_retry += 1
        return body

    def close(self) -> None:
        """Another one is made for the next request."""
        if self._streams is not None:
            self._streams[1].close()
        self._streams = None


async def load(server: Server, messages: list[bytes], clients: int, seconds: float) -> Seen:
    """So many clients, each of which asks as soon as it has its answer."""
    seen = Seen()
    end = time.perf_counter() + seconds

    async def one(number: int) -> None:
        client = Client(server)
        turn = number
        while time.perf_counter() < end:
            await client.post(messages[turn % len(messages)], seen)
            turn += 1
        client.close()

    await asyncio.gather(*(one(number) for number in range(clients)))
    return seen


async def behind(server: Server) -> dict[str, float]:
    """A 2 s command on an idle server, and while a recording of 10 minutes is worked on; milliseconds."""
    short = [request("/v1/audio/transcriptions", sound) for sound in commands(2.0)]
    ten = np.resize(np.concatenate([read_audio(path, sample_rate=RATE) for path in SAMPLES]), 600 * RATE)
    long = request("/v1/audio/transcriptions", wav(ten))
    client, other = Client(server), Client(server)
    idle, beside, whole = Seen(), Seen(), Seen()
    for turn in range(60):
        await client.post(short[turn % len(short)], idle)
    work = asyncio.create_task(other.post(long, whole))
    turn = 0
    while not work.done():
        await client.post(short[turn % len(short)], beside)
        await asyncio.sleep(0.05)
        turn += 1
    client.close()
    other.close()
    before, during = idle.row(1), beside.row(1)
    return {
        "idle_p50": before["p50"], "idle_p95": before["p95"], "behind_p50": during["p50"], "behind_p95": during["p95"],
        "behind_max": round(1000 * max(beside.latencies), 1), "more_p50": round(during["p50"] - before["p50"], 1),
        "commands": len(beside.latencies), "long_seconds": round(whole.latencies[0], 1),
    }  # fmt: skip


async def mixed(server: Server, seconds: float, clients: int) -> tuple[Seen, list[tuple[float, float]]]:
    """Commands, phrases, half minutes and broken files; memory every 10 seconds."""
    plain = [request("/v1/audio/transcriptions", sound) for sound in commands(2.0)]
    held = [request("/v1/commands", sound, phrases="lights") for sound in commands(2.0)]
    long = [request("/v1/audio/transcriptions", sound, response_format="srt") for sound in commands(30.0, 2)]
    broken = [request("/v1/audio/transcriptions", sound[:30]) for sound in commands(2.0, 2)]
    seen, curve = Seen(), [(0.0, server.memory())]
    began = time.perf_counter()

    async def one(number: int) -> None:
        client, draw = Client(server), random.Random(number)  # noqa: S311  no secret
        while time.perf_counter() - began < seconds:
            kind = draw.choices([plain, held, long, broken], [70, 18, 8, 4])[0]
            await client.post(draw.choice(kind), seen)
        client.close()

    async def watch() -> None:
        while time.perf_counter() - began < seconds - 5:
            await asyncio.sleep(10)
            curve.append((time.perf_counter() - began, await asyncio.to_thread(server.memory)))

    await asyncio.gather(watch(), *(one(number) for number in range(clients)))
    return seen, curve


def _children(pid: int) -> list[str]:
    return [
        child
        for task in Path(f"/proc/{pid}/task").iterdir()
        for child in (task / "children").read_text(encoding="ascii").split()
    ]


def _proportional(pid: int) -> int:
    """KB of a process, of which what it shares with others counts in part."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    except OSError:
        return 0
    return int(re.search(r"^Pss:\s+(\d+)", text, re.MULTILINE)[1])  # type: ignore[index]


def _memory(curve: list[tuple[float, float]]) -> dict[str, float]:
    """MB at the start, after the first minute (everything has been used once), and at the end."""
    settled = [mb for at, mb in curve if at >= 60] or [curve[-1][1]]
    tenth = max(1, len(settled) // 10)
    return {
        "start_mb": round(curve[0][1]), "settled_mb": round(float(np.median(settled[:tenth]))),
        "end_mb": round(float(np.median(settled[-tenth:]))), "most_mb": round(max(settled)),
    }  # fmt: skip


def main() -> None:
    """Print a line for each part; --json writes all of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=15.0, help="of each number of clients")
    parser.add_argument("--clients", type=int, nargs="*", default=[1, 4, 16, 64])
    parser.add_argument("--mixed-minutes", type=float, default=0.0)
    parser.add_argument("--overload-minutes", type=float, default=0.0)
    parser.add_argument("--options", default="", help="of cepstra serve, such as '--workers 1 --threads 2'")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    options = arguments.options.split()
    report: dict[str, object] = {}
    short = [request("/v1/audio/transcriptions", sound) for sound in commands(2.0)]
    if arguments.clients:
        with served(*options) as server:
            asyncio.run(load(server, short, 4, 2))
            for clients in arguments.clients:
                seen = asyncio.run(load(server, short, clients, arguments.seconds))
                report[f"clients_{clients}"] = seen.row(arguments.seconds) | {"statuses": dict(seen.statuses)}
                print(f"{clients} clients: {report[f'clients_{clients}']}", flush=True)
            report["behind_long"] = asyncio.run(behind(server))
            print(f"behind 10 minutes: {report['behind_long']}", flush=True)
    for name, minutes, clients, more in (
        ("mixed", arguments.mixed_minutes, 8, ()),
        ("overload", arguments.overload_minutes, 64, ("--config", _overloaded())),
    ):
        if minutes:
            with served(*options, *more) as server:
                seen, curve = asyncio.run(mixed(server, 60 * minutes, clients))
            figures = seen.row(60 * minutes) | {"statuses": dict(seen.statuses), "without_retry": seen.without_retry}
            report[name] = figures | _memory(curve) | {"curve": [(round(at), round(mb)) for at, mb in curve]}
            print(f"{name}, {minutes:g} minutes: {figures | _memory(curve)}", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1), encoding="utf-8")


def _overloaded() -> str:
    """Settings under which 64 clients are too many."""
    path = Path("/tmp") / f"overload-{os.getpid()}.yaml"  # noqa: S108
    path.write_text("max_waiting: 8\n", encoding="utf-8")
    return str(path)


if __name__ == "__main__":
    main()
