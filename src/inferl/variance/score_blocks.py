"""Batch means of the scores of a nonlinear recursion: their dependence over time, parameter by parameter.

A `Field` has no linear equation, so least squares cannot show whether its interval ignores dependence. Its scores can:
f_t = H(pilot, X_t), summed over blocks of 1, 2, 4, ... steps of a stream. The pilot is fixed for an epoch: it is the
average of row 0 at the start of the epoch. Scores at the moving iterate would hide the dependence, because they add up
to the movement of the iterate.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import floor, log2

import numpy as np

from inferl.data.arrays import Bools, Floats, Integers
from inferl.data.increments import FieldIncrements
from inferl.data.invariants import COUNT, FINITE, bounds, shapes
from inferl.data.streams import TILE, Clock

__all__ = ["ScoreBlocks"]

FIRST_EPOCH = 4 * TILE  # steps used only for the first pilot
FEWEST = 8  # blocks that an epoch should have at its highest level


@dataclass(frozen=True, eq=False)
class ScoreBlocks:
    """Moments of block sums at J levels, of the previous epoch and of the current one."""

    pilot: Floats  # (p,)
    epoch_end: int
    count: Integers  # (2, J) blocks
    total: Floats  # (2, J, p)
    squares: Floats  # (2, J, p)
    half: Floats  # (S, J, p) first half of an open block
    is_open: Bools  # (S, J)

    @classmethod
    def start(cls, pilot: Floats, epoch_end: int = FIRST_EPOCH, levels: int = 0) -> ScoreBlocks:
        """Start an epoch; the first has no levels, because its pilot is not an estimate yet."""
        moments = np.zeros((2, levels, len(pilot)))
        half, is_open = np.zeros((0, levels, len(pilot))), np.zeros((0, levels), np.bool_)
        return cls(pilot, epoch_end, np.zeros((2, levels), np.int64), moments, moments.copy(), half, is_open)

    def verify(self) -> None:
        """Raise for impossible moments."""
        names = {"pilot": "p", "count": "2 J", "total": "2 J p", "squares": "2 J p", "half": "S J p", "is_open": "S J"}
        shapes(self, names)
        bounds(self, {"pilot": FINITE, "epoch_end": (FIRST_EPOCH, COUNT[1]), "count": COUNT, "squares": (0, np.inf)})

    def updated(self, increments: FieldIncrements, clock: Clock) -> ScoreBlocks:
        """Return the blocks with the rows of a tile, or fewer, added."""
        levels = self.count.shape[1]
        if levels == 0:
            return self
        scores = np.array([increments.at(t, self.pilot[None].copy())[0] for t in range(len(increments))])
        more = max(int(clock.slot.max()) + 1 - len(self.half), 0)
        half = np.concatenate([self.half, np.zeros((more, *self.half.shape[1:]))])
        is_open = np.concatenate([self.is_open, np.zeros((more, levels), np.bool_)])
        count, total, squares = self.count.copy(), self.total.copy(), self.squares.copy()
        for g, s in zip(scores, clock.slot.tolist(), strict=True):
            for level in range(levels):
                count[1, level] += 1
                total[1, level] += g
                squares[1, level] += g**2
                is_open[s, level] ^= True
                if is_open[s, level]:  # the first half of a block; the second completes it
                    half[s, level] = g
                    break
                g = half[s, level] + g
        return replace(self, count=count, total=total, squares=squares, half=half, is_open=is_open)

    def next_epoch(self, pilot: Floats) -> ScoreBlocks:
        """Start the next epoch, which ends at twice the number of steps, with a new pilot; open blocks are dropped."""
        levels = 1 + floor(log2(self.epoch_end / FEWEST))
        after, before = ScoreBlocks.start(pilot, 2 * self.epoch_end, levels), self.count.shape[1]
        for name in ("count", "total", "squares"):
            getattr(after, name)[0, :before] = getattr(self, name)[1]
        return after

    @property
    def blocks(self) -> Integers:
        """Number of blocks at each level, (J,)."""
        return np.asarray(self.count.sum(axis=0))

    def rate(self) -> Floats:
        """Variance rate of the block sums: their variance about the mean of their epoch, per step: (J, p)."""
        centred = self.squares - self.total**2 / np.maximum(self.count, 1)[..., None]
        df = np.maximum(self.count - 1, 0).sum(axis=0)
        length = 2.0 ** np.arange(len(df))
        return np.asarray(centred.sum(axis=0) / np.maximum(length * df, 1)[:, None])
