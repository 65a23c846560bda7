"""Pictures of sound and its features. matplotlib is part of the training extra and imported when one is drawn."""

from __future__ import annotations

import io
import warnings
from typing import TYPE_CHECKING

import numpy as np

from audio.errors import CepstraError
from audio.mfcc import MEL_SCALES, MfccSpec, log_mel, log_unit, mfcc

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage
    from numpy.typing import NDArray

    Array = NDArray[np.float32]

FORMATS = ("png", "svg", "pdf")
_COLUMNS = 2000  # more than the picture has pixels across; longer clips are averaged down to it
_RANGE_DB = 80.0  # what is quieter than the loudest by more is drawn black
_TICKS_HZ = (250, 500, 1000, 2000, 4000, 8000, 16000)


def picture_format(path: Path) -> str:
    """One of FORMATS, by the file's name. Raises CepstraError for any other."""
    kind = path.suffix[1:].lower()
    if kind not in FORMATS:
        names = ", ".join(f".{known}" for known in FORMATS)
        raise CepstraError(f"{path}: no known kind of picture; choose a name that ends in one of {names}")
    return kind


def features_picture(samples: Array, spec: MfccSpec, *, title: str = "", kind: str = "png") -> bytes:
    """Waveform, mel spectrogram and cepstra on one time axis, as the bytes of a picture file.

    samples: (N,) mono, spec.sample_rate Hz, full scale ±1. kind: one of FORMATS.
    Cepstra are drawn in standard deviations: the spec's, or else this clip's, since c0 alone would fill the scale.
    Raises CepstraError where matplotlib is missing.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415  an extra, and slow to import
        from matplotlib.figure import Figure  # noqa: PLC0415
    except ImportError as error:
        raise CepstraError("pictures need matplotlib; run: pip install 'cepstra[train]'") from error

    figure = Figure(figsize=(11, 7.5), layout="constrained")
    FigureCanvasAgg(figure)
    # A column of its own for the colour bars, so that the three time axes are equally long
    grid = figure.add_gridspec(3, 2, height_ratios=(1, 1.6, 1.6), width_ratios=(1, 0.018))
    wave = figure.add_subplot(grid[0, 0])
    mel, cepstra = (figure.add_subplot(grid[row, 0], sharex=wave) for row in (1, 2))
    _waveform(wave, samples, spec)
    for row, (image, unit) in enumerate((_mel_spectrogram(mel, samples, spec), _cepstra(cepstra, samples, spec)), 1):
        figure.colorbar(image, cax=figure.add_subplot(grid[row, 1]), label=unit)
    for axes in (wave, mel):
        axes.tick_params(labelbottom=False)
    cepstra.set_xlabel("Time (s)")
    wave.set_xlim(0, max(len(samples), spec.frame) / spec.sample_rate)
    figure.align_ylabels([wave, mel, cepstra])
    if title:
        shown = "".join(character if character.isprintable() else "?" for character in title)
        figure.suptitle(shown, parse_math=False)  # a file's name may hold dollar signs
    return _bytes(figure, kind)


def _bytes(figure: Figure, kind: str) -> bytes:
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # a title may use letters that the font lacks
        figure.savefig(buffer, format=kind, dpi=130)
    return buffer.getvalue()


def _waveform(axes: Axes, samples: Array, spec: MfccSpec) -> None:
    columns = -(-len(samples) // _COLUMNS)  # samples in each, rounded up
    if columns <= 4:
        axes.plot(np.arange(len(samples)) / spec.sample_rate, samples, color="#1f4e79", linewidth=0.8)
    else:  # the envelope, since no line can show so many samples
        blocks = np.pad(samples, (0, -len(samples) % columns), mode="edge").reshape(-1, columns)
        seconds = np.arange(len(blocks)) * (columns / spec.sample_rate)
        axes.fill_between(seconds, blocks.min(axis=1), blocks.max(axis=1), color="#1f4e79", linewidth=0.3)
    peak = float(np.abs(samples).max(initial=0.0))
    limit = 1.1 * peak if peak else 1.0
    axes.set(ylim=(-limit, limit), ylabel="Amplitude\n(full scale ±1)", title="Waveform")
    axes.grid(alpha=0.3)


def _mel_spectrogram(axes: Axes, samples: Array, spec: MfccSpec) -> tuple[AxesImage, str]:
    decibel = log_mel(samples, spec) / log_unit(spec) * (10 / np.log(10))  # (T, n_mels)
    lowest = float(np.floor(decibel.min()))
    loudest = max(float(decibel.max()), lowest + 20)  # silence is to look like it
    image = _image(axes, decibel, spec, cmap="magma", vmin=max(lowest, loudest - _RANGE_DB), vmax=loudest)
    to_mel, _ = MEL_SCALES[spec.mel_scale]
    low, high = to_mel(np.array([spec.low_hz, spec.high_hz]))
    ticks = np.array([hz for hz in _TICKS_HZ if spec.low_hz <= hz <= spec.high_hz], dtype=np.float64)
    places = (to_mel(ticks) - low) / (high - low) * (spec.n_mels + 1) - 1  # filter m is centred on m
    shown = places <= spec.n_mels - 0.5
    axes.set_yticks(places[shown].clip(-0.5), [f"{hz:.0f}" for hz in ticks[shown]])
    axes.set(ylabel="Frequency (Hz)", title=f"Mel spectrogram: {spec.n_mels} filters")
    return image, "Power (dB)"


def _cepstra(axes: Axes, samples: Array, spec: MfccSpec) -> tuple[AxesImage, str]:
    cepstra: NDArray[np.floating] = mfcc(samples, spec)  # (T, n_cepstra)
    if spec.normalisation == "none":
        cepstra = cepstra - cepstra.mean(axis=0)
    if spec.spread is None:
        deviation = cepstra.std(axis=0)
        cepstra = cepstra / np.where(deviation > 1e-6, deviation, 1)
    image = _image(axes, cepstra, spec, cmap="RdBu_r", vmin=-3, vmax=3)
    mean = "running" if spec.normalisation == "running" else "the clip's"
    axes.set(ylabel="Cepstrum", title=f"{spec.n_cepstra} cepstra, less {mean} mean, c0 at the bottom")
    of = "this clip" if spec.spread is None else "the training corpus"
    return image, f"Standard deviations\n(of {of})"


def _image(
    axes: Axes, values: NDArray[np.floating], spec: MfccSpec, *, cmap: str, vmin: float, vmax: float
) -> AxesImage:
    """(T, rows) as an image: each frame as wide as a hop, around the middle of its samples."""
    group = -(-len(values) // _COLUMNS)  # frames in a column
    padded = np.pad(values, ((0, -len(values) % group), (0, 0)), mode="edge")
    columns = padded.reshape(-1, group, values.shape[1]).mean(axis=1)
    start = (spec.frame / 2 - spec.lead - spec.hop / 2) / spec.sample_rate
    end = start + len(padded) * spec.hop / spec.sample_rate
    return axes.imshow(
        columns.T,
        extent=(start, end, -0.5, values.shape[1] - 0.5),
        aspect="auto",
        origin="lower",
        interpolation="nearest",
        cmap=cmap,
        vmin=vmin,
        vmax=vmax,
    )
