"""Encoding while the sound comes against the encoder of the whole; delay, state and refusals, counted by hand."""

from __future__ import annotations

import re
import tracemalloc
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from asr.errors import CepstraError, ConfigError
from asr.model.config import ModelConfig
from asr.model.stream_shape import StreamShape
from asr.model.streaming import StreamingEncoder
from asr.model.transformer import Transformer
from asr.search.ctc import best_path
from asr.streaming import Encoded, EncoderStream, GreedyText
from asr.tokenizer import Tokenizer
from audio.mfcc import MfccSpec

if TYPE_CHECKING:
    from asr.search.backend import Floats

CONFIG = ModelConfig(
    d_model=24, heads=3, encoder_layers=3, encoder_ff=40, decoder_layers=2, decoder_ff=32, windows=(2, 1, 3)
)
SPEC = MfccSpec(n_cepstra=13, normalisation="running", running_frames=30)
VOCAB = 30


def _model(config: ModelConfig = CONFIG, spec: MfccSpec = SPEC) -> Transformer:
    """In evaluation mode, every weight and bias random."""
    torch.manual_seed(0)
    model = Transformer(config, spec, VOCAB).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.1 * torch.randn_like(weight))
    return model


def _noise(length: int, seed: int = 0) -> Floats:
    noise: Floats = (0.1 * np.random.default_rng(seed).normal(size=length)).astype(np.float32)
    return noise


@torch.no_grad()
def _whole(model: Transformer, samples: Floats) -> Encoded:
    k, v, ctc, positions = model.encode(torch.from_numpy(samples)[None], torch.tensor([len(samples)]))
    assert positions.tolist() == [ctc.shape[1]]
    return Encoded(k[:, 0].numpy(), v[:, 0].numpy(), ctc[0].numpy())


def _streamed(encoder: StreamingEncoder, blocks: list[Floats]) -> Encoded:
    stream = EncoderStream(encoder)
    parts = [*(stream.feed(block) for block in blocks), stream.finish()]
    return Encoded(
        np.concatenate([part.memory_k for part in parts], axis=2),
        np.concatenate([part.memory_v for part in parts], axis=2),
        np.concatenate([part.ctc for part in parts]),
    )


def _assert_same(ours: Encoded, theirs: Encoded) -> None:
    for name in ("memory_k", "memory_v", "ctc"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), atol=3e-5, rtol=1e-5)


@st.composite
def _models(draw: st.DrawFn) -> Transformer:
    layers = draw(st.integers(1, 3))
    config = ModelConfig(
        d_model=8, heads=2, encoder_layers=layers, encoder_ff=10, decoder_layers=1, decoder_ff=8,
        stride=draw(st.integers(1, 4)), splice=draw(st.integers(0, 6)),
        windows=tuple(draw(st.lists(st.integers(1, 5), min_size=layers, max_size=layers + 1))),
        activation=draw(st.sampled_from(["relu", "gelu"])),
    )  # fmt: skip
    frame = draw(st.integers(20, 64))
    spec = MfccSpec(
        frame=frame, hop=draw(st.integers(frame // 4, frame)), fft=64 + 2 * draw(st.integers(0, 8)), n_mels=12,
        n_cepstra=6, edges=draw(st.sampled_from(["snip", "zero"])),
        normalisation=draw(st.sampled_from(["running", "none"])), running_frames=draw(st.integers(1, 9)),
        c0=draw(st.sampled_from(["cepstrum", "energy", "raw_energy"])), spread=(2.0, 1.0, 1.0, 1.5, 1.0, 1.0),
    )  # fmt: skip
    return _model(config, spec)


@given(
    model=_models(),
    sizes=st.lists(st.one_of(st.integers(0, 5), st.integers(0, 200), st.integers(0, 3000)), max_size=8),
    seed=st.integers(0, 99),
)
@settings(max_examples=50, deadline=None)
def test_in_blocks_of_any_length_it_is_the_encoder_of_the_whole(
    model: Transformer, sizes: list[int], seed: int
) -> None:
    samples = _noise(sum(sizes), seed)
    blocks = np.split(samples, np.cumsum(sizes)[:-1]) if sizes else []
    _assert_same(_streamed(StreamingEncoder(model), blocks), _whole(model, samples))


@pytest.mark.parametrize("block", [1, 160, 479, 480, 481, 70000])
def test_a_quarter_of_a_minute_in_any_blocks(block: int) -> None:
    model = _model()
    samples = _noise(1500 if block == 1 else 15 * 16000 + 7)
    blocks = [samples[start : start + block] for start in range(0, len(samples), block)]
    _assert_same(_streamed(StreamingEncoder(model), blocks), _whole(model, samples))


def test_sizes_counted_by_hand() -> None:
    shape = StreamShape(CONFIG, SPEC)
    # 25 ms frames every 10 ms: of 480 samples' three frames, two end in the next block. A position sees frames 3p-5 …
    # 3p+7, which ends 160 (3p + 7) + 400 = 480 (p + 3) + 80 samples from the start: in block p + 3. Then 2 + 1 + 3.
    assert (shape.block, shape.lag) == (480, 3 + 6)
    assert shape.delay == pytest.approx(9 * 0.03)
    # 320 samples, 29 frames under the mean, 12 under the splice; input, query, key and value of 2 w positions a layer
    assert shape.parts == (320, 29 * 13, 12 * 13, 4 * 4 * 24, 2 * 4 * 24, 6 * 4 * 24)
    assert StreamShape(replace(CONFIG, encoder_layers=6, windows=(4, 4, 8, 8, 16, 16)), SPEC).delay == pytest.approx(
        (56 + 3) * 0.03
    )
    assert StreamShape(CONFIG, replace(SPEC, normalisation="none")).parts[1] == 0
    # Centred frames begin 200 samples earlier: 160 (3p + 7) + 200 = 480 (p + 2) + 360
    assert StreamShape(CONFIG, replace(SPEC, edges="zero")).lag == 2 + 6


def test_a_position_is_there_with_the_last_sample_of_its_block_and_no_sooner() -> None:
    stream = EncoderStream(StreamingEncoder(_model()))
    samples = _noise(480 * 30)
    seen, counts = 0, []
    for start in range(0, len(samples), 80):
        seen += len(stream.feed(samples[start : start + 79]).ctc)
        early = seen
        seen += len(stream.feed(samples[start + 79 : start + 80]).ctc)
        counts.append((early, seen))
    for i, (early, late) in enumerate(counts):
        fed = 80 * (i + 1)
        assert early == max(0, (fed - 1) // 480 - 9)
        assert late == max(0, fed // 480 - 9)


def test_the_delay_is_what_the_model_needs_but_for_a_part_of_a_block() -> None:
    model = _model(spec=replace(SPEC, normalisation="none"))
    with torch.no_grad():
        for weight in model.encoder.parameters():  # so that far positions count for more than rounding
            weight.mul_(3)
    samples = _noise(480 * 40)
    memory = _whole(model, samples).memory_v
    # The last samples that position 20 depends on: of frame 3 (20 + 6) + 7, which ends before 160 * 85 + 400, and whose
    # window fades the very last one to nothing
    for at, depends in ((13990, True), (14000, False)):
        changed = samples.copy()
        changed[at:] = 1000 * _noise(len(samples) - at, 1)
        moved = np.abs(_whole(model, changed).memory_v - memory)[:, :, 20].max()
        assert (moved > 1e-7) == depends
    assert 14000 <= 480 * (20 + 1 + 9) < 14000 + 480


def test_what_is_held_does_not_grow() -> None:
    stream = EncoderStream(StreamingEncoder(_model()))
    samples = _noise(16000)
    for _ in range(3):
        stream.feed(samples)
    tracemalloc.start()
    try:
        stream.feed(samples)
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(20):
            stream.feed(samples)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 20_000  # the samples alone are 1.3 MB


@torch.no_grad()
def test_streams_in_one_step_are_each_alone() -> None:
    model = _model()
    encoder = StreamingEncoder(model)
    clips = [_noise(480 * 25, 1), _noise(480 * 18 + 100, 2)]
    whole = [_whole(model, clip).ctc for clip in clips]
    lag, late = encoder.shape.lag, 4  # the second begins four blocks later
    state = torch.zeros(2, encoder.shape.state)
    heard: list[list[torch.Tensor]] = [[], []]
    for block in range(40):
        at = torch.tensor([block, max(0, block - late)])
        # Whatever comes after the end is not heard
        fed = torch.stack([_block(clip, int(i)) for clip, i in zip(clips, at, strict=True)])
        total = torch.tensor(
            [len(clip) if (int(i) + 1) * 480 > len(clip) else -1 for clip, i in zip(clips, at, strict=True)]
        )
        if block <= late:
            state[1] = 0
        _, _, ctc, state = encoder(fed, at, total, state)
        for i, rows in enumerate(heard):
            if block >= late * i:
                rows.append(ctc[i])
    for rows, expected in zip(heard, whole, strict=True):
        np.testing.assert_allclose(torch.cat(rows)[lag : lag + len(expected)].numpy(), expected, atol=3e-5)


def _block(clip: Floats, i: int) -> torch.Tensor:
    loud = np.full(480, 0.9, np.float32)
    part = clip[480 * i : 480 * (i + 1)]
    loud[: len(part)] = part
    return torch.from_numpy(loud)[None]


@pytest.mark.parametrize(
    ("windows", "expected"),
    [((2, 1, 3), 6), ((2, 1, 3, 0), 6), ((2, 1), None), ((2, 0, 3), None), ((), None), ((5, 5, 5, 9), 15)],
)
def test_a_model_has_a_look_ahead_where_every_layer_has_a_window(
    windows: tuple[int, ...], expected: int | None
) -> None:
    config = replace(CONFIG, windows=windows)
    assert config.look_ahead == expected
    if expected is None:
        with pytest.raises(ConfigError, match=r"model\.windows=.* of 3 encoder layers"):
            StreamingEncoder(Transformer(config, SPEC, VOCAB))


@pytest.mark.parametrize(
    ("model", "front_end", "told"),
    [
        ({"windows": (4, 0, 3)}, {}, "model.windows=[4, 0, 3] of 3 encoder layers leave all positions to layer 2;"),
        ({"windows": (4,)}, {}, "leave all positions to layer 2, 3; train with a window above 0 for each"),
        ({"positions": "learned", "max_positions": 99}, {}, "model.positions=learned end at 99, and a stream doesn't"),
        ({}, {"normalisation": "utterance"}, "train with front_end.normalisation=running (or none)"),
        ({}, {"edges": "reflect"}, "front_end.edges=reflect mirrors the end; train with front_end.edges=snip"),
        ({}, {"edges": "mirror"}, "front_end.edges=mirror mirrors the end"),
        ({}, {"top_db": 80.0}, "front_end.top_db=80 counts from the loudest frame of the whole"),
    ],
)
def test_what_needs_the_whole_is_refused_by_name(model: dict[str, Any], front_end: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(told)) as caught:
        StreamShape(replace(CONFIG, **model), replace(SPEC, **front_end))
    assert "\n" not in str(caught.value)


def test_all_that_stands_in_the_way_is_named_at_once() -> None:
    with pytest.raises(ConfigError, match=r"model\.windows.*front_end\.normalisation"):
        StreamShape(ModelConfig(), MfccSpec())


@pytest.mark.parametrize("samples", [np.zeros(9, np.int16), np.zeros((2, 9), np.float32), np.float32(0)])
def test_samples_of_another_kind_are_refused(samples: Any) -> None:
    with pytest.raises(CepstraError, match="one channel"):
        EncoderStream(StreamingEncoder(_model())).feed(samples)


def test_a_stream_ends_once() -> None:
    stream = EncoderStream(StreamingEncoder(_model()))
    stream.feed(_noise(5000).astype(np.float64))
    stream.finish()
    with pytest.raises(CepstraError, match="it has ended"):
        stream.feed(_noise(10))
    with pytest.raises(CepstraError, match="it has ended"):
        stream.finish()


TOKENIZER = Tokenizer.train(["turn on the light", "turn off the light", "the lamp is on"], vocab_size=50)


@given(
    tokens=st.lists(st.integers(0, TOKENIZER.vocab_size - 1), max_size=40),
    cuts=st.lists(st.integers(0, 40), max_size=9),
)
def test_text_in_parts_is_the_text_of_the_best_path(tokens: list[int], cuts: list[int]) -> None:
    ctc = np.full((len(tokens), TOKENIZER.vocab_size), -9, np.float32)
    ctc[np.arange(len(tokens)), tokens] = 0
    text = GreedyText(TOKENIZER)
    parts = [text.add(part) for part in np.split(ctc, sorted(min(cut, len(tokens)) for cut in cuts))]
    assert "".join(parts) == TOKENIZER.decode(best_path(ctc) if len(ctc) else ())
