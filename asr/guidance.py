"""From what a caller asks for to the guide of a search: a language model, phrases to expect, or both."""

from __future__ import annotations

import math
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from asr.boost import Boost, read_boost
from asr.errors import ConfigError
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

    lm_weight: None is LM_WEIGHT; 0 is no language model. Raises ConfigError for a weight out of range, GuidanceError
    for a file that can't be used or wasn't made for the bundle.
    """
    if lm_weight is not None and (lm is None or not 0 <= lm_weight <= LARGEST_LM_WEIGHT or math.isnan(lm_weight)):
        reason = "there is no lm to weigh" if lm is None else f"must be from 0 to {LARGEST_LM_WEIGHT:g}"
        raise ConfigError(f"lm_weight={lm_weight:g}: {reason}")
    parts: list[tuple[Guide[Any], float]] = []
    if lm is not None:
        model = lm if isinstance(lm, LanguageModel) else read_lm(Path(lm))
        weight = LM_WEIGHT if lm_weight is None else lm_weight
        guide = model.guide(bundle.tokenizer)
        if weight:
            parts.append((guide, weight))
    if boost is not None:
        phrases = boost if isinstance(boost, Mapping) else read_boost(Path(boost), bundle.tokenizer, bundle.language)
        parts.append((Boost(phrases, bundle.tokenizer, bundle.language), 1.0))
    return Blend(tuple(parts)) if parts else None
