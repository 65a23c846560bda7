"""What a model is made of, as data (no torch here: bundles show it too)."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from difflib import get_close_matches
from typing import Any, Literal

from asr.errors import ConfigError


@dataclass(frozen=True)
class ModelConfig:
    """Shapes of the encoder and the decoder."""

    d_model: int = 256  # width of every vector
    heads: int = 4  # attention heads, d_model / heads wide each
    encoder_layers: int = 6
    encoder_ff: int = 768  # width inside the encoder's feed-forward blocks
    decoder_layers: int = 2
    decoder_ff: int = 512  # width inside the decoder's feed-forward blocks
    stride: int = 3  # frames per position: 30 ms
    splice: int = 5  # frames that a position sees to either side of its own
    # Positions that each encoder layer sees to either side, lowest layer first; 0, and layers beyond the list: all
    windows: tuple[int, ...] = (4, 4, 8, 16)
    # Encoder layers, lowest first, after which two positions become one; for 0, or where none comes behind: never
    halve_after: int = 0
    activation: Literal["relu", "gelu"] = "relu"
    positions: Literal["sinusoidal", "learned"] = "sinusoidal"
    max_positions: int = 2048  # for learned positions only: 61 s, and as many tokens
    dropout: float = 0.1  # on every residual branch, in training

    def __post_init__(self) -> None:
        for name, most in _MOST.items():
            if not _is_count(getattr(self, name), least=1):
                raise ConfigError(f"model: {name}={getattr(self, name)!r} is not a whole number above 0")
            if getattr(self, name) > most:
                raise ConfigError(f"model: {name} is more than {most}, which no computer here could train")
        if not isinstance(self.windows, tuple) or not all(_is_count(w, least=0) for w in (self.splice, *self.windows)):
            raise ConfigError(
                f"model: splice={self.splice!r} and windows={self.windows!r}: a whole number and a tuple of them, 0 or "
                "more, are expected"
            )
        if not _is_count(self.halve_after, least=0):
            raise ConfigError(f"model: halve_after={self.halve_after!r} is not a whole number, 0 or more")
        if max(self.splice, *self.windows, 0) > _MOST["max_positions"]:
            raise ConfigError(f"model: splice and windows are at most {_MOST['max_positions']}")
        if self.d_model % self.heads or (self.d_model // self.heads) % 2:
            raise ConfigError(f"model: d_model={self.d_model} is not heads={self.heads} times an even number")
        if not isinstance(self.dropout, float | int) or not 0 <= self.dropout < 1:
            raise ConfigError(f"model: dropout={self.dropout!r} is not in [0, 1)")
        if self.activation not in ("relu", "gelu") or self.positions not in ("sinusoidal", "learned"):
            raise ConfigError("model: activation is relu or gelu, positions is sinusoidal or learned")

    @property
    def halves(self) -> bool:
        """Whether two positions become one on the way up."""
        return 0 < self.halve_after < self.encoder_layers

    @property
    def frames_per_position(self) -> int:
        """Frames from one position of the encoder's memory to the next."""
        return self.stride * (2 if self.halves else 1)

    def memory_length(self, frames: int) -> int:
        """Of the encoder's memory of so many frames."""
        return -(-frames // self.frames_per_position)

    @property
    def look_ahead(self) -> int | None:
        """Positions to either side on which one of the encoder's memory depends; None where a layer sees them all.

        Only a model that has it can encode sound while it comes (`asr.model.stream_shape`).
        """
        windows = self.windows[: self.encoder_layers]
        return sum(windows) if len(windows) == self.encoder_layers and min(windows) > 0 else None

    def to_dict(self) -> dict[str, Any]:
        """As JSON would hold it."""
        return {**asdict(self), "windows": list(self.windows)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> ModelConfig:
        """The inverse of to_dict; a key left out has its default, an unknown one raises ConfigError."""
        if not isinstance(values, dict):
            raise ConfigError(f"model: settings are {type(values).__name__}, not a mapping of names to values")
        known = [field.name for field in fields(cls)]
        for key in values:
            if key not in known:
                near = get_close_matches(str(key), known, n=1, cutoff=0)[0]
                raise ConfigError(f"model: unknown setting {key!r}; did you mean {near!r}?")
        windows = values.get("windows", cls.windows)
        return cls(**{**values, "windows": tuple(windows) if isinstance(windows, list) else windows})


_MOST = {  # sizes, and bounds far beyond use: a damaged file must not ask for all memory
    "d_model": 8192,
    "heads": 512,
    "encoder_layers": 256,
    "encoder_ff": 65536,
    "decoder_layers": 256,
    "decoder_ff": 65536,
    "stride": 100,
    "max_positions": 1_000_000,
}


def _is_count(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


# Halved: half the work above, and fewer errors for it (docs/training.md). The defaults above are those of older models
_SMALL = ModelConfig(halve_after=2, windows=(4, 4, 4, 8))
PRESETS: dict[str, ModelConfig] = {
    "tiny": replace(_SMALL, d_model=160, encoder_ff=480, decoder_ff=320),  # at most 2.5 M parameters
    "small": _SMALL,  # at most 6 M
    "base": replace(_SMALL, d_model=384, heads=6, encoder_layers=8, encoder_ff=1024),  # at most 15 M
}


def preset(name: str) -> ModelConfig:
    """A preset by its name."""
    if name not in PRESETS:
        raise ConfigError(f"model: no preset {name!r}; there are {', '.join(PRESETS)}")
    return PRESETS[name]
