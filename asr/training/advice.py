"""Settings that may be, but from which little is learnt: each is told in one line before the training begins."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from asr.tokenizer import Tokenizer
    from asr.training.batches import BatchStream
    from asr.training.config import TrainConfig
    from asr.training.corpus import Packed

RARE = 10  # times: a piece that comes less often in the training texts is hardly learnt
MANY = 1000  # passes: a small corpus wants some two hundred


def advice(config: TrainConfig, training: Packed, tokenizer: Tokenizer, stream: BatchStream) -> Iterator[str]:
    """What to say, a line each."""
    steps, warmup = config.steps, config.optimiser.warmup_steps
    if warmup >= steps:
        yield (
            f"setting optimiser.warmup_steps: {warmup} of {steps} steps, so the learning rate rises to the end and "
            f"little is learnt; leave it out, or use {max(1, steps // 10)}"
        )
    begun = 0
    for number, stage in enumerate(config.stages[:-1]):
        begun += stage.steps or 0
        if begun >= steps:
            yield f"setting stages.{number + 1}: the run ends after {steps} steps, before this stage begins"
            break
    if config.start_from is None:
        yield from _vocabulary(config, training, tokenizer)
    passes = steps * config.optimiser.accumulate / len(stream.plan(len(config.stages) - 1, 0))
    if passes < 1:
        yield f"setting steps: {steps} come to {passes:.2f} passes over the training data: not all of it is heard"
    elif passes > MANY:
        yield (
            f"setting steps: {steps} come to {passes:.0f} passes over the training data, which is learnt by heart long "
            f"before; try {max(1, round(200 * steps / passes))}"
        )


def _vocabulary(config: TrainConfig, training: Packed, tokenizer: Tokenizer) -> Iterator[str]:
    asked, real = config.vocab_size, tokenizer.vocab_size
    if real < asked:
        yield (
            f"setting vocab_size: the vocabulary has {real} pieces and not {asked}, since no others come twice in the "
            "training texts"
        )
    times = sum(len(tokenizer.encode(text)) for text in training.texts) / real
    if times < RARE and real > 40:
        yield (
            f"setting vocab_size: each of the {real} pieces comes {times:.1f} times in the training texts on average; "
            "from so little text fewer are learnt sooner: try 40"
            + (", and model.halve_after=0 for as many places as letters need" if config.model.halves else "")
        )
