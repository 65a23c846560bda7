"""What is the torch front end's own: gradients, devices, precision, dither."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from audio.errors import CepstraError
from audio.mfcc import MfccSpec, mfcc
from audio.mfcc_torch import Mfcc

SMALL = MfccSpec(frame=64, hop=32, fft=64, n_mels=8, n_cepstra=6)
VARIANTS = {
    "default": SMALL,
    "running": replace(SMALL, normalisation="running", running_frames=2, edges="reflect"),
    "librosa": replace(SMALL, normalisation="none", edges="mirror", log="decibel", top_db=20.0, mel_scale="slaney"),
    "energy": replace(SMALL, c0="energy", edges="zero", floor_by="add"),
    "raw energy": replace(SMALL, c0="raw_energy", normalisation="none", spread=(3.0, 2.0, 1.0, 1.0, 1.0, 0.5)),
}


def noise(*shape: int) -> Tensor:
    return 0.1 * torch.randn(*shape, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("spec", VARIANTS.values(), ids=VARIANTS)
def test_gradients(spec: MfccSpec) -> None:
    """Against finite differences, in float64; padding gets none."""
    module = Mfcc(spec)
    lengths = torch.tensor([150, 90])

    def features(samples: Tensor) -> Tensor:
        out: Tensor = module(samples, lengths)[0]
        return out

    samples = noise(2, 150).double().requires_grad_()
    assert torch.autograd.gradcheck(features, samples)
    (gradient,) = torch.autograd.grad(features(samples).square().sum(), samples)
    assert gradient[0].any()
    assert not gradient[1, 90:].any()


def test_silence_has_finite_gradients() -> None:
    samples = torch.zeros(1, 1000, requires_grad=True)
    features, _ = Mfcc(MfccSpec())(samples, torch.tensor([1000]))
    (gradient,) = torch.autograd.grad(features.sum(), samples)
    assert gradient.isfinite().all()


@pytest.mark.parametrize("spec", VARIANTS.values(), ids=VARIANTS)
def test_makes_its_tensors_where_the_samples_are(spec: MfccSpec) -> None:
    """On the meta device nothing is computed, and mixing it with the CPU is an error, as on a GPU."""
    module = Mfcc(spec).to("meta")
    features, counts = module(torch.empty(3, 500, device="meta"), torch.empty(3, dtype=torch.int64, device="meta"))
    assert features.shape == (3, spec.frames(500), 6)
    assert features.device.type == counts.device.type == "meta"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("spec", VARIANTS.values(), ids=VARIANTS)
def test_gpu(spec: MfccSpec) -> None:
    """The same to 1e-4, TF32 and autocast or not."""
    samples = noise(500)
    with torch.autocast("cuda"):
        features, _ = Mfcc(spec).eval().cuda()(samples[None].cuda(), torch.tensor([500]).cuda())
    np.testing.assert_allclose(features[0].cpu().numpy(), mfcc(samples.numpy(), spec), atol=1e-4)


def test_autocast_costs_no_digits() -> None:
    module, samples, lengths = Mfcc(MfccSpec()).eval(), noise(2, 8000), torch.tensor([8000, 5000])
    plain, _ = module(samples, lengths)
    with torch.autocast("cpu", torch.bfloat16):
        cast, _ = module(samples, lengths)
    assert cast.dtype == torch.float32
    assert torch.equal(cast, plain)


def test_training_takes_float32_for_speed() -> None:
    samples, lengths = noise(2, 8000), torch.tensor([8000, 5000])
    exact, _ = Mfcc(MfccSpec()).eval()(samples, lengths)
    fast, _ = Mfcc(MfccSpec()).train()(samples, lengths)
    torch.testing.assert_close(fast, exact, atol=1e-3, rtol=0)
    assert not torch.equal(fast, exact)


@pytest.mark.parametrize(
    ("given", "expected"),
    [(torch.float64, torch.float64), (torch.float32, torch.float32), (torch.bfloat16, torch.float32)],
)
def test_answers_in_float32_or_better(given: torch.dtype, expected: torch.dtype) -> None:
    features, counts = Mfcc(MfccSpec())(noise(1, 800).to(given), torch.tensor([800]))
    assert features.dtype == expected
    assert counts.dtype == torch.int64


def test_has_no_state() -> None:
    """A checkpoint holds the spec, not its tables."""
    assert not Mfcc(MfccSpec()).state_dict()
    assert not list(Mfcc(MfccSpec()).parameters())


def test_dither_only_in_training() -> None:
    samples, lengths = torch.zeros(2, 8000), torch.tensor([8000, 100])
    plain, dithered = Mfcc(MfccSpec()), Mfcc(MfccSpec(), dither=1e-2)
    torch.manual_seed(0)
    first = dithered.train()(samples, lengths)[0]
    assert not torch.equal(first, dithered(samples, lengths)[0])
    assert not torch.equal(first, plain(samples, lengths)[0])
    torch.manual_seed(0)
    assert torch.equal(first, dithered(samples, lengths)[0])
    assert not first[1, 1:].any()  # padding stays padding
    dithered.eval()
    assert torch.equal(dithered(samples, lengths)[0], plain.eval()(samples, lengths)[0])


def test_dither_has_the_deviation_asked_for() -> None:
    """White noise of deviation s has energy s² per sample."""
    spec = MfccSpec(c0="raw_energy", energy_floor=1e-12, normalisation="none")
    features, _ = Mfcc(spec, dither=1e-3)(torch.zeros(1, 160000), torch.tensor([160000]))
    assert features[0, :, 0].exp().mean().item() == pytest.approx(399 * 1e-6, rel=0.02)


@pytest.mark.parametrize("dither", [-0.1, 1.0, float("nan")])
def test_refuses_a_dither_out_of_range(dither: float) -> None:
    with pytest.raises(CepstraError, match="dither is"):
        Mfcc(MfccSpec(), dither=dither)


def test_the_same_bits_every_time() -> None:
    module, samples, lengths = Mfcc(MfccSpec()).eval(), noise(3, 20000), torch.tensor([20000, 500, 7000])
    assert torch.equal(module(samples, lengths)[0], module(samples, lengths)[0])


def test_refuses_whole_numbers() -> None:
    with pytest.raises(CepstraError, match="int16"):
        Mfcc(MfccSpec())(torch.zeros(1, 800, dtype=torch.int16), torch.tensor([800]))


def test_the_numpy_front_end_needs_no_torch() -> None:
    code = "import sys, audio.mfcc; sys.exit('torch' in sys.modules or 'scipy' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_unknown_setting_of_the_spec_is_an_error() -> None:
    values: dict[str, Any] = {**MfccSpec().to_dict(), "dither": 1.0}
    with pytest.raises(CepstraError, match="unknown setting 'dither'"):
        MfccSpec.from_dict(values)
