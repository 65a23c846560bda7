"""Pictures of a training run: its curves, and where the model looks."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
import torch

mpl.use("Agg")
import matplotlib.pyplot as plt

from asr.search.hypothesis import BOS

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from asr.training.module import Recogniser


def curves(metrics: Path, target: Path) -> None:
    """Loss and word error rate over the steps, from the CSV log."""
    series: dict[str, list[tuple[int, float]]] = {}
    with metrics.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            for name, value in row.items():
                if value and name not in {"step", "epoch"}:
                    series.setdefault(name, []).append((int(row["step"]), float(value)))
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
    for name, label in (("train/cross_entropy", "decoder, cross-entropy"), ("train/ctc", "encoder, CTC")):
        if len(points := np.array(series.get(name, []))):
            left.plot(points[:, 0], points[:, 1], alpha=0.25, color=(line := left.plot([], [])[0]).get_color())
            width = max(1, len(points) // 50)
            smooth = np.convolve(points[:, 1], np.ones(width) / width, "valid")
            left.plot(points[width - 1 :, 0], smooth, color=line.get_color(), label=label)
    left.set(title="Training loss", xlabel="step", ylabel="nats per token", ylim=(0, None))
    for name, label in (("val/wer", "word error rate"), ("val/cer", "character error rate")):
        if len(points := np.array(series.get(name, []))):
            right.plot(points[:, 0], 100 * points[:, 1], marker="o", markersize=3, label=label)
    right.set(title="Validation, greedy decoding", xlabel="step", ylabel="%", ylim=(0, None))
    for axes in (left, right):
        axes.grid(alpha=0.3)
        if axes.get_legend_handles_labels()[0]:
            axes.legend()
    _save(figure, target)


@torch.inference_mode()
def attention(module: Recogniser, samples: NDArray[np.float32], text: str, target: Path) -> None:
    """For one utterance: the cepstra, what CTC hears when, and where the decoder looks for each token."""
    model, tokenizer = module.model, module.tokenizer
    device = module.device
    was_training = model.training
    model.eval()
    features, frames = model.features(
        torch.from_numpy(samples)[None].to(device), torch.tensor([len(samples)], device=device)
    )
    memory, lengths = model.encoder(features, frames)
    tokens = tokenizer.encode(text)
    weights = model.decoder.attention_maps(torch.tensor([[BOS, *tokens]], device=device), memory, lengths)
    ctc = model.ctc_head(memory)[0].float().softmax(dim=1).cpu().numpy()[: int(lengths)]  # (T, V)
    looks = weights[-1, 0].mean(dim=0).cpu().numpy()[:, : int(lengths)]  # (U, T), last layer, mean of the heads
    model.train(was_training)
    names = [tokenizer.token(t) for t in tokens] + ["end"]
    end = len(samples) / model.spec.sample_rate
    figure, (top, middle, bottom) = plt.subplots(
        3, 1, figsize=(10, 8), layout="constrained", sharex=True, height_ratios=[1, 1, 2]
    )
    top.imshow(features[0, : int(frames)].T.cpu().numpy(), aspect="auto", origin="lower", extent=(0, end, 0, features.shape[2]))
    top.set(title=text, ylabel="cepstrum")
    seconds = np.arange(len(ctc)) * end / len(ctc)
    middle.plot(seconds, ctc[:, 0], color="0.6", label="blank")
    for token in sorted(set(tokens)):
        middle.plot(seconds, ctc[:, token], label=tokenizer.token(token))
    middle.set(ylabel="CTC probability", ylim=(0, 1))
    if len(set(tokens)) <= 10:
        middle.legend(ncols=6, fontsize="small")
    bottom.imshow(looks, aspect="auto", vmin=0, extent=(0, end, len(looks) - 0.5, -0.5), cmap="magma", interpolation="nearest")
    bottom.set(xlabel="seconds", ylabel="next token")
    bottom.set_yticks(range(len(names)), names, fontsize="small")
    target.parent.mkdir(parents=True, exist_ok=True)
    _save(figure, target)


def _save(figure: Any, target: Path) -> None:
    part = target.with_name(f".{target.name}")
    figure.savefig(part, dpi=110, format="png")
    plt.close(figure)
    part.replace(target)
