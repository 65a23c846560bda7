"""How much SpecAugment masks, as data: settings are read and refused without torch."""

from __future__ import annotations

from dataclasses import dataclass

from audio.errors import CepstraError


@dataclass(frozen=True)
class SpecAugmentConfig:
    """How much is masked. Counts or widths of 0 switch a kind of mask off; masks may overlap."""

    time_masks: int = 10  # most stretches of time per utterance
    seconds_per_time_mask: float = 1.0  # an utterance gets one for each of these it has begun, up to time_masks
    time_mask_seconds: float = 0.3  # widest stretch; the width is drawn from 0 to this
    time_fraction: float = 0.2  # of an utterance's frames: its time masks together never exceed this
    band_masks: int = 2  # bands of frequency per utterance, over all of its time
    band_width: int = 8  # widest band, in mel filters; the width is drawn from 0 to this
    band_fraction: float = 0.4  # of the mel filters: the band masks together never exceed this

    def __post_init__(self) -> None:
        for name in ("time_masks", "time_mask_seconds", "band_masks", "band_width"):
            if not getattr(self, name) >= 0:
                raise CepstraError(f"SpecAugment: {name} is {getattr(self, name)}; use 0 or more")
        for name in ("time_fraction", "band_fraction"):
            if not 0 <= getattr(self, name) <= 1:
                raise CepstraError(f"SpecAugment: {name} is {getattr(self, name)}; use a number from 0 to 1")
        if not self.seconds_per_time_mask > 0:
            raise CepstraError(f"SpecAugment: seconds_per_time_mask is {self.seconds_per_time_mask}; use more than 0")

    @classmethod
    def off(cls) -> SpecAugmentConfig:
        """Nothing is masked."""
        return cls(time_masks=0, band_masks=0)
