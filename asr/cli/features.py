"""`cepstra features`: what the model is given of a sound file, as numbers and as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from audio.mfcc import MfccSpec

    Array = NDArray[np.float32]


def features(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="Sound file, or - for standard input.", show_default=False)
    ],
    *,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw waveform, mel spectrogram and cepstra (.png, .svg or .pdf)."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Write the cepstra as a numpy array, frames x cepstra (.npy)."
        ),
    ] = None,
    spec: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SPEC",
            help="The front end: of a bundle (model.cepstra), a JSON file of settings, or one setting as NAME=VALUE. "
            "May be repeated; later ones win.",
        ),
    ] = None,
) -> None:
    """The mel-cepstral coefficients of a sound file."""
    import io

    import numpy as np

    from asr.cli.extras import needs
    from asr.cli.messages import naming
    from asr.cli.outputs import check_outputs
    from asr.files import write_atomically
    from audio.mfcc import mfcc
    from audio.plots import features_picture, picture_format

    check_outputs([("--plot", plot), ("--output", output)], [file, *(spec or [])])
    with naming("--plot"):
        kind = "" if plot is None else picture_format(plot)
    if kind:
        needs("train", "matplotlib")
    with naming("--spec"):
        front_end = read_spec(spec or [])
    samples = _read(file, front_end.sample_rate)
    cepstra = mfcc(samples, front_end)
    name = "standard input" if file == "-" else file
    print("\n".join(summary(name, samples, cepstra, front_end)))
    if output is not None:
        buffer = io.BytesIO()
        np.save(buffer, cepstra, allow_pickle=False)
        write_atomically(output, buffer.getvalue())
        print(f"Cepstra: {output}")
    if plot is not None:
        title = f"{name}: {len(samples) / front_end.sample_rate:.2f} s"
        write_atomically(plot, features_picture(samples, front_end, title=title, kind=kind))
        print(f"Picture: {plot}")


def read_spec(settings: list[str]) -> MfccSpec:
    """The default spec with each of these put over it: a bundle, a JSON file, or NAME=VALUE. Raises CepstraError."""
    import zipfile
    from pathlib import Path

    from asr.bundle import read_bundle
    from asr.errors import ConfigError
    from audio.mfcc import MfccSpec

    values: dict[str, Any] = {}
    for setting in settings:
        path = Path(setting)
        name, equals, value = setting.partition("=")
        if path.is_file():
            values |= read_bundle(path).front_end.to_dict() if zipfile.is_zipfile(path) else _read_json(path)
        elif equals:
            values[name.strip()] = _value(value.strip())
        else:
            raise ConfigError(f"{setting}: no such file, and no NAME=VALUE; name a bundle or a JSON file")
    return MfccSpec.from_dict(values)


def _read_json(path: Path) -> dict[str, Any]:
    import json

    from asr.errors import ConfigError

    try:
        values = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ConfigError(f"{path}: can't be read ({error.strerror}); check its permissions") from error
    except (ValueError, RecursionError) as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(f"{path}: is neither a bundle nor JSON ({reason}); name one of the two") from error
    if not isinstance(values, dict):
        raise ConfigError(
            f"{path}: holds a {type(values).__name__}; front-end settings are an object of names to values"
        )
    return values


def _value(text: str) -> object:
    """A number, true, false, null or a list as JSON writes them; anything else is a word."""
    import json

    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _read(file: str, sample_rate: int) -> Array:
    import sys
    import warnings

    from audio.reading import AudioWarning, read_audio

    with warnings.catch_warnings(record=True, action="always", category=AudioWarning) as caught:
        samples: Array = read_audio(file, sample_rate=sample_rate)
    for warning in caught:
        print(f"cepstra: {warning.message}", file=sys.stderr)
    return samples


def summary(name: str, samples: Array, cepstra: Array, spec: MfccSpec) -> list[str]:
    """A few lines that say what came out."""
    import numpy as np

    def decibel(amplitude: float) -> str:
        return f"{20 * np.log10(amplitude):.1f} dBFS" if amplitude else "digital silence"

    milliseconds = 1000 / spec.sample_rate
    timing = f"{spec.frame * milliseconds:g} ms every {spec.hop * milliseconds:g} ms"
    loud = np.abs(samples).max(initial=0.0)
    rms = np.sqrt(np.mean(np.square(samples, dtype=np.float64))) if len(samples) else 0.0
    spread = cepstra.std(axis=0)
    last = f" … c{spec.n_cepstra - 1} {spread[-1]:.2f}" if spec.n_cepstra > 1 else ""
    return [
        f"{name}: {len(samples) / spec.sample_rate:.2f} s at {spec.sample_rate} Hz, peak {decibel(float(loud))}"
        + (f", rms {decibel(float(rms))}" if loud else ""),
        f"{cepstra.shape[0]} frames x {cepstra.shape[1]} cepstra: {timing}, normalisation {spec.normalisation}",
        f"range {cepstra.min():.2f} to {cepstra.max():.2f}; standard deviations c0 {spread[0]:.2f}{last}",
    ]
