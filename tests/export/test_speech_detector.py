"""The speech detector that ships is Silero's own network, to the last digits of float32."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest

from audio import vad
from export.speech_detector import rewrite

ORIGINAL = Path(__file__).parent.parent / "audio" / "silero_vad_6.2.onnx"


def _run(model: bytes, windows: np.ndarray) -> list[np.ndarray]:
    memory = np.zeros((1, 1, 128), np.float32)
    session = ort.InferenceSession(model, providers=["CPUExecutionProvider"])
    return list(session.run(["speech_probs", "hn", "cn"], {"input": windows, "h": memory, "c": memory}))


@pytest.mark.parametrize("level", [0.0, 1e-3, 0.1, 1.0])
@pytest.mark.parametrize("chunks", [1, 2, 70])
def test_it_says_what_the_original_says(chunks: int, level: float) -> None:
    rng = np.random.default_rng(chunks)
    # Noise that swells and a chirp, so that the memory has something to do
    time = np.arange(chunks * 576).reshape(chunks, 576)
    sound = np.sin(time**1.5 / 500) * np.abs(np.sin(time / 9000)) + 0.3 * rng.normal(size=time.shape)
    windows = (level * sound).astype(np.float32)
    theirs, ours = _run(ORIGINAL.read_bytes(), windows), _run(vad.MODEL.read_bytes(), windows)
    for its, mine in zip(theirs, ours, strict=True):
        np.testing.assert_allclose(mine, its, atol=2e-4, rtol=1e-4)
    np.testing.assert_allclose(ours[0], theirs[0], atol=1e-5)


def test_what_ships_is_what_the_rewriting_gives() -> None:
    written, shipped = map(onnx.load_from_string, (rewrite(ORIGINAL.read_bytes()), vad.MODEL.read_bytes()))
    assert written.graph == shipped.graph
    assert not {"Conv", "ConvTranspose"} & {node.op_type for node in shipped.graph.node}
