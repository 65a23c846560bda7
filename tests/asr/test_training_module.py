"""The loss against an independent computation, the schedule, what decays, and validation as deployment decodes."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from asr.evaluation.scoring import score
from asr.model.backend import TorchBackend
from asr.search import CTC_WEIGHT, SearchOptions, decode
from asr.tokenizer import Tokenizer
from asr.training.batches import Batch
from asr.training.corpus import load
from asr.training.data import IGNORED, Tensors, TrainingSet
from asr.training.module import Recogniser, learning_rate_factor
from audio.augmentation import Augmenter

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from asr.training.config import TrainConfig


@pytest.fixture
def config(chirp_config: Callable[..., TrainConfig]) -> TrainConfig:
    return chirp_config(loss={"ctc_weight": 0.3, "label_smoothing": 0.2})


@pytest.fixture
def tokenizer() -> Tokenizer:
    return Tokenizer.train(["yes no stop go"], 40)


@pytest.fixture
def module(config: TrainConfig, tokenizer: Tokenizer) -> Recogniser:
    torch.manual_seed(0)
    return Recogniser(config, tokenizer).eval()


def batch_of(config: TrainConfig, tokenizer: Tokenizer, rows: tuple[int, ...]) -> Tensors:
    packed = load(config.data.train, Path(config.data.cache), "en", "training")
    dataset = TrainingSet(packed, tokenizer, Augmenter(config.augmentation), config)
    return dataset[Batch(rows, (1.0,) * len(rows), 40000, (1,), 0)]


def ctc_by_enumeration(log_probs: NDArray[np.float64], labels: list[int]) -> float:
    """-log of the sum over all paths that collapse to the labels; (T, V), blank is 0."""
    total = -np.inf
    for path in itertools.product(range(log_probs.shape[1]), repeat=len(log_probs)):
        collapsed = [k for k, _ in itertools.groupby(path) if k]
        if collapsed == labels:
            total = np.logaddexp(total, sum(log_probs[t, k] for t, k in enumerate(path)))
    return -float(total)


def ctc_by_recursion(log_probs: NDArray[np.float64], labels: list[int]) -> float:
    """The forward algorithm of Graves et al. (2006), section 4.1."""
    extended = [0] + [k for label in labels for k in (label, 0)]
    alpha = np.full(len(extended), -np.inf)
    alpha[:2] = log_probs[0, extended[:2]]
    for frame in log_probs[1:]:
        before = alpha.copy()
        for s, k in enumerate(extended):
            reach = [before[s]] + ([before[s - 1]] if s else [])
            if s > 1 and k and k != extended[s - 2]:
                reach.append(before[s - 2])
            alpha[s] = np.logaddexp.reduce(reach) + frame[k]
    return -float(np.logaddexp(alpha[-1], alpha[-2]))


def test_the_reference_for_ctc_is_right() -> None:
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(4, 3))
    log_probs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    for labels in ([1], [1, 2], [2, 2], [1, 2, 1]):
        assert ctc_by_recursion(log_probs, labels) == pytest.approx(ctc_by_enumeration(log_probs, labels))


def test_the_loss_is_what_a_hand_computes(config: TrainConfig, tokenizer: Tokenizer, module: Recogniser) -> None:
    batch = batch_of(config, tokenizer, (0, 1, 2))
    with torch.no_grad():
        total, cross_entropy, ctc = (float(x) for x in module.losses(batch))
        logits, ctc_logits, lengths = module.model(
            *module.model.features(batch["samples"], batch["lengths"]), batch["inputs"]
        )
    scores = logits.double().numpy()
    scores -= np.log(np.exp(scores).sum(axis=2, keepdims=True))
    positions = ctc_logits.double().numpy()
    positions -= np.log(np.exp(positions).sum(axis=2, keepdims=True))
    smoothed, nats, tokens = [], 0.0, 0
    for i in range(3):
        labels = batch["targets"][i, : batch["target_lengths"][i]].tolist()
        for u, target in enumerate([*labels, tokenizer.eos_id]):
            wanted = np.full(tokenizer.vocab_size, 0.2 / tokenizer.vocab_size)
            wanted[target] += 0.8
            smoothed.append(-(wanted * scores[i, u]).sum())
        nats += ctc_by_recursion(positions[i, : lengths[i]], labels)
        tokens += len(labels)
    assert cross_entropy == pytest.approx(np.mean(smoothed), rel=1e-5)  # per token, the end included
    assert ctc == pytest.approx(nats / tokens, rel=1e-5)  # per token of the text
    assert total == pytest.approx(0.7 * cross_entropy + 0.3 * ctc, rel=1e-6)


def test_where_nothing_is_said_blanks_and_an_end_are_learnt(
    config: TrainConfig, tokenizer: Tokenizer, module: Recogniser
) -> None:
    batch = batch_of(config, tokenizer, (0, 1))
    batch["targets"][:, 0], batch["targets"][:, 1:] = tokenizer.eos_id, IGNORED
    batch["target_lengths"][:] = 0
    total, cross_entropy, ctc = module.losses(batch)
    with torch.no_grad():
        logits, ctc_logits, lengths = module.model(
            *module.model.features(batch["samples"], batch["lengths"]), batch["inputs"]
        )
    blanks = ctc_logits.double().log_softmax(dim=2)[:, :, 0]
    assert ctc.item() == pytest.approx(-sum(blanks[i, : lengths[i]].sum().item() for i in range(2)), rel=1e-5)
    ends = logits[:, 0].double().log_softmax(dim=1)
    smoothed = 0.8 * ends[:, tokenizer.eos_id].mean() + 0.2 * ends.mean()
    assert cross_entropy.item() == pytest.approx(-smoothed.item(), rel=1e-5)
    total.backward()  # type: ignore[no-untyped-call]
    assert all(p.grad is None or torch.isfinite(p.grad).all() for p in module.parameters())


def test_padding_costs_nothing(config: TrainConfig, tokenizer: Tokenizer, module: Recogniser) -> None:
    batch = batch_of(config, tokenizer, (0, 1))
    with torch.no_grad():
        before = [float(x) for x in module.losses(batch)]
        batch["samples"] = torch.nn.functional.pad(batch["samples"], (0, 8000))
        batch["inputs"] = torch.nn.functional.pad(batch["inputs"], (0, 8), value=7)
        batch["targets"] = torch.nn.functional.pad(batch["targets"], (0, 8), value=IGNORED)
        after = [float(x) for x in module.losses(batch)]
    assert after == pytest.approx(before, rel=1e-5)


def test_text_that_does_not_fit_makes_no_gradient_of_ctc(
    config: TrainConfig, tokenizer: Tokenizer, module: Recogniser
) -> None:
    batch = batch_of(config, tokenizer, (0, 1))
    batch["lengths"] = torch.tensor([400, 40000])  # one frame cannot hold the first text
    _, _, ctc = module.losses(batch)
    ctc.backward()  # type: ignore[no-untyped-call]
    assert torch.isfinite(ctc)
    assert all(p.grad is None or torch.isfinite(p.grad).all() for p in module.parameters())


def test_spec_augment_is_the_stage_s_to_ask_for(config: TrainConfig, tokenizer: Tokenizer, module: Recogniser) -> None:
    batch = batch_of(config, tokenizer, (0, 1))
    module.model.eval()
    module.spec_augment.train()

    def loss() -> float:
        with torch.no_grad():
            return float(module.losses(batch)[0])

    torch.manual_seed(0)
    assert loss() != loss()
    batch["spec_augment"] = False
    assert loss() == loss()


def test_the_learning_rate_rises_in_a_line_and_falls_in_half_a_cosine() -> None:
    factors = [learning_rate_factor(step, 10, 110) for step in range(111)]
    assert factors[:10] == pytest.approx([(step + 1) / 10 for step in range(10)])
    assert factors[10] == pytest.approx(1)
    assert factors[60] == pytest.approx(0.505)
    assert factors[110] == pytest.approx(0.01)
    assert factors[35] == pytest.approx(0.01 + 0.99 * (1 + math.sqrt(0.5)) / 2)
    assert all(a > b for a, b in itertools.pairwise(factors[10:]))
    assert learning_rate_factor(999, 10, 110) == pytest.approx(0.01)
    assert learning_rate_factor(0, 0, 10) == pytest.approx(1)


def test_matrices_decay_and_vectors_do_not(module: Recogniser, config: TrainConfig) -> None:
    made: Any = module.configure_optimizers()
    decaying, others = made["optimizer"].param_groups
    assert decaying["weight_decay"] == config.optimiser.weight_decay
    assert others["weight_decay"] == 0
    assert all(p.ndim >= 2 for p in decaying["params"])
    assert all(p.ndim == 1 for p in others["params"])
    names = {id(p): name for name, p in module.model.named_parameters()}
    assert {names[id(p)].rsplit(".", 1)[1] for p in decaying["params"]} == {"weight"}
    assert len(decaying["params"]) + len(others["params"]) == len(names)
    assert made["optimizer"].param_groups[0]["betas"] == config.optimiser.betas
    assert made["optimizer"].param_groups[0]["lr"] == pytest.approx(config.optimiser.learning_rate / 3)  # warming up


def test_validation_is_score_of_decode(
    config: TrainConfig, tokenizer: Tokenizer, module: Recogniser, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = load(config.data.validation, Path(config.data.cache), "en", "validation")
    logged: dict[str, float] = {}
    monkeypatch.setattr(module, "log", lambda name, value: logged.update({name: value}))
    monkeypatch.setattr(module, "_trainer", type("Alone", (), {"world_size": 1})())
    monkeypatch.setattr(type(module), "trainer", property(lambda self: self._trainer))
    clips = [(packed.samples(i), packed.texts[i]) for i in range(len(packed))]
    module.on_validation_epoch_start()
    module.validation_step(clips[:4], 0)
    module.validation_step(clips[4:], 1)
    module.on_validation_epoch_end()
    backend = TorchBackend(module.model)
    heard = []
    options = SearchOptions(ctc_weight=CTC_WEIGHT)
    for sound, _ in clips:  # one by one, and not in batches
        (hypothesis,) = decode(backend, backend.encode([sound]), [len(sound) / 16000], options)
        heard.append(tokenizer.decode(hypothesis.tokens))
    total = score([text for _, text in clips], heard).total
    assert logged == {"val/wer": total.wer, "val/cer": total.cer}
