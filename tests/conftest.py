"""What every test may use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

_CHECKOUT = Path(__file__).resolve().parent.parent


def _corpus() -> Path:
    """The folder of real recordings, which need not exist."""
    return Path(os.environ.get("CEPSTRA_CORPUS") or _CHECKOUT.parent / "shared" / "corpus")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs real recordings where there are none."""
    if _corpus().is_dir():
        return
    skip = pytest.mark.skip(reason=f"no recordings at {_corpus()} (set CEPSTRA_CORPUS)")
    for item in items:
        if item.get_closest_marker("real"):
            item.add_marker(skip)


@pytest.fixture(scope="session")
def corpus() -> Path:
    """The folder of real recordings: SET.train.jsonl, SET.test.jsonl and the sound they name."""
    path = _corpus()
    if not path.is_dir():
        pytest.skip(f"no recordings at {path} (set CEPSTRA_CORPUS)")
    return path
