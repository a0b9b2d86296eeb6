r"""Segments: sums of scores over long pieces of the data, each with its length.

A segment is a whole stream, a part processed by another evaluator, or a long block. Segments are few enough to be
stored one by one, and nearly independent, so two of them may be merged into a longer one. The pooled estimate

.. math:: \sum_i (G_i - l_i m)^2 / (N - \sum_i l_i^2 / N), \qquad m = \sum_i G_i / N, \qquad N = \sum_i l_i

is the variance rate per step; segments of different lengths are as informative as N^2 / sum l_i^2 equal ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

import numpy as np

from inferl import engine
from inferl.data.arrays import Bools, Floats, InPlace, Integers, lengthened
from inferl.data.invariants import COUNT, bounds, demand, shapes
from inferl.data.streams import MOST_QUIET, Clock
from inferl.data.vectors import Sparse, Vectors

__all__ = ["Segments", "Wholes", "add_rows"]

MIXED = np.uint64(0x9E3779B97F4A7C15)  # an odd multiplier: different labels mostly get different indices
MOST = 256  # segments stored when evaluators are merged, or an epoch ends


@dataclass(eq=False)
class Segments(InPlace):
    """Segments of any lengths."""

    sums: Floats  # (m, p)
    length: Floats  # (m,) in steps, or in episodes

    def verify(self) -> None:
        """Raise for sums without a length."""
        shapes(self, {"sums": "m p", "length": "m"})
        bounds(self, {"length": COUNT})

    @classmethod
    def none(cls, p: int) -> Segments:
        """Start with no segments."""
        return cls(np.zeros((0, p)), np.zeros(0))

    @classmethod
    def joined(cls, parts: Sequence[Segments], most: int = MOST) -> Segments:
        """Join segments; the two shortest are merged until there are at most `most`."""
        sums = np.concatenate([part.sums for part in parts])
        length = np.concatenate([part.length for part in parts])
        if len(length) <= most:
            return cls(sums, length)
        index = _paired(sums, length, 4 * most)
        pieces = list(zip(length[index].tolist(), index.tolist(), strict=True))
        heapify(pieces)
        while len(pieces) > most:
            (one, first), (other, second) = heappop(pieces), heappop(pieces)
            sums[first] += sums[second]
            heappush(pieces, (one + other, first))
        remaining = np.array([index for _, index in pieces])
        return cls(sums[remaining], np.array([length for length, _ in pieces]))

    @property
    def df(self) -> float:
        """Degrees of freedom of the variance between these segments."""
        squares = float(np.sum(self.length**2))
        return float(np.sum(self.length)) ** 2 / squares - 1 if squares > 0 else 0.0

    def residual(self, directions: Floats | None = None) -> Floats:
        """Deviations of the sums from the common mean, along directions (k, p) or for each parameter: (m, k)."""
        along = self.sums if directions is None else self.sums @ directions.T
        return np.asarray(along - self.length[:, None] * (along.sum(axis=0) / np.sum(self.length)))

    def rate(self, directions: Floats | None = None) -> Floats:
        """Variance rate per step, (k,)."""
        df = self.df
        return np.asarray((self.residual(directions) ** 2).sum(axis=0) / (np.sum(self.length) * df / (df + 1)))

    def shifted(self, drift: Floats) -> Segments:
        """Add a vector (p,) for each step."""
        return Segments(self.sums + self.length[:, None] * drift, self.length)

    def widened(self, more: int) -> Segments:
        """Add capacity for more parameters."""
        return Segments(lengthened(self.sums, self.sums.shape[1] + more), self.length)

    def moved(self, index: Integers, capacity: int) -> Segments:
        """Move the parameters to other indices."""
        new = np.zeros((len(self.sums), capacity))
        new[:, index] = self.sums
        return Segments(new, self.length)


def _paired(sums: Floats, length: Floats, most: int) -> Integers:
    """Merge pairs of the shortest segments in place, many at once, while there are more than `most`.

    Return the indices of those that are left. One by one, in order, the same pairs would be merged. Where few are
    equally short, that is quicker.
    """
    left, few = np.arange(len(length)), 0
    while len(left) > most and few < MOST:
        shortest = np.flatnonzero(length[left] == length[left].min())
        if len(shortest) == 1:  # with the next shortest
            longer = np.where(np.arange(len(left)) == shortest[0], np.inf, length[left])
            shortest = np.append(shortest, np.argmin(longer))
        pairs = min(len(shortest) // 2, len(left) - most)
        few += pairs < MOST // 8
        first, second = shortest[0 : 2 * pairs : 2], shortest[1 : 2 * pairs : 2]
        sums[left[first]] += sums[left[second]]
        length[left[first]] += length[left[second]]
        left = np.delete(left, second)
    return left


def add_rows(sums: Floats, row: Integers, x: Vectors) -> None:
    """Add vectors, dense (T, p) or sparse with (T, m) entries, to rows of `sums`, in place and in their order."""
    index, value = (x.index, x.value) if isinstance(x, Sparse) else (None, x)
    use = engine.active()
    use.add_rows(sums, row, index, value, use.threads)


@dataclass(eq=False)
class Wholes(InPlace):
    """Sums of scores over whole streams: the longest possible blocks, and independent of each other.

    A stream is identified by its label, because it may return after its slot has been reused. Labels from `MOST_QUIET`
    on are hashed to `MOST_QUIET` indices; the sum of two streams with the same index is a valid segment too.
    """

    ended: Segments  # of merged evaluators
    index: Integers  # (S,) hashed labels
    sum: Floats  # (S, p)
    length: Integers  # (S,)

    def verify(self) -> None:
        """Raise for shapes that do not fit, and for duplicate indices."""
        shapes(self, {"ended.sums": "m p", "index": "S", "sum": "S p", "length": "S"})
        bounds(self, {"length": COUNT, "index": (0, MOST_QUIET - 1)})
        demand(len(np.unique(self.index)) == len(self.index), "Wholes.index contains an index twice")

    @classmethod
    def empty(cls, p: int) -> Wholes:
        """Start with no streams."""
        return cls.only(Segments.none(p))

    @classmethod
    def only(cls, ended: Segments) -> Wholes:
        """Start with streams that have ended."""
        none = np.zeros(0, np.int64)
        return cls(ended, none, np.zeros((0, ended.sums.shape[1])), none)

    def add(self, scores: Vectors, clock: Clock) -> None:
        """Add scores, dense (T, p) or sparse with (T, m) entries, one by one: no sum depends on chunk borders."""
        row = self._rows(clock.stream)
        add_rows(self.sum, row, scores)
        self.length = self.length + np.bincount(row, minlength=len(self.length))

    def _rows(self, label: Integers) -> Integers:
        """Find the row of each label; append rows for new labels in order of arrival."""
        if len(label) > 1 and (label == label[0]).all():
            return np.repeat(self._rows(label[:1]), len(label))
        mixed = (label.astype(np.uint64) * MIXED >> np.uint64(32)).astype(np.int64) % MOST_QUIET
        index = np.where(label < MOST_QUIET, label, mixed)
        row, known = self._known(index)
        if known.all():
            return row
        new, first = np.unique(index[~known], return_index=True)
        self.index = np.concatenate([self.index, new[np.argsort(first)]])
        self.sum = np.concatenate([self.sum, np.zeros((len(new), self.sum.shape[1]), like=self.sum)])
        self.length = np.concatenate([self.length, np.zeros(len(new), np.int64)])
        return self._known(index)[0]

    def _known(self, index: Integers) -> tuple[Integers, Bools]:
        """Find the row of each index, and whether there is one."""
        if len(self.index) == 0:
            return index, np.zeros(len(index), np.bool_)
        order = np.argsort(self.index)
        row = order[np.minimum(np.searchsorted(self.index, index, sorter=order), len(order) - 1)]
        return row, self.index[row] == index

    def pieces(self) -> Segments:
        """Return all segments, including the current sums of running streams."""
        running = Segments(self.sum, self.length.astype(np.float64))
        return Segments.joined([self.ended, running], most=len(self.ended.length) + len(self.length))

    def shifted(self, drift: Floats) -> Wholes:
        """Add a vector (p,) for each step."""
        return Wholes(self.ended.shifted(drift), self.index, self.sum + self.length[:, None] * drift, self.length)

    def widened(self, more: int) -> Wholes:
        """Add capacity for more parameters."""
        wider = lengthened(self.sum, self.sum.shape[1] + more)
        return Wholes(self.ended.widened(more), self.index, wider, self.length)
