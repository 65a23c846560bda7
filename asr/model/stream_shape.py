"""What encoding sound while it comes takes: blocks, delay and state, counted from the settings (no torch here)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from asr.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from asr.model.config import ModelConfig
    from audio.mfcc_spec import MfccSpec


@dataclass(frozen=True)
class StreamShape:
    """The sizes of a streaming encoder. Raises ConfigError that names all settings which need the whole of the sound.

    It takes blocks of as many samples as lie between two positions, gives as many positions as it took blocks, and is
    `lag` positions behind: those before the sound's beginning come first. Position p is there once
    block (p + 1 + lag) samples were fed.
    """

    config: ModelConfig
    spec: MfccSpec

    def __post_init__(self) -> None:
        if faults := list(_faults(self.config, self.spec)):
            raise ConfigError(f"this model can't encode sound while it comes: {'; '.join(faults)}")

    @property
    def block(self) -> int:
        """Samples from one position to the next."""
        return self.spec.hop * self.config.stride

    @property
    def windows(self) -> tuple[int, ...]:
        """Positions that each layer sees to either side."""
        return self.config.windows[: self.config.encoder_layers]

    # The tails are the shortest that let the frames and positions of a block begin where those of the last one ended

    @property
    def sample_tail(self) -> int:
        """Samples before a block in which its frames begin."""
        return _least(self.spec.frame - self.spec.hop, self.spec.lead, self.spec.hop)

    @property
    def frame_lag(self) -> int:
        """Frames that begin in a block and end behind it."""
        return (self.sample_tail - self.spec.lead) // self.spec.hop

    @property
    def mean_tail(self) -> int:
        """Frames before the present one that its running mean counts."""
        return self.spec.running_frames - 1 if self.spec.normalisation == "running" else 0

    @property
    def frame_tail(self) -> int:
        """Frames before those of a block that its positions see."""
        return _least(2 * self.config.splice, self.config.splice - self.frame_lag, self.config.stride)

    @property
    def splice_lag(self) -> int:
        """Positions that the last layer before attention is behind."""
        return (self.frame_lag + self.frame_tail - self.config.splice) // self.config.stride

    @property
    def lag(self) -> int:
        """Positions that the memory is behind the blocks."""
        return self.splice_lag + sum(self.windows)

    @property
    def delay(self) -> float:
        """Seconds from the end of the sound that a position stands for until the position is there."""
        return self.lag * self.block / self.spec.sample_rate

    @property
    def parts(self) -> tuple[int, ...]:
        """Values of the state of one stream: samples, frames under the mean, frames under the splice, each layer."""
        layers = (2 * window * 4 * self.config.d_model for window in self.windows)
        return (self.sample_tail, self.mean_tail * self.spec.n_cepstra, self.frame_tail * self.spec.n_cepstra, *layers)

    @property
    def state(self) -> int:
        """Values of the state of one stream, in all."""
        return sum(self.parts)

    def positions(self, samples: int) -> int:
        """Of the memory of so many samples, at least 1."""
        return self.config.memory_length(self.spec.frames(samples))


def _least(bound: int, remainder: int, step: int) -> int:
    """The smallest number from bound on that leaves this remainder (of any sign) when divided by step."""
    return bound + (remainder - bound) % step


def _faults(config: ModelConfig, spec: MfccSpec) -> Iterator[str]:
    if config.look_ahead is None:
        windows = (*config.windows, *[0] * config.encoder_layers)[: config.encoder_layers]
        blind = ", ".join(str(i) for i, window in enumerate(windows, 1) if not window)
        yield (
            f"model.windows={list(config.windows)} of {config.encoder_layers} encoder layers leave all positions to "
            f"layer {blind}; train with a window above 0 for each"
        )
    if config.halves:
        yield f"model.halve_after={config.halve_after} makes one position of two; train with 0"
    if config.positions == "learned":
        yield (
            f"model.positions=learned end at {config.max_positions}, and a stream doesn't; "
            "train with model.positions=sinusoidal"
        )
    if spec.normalisation == "utterance":
        yield (
            "front_end.normalisation=utterance takes off the mean of the whole; "
            "train with front_end.normalisation=running (or none)"
        )
    if spec.edges in {"reflect", "mirror"}:
        yield f"front_end.edges={spec.edges} mirrors the end; train with front_end.edges=snip (or zero)"
    if spec.top_db is not None:
        yield f"front_end.top_db={spec.top_db:g} counts from the loudest frame of the whole; train without it"
