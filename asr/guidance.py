"""From what a caller asks for to the guide of a search: a language model, phrases to expect, or both."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from asr.boost import Boost, read_boost
from asr.errors import ConfigError
from asr.given import brief, number_in
from asr.lm import LanguageModel, read_lm
from asr.search import Blend, Guide

if TYPE_CHECKING:
    from asr.bundle import Bundle

LmSource: TypeAlias = str | PathLike[str] | LanguageModel
BoostSource: TypeAlias = str | PathLike[str] | Mapping[str, float]

LM_WEIGHT: Final = 0.2  # 0.1 and 0.2 were best on development speech; more leaves words out
LARGEST_LM_WEIGHT: Final = 10.0


def guide_of(
    bundle: Bundle, lm: LmSource | None, lm_weight: float | None, boost: BoostSource | None
) -> Guide[Any] | None:
    """The guide, or None where nothing is asked for.

    lm_weight: None is LM_WEIGHT; 0 is no language model. Raises ConfigError for an argument of another type and a
    weight out of range, GuidanceError for a file or phrases that can't be used or weren't made for the bundle.
    """
    weight = LM_WEIGHT if lm_weight is None else _weight(lm, lm_weight)
    parts: list[tuple[Guide[Any], float]] = []
    if lm is not None:
        model = lm if isinstance(lm, LanguageModel) else read_lm(_path("lm", lm, "what asr.lm.read_lm returns"))
        guide = model.guide(bundle.tokenizer)
        if weight:
            parts.append((guide, weight))
    if boost is not None:
        phrases = boost
        if not isinstance(phrases, Mapping):
            path = _path("boost", phrases, 'phrases with weights, such as {"living room": 1.0}')
            phrases = read_boost(path, bundle.tokenizer, bundle.language)
        parts.append((Boost(phrases, bundle.tokenizer, bundle.language), 1.0))
    return Blend(tuple(parts)) if parts else None


def _weight(lm: LmSource | None, given: float) -> float:
    if lm is None:
        raise ConfigError(f"lm_weight={brief(given)}: there is no lm to weigh; give both")
    weight = number_in(given)
    if weight is None or not 0 <= weight <= LARGEST_LM_WEIGHT:
        raise ConfigError(f"lm_weight={brief(given)}: must be from 0 to {LARGEST_LM_WEIGHT:g}; {LM_WEIGHT:g} is usual")
    return weight


def _path(argument: str, given: str | PathLike[str], otherwise: str) -> Path:
    try:
        return Path(given)
    except TypeError:
        raise ConfigError(f"{argument}={brief(given)}: give the path of a file, or {otherwise}") from None
