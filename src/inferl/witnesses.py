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

__all__ = ["Witnesses", "decisive_steps"]

FEWEST = 32  # blocks; the fourth moment of fewer says little


@dataclass(eq=False)
class Witnesses(InPlace):
    """Sums over blocks of one length, centred about their mean."""

    sums: Floats  # (m, p)
    steps: int  # that they cover

    @classmethod
    def none(cls, p: int) -> Witnesses:
        """Start with no blocks."""
        return cls(np.zeros((0, p)), 0)

    @classmethod
    def of(cls, moments: Moments) -> Witnesses:
        """Take the shortest blocks that are all still there one by one, none of them added to the moments."""
        whole = np.flatnonzero((moments.count == 0) & (moments.waiting > 1))
        if not len(whole):
            return cls.none(moments.total.shape[1])
        level = int(whole[0])
        sums = moments.gathered[level, : moments.waiting[level]]
        return cls(sums - sums.mean(axis=0), len(sums) << level)

    def widened(self, more: int) -> Witnesses:
        """Add room for more parameters."""
        return Witnesses(lengthened(self.sums, self.sums.shape[1] + more), self.steps)

    def moved(self, place: Integers, room: int) -> Witnesses:
        """Write the parameters at other places."""
        new = np.zeros((len(self.sums), room))
        new[:, place] = self.sums
        return Witnesses(new, self.steps)


def decisive_steps(parts: Sequence[Witnesses], influence: Floats, steps: int) -> Floats:
    """Estimate, for each of k directions (k, p), how many of `steps` steps decide, from those that are witnessed."""
    variance, fourth = np.zeros(len(influence)), np.zeros(len(influence))
    covered = sum(part.steps for part in parts)
    if sum(len(part.sums) for part in parts) < FEWEST:
        return np.full(len(influence), np.inf)
    for part in parts:
        if len(part.sums):
            squares = (part.sums @ influence.T) ** 2
            own = squares.sum(axis=0)
            variance += own
            fourth += (squares**2).sum(axis=0) - 3 * own**2 / len(squares)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(fourth > 0, variance**2 / fourth, np.inf)
    return np.asarray(share * steps / covered)
