"""A toy method, whole: the batch-means interval of the mean reward. One file and one registration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from inferl.data.arrays import Floats
from inferl.methods import Method, NormalReading, register

BATCH = 32  # steps


@dataclass(frozen=True, eq=False)
class Batches:
    closed: Floats  # number, sum and sum of squares of the means of closed batches
    open: Floats  # steps and sum of the batch that is open
    n: int


@register("batch-means")
@dataclass(frozen=True)
class BatchMeans(Method):
    """The mean reward per step, whatever the target; batches of 32 steps are taken to be independent."""

    stores = (Batches,)

    def init(self, algorithm: Any) -> Batches:
        return Batches(np.zeros(3), np.zeros(2), 0)

    def advance(self, algorithm: Any, state: Batches, steps: Any, increments: Any, clock: Any) -> Batches:
        closed, (size, total) = state.closed.copy(), state.open.tolist()
        for reward in steps.data.rewards.tolist():
            size, total = size + 1, total + reward
            if size == BATCH:
                closed += [1, total / BATCH, (total / BATCH) ** 2]
                size, total = 0.0, 0.0
        return Batches(closed, np.array([size, total]), state.n + len(steps))

    def read(self, algorithm: Any, state: Batches, rows: Floats, jointly: bool = False) -> NormalReading:
        (count, total, squares), ones = state.closed.tolist(), np.ones(len(rows))
        mean = (BATCH * total + state.open[1]) / max(state.n, 1)
        variance = max(squares - total**2 / count, 0.0) / (count * (count - 1)) if count > 1 else np.inf
        return NormalReading(mean * ones, np.sqrt(variance) * ones, max(count - 1, 1.0), state.n)

    def merge(self, states: Sequence[Batches]) -> Batches:
        sums = [np.sum([getattr(state, name) for state in states], axis=0) for name in ("closed", "open", "n")]
        return Batches(sums[0], sums[1], int(sums[2]))
