"""The bundle: one file that holds everything needed to transcribe. Reading it executes nothing.

A zip, stored uncompressed: `encoder.onnx` (samples in, memory out; the front end is inside), `decoder.onnx` (one step
with its cache), `tokenizer.json`, and `config.json`, which describes the other parts and holds their SHA-256 digests.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asr.archive import ArchiveKind
from asr.digest import sha256
from asr.errors import BundleError, CepstraError
from asr.model.config import ModelConfig
from asr.tokenizer import Tokenizer
from audio.mfcc import MfccSpec

if TYPE_CHECKING:
    from collections.abc import Iterable

FORMAT = 2  # raised when older programs can't read newer bundles; then see tests/asr/test_old_bundles.py
READABLE = (1, 2)  # 1: an encoder of padded batches, a decoder that reads one token at a time
MAX_BYTES = 1 << 30  # of the whole file
_PARTS = ("encoder.onnx", "decoder.onnx", "tokenizer.json")
_CONFIG = "config.json"
_DEEPEST = 50  # things within things in config.json: who shows or compares them goes down step by step
_LONGEST = 300  # characters of a reason: a value that is wrong may be a long one
_FILE = ArchiveKind("a bundle", "model.cepstra", "export it again", BundleError)


@dataclass(frozen=True)
class Bundle:
    """A model that is ready to run."""

    encoder: bytes  # ONNX
    decoder: bytes  # ONNX
    tokenizer: Tokenizer
    front_end: MfccSpec
    model: ModelConfig
    language: str  # for the text normaliser
    name: str = "unnamed"
    precision: str = "float32"  # of the weights: float32 or float16
    facts: dict[str, Any] = field(default_factory=dict)  # training data, licence, measured error rates, export

    def without_graphs(self) -> Bundle:
        """The same but for the graphs, megabytes that nobody needs once a runtime has taken them over."""
        return replace(self, encoder=b"", decoder=b"")


def write_bundle(path: str | Path, bundle: Bundle) -> None:
    """Write it, whole or not at all. Raises BundleError where the file can't be written, or the facts as JSON."""
    path = Path(path)
    parts = {
        "encoder.onnx": bundle.encoder,
        "decoder.onnx": bundle.decoder,
        "tokenizer.json": bundle.tokenizer.to_json().encode(),
    }
    config = {
        "format": FORMAT,
        "name": bundle.name,
        "precision": bundle.precision,
        "language": bundle.language,
        "front_end": bundle.front_end.to_dict(),
        "model": bundle.model.to_dict(),
        "facts": bundle.facts,
        "sha256": {name: sha256(data) for name, data in parts.items()},
    }
    try:
        _check_depth(config)  # as whoever reads it will
        parts = {_CONFIG: json.dumps(config, indent=1, allow_nan=False).encode(), **parts}
    except (TypeError, ValueError, RecursionError) as error:
        raise BundleError(f"{path}: the facts can't be written as JSON ({error}); use plain values") from None
    _FILE.write(path, parts)


def read_bundle(path: str | Path) -> Bundle:
    """Read and check it. Raises BundleError that says what is wrong with it."""
    path = Path(path)
    return _understand(path, _FILE.read(path, (_CONFIG, *_PARTS), MAX_BYTES))


def _understand(path: Path, parts: dict[str, bytes]) -> Bundle:
    try:
        config = json.loads(parts[_CONFIG], parse_constant=_no_number)
        version, digests = config["format"], dict(config["sha256"])
        _check_depth(config)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise BundleError(_unusable(path, error)) from None
    if isinstance(version, bool) or version not in READABLE:
        raise BundleError(
            f"{path}: bundle format {version!r:.40}, this program reads {' and '.join(map(str, READABLE))}; "
            "export it again, or install the version of Cepstra that wrote it"
        )
    for name in _PARTS:
        if sha256(parts[name]) != digests.get(name):
            raise BundleError(f"{path}: {name} is damaged (its digest differs); fetch or export the bundle again")
    try:
        return Bundle(
            parts["encoder.onnx"],
            parts["decoder.onnx"],
            Tokenizer.from_json(parts["tokenizer.json"].decode()),
            MfccSpec.from_dict(config["front_end"]),
            ModelConfig.from_dict(config["model"]),
            _text(config, "language"),
            _text(config, "name"),
            _text(config, "precision"),
            dict(config["facts"]),
        )
    except CepstraError as error:
        raise BundleError(f"{path}: {error!s:.{_LONGEST}}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise BundleError(_unusable(path, error)) from None


def _text(config: dict[str, Any], key: str) -> str:
    if not isinstance(config[key], str):
        raise TypeError(f"{key} is no text")
    return str(config[key])


def _check_depth(config: dict[str, Any]) -> None:
    level: list[Any] = [config]
    for _ in range(_DEEPEST):
        level = [item for each in level if isinstance(each, dict | list) for item in _items(each)]
    if level:
        raise ValueError(f"it is nested more than {_DEEPEST} deep")


def _items(value: dict[str, Any] | list[Any]) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is no number in JSON")


def _unusable(path: Path, error: Exception) -> str:
    reason = f"{type(error).__name__}: {error!s:.{_LONGEST}}"
    return f"{path}: {_CONFIG} can't be used ({reason}); export the bundle again"
