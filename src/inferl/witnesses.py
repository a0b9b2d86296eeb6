r"""Witnesses: block sums kept as they are, to see how many steps the width of an interval rests on.

Where a few rare and large scores make the variance (a reward in a thousand steps, a ratio that is seldom large, a
branch that is seldom taken), it is known badly, however long the stream. Fourth cumulants add up over a stream as
variances do, so sums over blocks of any length show it along any target::

    decisive steps = (sum of the variances)^2 / (sum of the fourth cumulants)

With rewards that come with a small probability this is about the number of rewards that have come.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from inferl.blocks import Moments
from inferl.rows import Floats, InPlace, Integers, lengthened

__all__ = ["Witnesses", "decisive_steps", "fewer_degrees", "kept_together"]

FEWEST = 32  # blocks; the fourth moment of fewer says little
FEWEST_IN_PART = 16  # of a stream that is merged with others
MOST_PARTS = 64
COVERED = 2 / 3  # share of the steps that blocks must cover, or rare ones may be missed


@dataclass(eq=False)
class Witnesses(InPlace):
    """Sums over blocks of one length."""

    sums: Floats  # (m, p)
    length: int  # of a block

    @classmethod
    def none(cls, p: int) -> Witnesses:
        """Start with no blocks."""
        return cls(np.zeros((0, p)), 1)

    @classmethod
    def of(cls, moments: Moments) -> Witnesses:
        """Take the shortest blocks that have all been gathered and not added up yet.

        Many streams side by side may have none such; then the latest of their longest blocks, whose room has not been
        written over (or was never used: short blocks of sparse scores are not gathered).
        """
        whole = np.flatnonzero((moments.count == 0) & (moments.waiting > 1))
        level = int(whole[0]) if len(whole) else int(np.flatnonzero(moments.blocks > 0).max(initial=0))
        sums = moments.gathered[level, : moments.blocks[level]]
        return cls.none(sums.shape[1]) if np.isnan(sums).any() else cls(sums.copy(), 2**level)

    @property
    def steps(self) -> int:
        """How many they cover."""
        return len(self.sums) * self.length

    def thinned(self) -> Witnesses:
        """Join neighbours as long as enough blocks are left: one part of a merged stream need not be large."""
        if len(self.sums) < 2 * FEWEST:
            return self
        even = self.sums[: len(self.sums) // 2 * 2]
        return Witnesses(even[::2] + even[1::2], 2 * self.length).thinned()

    def widened(self, more: int) -> Witnesses:
        """Add room for more parameters."""
        return Witnesses(lengthened(self.sums, self.sums.shape[1] + more), self.length)

    def moved(self, place: Integers, room: int) -> Witnesses:
        """Write the parameters at other places."""
        new = np.zeros((len(self.sums), room))
        new[:, place] = self.sums
        return Witnesses(new, self.length)


def kept_together(parts: Sequence[Witnesses]) -> tuple[Witnesses, ...]:
    """Keep the parts of separate streams side by side: each has a length and a mean of its own."""
    telling = [part.thinned() for part in parts if len(part.sums) >= FEWEST_IN_PART]
    return tuple(sorted(telling, key=lambda part: -part.steps)[:MOST_PARTS])


def decisive_steps(parts: Sequence[Witnesses], influence: Floats, steps: int) -> Floats:
    """Estimate, for each of k directions (k, p), how many of `steps` steps decide; NaN where nothing can be said."""
    covered = sum(part.steps for part in parts)
    if sum(len(part.sums) for part in parts) < FEWEST or covered < COVERED * steps:
        return np.full(len(influence), np.nan)
    variance, fourth = np.zeros(len(influence)), np.zeros(len(influence))
    all_along = [part.sums @ influence.T for part in parts if len(part.sums)]
    largest = np.max([np.abs(along).max(axis=0) for along in all_along], axis=0)
    size = np.where(largest > 0, largest, 1.0)  # fourth powers of what is left do not overflow
    for along in all_along:
        if len(along):
            along = along / size
            squares = (along - along.mean(axis=0)) ** 2
            own = squares.sum(axis=0)
            variance += own
            fourth += (squares**2).sum(axis=0) - 3 * own**2 / len(squares)
    with np.errstate(divide="ignore", invalid="ignore"):
        decisive = np.where(fourth > 0, variance**2 / fourth, np.inf) * steps / covered
    return np.where(variance > 0, decisive, np.nan)


def fewer_degrees(freedom: Floats, decisive: Floats) -> Floats:
    """Degrees of freedom of a variance that rests on few steps: its relative variance is 2 / freedom + 1 / decisive."""
    known = np.where(np.isnan(decisive), np.inf, decisive)
    return np.asarray(2 / (2 / freedom + 1 / known))
