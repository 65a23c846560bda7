"""A language model's file: a zip, stored uncompressed, of `config.json` and arrays. Reading it executes nothing.

`config.json` has the format, the kind (ngram, skips), the digest of the tokenizer whose tokens it counts, facts of its
training, and of each array the length and the SHA-256 digest. An array is its numbers, little-endian: `unigram` and,
for each context length K, `K.keys`, `K.offsets`, `K.tokens`, `K.shares` and `K.rest` (see `asr.lm.table`).
"""

from __future__ import annotations

import hashlib
import json
import reprlib
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from asr.archive import ArchiveKind
from asr.errors import GuidanceError
from asr.given import brief, cut
from asr.lm.ngram import HIGHEST_ORDER, NGram
from asr.lm.skips import Skips
from asr.lm.table import Table
from asr.search.hypothesis import EOS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from asr.tokenizer import Tokenizer

Lm: TypeAlias = NGram | Skips

FORMAT: Final = 1  # raised when older programs can't read newer files
MAX_BYTES: Final = 1 << 30  # of the whole file
_CONFIG: Final = "config.json"
_REMEDY: Final = "train it again (cepstra lm train)"
_FILE: Final = ArchiveKind("a language model", "my.lm", _REMEDY, GuidanceError)
_TYPES: Final = {"keys": "<u8", "offsets": "<u4", "tokens": "<u2", "shares": "<f4", "rest": "<f4"}
_MAX_VOCABULARY: Final = 1 << 16
_WIDEST_WINDOW: Final = 1 << 10
_LARGEST_FACT: Final = 1e15


@dataclass(frozen=True)
class LanguageModel:
    """A model with what it was made for."""

    lm: Lm
    tokenizer: str  # digest_of the tokenizer
    # Of its training: sentences, tokens; where measured, held_out_sentences, perplexity, word_perplexity; where
    # sentences had letters that the model hasn't, left_out, held_out_left_out
    facts: dict[str, float] = field(default_factory=dict)
    name: str = "language model"  # its file, for errors

    def guide(self, tokenizer: Tokenizer) -> Lm:
        """The model as a guide of a search over that tokenizer's tokens. Raises GuidanceError for another one's."""
        ngram = self.lm.bigram if isinstance(self.lm, Skips) else self.lm
        if self.tokenizer != digest_of(tokenizer) or len(ngram.unigram) != tokenizer.vocab_size:
            raise GuidanceError(
                f"{self.name}: was made for another model's tokens; train it again with --model and this bundle"
            )
        return self.lm


def digest_of(tokenizer: Tokenizer) -> str:
    """What tells two tokenizers apart: their pieces, in order."""
    pieces = "\n".join(tokenizer.token(i) for i in range(tokenizer.vocab_size))
    return hashlib.sha256(pieces.encode()).hexdigest()


def write_lm(path: str | Path, model: LanguageModel) -> int:
    """Write it, whole or not at all, and return its bytes. Raises GuidanceError where it can't be written."""
    lm = model.lm
    ngram, kind = (lm.bigram, "skips") if isinstance(lm, Skips) else (lm, "ngram")
    tables = (*ngram.tables, lm.pairs) if isinstance(lm, Skips) else ngram.tables
    arrays: dict[str, NDArray[Any]] = {"unigram": ngram.unigram.astype("<f4")}
    for length, table in enumerate(tables, 1):
        arrays |= {f"{length}.{part}": getattr(table, part).astype(kept) for part, kept in _TYPES.items()}
    parts = {name: array.tobytes() for name, array in arrays.items()}
    config = {
        "format": FORMAT,
        "kind": kind,
        "order": len(tables) + 1,
        "tokenizer": model.tokenizer,
        "facts": model.facts,
        "arrays": {
            name: {"length": len(array), "sha256": hashlib.sha256(parts[name]).hexdigest()}
            for name, array in arrays.items()
        },
    }
    if isinstance(lm, Skips):
        config["window"] = lm.window
    _FILE.write(Path(path), {_CONFIG: json.dumps(config, indent=1).encode(), **parts})
    return sum(map(len, parts.values()))


def read_lm(path: str | Path) -> LanguageModel:
    """Read and check it. Raises GuidanceError that names the file, the fault and the remedy."""
    path = Path(path)
    config = _config(path)
    try:
        kind, order, window = _shape(config)
        tokenizer, facts, described = str(config["tokenizer"]), _facts(config), dict(config["arrays"])
        names = ["unigram", *(f"{length}.{part}" for length in range(1, order) for part in _TYPES)]
        parts = _FILE.read(path, names, MAX_BYTES)
        arrays = {name: _array(name, parts[name], described[name]) for name in names}
        lm = _model(kind, order, window, arrays)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise GuidanceError(f"{path}: damaged ({cut(str(error))}); {_REMEDY}") from None
    return LanguageModel(lm, tokenizer, facts, str(path))


def _config(path: Path) -> dict[str, Any]:
    data = _FILE.read(path, [_CONFIG], MAX_BYTES)[_CONFIG]
    try:
        config = json.loads(data)
        version = config["format"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise GuidanceError(f"{path}: {_CONFIG} can't be used ({type(error).__name__}); {_REMEDY}") from None
    if version != FORMAT:
        raise GuidanceError(f"{path}: format {brief(version)}, this program reads {FORMAT}; {_REMEDY}")
    return dict(config)


def _facts(config: Mapping[str, Any]) -> dict[str, float]:
    facts = dict(config["facts"])
    if not all(isinstance(value, int | float) and 0 <= value < _LARGEST_FACT for value in facts.values()):
        raise ValueError("one of its facts is no number")
    return facts


def _shape(config: Mapping[str, Any]) -> tuple[str, int, int]:
    """Kind, order and window. Raises ValueError, KeyError, TypeError, OverflowError."""
    kind, order, window = config["kind"], int(config["order"]), int(config.get("window", 0))
    if kind == "ngram" and 1 <= order <= HIGHEST_ORDER:
        return kind, order, window
    if kind == "skips" and order == 3 and 1 <= window <= _WIDEST_WINDOW:
        return kind, order, window
    raise ValueError(f"kind {reprlib.repr(kind)} of order {reprlib.repr(order)} is unknown")


def _array(name: str, data: bytes, described: Mapping[str, Any]) -> NDArray[Any]:
    kept = np.dtype(_TYPES[name.rpartition(".")[2]] if "." in name else "<f4")
    if hashlib.sha256(data).hexdigest() != described["sha256"] or len(data) != kept.itemsize * described["length"]:
        raise ValueError(f"{name} is not what was written")
    return np.frombuffer(data, kept).astype(kept.newbyteorder("="))


def _model(kind: str, order: int, window: int, arrays: Mapping[str, NDArray[Any]]) -> Lm:
    """The model, if it is one of distributions."""
    unigram = arrays["unigram"]
    possible = (unigram[EOS:] >= 0).all() and not unigram[:EOS].any()
    if not EOS < len(unigram) <= _MAX_VOCABULARY or not possible or not np.isclose(unigram.sum(), 1, atol=1e-4):
        raise ValueError("its unigrams are no distribution")
    tables = []
    for length in range(1, order):
        table = Table(**{part.name: arrays[f"{length}.{part.name}"] for part in fields(Table)})
        fault = table.fault(len(unigram))
        if fault is not None:
            raise ValueError(f"contexts of {length}: {fault}")
        tables.append(table)
    if kind == "ngram":
        return NGram(unigram, tuple(tables))
    return Skips(NGram(unigram, tuple(tables[:1])), tables[1], window)
