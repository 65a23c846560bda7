"""The bundle: one file that holds everything needed to transcribe. Reading it executes nothing.

A zip, stored uncompressed: `encoder.onnx` (samples in, memory out; the front end is inside), `decoder.onnx` (one step
with its cache), `tokenizer.json`, and `config.json`, which describes the other parts and holds their SHA-256 digests.
"""

from __future__ import annotations

import hashlib
import io
import json
import struct
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from asr.errors import BundleError, CepstraError
from asr.files import write_atomically
from asr.model.config import ModelConfig
from asr.tokenizer import Tokenizer
from audio.mfcc import MfccSpec

FORMAT = 1  # raised when older programs can't read newer bundles
MAX_BYTES = 1 << 30  # of the whole file
_PARTS = ("encoder.onnx", "decoder.onnx", "tokenizer.json")
_CONFIG = "config.json"
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the same parts make the same file, to the byte


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
        "sha256": {name: hashlib.sha256(data).hexdigest() for name, data in parts.items()},
    }
    try:
        parts = {_CONFIG: json.dumps(config, indent=1, allow_nan=False).encode(), **parts}
    except (TypeError, ValueError) as error:
        raise BundleError(f"{path}: the facts can't be written as JSON ({error}); use plain values") from None
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_STORED) as archive:
        for name, data in parts.items():
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), data)
    write_atomically(path, whole.getvalue(), BundleError)


def read_bundle(path: str | Path) -> Bundle:
    """Read and check it. Raises BundleError that says what is wrong with it."""
    path = Path(path)
    try:
        size = path.stat().st_size
        if not path.is_file():
            raise BundleError(f"{path}: not a file; give the path of a bundle, such as model.cepstra")
        if size > MAX_BYTES:
            raise BundleError(f"{path}: {size} bytes is more than a bundle may have ({MAX_BYTES})")
        file = path.open("rb")
    except FileNotFoundError:
        raise BundleError(f"{path}: no such file; give the path of a bundle, such as model.cepstra") from None
    except OSError as error:
        raise BundleError(f"{path}: can't be read ({error.strerror}); give the path of a bundle") from None
    except ValueError as error:  # a path with a null character
        raise BundleError(f"{path}: can't be read ({error}); give the path of a bundle") from None
    try:
        with file, zipfile.ZipFile(file) as archive:
            parts = {name: _read_part(path, archive, name, size) for name in (_CONFIG, *_PARTS)}
    except (zipfile.BadZipFile, struct.error, NotImplementedError, EOFError, ValueError, OSError) as error:
        raise BundleError(f"{path}: not a bundle, or damaged ({error}); export it again") from None
    return _understand(path, parts)


def _read_part(path: Path, archive: zipfile.ZipFile, name: str, size: int) -> bytes:
    try:
        info = archive.getinfo(name)
    except KeyError:
        raise BundleError(f"{path}: holds no {name}; it is not a bundle, or one of its parts is missing") from None
    # Uncompressed only: what is read is never more than what is there
    if info.compress_type != zipfile.ZIP_STORED or info.file_size > size or info.flag_bits & 1:
        raise BundleError(f"{path}: {name} is compressed, encrypted or longer than the file; export the bundle again")
    return archive.read(name)


def _understand(path: Path, parts: dict[str, bytes]) -> Bundle:
    try:
        config = json.loads(parts[_CONFIG], parse_constant=_no_number)
        version, digests = config["format"], dict(config["sha256"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise BundleError(_unusable(path, error)) from None
    if version != FORMAT:
        raise BundleError(
            f"{path}: bundle format {version!r}, this program reads {FORMAT}; "
            "export it again, or install the version of Cepstra that wrote it"
        )
    for name in _PARTS:
        if hashlib.sha256(parts[name]).hexdigest() != digests.get(name):
            raise BundleError(f"{path}: {name} is damaged (its digest differs); fetch or export the bundle again")
    try:
        return Bundle(
            parts["encoder.onnx"],
            parts["decoder.onnx"],
            Tokenizer.from_json(parts["tokenizer.json"].decode()),
            MfccSpec.from_dict(config["front_end"]),
            ModelConfig.from_dict(config["model"]),
            str(config["language"]),
            str(config["name"]),
            str(config["precision"]),
            dict(config["facts"]),
        )
    except CepstraError as error:
        raise BundleError(f"{path}: {error}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise BundleError(_unusable(path, error)) from None


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is no number in JSON")


def _unusable(path: Path, error: Exception) -> str:
    return f"{path}: {_CONFIG} can't be used ({type(error).__name__}: {error}); export the bundle again"
