"""SpecAugment: laws of its masks, and band masks against masking the log-mel spectrum itself."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.fft import idct
from torch import Tensor

from audio.errors import CepstraError
from audio.mfcc import MfccSpec, log_mel, mfcc
from audio.spec_augment import SpecAugment, SpecAugmentConfig

SPREAD = tuple(float(s) for s in np.geomspace(70, 1, 40))
SPEC = MfccSpec(spread=SPREAD)
ONLY_BANDS = SpecAugmentConfig(time_masks=0)
ONLY_TIME = SpecAugmentConfig(band_masks=0)


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def batch(lengths: list[int], seed: int = 0) -> tuple[Tensor, Tensor]:
    """Random features with zero mean over each utterance and zeros beyond it."""
    features = torch.zeros(len(lengths), max(lengths), 40)
    for row, length in enumerate(lengths):
        utterance = torch.randn(length, 40, generator=seeded(seed + row))
        features[row, :length] = utterance - utterance.mean(0)
    return features, torch.tensor(lengths)


def hidden_bands(features: Tensor, masked: Tensor) -> Tensor:
    """(M,) which mel filters of one utterance have lost all their variation, by scipy's inverse DCT."""

    def to_mel(cepstra: Tensor) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        return np.asarray(idct(cepstra.double().numpy() * np.array(SPREAD), norm="ortho", axis=-1))

    before, after = to_mel(features), to_mel(masked)
    hidden = np.abs(after).max(0) < 1e-3 * np.abs(before).max(0)
    np.testing.assert_allclose(after[:, ~hidden], before[:, ~hidden], atol=1e-3)
    return torch.from_numpy(hidden)


def test_off_and_evaluation_are_the_identity() -> None:
    features, lengths = batch([50, 30])
    assert SpecAugment(SpecAugmentConfig.off(), SPEC)(features, lengths) is features
    assert SpecAugment(SpecAugmentConfig(), SPEC).eval()(features, lengths) is features
    assert SpecAugment(SpecAugmentConfig(time_fraction=0, band_width=0), SPEC)(features, lengths).equal(features)


def test_the_same_seed_gives_the_same_masks_and_the_input_is_left_alone() -> None:
    features, lengths = batch([300, 100, 7])
    before = features.clone()
    module = SpecAugment(SpecAugmentConfig(), SPEC)
    first = module(features, lengths, seeded(1))
    assert first.equal(module(features, lengths, seeded(1)))
    assert not first.equal(module(features, lengths, seeded(2)))
    assert features.equal(before)
    torch.manual_seed(3)
    free = module(features, lengths)
    torch.manual_seed(3)
    assert free.equal(module(features, lengths))


@settings(derandomize=True, max_examples=60, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 400), min_size=1, max_size=6),
    masks=st.integers(1, 12),
    fraction=st.sampled_from([0.05, 0.2, 0.5, 1.0]),
    seed=st.integers(0, 1000),
)
def test_time_masks_hide_whole_frames_and_never_more_than_the_fraction(
    lengths: list[int], masks: int, fraction: float, seed: int
) -> None:
    features, sizes = batch(lengths)
    config = SpecAugmentConfig(
        time_masks=masks, time_fraction=fraction, seconds_per_time_mask=0.3, time_mask_seconds=0.5, band_masks=0
    )
    masked = SpecAugment(config, SPEC)(features, sizes, seeded(seed))
    for row, length in enumerate(lengths):
        changed = (masked[row] != features[row]).any(-1)
        assert not changed[length:].any()
        assert int(changed.sum()) <= fraction * length + 1e-4
        assert torch.all(masked[row][changed].abs() < 1e-5)  # the mean of these utterances is zero


def test_longer_utterances_get_more_stretches() -> None:
    module = SpecAugment(SpecAugmentConfig(time_masks=8, time_mask_seconds=0.05), SPEC)
    lengths = torch.tensor([90] * 300 + [1600] * 300)
    hidden = module.time_mask(lengths, 1600, seeded(0))
    starts = (hidden[:, 1:] & ~hidden[:, :-1]).sum(1) + hidden[:, 0]
    assert int(starts[:300].max()) == 1
    assert 5 <= int(starts[300:].max()) <= 8
    assert int(hidden[300:].sum(1).max()) <= 8 * 5


def test_masks_fall_everywhere_alike() -> None:
    module = SpecAugment(SpecAugmentConfig(), SPEC)
    hidden = module.time_mask(torch.full((4000,), 100), 100, seeded(0)).float().mean(0)
    assert hidden[10:90].max() - hidden[10:90].min() < 0.06
    bands = module.band_mask(4000, seeded(0)).float().mean(0)
    assert bands[8:32].max() - bands[8:32].min() < 0.06
    assert bands.min() > 0.02


def test_band_masks_are_masks_of_the_log_mel_spectrum() -> None:
    features, lengths = batch([80, 60, 40, 20] * 4)
    module = SpecAugment(ONLY_BANDS, SPEC)
    expected = module.band_mask(16, seeded(5))
    masked = module(features, lengths, seeded(5))
    for row, length in enumerate(lengths):
        hidden = hidden_bands(features[row, :length], masked[row, :length])
        assert hidden.equal(expected[row])
        assert int(hidden.sum()) <= 16
        assert masked[row, length:].eq(0).all()
        assert masked[row, :length].mean(0).abs().max() < 1e-5
    assert len({tuple(row.tolist()) for row in expected}) > 8  # every utterance its own


def test_the_way_from_sound_through_bands_is_that_of_the_front_end() -> None:
    samples = np.random.default_rng(0).standard_normal(16000).astype(np.float32) * np.float32(0.1)
    samples *= np.linspace(0, 1, 16000, dtype=np.float32)
    features = torch.from_numpy(mfcc(samples, SPEC))[None]
    module = SpecAugment(ONLY_BANDS, SPEC)
    hidden = module.band_mask(1, seeded(0))[0].numpy()
    assert 0 < hidden.sum() < 40
    mel = log_mel(samples, SPEC)
    mel[:, hidden] = mel[:, hidden].mean(0)
    expected = mel @ np.linalg.inv(idct(np.eye(40), norm="ortho", axis=0)).T
    expected = (expected - expected.mean(0)) / np.array(SPREAD)
    masked = module(features, torch.tensor([features.shape[1]]), seeded(0))[0]
    np.testing.assert_allclose(masked.numpy(), expected, atol=1e-4)


@pytest.mark.parametrize("spec", [MfccSpec(n_cepstra=13, lifter=22.0), MfccSpec(normalisation="none")])
def test_other_specs_keep_what_is_not_masked(spec: MfccSpec) -> None:
    features = torch.randn(3, 50, spec.n_cepstra, generator=seeded(0)) + 4  # not about zero
    lengths = torch.tensor([50, 50, 20])
    features[2, 20:] = 0
    for config in (SpecAugmentConfig(band_width=0), SpecAugmentConfig()):
        masked = SpecAugment(config, spec)(features, lengths, seeded(0))
        assert masked.isfinite().all()
        assert masked[2, 20:].eq(0).all()
    masked = SpecAugment(ONLY_TIME, spec)(features, lengths, seeded(0))
    changed = (masked != features).any(-1)
    assert changed.any()
    for row in range(3):
        mean = features[row, : lengths[row]].mean(0)
        assert torch.allclose(masked[row][changed[row]], mean.expand(int(changed[row].sum()), -1), atol=1e-5)


def test_half_precision_and_autocast_and_empty_batches_work() -> None:
    features, lengths = batch([60, 30])
    module = SpecAugment(SpecAugmentConfig(), SPEC)
    full = module(features, lengths, seeded(0))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert module(features, lengths, seeded(0)).equal(full)
    half = module(features.bfloat16(), lengths, seeded(0))
    assert half.dtype == torch.bfloat16
    assert torch.allclose(half.float(), full, atol=0.1)
    assert module(features[:, :0], torch.tensor([0, 0])).shape == (2, 0, 40)
    assert module(features[:0], lengths[:0]).shape == (0, 60, 40)


@pytest.mark.parametrize(
    "setting", [{"time_masks": -1}, {"time_fraction": 1.1}, {"seconds_per_time_mask": 0}, {"band_width": float("nan")}]
)
def test_a_setting_that_does_not_fit_is_named(setting: dict[str, float]) -> None:
    with pytest.raises(CepstraError, match=next(iter(setting))):
        SpecAugmentConfig(**setting)  # type: ignore[arg-type]  # wrong on purpose
