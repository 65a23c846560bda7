"""What tests of the one-graph export share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from asr.bundle import Bundle, read_bundle
from asr.recognizer import DEFAULT_BUNDLE

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="session")
def shipped() -> Bundle:
    """The bundle that ships."""
    return read_bundle(DEFAULT_BUNDLE)


@pytest.fixture(scope="session")
def shipped_graph(shipped: Bundle, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its one graph, in a file."""
    from export.one_graph import one_graph

    path = tmp_path_factory.mktemp("one_graph") / "model.onnx"
    path.write_bytes(one_graph(shipped))
    return path
