"""What the service's page says to type is typed, at a service that was started as it says."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.heard import written

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.asr.service.conftest import Service

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "service.md").read_text(encoding="utf-8")
ADDRESS = "127.0.0.1:8765"


def blocks(language: str, text: str = PAGE) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def serve_lines(text: str = PAGE) -> list[list[str]]:
    lines = re.findall(r"^(?:    )?cepstra serve(.*)$", text, re.MULTILINE)
    return [shlex.split(line.removesuffix("&").partition("  #")[0]) for line in lines]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of the names that the page uses."""
    made = tmp_path_factory.mktemp("page")
    for name in ("lights.wav", "talk.mp3"):  # what a file holds counts, not what it is called
        shutil.copy(ROOT / "data_manifests" / "samples" / "computer_speed_up.wav", made / name)
    (lights, *_) = blocks("yaml", (ROOT / "docs" / "phrases.md").read_text(encoding="utf-8"))
    (made / "lights.yaml").write_text(lights, encoding="utf-8")
    (settings,) = blocks("yaml")
    (made / "serve.yaml").write_text(settings, encoding="utf-8")
    return made


@pytest.fixture(scope="module")
def started(service_with: Callable[..., Service], folder: Path) -> Service:
    """As the first line of the page says, at another port."""
    return service_with(options=serve_lines()[0], folder=folder)


def run(*command: str, folder: Path) -> str:
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_its_requests_are_answered(started: Service, folder: Path) -> None:
    lines = [line for block in blocks("sh") for line in block.splitlines()]
    assert len(lines) >= 10
    for line in lines:
        assert ADDRESS in line
        command = line.replace(f"http://{ADDRESS}", started.url).replace("curl ", "curl --fail-with-body ", 1)
        said = run("bash", "-c", command, folder=folder)
        assert ("error" not in json.loads(said)) if said.startswith("{") else ("-X DELETE" in line or "-->" in said
                                                                              or "event: " in said)  # fmt: skip
    assert (folder / "sets").is_dir()


def test_its_python_runs(started: Service, folder: Path) -> None:
    (block,) = blocks("python")
    assert ADDRESS in block
    said = run(sys.executable, "-c", block.replace(f"http://{ADDRESS}", started.url), folder=folder)
    assert said == written("computer_speed_up") + "\n"


def test_its_settings_start_one_whose_keys_are_asked_for(service_with: Callable[..., Service], folder: Path) -> None:
    service = service_with(options=serve_lines()[1], folder=folder)
    assert service.http.get("/metrics").status_code == 401
    (key,) = re.findall(r"name: monitoring, key: (\w+)", PAGE)
    assert service.http.get("/metrics", headers={"Authorization": f"Bearer {key}"}).status_code == 200
    assert service.http.get("/v1/models", headers={"Authorization": f"Bearer {key}"}).status_code == 403


def test_the_readme_says_how(started: Service) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    section = text.partition("## As a service\n")[2].partition("\n## ")[0]
    assert len(section.strip().splitlines()) <= 8
    assert serve_lines(section) == [[]]
    (line,) = re.findall(r"^    (curl .*)$", section, re.MULTILINE)
    assert json.loads(run("bash", "-c", line.replace(f"http://{ADDRESS}", started.url), folder=ROOT))["text"]


def test_metrics_of_the_page_are_there(started: Service) -> None:
    found = started.http.get("/metrics").text
    for name in re.findall(r"`(cepstra_\w+)`", PAGE):
        assert re.search(rf"^# HELP {name.removesuffix('_total')}(_total)? ", found, re.MULTILINE), name
