"""The torch model and its exported graphs, searched by the same code: the same texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from asr.model.backend import TorchBackend
from asr.runtime import OnnxBackend
from asr.search import Backend, SearchOptions, beam, decode
from asr.search.backend import Cache, pad
from audio import vad

if TYPE_CHECKING:
    from asr.bundle import Bundle
    from asr.search.backend import Floats
    from asr.training.checkpoint import Trained

SECONDS = [1.3, 0.0, 0.02, 2.9, 0.4, 1.1]
SEARCHES = {
    "greedy": SearchOptions(),
    "beam": SearchOptions(beam=4),
    "joint": SearchOptions(beam=4, ctc_weight=0.3, length_bonus=0.1),
    "ctc": SearchOptions(beam=3, ctc_weight=1.0),
}


@pytest.fixture(scope="module")
def clips() -> list[Floats]:
    rng = np.random.default_rng(0)
    return [(0.1 * rng.normal(size=int(s * 16000))).astype(np.float32) for s in SECONDS]


@pytest.fixture(scope="module")
def both(toy: tuple[Trained, Bundle]) -> dict[str, Backend]:
    return {"torch": TorchBackend(toy[0].model), "onnx": OnnxBackend(toy[1], threads=1)}


@pytest.mark.parametrize("options", SEARCHES.values(), ids=SEARCHES.keys())
def test_torch_and_onnx_say_the_same(both: dict[str, Backend], clips: list[Floats], options: SearchOptions) -> None:
    ours, theirs = (
        beam(backend, backend.encode(clips), SECONDS, options)
        if options.beam > 1
        else [[h] for h in decode(backend, backend.encode(clips), SECONDS, options)]
        for backend in both.values()
    )
    assert [[h.tokens for h in hypotheses] for hypotheses in ours] == [[h.tokens for h in h_] for h_ in theirs]
    for mine, its in zip(ours, theirs, strict=True):
        assert [h.score for h in mine] == pytest.approx([h.score for h in its], abs=1e-4)
    assert len({hypotheses[0].tokens for hypotheses in ours}) > 1


@pytest.mark.parametrize("options", [SEARCHES["greedy"], SEARCHES["joint"]], ids=["greedy", "joint"])
@pytest.mark.parametrize("name", ["torch", "onnx"])
def test_a_batch_is_decoded_as_each_alone(
    both: dict[str, Backend], clips: list[Floats], name: str, options: SearchOptions
) -> None:
    backend = both[name]
    together = decode(backend, backend.encode(clips), SECONDS, options)
    for hypothesis, clip, seconds in zip(together, clips, SECONDS, strict=True):
        (alone,) = decode(backend, backend.encode([clip]), [seconds], options)
        assert alone.tokens == hypothesis.tokens
        assert alone.log_probs == pytest.approx(hypothesis.log_probs, abs=1e-4)


@pytest.mark.parametrize("name", ["torch", "onnx"])
def test_memory_and_steps_are_as_the_protocol_says(both: dict[str, Backend], clips: list[Floats], name: str) -> None:
    memory = both[name].encode(clips)
    assert memory.ctc.dtype == np.float32
    assert memory.ctc.shape[0] == len(memory.lengths) == len(clips)
    assert memory.ctc.shape[1] == memory.lengths.max()
    for row, length in zip(memory.ctc, memory.lengths, strict=True):
        np.testing.assert_allclose(np.exp(row[:length]).sum(axis=1), 1, atol=1e-5)
    cache = memory.cache
    for tokens in (np.full((len(clips), 1), 1), np.arange(2 * len(clips)).reshape(-1, 2) + 4):
        log_probs, cache = both[name].step(tokens, cache)
        assert log_probs.dtype == np.float32
        assert log_probs.shape[:2] == tokens.shape
        np.testing.assert_allclose(np.exp(log_probs).sum(axis=2), 1, atol=1e-5)
    rows = cache.select(np.array([5, 0, 0]))
    log_probs = both[name].step(np.array([[9], [10], [11]]), rows)[0]
    everyone = both[name].step(np.array([[10], [4], [4], [4], [4], [9]]), cache)[0]
    np.testing.assert_allclose(log_probs[:2], everyone[[5, 0]], atol=1e-5)
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(log_probs[2], everyone[0], atol=1e-3)


@pytest.mark.parametrize("name", ["torch", "onnx"])
def test_tokens_read_at_once_are_as_those_read_one_by_one(
    both: dict[str, Backend], clips: list[Floats], name: str
) -> None:
    backend = both[name]
    start = backend.encode(clips).cache
    tokens = np.random.default_rng(1).integers(3, 40, (len(clips), 9))
    one_by_one, cache = [], start
    for column in tokens.T:
        log_probs, cache = backend.step(column[:, None], cache)
        one_by_one.append(log_probs)
    first, half = backend.step(tokens[:, :5], start)
    second, whole = backend.step(tokens[:, 5:], half)
    np.testing.assert_allclose(np.concatenate([first, second], axis=1), np.concatenate(one_by_one, axis=1), atol=1e-5)
    again = backend.step(tokens[:, 3:], whole.until(3))[0]
    np.testing.assert_allclose(again, np.concatenate(one_by_one[3:], axis=1), atol=1e-5)
    assert whole.until(9) is whole
    alone = start.alone(2, int(start.lengths[2]))
    mine = np.concatenate(one_by_one, axis=1)[2:3]
    np.testing.assert_allclose(backend.step(tokens[2:3], alone)[0], mine, atol=1e-5)


def test_selecting_all_in_order_copies_nothing() -> None:
    array = np.arange(6.0).reshape(1, 3, 1, 2, 1)
    cache = Cache(array, array, array, array, np.array([1, 2, 3]))
    assert cache.select(np.array([0, 1, 2])) is cache
    assert cache.select(np.array([2, 0])).past_k[0, :, 0, 0, 0].tolist() == [4, 0]
    assert cache.select(np.array([0, 1])).lengths.tolist() == [1, 2]
    assert cache.select(np.array([], np.int64)).lengths.size == 0


def test_clips_are_padded_with_zeros() -> None:
    batch, lengths = pad([np.ones(3, np.float32), np.zeros(0, np.float32), np.ones(2, np.float32)])
    assert batch.tolist() == [[1, 1, 1], [0, 0, 0], [1, 1, 0]]
    assert lengths.tolist() == [3, 0, 2]
    assert pad([np.zeros(0, np.float32)])[0].shape == (1, 1)  # runtimes need one sample at least
    assert pad([])[0].shape == (0, 1)


def test_sessions_keep_nothing_for_each_length(toy: tuple[Trained, Bundle]) -> None:
    """A plan of memory for each new shape would grow by 4 kB with every utterance; an arena by the longest one."""
    backend = OnnxBackend(toy[1], threads=1)
    for session in (backend._encoder, backend._decoder, vad._session()):
        options = session.get_session_options()
        assert not options.enable_mem_pattern
        if session is not vad._session():
            assert not options.enable_cpu_mem_arena
