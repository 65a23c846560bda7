"""Which utterances stand in which batch: a pure function of the seed, so that a resumed run goes on where it stopped.

Batches have few different shapes (durations in half seconds, sizes in multiples of four), since bfloat16 kernels are
compiled anew for every new shape, and that costs more than the padding.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from asr.training.config import DataConfig, Stage
    from asr.training.corpus import Packed
    from audio.augmentation import Augmenter

GRAIN = 0.5  # seconds


@dataclass(frozen=True)
class Batch:
    """One batch of one device."""

    rows: tuple[int, ...]
    speeds: tuple[float, ...]
    seconds: float  # that each utterance is padded to
    seed: tuple[int, ...]  # for the augmentation
    stage: int


class BatchStream:
    """An endless stream of batches through the stages; iterating again starts at `start`.

    Every rank gets batches of the same shape at the same time, so none waits for another.
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

    def __iter__(self) -> Iterator[Batch]:
        skip = self.start
        for stage, settings in enumerate(self.stages):
            left = math.inf if settings.steps is None else settings.steps * self.accumulate
            number = 0  # of the pass
            while left > 0:
                batches = self.plan(stage, number)
                number += 1
                count = int(min(left, len(batches)))
                left -= count
                if skip >= count:
                    skip -= count
                    continue
                yield from batches[skip:count]
                skip = 0

    def plan(self, stage: int, number: int) -> list[Batch]:
        """This rank's batches of one pass over the data, shuffled."""
        rng = np.random.default_rng([self.seed, stage, number])
        settings = self.stages[stage]
        seconds = self.data.seconds()
        rows = np.flatnonzero(seconds <= (settings.max_seconds or math.inf))
        if not len(rows):
            rows = np.argsort(seconds)[:1]
        whole = np.floor(self.data.repeats[rows])
        times = whole + (rng.random(len(rows)) < self.data.repeats[rows] - whole)
        rows = rng.permutation(np.repeat(rows, times.astype(int)))
        if not len(rows):
            rows = np.array([int(np.argmax(self.data.repeats))])
        if settings.augment:
            speeds = np.array([self.augmenter.speed_factor(rng) for _ in rows])
            lengths = np.array([self.augmenter.max_length(self.data.where[r, 2], s) for r, s in zip(rows, speeds, strict=True)])
        else:
            speeds = np.ones(len(rows))
            lengths = self.data.where[rows, 2]
        grains = np.maximum(1, np.ceil(lengths / (16000 * GRAIN)).astype(int))
        groups: list[Batch] = []
        carried = np.zeros(0, int)  # what does not fill a batch goes on to the next longer ones
        longest = int(grains.max())
        for grain in range(1, longest + 1):
            members = np.concatenate([carried, np.flatnonzero(grains == grain)])
            size = self.size(grain * GRAIN)
            step = size * self.world
            full = len(members) // step * step
            carried = members[full:]
            if grain == longest and len(carried):
                fill = rng.choice(members, step - len(carried))
                members, full = np.concatenate([members, fill]), full + step
            for start in range(0, full, step):
                mine = members[start + self.rank * size : start + (self.rank + 1) * size]
                groups.append(
                    Batch(
                        tuple(int(r) for r in rows[mine]),
                        tuple(float(s) for s in speeds[mine]),
                        grain * GRAIN,
                        (self.seed, stage, number, len(groups), self.rank),
                        stage,
                    )
                )
        return [groups[i] for i in rng.permutation(len(groups))]

    def size(self, seconds: float) -> int:
        """Utterances of this duration in a batch: a multiple of four."""
        cost = seconds + seconds**2 / self.config.quadratic_seconds
        return max(4, int(self.config.seconds_per_batch / cost) // 4 * 4)

    def worst(self) -> Batch:
        """The costliest batch that may come: tried first, so that memory runs out at once or never."""
        lengths = self.data.where[:, 2]
        slowest = min((1.0, *(self.augmenter.config.speed_factors if self.augmenter.config.speed_probability else ())))
        longest = max(self.augmenter.max_length(int(n), slowest) for n in lengths)
        seconds = math.ceil(longest / (16000 * GRAIN)) * GRAIN
        best = max((GRAIN * g for g in range(1, round(seconds / GRAIN) + 1)), key=self._cost)
        rows = np.argsort(-lengths)
        rows = rows[lengths[rows] <= best * 16000 * slowest][:1]
        row = int(rows[0]) if len(rows) else int(np.argmin(lengths))
        return Batch((row,) * self.size(best), (1.0,) * self.size(best), best, (self.seed,), len(self.stages) - 1)

    def _cost(self, seconds: float) -> float:
        return self.size(seconds) * (seconds + seconds**2 / self.config.quadratic_seconds)
