"""What deploy/ starts is what there is: commands, options, settings, paths, ports."""

from __future__ import annotations

import http.server
import json
import re
import shlex
import shutil
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest
import typer.main

from asr.cli.commands import app
from asr.service.settings import PREFIX, Settings, load
from tests.asr.service.live import ROOT

if TYPE_CHECKING:
    from pathlib import Path

UNIT = ROOT / "deploy" / "cepstra.service"
CONTAINER = ROOT / "deploy" / "Containerfile"


def _values(name: str) -> list[str]:
    """What the unit gives a setting, line by line."""
    lines = [line.partition("=") for line in UNIT.read_text().splitlines() if not line.startswith("#")]
    return [value for key, _, value in lines if key == name]


def _steps() -> list[tuple[str, str]]:
    """The Containerfile's instructions of the image that is left."""
    text = re.sub(r"\\\n\s*", "", re.sub(r"(?m)^#.*\n", "", CONTAINER.read_text()))
    steps = [(line.partition(" ")[0], line.partition(" ")[2]) for line in text.splitlines() if line]
    last = max(i for i, (name, _) in enumerate(steps) if name == "FROM")
    return steps[last:]


def _step(name: str) -> str:
    (found,) = [value for each, value in _steps() if each == name]
    return found


def _options(command: str) -> set[str]:
    group = typer.main.get_command(app)
    found = group.commands[command]  # type: ignore[attr-defined]
    return {option for parameter in found.params for option in parameter.opts}


def _settings(pairs: list[str]) -> Settings:
    """As they would be read; ConfigError for an unknown one."""
    named = dict(pair.split("=", 1) for pair in pairs if pair.startswith(PREFIX))
    assert named
    assert {name.removeprefix(PREFIX).lower() for name in named} <= set(Settings.model_fields)
    return load(None, {name.removeprefix(PREFIX).lower(): value for name, value in named.items()})


def test_the_unit_starts_a_command_that_there_is() -> None:
    (line,) = _values("ExecStart")
    program, command, *rest = shlex.split(line)
    assert program.endswith("/cepstra")
    assert {word for word in rest if word.startswith("-")} <= _options(command)
    settings = _settings([pair for value in _values("Environment") for pair in shlex.split(value)])
    assert settings.is_local  # nothing is open to others unless somebody says so
    assert float(_values("TimeoutStopSec")[0]) > settings.stop_seconds + 5


def test_the_unit_signals_as_the_service_understands_it() -> None:
    assert _values("ExecReload") == ["/bin/kill -HUP $MAINPID"]
    assert _values("KillMode") == ["mixed"]  # workers are the server's to end
    assert _values("Type") == ["notify"]


def test_the_unit_is_locked_up() -> None:
    for name, value in [("DynamicUser", "yes"), ("ProtectSystem", "strict"), ("NoNewPrivileges", "yes")]:
        assert _values(name) == [value]
    assert _values("StateDirectory") == ["cepstra"]
    assert _values("MemoryMax")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze here")
def test_systemd_has_no_fault_to_find_with_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / "cepstra.service"
    unit.write_text(UNIT.read_text().replace("/opt/cepstra/bin/cepstra", "/bin/true"))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(unit)], check=False, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_container_starts_a_command_that_there_is_as_somebody_without_rights() -> None:
    program, command, *rest = json.loads(_step("ENTRYPOINT"))
    assert program == "cepstra"
    assert set(rest) <= _options(command)
    settings = _settings(shlex.split(_step("ENV")))
    assert _step("EXPOSE") == str(settings.port)
    assert str(settings.state) == _step("VOLUME") == _step("WORKDIR")
    assert int(_step("USER")) > 0
    assert "apt-get" not in CONTAINER.read_text()  # no build tools


def test_the_container_is_built_of_what_there_is() -> None:
    for line in CONTAINER.read_text().splitlines():
        if line.startswith("COPY "):
            for source in line.split()[1:-1]:
                assert (ROOT / source).exists(), source
    packages = re.findall(r"packages = \[(.*)\]", (ROOT / "pyproject.toml").read_text())[0]
    for package in re.findall(r'"(\w+)"', packages):
        assert f"COPY {package} {package}\n" in CONTAINER.read_text()


@pytest.mark.parametrize("status", [200, 503])
def test_the_health_check_tells_what_the_service_says(status: int) -> None:
    words = json.loads(_step("HEALTHCHECK").partition("CMD ")[2])
    assert words[0] == "python"
    assert f":{Settings.model_fields['port'].default}/health" in words[2]

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/health" else 404)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    with http.server.HTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        code = words[2].replace("8765", str(server.server_port))
        done = subprocess.run([sys.executable, *words[1:2], code], check=False, capture_output=True, timeout=60)
        thread.join()
    assert (done.returncode == 0) == (status == 200)
