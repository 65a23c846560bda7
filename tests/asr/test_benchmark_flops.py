"""What a model asks for, counted by hand and by torch; and the matrix product that it is measured against."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch.utils.flop_counter import FlopCounterMode

from asr.benchmark.flops import encoder_work, front_end_work, seconds_at, token_work, work_of
from asr.benchmark.products import PRECISIONS, peak, product_graph
from asr.benchmark.trace import Call
from asr.bundle import read_bundle
from asr.model.config import ModelConfig
from asr.model.transformer import Transformer
from asr.recognizer import DEFAULT_BUNDLE
from audio.mfcc import MfccSpec

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from asr.benchmark.flops import Precision

SMALL = ModelConfig(
    d_model=4, heads=2, encoder_layers=2, encoder_ff=6, decoder_layers=1, decoder_ff=5, stride=2, splice=1, windows=(1,)
)


def test_the_encoder_by_hand() -> None:
    # 5 frames are 3 positions. Convolution: 3 x 3 features x 4 frames x 4 = 144
    # A layer: 4 x 16 + 2 x 4 x 6 = 112 at each position; memory 2 x 16; CTC 4 x 10: 3 (2 x 112 + 32 + 40) = 888
    # Seen: 2 + 3 + 2 through the window of one, 9 without: 16, each 4 for its score and 4 for its value: 128
    assert encoder_work(SMALL, 3, 5, 10, "int8") == {"int8": 2 * 888, "float32": 2 * (144 + 128)}
    assert encoder_work(SMALL, 3, 5, 10, "float32") == {"float32": 2 * (888 + 144 + 128)}


def test_a_token_by_hand() -> None:
    # Two tokens before, 3 positions: 6 x 16 + 2 x 4 x 5 = 136; 6 keys and values of 4: 48; scores of 10 tokens: 40
    assert token_work(SMALL, 2, 3, 10, "int8") == {"int8": 2 * 136, "float32": 2 * (48 + 40)}


def test_the_front_end_by_hand() -> None:
    # 560 samples: 2 frames of 400; 40 filters reach into 255 of the 257 bins, all but 0 Hz and 8 kHz
    # The halves of a frame are added and subtracted first, 200 numbers each, and with the former goes the mean
    assert front_end_work(MfccSpec(), 560) == {"float64": 2 * 2 * (201 * 255 + 200 * 255 + 255 * 40 + 40 * 40)}
    # Another window doesn't fold
    whole = front_end_work(MfccSpec(window="hamming"), 560)
    assert whole == {"float64": 2 * 2 * (400 * 510 + 255 * 40 + 40 * 40)}


def test_torch_counts_as_much() -> None:
    """Of layers that see everything: torch, too, computes what a window hides."""
    config = replace(SMALL, d_model=32, windows=(), encoder_ff=48, decoder_ff=40, decoder_layers=2)
    spec, vocabulary, samples = MfccSpec(), 50, 9000
    model = Transformer(config, spec, vocabulary).eval()
    with torch.no_grad():
        with FlopCounterMode(display=False) as counted:
            k, v, _, positions = model.encode(torch.zeros(1, samples), torch.tensor([samples]))
        encoder = encoder_work(config, spec.n_cepstra, spec.frames(samples), vocabulary, "float32")
        assert counted.get_total_flops() == (encoder + front_end_work(spec, samples)).total()
        past = torch.zeros(2, 1, 2, 7, 16)
        with FlopCounterMode(display=False) as counted:
            model.decoder.step(torch.tensor([[3]]), (past, past), (k, v), positions)
        assert counted.get_total_flops() == token_work(config, 7, int(positions), vocabulary, "float32").total()


def test_calls_add_up_over_clips_and_steps() -> None:
    bundle = replace(read_bundle(DEFAULT_BUNDLE), model=SMALL, precision="int8")
    vocabulary, spec = bundle.tokenizer.vocab_size, bundle.front_end
    calls = [Call("encode", 0, 1, [560, 720]), Call("step", 1, 2, np.array([1, 2]), 1), Call("step", 2, 3, [2], 2, 1)]
    encoder, decoder = work_of(calls, bundle)
    assert encoder == sum(
        (
            front_end_work(spec, n) + encoder_work(SMALL, 40, frames, vocabulary, "int8")
            for n, frames in ((560, 2), (720, 3))
        ),
        Counter(),
    )
    steps = [(0, 1), (0, 2), (1, 2), (2, 2)]
    assert decoder == sum((token_work(SMALL, past, n, vocabulary, "int8") for past, n in steps), Counter())


def test_seconds_at_the_peak_of_each_precision() -> None:
    assert seconds_at(Counter({"float32": 10, "int8": 40}), {"float32": 5.0, "int8": 20.0, "float64": 1.0}) == 4.0


@pytest.mark.parametrize("precision", PRECISIONS)
def test_the_product_is_what_onnx_would_write(precision: Precision) -> None:
    draw = np.random.default_rng(1)
    weights: NDArray[np.generic] = (
        draw.integers(-100, 100, (300, 7), np.int8)
        if precision == "int8"
        else draw.normal(size=(300, 7)).astype(precision)
    )
    kinds = {
        "int8": ("MatMulInteger", TensorProto.UINT8, TensorProto.INT32),
        "float32": ("MatMul", TensorProto.FLOAT, TensorProto.FLOAT),
        "float64": ("MatMul", TensorProto.DOUBLE, TensorProto.DOUBLE),
    }
    operator, given, result = kinds[precision]
    wanted = helper.make_model(
        helper.make_graph(
            [helper.make_node(operator, ["x", "w"], ["y"])],
            "product",
            [helper.make_tensor_value_info("x", given, ["m", 300])],
            [helper.make_tensor_value_info("y", result, ["m", 7])],
            [numpy_helper.from_array(weights, "w")],
        ),
        opset_imports=[helper.make_opsetid("", 13)],
        ir_version=8,
    )
    written = product_graph(precision, weights)
    found = onnx.load_from_string(written)
    onnx.checker.check_model(found, full_check=True)
    assert found == wanted
    values: NDArray[np.generic] = (
        draw.integers(0, 256, (5, 300), np.uint8)
        if precision == "int8"
        else draw.normal(size=(5, 300)).astype(precision)
    )
    (product,) = ort.InferenceSession(written, providers=["CPUExecutionProvider"]).run(None, {"x": values})
    np.testing.assert_allclose(product, values.astype(np.float64) @ weights.astype(np.float64), rtol=1e-4, atol=1e-4)


def test_a_peak_is_a_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("asr.benchmark.products.SECONDS", 0.0)
    monkeypatch.setattr("asr.benchmark.products.SIDE", 16)
    assert 0 < peak("float32", 1) < 1e15
