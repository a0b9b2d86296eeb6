r"""Occupancy: where the stream has been, in 16 to 32 stretches of time, to see how slowly it moves.

Scores can hide a slow stream: they are differences, and look nearly independent while the stream lingers in one corner
of its world. Features cannot. If their means over long stretches differ by more than independent steps would, the
stream is worth fewer steps than it has::

    effective steps of a feature = K x (variance of single steps) / (variance between the means of K stretches)

Stretches double when there are 32 of them, and of a long one only 64 evenly spaced steps are looked at. So the cost is
a few thousand steps, whatever the length of the stream.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from inferl.rows import Floats, InPlace, Integers
from inferl.vectors import Sparse, Vectors

__all__ = ["Occupancy"]

MOST = 32  # stretches
SHORTEST = 8  # steps of a stretch
SEEN = 64  # steps of a stretch that are looked at, at most


@dataclass(eq=False)
class Occupancy(InPlace):
    """Means of the features over stretches of equal length; changed in place."""

    means: Floats  # (MOST, p)
    filled: int  # stretches that are complete
    length: int  # steps of a stretch
    done: int  # steps of the open stretch
    open: Floats  # (p,) sum over the steps of the open stretch that were looked at
    looked: int  # at so many
    total: Floats  # (p,) sum over all steps that were looked at
    squares: Floats  # (p,) of their squares
    seen: int  # all steps that were looked at

    @classmethod
    def empty(cls, p: int) -> Occupancy:
        """Start with nothing seen."""
        return cls(np.zeros((MOST, p)), 0, SHORTEST, 0, np.zeros(p), 0, np.zeros(p), np.zeros(p), 0)

    def add(self, features: Vectors) -> None:
        """Take in rows (T, p), or with (T, m) entries, one after the other: no sum depends on how they are cut."""
        n, row = len(features), 0
        while row < n:
            stride = max(self.length // SEEN, 1)
            if self.done % stride == 0:
                self._look(features, row)
            ahead = min(stride - self.done % stride, self.length - self.done, n - row)
            self.done += ahead
            row += ahead
            if self.done == self.length:
                self._close()

    def _look(self, features: Vectors, row: int) -> None:
        if isinstance(features, Sparse):
            for index, value in zip(features.index[row].tolist(), features.value[row].tolist(), strict=True):
                self.open[index] += value
                self.total[index] += value
                self.squares[index] += value**2
        else:
            x = features[row]
            here = slice(len(x))  # parameters behind the features have none
            self.open[here] += x
            self.total[here] += x
            self.squares[here] += x * x
        self.looked += 1
        self.seen += 1

    def _close(self) -> None:
        self.means[self.filled] = self.open / self.looked
        self.filled += 1
        self.done, self.looked, self.open = 0, 0, np.zeros_like(self.open)
        if self.filled == MOST:
            self._pair_up()

    def _pair_up(self) -> None:
        """Join neighbours to stretches of twice the length."""
        half = self.filled // 2
        self.means[:half] = (self.means[0 : 2 * half : 2] + self.means[1 : 2 * half : 2]) / 2
        self.means[half:] = 0.0
        self.filled, self.length = half, 2 * self.length

    def effective(self) -> float:
        """How many independent steps the stream is worth, by its features together; infinite if nothing varies."""
        if self.filled < MOST // 4:
            return np.inf
        variance = self.squares / self.seen - (self.total / self.seen) ** 2
        varies = variance > 1e-9 * np.maximum(self.squares / self.seen, 1e-300)
        if not varies.any():
            return np.inf
        between = self.means[: self.filled, varies].var(axis=0, ddof=1)
        slowness = float((between / variance[varies]).mean())
        return self.filled / slowness if slowness > 0 else np.inf

    def widened(self, more: int) -> Occupancy:
        """Add room for more parameters."""
        return self.moved(np.arange(len(self.open)), len(self.open) + more)

    def moved(self, place: Integers, room: int) -> Occupancy:
        """Write the parameters at other places."""
        new = Occupancy.empty(room)
        new.means[:, place], new.open[place] = self.means, self.open
        new.total[place], new.squares[place] = self.total, self.squares
        new.filled, new.length, new.done = self.filled, self.length, self.done
        new.looked, new.seen = self.looked, self.seen
        return new

    def joined(self, other: Occupancy) -> Occupancy:
        """Put the stretches of two separate streams behind each other; what is open is dropped."""
        one, two = self.copy(), other.copy()
        for part, length in ((one, two.length), (two, one.length)):
            while part.length < length:
                part._pair_up()
        if one.filled + two.filled >= MOST:
            one._pair_up()
            two._pair_up()
        one.means[one.filled : one.filled + two.filled] = two.means[: two.filled]
        one.filled += two.filled
        one.total, one.squares = one.total + two.total, one.squares + two.squares
        one.seen += two.seen
        one.done, one.looked, one.open = 0, 0, np.zeros_like(one.open)
        return one
