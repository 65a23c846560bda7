"""Sound for tests of the recogniser."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.float32]

RATE = 16000


def noise(seconds: float, seed: int = 0) -> Samples:
    """Noise that swells and ebbs, the nearest thing to speech that a line can make; exact as 16-bit samples."""
    count = round(seconds * RATE)
    loudness = 0.1 * np.abs(np.sin(np.arange(count) / (2000 + 300 * seed)))
    wave = np.random.default_rng(seed).normal(0, 1, count) * loudness
    return (np.round(np.clip(wave, -1, 0.99) * 32768) / 32768).astype(np.float32)
