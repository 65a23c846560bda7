"""What a model is made of, as data (no torch here: bundles show it too)."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
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
    # Positions that each encoder layer sees to either side, lowest layer first; 0 and layers beyond the list: everything
    windows: tuple[int, ...] = (4, 4, 8, 16)
    activation: Literal["relu", "gelu"] = "relu"
    positions: Literal["sinusoidal", "learned"] = "sinusoidal"
    max_positions: int = 2048  # for learned positions only: 61 s, and as many tokens
    dropout: float = 0.1  # on every residual branch, in training

    def __post_init__(self) -> None:
        if self.d_model % self.heads or (self.d_model // self.heads) % 2:
            raise ConfigError(f"model: d_model={self.d_model} is not heads={self.heads} times an even number")
        if not 0 <= self.dropout < 1:
            raise ConfigError(f"model: dropout={self.dropout} is not in [0, 1)")
        for name in ("heads", "encoder_layers", "encoder_ff", "decoder_layers", "decoder_ff", "stride", "max_positions"):
            if getattr(self, name) < 1:
                raise ConfigError(f"model: {name} must be at least 1")
        if self.splice < 0 or min(self.windows, default=0) < 0:
            raise ConfigError("model: splice and windows must not be negative")
        if self.activation not in {"relu", "gelu"} or self.positions not in {"sinusoidal", "learned"}:
            raise ConfigError("model: activation is relu or gelu, positions is sinusoidal or learned")

    def to_dict(self) -> dict[str, Any]:
        """As JSON would hold it."""
        return {**asdict(self), "windows": list(self.windows)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> ModelConfig:
        """The inverse of to_dict; unknown keys raise ConfigError."""
        unknown = set(values) - {field.name for field in fields(cls)}
        if unknown:
            raise ConfigError(f"model: unknown setting {sorted(unknown)[0]!r}")
        return cls(**{**values, "windows": tuple(values.get("windows", cls.windows))})


_SMALL = ModelConfig()
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
