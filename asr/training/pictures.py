"""Pictures of a training run: its curves, and where the model looks."""

from __future__ import annotations

import csv
import warnings
from typing import TYPE_CHECKING

import matplotlib as mpl
import numpy as np
import torch

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.ticker import MaxNLocator

from asr.search.hypothesis import BLANK, BOS

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from asr.training.module import Recogniser


def curves(metrics: Path, target: Path) -> None:
    """Loss and error rates over the steps, from the CSV log."""
    series: dict[str, list[tuple[int, float]]] = {}
    with metrics.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            for name, value in row.items():
                if value and name not in {"step", "epoch"}:
                    series.setdefault(name, []).append((int(row["step"]) + 1, float(value)))
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
    for name, label in (("train/cross_entropy", "decoder, cross-entropy"), ("train/ctc", "encoder, CTC")):
        _smooth_line(left, series.get(name, []), label)
    left.set(title="Training loss", ylabel="nats per token")
    for name, label in (("val/wer", "word error rate"), ("val/cer", "character error rate")):
        if len(points := np.array(series.get(name, []))):
            best = points[points[:, 1].argmin()]
            best_of = f"{label}, {100 * best[1]:.1f} at best"
            (line,) = right.plot(points[:, 0], 100 * points[:, 1], marker="o", markersize=3, label=best_of)
            right.plot(best[0], 100 * best[1], marker="o", markersize=8, fillstyle="none", color=line.get_color())
    right.set(title="Validation (above 100 % not shown)", ylabel="%")
    last = max((step for points in series.values() for step, _ in points), default=1)
    for axes in (left, right):
        axes.set(xlabel="step", xlim=(0, last * 1.03))
        axes.set_ylim(0, min(105, axes.get_ylim()[1]) if axes is right else None)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=8, steps=[1, 2, 5, 10]))
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
        if axes.get_legend_handles_labels()[0]:
            axes.legend()
    _save(figure, target)


@mpl.rc_context({"text.parse_math": False})  # a dollar in a text is a dollar
@torch.inference_mode()
def attention(module: Recogniser, samples: NDArray[np.float32], text: str, target: Path) -> None:
    """For one utterance: the cepstra, what CTC hears when, and where the decoder looks for each token."""
    model, tokenizer = module.model, module.tokenizer
    was_training = model.training
    model.eval()
    clip = torch.from_numpy(samples)[None].to(module.device)
    features, frames = model.features(clip, torch.tensor([len(samples)], device=module.device))
    memory, lengths = model.encoder(features, frames)
    tokens = tokenizer.encode(text)
    weights = model.decoder.attention_maps(torch.tensor([[BOS, *tokens]], device=module.device), memory, lengths)
    ctc = model.ctc_head(memory)[0].float().softmax(dim=1).cpu().numpy()[: int(lengths)]  # (T, V)
    looks = weights[-1, 0].mean(dim=0).float().cpu().numpy()[:, : int(lengths)]  # (U, T), last layer, mean of the heads
    model.train(was_training)
    end = len(samples) / model.spec.sample_rate
    figure, (top, middle, bottom) = plt.subplots(
        3, 1, figsize=(10, 4.5 + 0.25 * len(looks)), layout="constrained", sharex=True,
        height_ratios=[1.4, 1.4, max(1.5, 0.25 * len(looks))],
    )  # fmt: skip
    cepstra = features[0, : int(frames)].T.cpu().numpy()
    top.imshow(
        cepstra,
        aspect="auto",
        origin="lower",
        extent=(0, end, -0.5, len(cepstra) - 0.5),
        cmap="RdBu_r",
        vmin=-3,
        vmax=3,
    )
    top.set(title=f"“{text}”", ylabel="cepstrum")
    _ctc_lines(middle, ctc, tokens, [tokenizer.token(token) for token in tokens], end)
    # Each row by its own largest weight: what matters is where a token looks, not how sharply
    bottom.imshow(
        looks / looks.max(axis=1, keepdims=True), aspect="auto", extent=(0, end, len(looks) - 0.5, -0.5), cmap="Greys",
        interpolation="nearest",
    )  # fmt: skip
    bottom.set(xlabel="seconds", ylabel="the decoder looks here for")
    bottom.set_yticks(range(len(looks)), [*(tokenizer.token(token) for token in tokens), "end"], fontsize="small")
    target.parent.mkdir(parents=True, exist_ok=True)
    _save(figure, target)


def _smooth_line(axes: Axes, points: list[tuple[int, float]], label: str) -> None:
    """The values, faintly, and their mean over a fiftieth of all of them."""
    if not points:
        return
    steps, values = np.array(points).T
    width = max(1, len(values) // 50)
    smooth = np.convolve(values, np.ones(width) / width, "valid")
    (line,) = axes.plot(steps[width - 1 :], smooth, label=label)
    axes.plot(steps, values, alpha=0.25, color=line.get_color())


def _ctc_lines(axes: Axes, ctc: NDArray[np.float32], tokens: list[int], names: list[str], end: float) -> None:
    """Blank in grey, and each token of the text with its name where it is likeliest. ctc: (T, V) probabilities."""
    seconds = (np.arange(len(ctc)) + 0.5) * end / len(ctc)
    axes.fill_between(seconds, ctc[:, BLANK], color="0.9")
    axes.text(end, 0.5, "blank ", color="0.6", ha="right", va="center")
    for token, name in dict(zip(tokens, names, strict=True)).items():
        peak = int(ctc[:, token].argmax())
        (line,) = axes.plot(seconds, ctc[:, token])
        if ctc[peak, token] > 0.1:
            axes.annotate(
                name, (seconds[peak], ctc[peak, token]), xytext=(0, 2), textcoords="offset points", ha="center",
                color=line.get_color(), annotation_clip=False,
            )  # fmt: skip
    axes.set(ylabel="CTC probability", ylim=(0, 1.15))
    axes.set_yticks([0, 0.5, 1])


def _save(figure: Figure, target: Path) -> None:
    part = target.with_name(f".{target.name}")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # a box stands for it
        figure.savefig(part, dpi=110, format="png")
    plt.close(figure)
    part.replace(target)
