"""What Lightning trains: one loss, one way to decode."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import lightning as L
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

from asr.evaluation.scoring import score
from asr.model.backend import TorchBackend
from asr.model.transformer import Transformer
from asr.search import CTC_WEIGHT, SearchOptions, decode
from asr.search.hypothesis import BLANK
from asr.training.data import IGNORED
from asr.training.optimiser import make_optimiser
from asr.training.saving import StoppedError
from audio.spec_augment import SpecAugment

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from lightning.pytorch.utilities.types import OptimizerLRScheduler
    from numpy.typing import NDArray

    from asr.tokenizer import Tokenizer
    from asr.training.config import TrainConfig
    from asr.training.data import Tensors


class Recogniser(L.LightningModule):
    """The Transformer with its loss, its optimiser and its validation by decoding."""

    def __init__(self, config: TrainConfig, tokenizer: Tokenizer, earlier: Sequence[dict[str, Any]] = ()) -> None:
        """earlier: what there is to say about the runs that this one goes on from."""
        super().__init__()
        self.config, self.tokenizer, self.earlier = config, tokenizer, list(earlier)
        self.story: Callable[[], dict[str, Any]] = dict  # what there is to say about this run whenever it is saved
        self.model = Transformer(config.model, config.front_end, tokenizer.vocab_size)
        self.spec_augment = SpecAugment(config.spec_augment, config.front_end)
        self.search = SearchOptions(beam=config.validation_beam, ctc_weight=CTC_WEIGHT)
        self.loss = torch.zeros(())  # the latest
        self._texts: list[tuple[str, str]] = []  # reference and hypothesis

    def losses(self, batch: Tensors) -> tuple[Tensor, Tensor, Tensor]:
        """Total, cross-entropy and CTC, in nats per token."""
        features, frames = self.model.features(batch["samples"], batch["lengths"])
        if batch["spec_augment"]:
            features = self.spec_augment(features, frames)
        logits, ctc_logits, positions = self.model(features, frames, batch["inputs"])
        targets, lengths = batch["targets"], batch["target_lengths"]
        cross_entropy = F.cross_entropy(
            logits.float().flatten(0, 1), targets.flatten(),
            ignore_index=IGNORED, label_smoothing=self.config.loss.label_smoothing,
        )  # fmt: skip
        ctc = F.ctc_loss(
            ctc_logits.float().log_softmax(dim=2).transpose(0, 1), targets.clamp(min=0), positions, lengths,
            blank=BLANK, reduction="sum", zero_infinity=True,
        ) / lengths.sum().clamp(min=1)  # fmt: skip
        weight = self.config.loss.ctc_weight
        return (1 - weight) * cross_entropy + weight * ctc, cross_entropy, ctc

    def on_train_batch_start(self, batch: Tensors, batch_idx: int) -> None:
        """Chance depends on where we are and not on how we came here: a resumed run draws what another would."""
        del batch, batch_idx
        done = self.trainer.fit_loop.epoch_loop.total_batch_idx
        torch.manual_seed(hash((self.config.seed, done, self.global_rank)) % 2**63)

    def training_step(self, batch: Tensors, batch_idx: int) -> Tensor:
        """The loss of one batch."""
        del batch_idx
        loss, cross_entropy, ctc = self.losses(batch)
        self.loss = loss.detach()
        values = {"loss": self.loss, "cross_entropy": cross_entropy.detach(), "ctc": ctc.detach()}
        self.log_dict({f"train/{name}": value for name, value in values.items()})
        return loss

    def configure_gradient_clipping(
        self,
        optimizer: torch.optim.Optimizer,
        gradient_clip_val: float | None = None,
        gradient_clip_algorithm: str | None = None,
    ) -> None:
        """By norm. Lightning doesn't clip for a fused optimiser, since that one might unscale; bfloat16 needs no scale.

        Here the gradients of all processes have been averaged: whatever is wrong with one is seen by all.
        """
        del optimizer, gradient_clip_algorithm
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), gradient_clip_val or math.inf)
        if not torch.isfinite(norm):
            raise StoppedError(
                f"the loss is {float(self.loss):.3g} and the norm of its gradient {float(norm)} after step "
                f"{self.global_step}; try a lower optimiser.learning_rate, a longer optimiser.warmup_steps, or "
                "precision=32-true"
            )
        self.log("train/gradient_norm", norm)

    def configure_optimizers(self) -> OptimizerLRScheduler:
        """The optimiser, and its learning rate over time."""
        settings = self.config.optimiser
        optimiser = make_optimiser(self.model, settings)
        schedule = torch.optim.lr_scheduler.LambdaLR(
            optimiser, lambda step: learning_rate_factor(step, settings.warmup_steps, self.config.steps)
        )
        return {"optimizer": optimiser, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def on_validation_epoch_start(self) -> None:
        """Forget the last validation."""
        self._texts = []

    def validation_step(self, batch: Sequence[tuple[NDArray[np.float32], str]], batch_idx: int) -> None:
        """Decode as the recogniser does."""
        del batch_idx
        backend = TorchBackend(self.model)
        clips = [samples for samples, _ in batch]
        seconds = [len(clip) / self.model.spec.sample_rate for clip in clips]
        hypotheses = decode(backend, backend.encode(clips), seconds, self.search)
        self._texts += [(text, self.tokenizer.decode(h.tokens)) for (_, text), h in zip(batch, hypotheses, strict=True)]

    def on_validation_epoch_end(self) -> None:
        """Word error rate over all ranks."""
        texts = self._texts
        if self.trainer.world_size > 1:
            gathered: list[list[tuple[str, str]] | None] = [None] * self.trainer.world_size
            dist.all_gather_object(gathered, texts)
            texts = [pair for share in gathered if share for pair in share]
        total = score([reference for reference, _ in texts], [hypothesis for _, hypothesis in texts]).total
        self.log("val/wer", total.wer or 0.0)
        self.log("val/cer", total.cer or 0.0)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """What export needs beside the weights, as plain data: loading it executes nothing."""
        training = self.story()
        checkpoint["cepstra"] = {
            "model": self.config.model.to_dict(),
            "front_end": self.config.front_end.to_dict(),
            "tokenizer": self.tokenizer.to_json(),
            "language": self.config.language,
            **({"earlier": self.earlier} if self.earlier else {}),
            **({"training": training} if training else {}),
        }


def learning_rate_factor(step: int, warmup: int, total: int) -> float:
    """What the learning rate of a step (from 0) is multiplied by: up to 1 in a line, down to 0.01 in half a cosine."""
    if step < warmup:
        return (step + 1) / warmup
    progress = min(1.0, (step - warmup) / max(1, total - warmup))
    return 0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * progress))
