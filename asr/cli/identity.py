"""Which model it is: a digest of all that decides which words it writes, whatever else is noted in its bundle."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from asr.bundle import Bundle, read_bundle
from asr.errors import BundleError, CepstraError
from asr.hearing import FACT
from asr.recognizer import DEFAULT_BUNDLE, SHIPPED

SHOWN = 12  # digits of a digest that a message holds


def digest(bundle: Bundle) -> str:
    """SHA-256 in hexadecimal digits: of the graphs, which hold the front end, the tokens, the language and the ear."""
    parts = {
        "encoder": bundle.encoder,
        "decoder": bundle.decoder,
        "tokenizer": bundle.tokenizer.to_json().encode(),
        "language": bundle.language.encode(),
        FACT: json.dumps(bundle.facts.get(FACT), sort_keys=True).encode(),
    }
    whole = hashlib.sha256()
    for name, part in parts.items():
        whole.update(f"{name} {len(part)}\n".encode() + part)
    return whole.hexdigest()


def digest_of(transcriber: object) -> str | None:
    """Of the model of a recogniser; None for a stand-in, which has none."""
    bundle = getattr(transcriber, "bundle", None)
    return digest(bundle) if isinstance(bundle, Bundle) else None


def check_measured(figures: Path, model: str, measured: str | None, bundle: Path, own: str) -> None:
    """Raise CepstraError where figures are another model's than the bundle's, whose digest is `own`.

    model, measured: name and digest of the one that they say was measured. Older figures hold no digest: there the file
    of that name is compared, where there still is one.
    """
    named = DEFAULT_BUNDLE if model == SHIPPED else Path(model)
    if measured is None:
        try:
            measured = digest(read_bundle(named))
        except BundleError:  # no such file any more, or another kind of model
            return
    if measured != own:
        raise CepstraError(
            f"{figures}: figures of another model: {model} ({measured:.{SHOWN}}), not {bundle} ({own:.{SHOWN}}); "
            f"evaluate {bundle} itself"
        )
