"""Sound that an export is tried with, where there are no recordings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from asr.search.backend import Floats


def babble(rng: np.random.Generator, length: int) -> Floats:
    """Coloured noise with pauses (N,): the nearest thing to speech at hand."""
    noise = np.cumsum(rng.normal(size=length)) if length else np.zeros(0)
    noise -= np.linspace(noise[0], noise[-1], length) if length else 0
    loudness = np.abs(np.sin(np.arange(length) / 3000))
    samples: Floats = (0.1 * noise * loudness / max(1e-9, np.abs(noise).max(initial=0))).astype(np.float32)
    return samples
