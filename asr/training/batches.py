"""Which utterances stand in which batch: a pure function of the seed, so that a resumed run goes on where it stopped.

Batches have few different shapes (durations in half seconds, sizes in multiples of four where that many fit), since
bfloat16 kernels are compiled anew for every new shape, and that costs more than the padding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from asr.errors import TrainingError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from asr.training.config import DataConfig, Stage
    from asr.training.corpus import Packed
    from audio.augmentation import Augmenter

GRAIN = 8000  # samples: half a second


@dataclass(frozen=True)
class Batch:
    """One batch of one device."""

    rows: tuple[int, ...]
    speeds: tuple[float, ...]
    samples: int  # that each utterance is padded to
    seed: tuple[int, ...]  # for the augmentation
    stage: int


class BatchStream:
    """A stream of batches through the stages, endless if the last stage is; iterating again starts at `start`.

    Every rank gets batches of the same shape at the same time, so none waits for another.
    Raises TrainingError for a stage that no utterance is short enough for.
    """

    def __init__(
        self,
        data: Packed,
        config: DataConfig,
        stages: tuple[Stage, ...],
        augmenter: Augmenter,
        *,
        accumulate: int = 1,
        seed: int = 1,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        self.data, self.config, self.stages, self.augmenter = data, config, stages, augmenter
        self.accumulate, self.seed, self.rank, self.world = accumulate, seed, rank, world
        self.start = 0  # batches (per rank) already used
        self._rows = [self._of_stage(number) for number in range(len(stages))]

    def __iter__(self) -> Iterator[Batch]:
        skip = self.start
        for stage, settings in enumerate(self.stages):
            left = math.inf if settings.steps is None else settings.steps * self.accumulate
            number = 0  # of the pass
            while left > 0:
                batches = self.plan(stage, number)  # for batches to skip too: how many a pass has is up to chance
                number += 1
                count = int(min(left, len(batches)))
                left -= count
                yield from batches[min(skip, count) : count]
                skip = max(0, skip - count)

    def plan(self, stage: int, number: int) -> list[Batch]:
        """This rank's batches of one pass over the data, shuffled. Reads no sound."""
        rng = np.random.default_rng([self.seed, stage, number])
        rows = self._draw(self._rows[stage], rng)
        speeds = np.ones(len(rows))
        samples = self.data.where[rows, 2]
        if self.stages[stage].augment:
            speeds = self.augmenter.speed_factors(rng, len(rows))
            samples = np.ceil(samples / speeds) + 1  # silence around it only where that costs nothing: up to the grain
        grains = np.maximum(1, np.ceil(samples / GRAIN)).astype(int)
        batches: list[Batch] = []
        carried = np.zeros(0, int)  # what does not fill a batch goes on to the next longer ones
        for grain in range(1, int(grains.max()) + 1):
            members = np.concatenate([carried, np.flatnonzero(grains == grain)])
            size = self.size(grain * GRAIN)
            together = size * self.world
            if grain == grains.max():  # the last batch is filled up with some that were there already
                members = np.concatenate([members, rng.choice(members, -len(members) % together)])
            full = len(members) // together * together
            carried = members[full:]
            for start in range(self.rank * size, full, together):
                mine = members[start : start + size]
                seed = (self.seed, stage, number, len(batches), self.rank)
                batches.append(
                    Batch(tuple(rows[mine].tolist()), tuple(speeds[mine].tolist()), grain * GRAIN, seed, stage)
                )
        return [batches[i] for i in rng.permutation(len(batches))]

    def size(self, samples: int) -> int:
        """Utterances of this length in a batch: a multiple of four; fewer if four would be too many, at least one."""
        fit = int(self.config.seconds_per_batch / self._cost(samples))
        return fit // 4 * 4 or max(1, fit)

    def worst(self) -> Batch:
        """The costliest batch that may come: tried first, so that memory runs out at once or never."""
        slowest = min((1.0, *(self.augmenter.config.speed_factors if self.augmenter.config.speed_probability else ())))
        lengths = self.data.where[:, 2]
        longest = math.ceil((lengths.max() / slowest + 1) / GRAIN)
        samples = max((GRAIN * grain for grain in range(1, longest + 1)), key=lambda n: self.size(n) * self._cost(n))
        fitting = np.flatnonzero(lengths <= max(samples, lengths.min()))
        row = max(fitting.tolist(), key=lambda i: len(self.data.texts[i]))  # what is written costs as well
        size = self.size(samples)
        return Batch((row,) * size, (1.0,) * size, samples, (self.seed,), len(self.stages) - 1)

    def _of_stage(self, number: int) -> NDArray[np.int64]:
        longest = self.stages[number].max_seconds or math.inf
        seconds = self.data.seconds()
        rows = np.flatnonzero((seconds <= longest) & (self.data.repeats > 0))
        if not len(rows):
            raise TrainingError(
                f"setting stages.{number}: no utterance of {longest} s or less whose manifest has a repeat above 0; "
                f"the shortest has {seconds.min():.2f} s"
            )
        return rows

    def _draw(self, rows: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
        """Rows of one pass, shuffled: 2.3 of a kind are two, and in three passes of ten another one."""
        repeats = self.data.repeats[rows]
        times = np.floor(repeats + rng.random(len(rows))).astype(int)
        if not times.any():
            times[rng.choice(len(rows), p=repeats / repeats.sum())] = 1
        return rng.permutation(np.repeat(rows, times))

    def _cost(self, samples: int) -> float:
        """In seconds: attention makes long utterances cost more than as many seconds of short ones."""
        seconds = samples / 16000
        return seconds + seconds**2 / self.config.quadratic_seconds
