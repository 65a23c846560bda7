"""Train, dev and test by speaker: nobody is on two sides, and nobody moves when recordings are added."""

from __future__ import annotations

import hashlib
import math
import os
from dataclasses import replace
from typing import TYPE_CHECKING

from asr.errors import ManifestError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from asr.manifest.records import Utterance

_SPLIT_NAMES = {
    "train": "train", "training": "train", "trn": "train",
    "dev": "dev", "valid": "dev", "validation": "dev", "val": "dev", "development": "dev",
    "test": "test", "testing": "test", "eval": "test", "tst": "test",
}  # fmt: skip


def canonical_split(name: str) -> str | None:
    """train, dev or test for the names that these have, also within a file's name (`words.train`); None for others."""
    parts = "".join(character if character.isalnum() else " " for character in name.lower()).split()
    return next((_SPLIT_NAMES[part] for part in reversed(parts) if part in _SPLIT_NAMES), None)


def exact_split(name: str) -> str | None:
    """The same where the whole name is one; a folder named `eval_lights` holds recordings of words."""
    return _SPLIT_NAMES.get(name.lower())


def parse_shares(text: str) -> dict[str, float]:
    """`train=0.9,dev=0.05,test=0.05` to shares by name. Raises ManifestError."""
    shares: dict[str, float] = {}
    for part in text.split(","):
        name, _, share = part.partition("=")
        try:
            shares[name.strip()] = float(share)
        except ValueError as error:
            raise ManifestError(f"split {part.strip()!r}: write NAME=SHARE, such as train=0.9,test=0.1") from error
    if len(shares) < text.count(",") + 1:
        raise ManifestError(f"splits {text!r}: a name is there twice: name each once")
    _refuse_impossible(shares)
    return shares


def divide(
    utterances: Sequence[Utterance],
    proportions: Mapping[str, float],
    *,
    seed: int = 0,
    folder: Path | None = None,
    keep: bool = False,
    by_file: bool = False,
) -> list[Utterance]:
    """The utterances with their `split` set.

    Where a speaker falls depends on the seed, the speaker's name and the proportions only: not on the other rows nor
    on their order. So shares are met on average over speakers, not to the row. Rows without a speaker go by their path,
    relative to `folder` where given (so that it may move).
    proportions: name of the split to its share; all together 1.
    keep: rows that have a split already keep it.
    by_file: go by the path throughout, where there is but one speaker.
    Raises ManifestError for impossible proportions and for a split that would stay empty.
    """
    _refuse_impossible(proportions)
    keys = [_key(utterance, folder, by_file=by_file) for utterance in utterances]
    rows = [
        utterance if keep and utterance.split else replace(utterance, split=draw(key, proportions, seed))
        for utterance, key in zip(utterances, keys, strict=True)
    ]
    empty = {name for name, share in proportions.items() if share} - {row.split for row in rows}
    if empty and rows:
        raise _empty(min(empty), set(keys), proportions, seed)
    return rows


def draw(key: str, proportions: Mapping[str, float], seed: int) -> str:
    """The split of one speaker: a number in [0, 1) from a hash of seed and key, on the line that the shares make up."""
    digest = hashlib.blake2b(f"{seed}\0{key}".encode(), digest_size=8).digest()
    position = int.from_bytes(digest, "big") / 2**64
    reached = 0.0
    chosen = ""
    for name, share in proportions.items():
        if share:
            chosen = name  # the last one also takes what rounding leaves over
            reached += share
            if position < reached:
                break
    return chosen


def _key(utterance: Utterance, folder: Path | None, *, by_file: bool) -> str:
    if utterance.speaker is not None and not by_file:
        return f"speaker\0{utterance.speaker}"
    path = utterance.audio_filepath
    return f"path\0{path if folder is None else os.path.relpath(path, folder)}"


def _empty(name: str, keys: set[str], proportions: Mapping[str, float], seed: int) -> ManifestError:
    """Says that a split has nobody, and which seed would give each some."""
    wanted = {other for other, share in proportions.items() if share}
    kinds = {key.split("\0")[0] for key in keys}
    remedy = "there are too few; use fewer splits" + (", or --by file" if "speaker" in kinds else "")
    for other in range(1000 if len(keys) >= len(wanted) else 0):
        if {draw(key, proportions, other) for key in keys} >= wanted:
            remedy = f"--seed {other} gives each split some"
            break
    what = {"speaker": "speakers", "path": "files"}.get("".join(kinds), "speakers and files")
    problem = f"none of {len(keys)} {what} falls into it with seed {seed}"
    return ManifestError(f"{name!r} would be empty: {problem}: {remedy}")


def _refuse_impossible(proportions: Mapping[str, float]) -> None:
    for name, share in proportions.items():
        if not name or "/" in name or not 0 <= share <= 1:
            raise ManifestError(f"split {name!r} = {share:g}: write NAME=SHARE with a share between 0 and 1")
    total = math.fsum(proportions.values())
    if abs(total - 1) > 1e-6:
        raise ManifestError(f"the shares of the splits sum to {total:g}: make it 1")
