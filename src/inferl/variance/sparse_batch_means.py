r"""Batch means of sparse scores: short dyadic blocks entry by entry, long ones as dense vectors.

A one-hot score has one non-zero entry. A block of 2^j rows has at most 2^j, and its outer product 4^j, for a table of
any size. Up to the level where blocks are no longer sparse, entries are added one by one (compiled); above it, sums of
2^j rows go through the dense `Cascade`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log2

import numpy as np

from inferl import engine
from inferl.data.arrays import Floats, InPlace, Integers
from inferl.data.invariants import bounds, demand, shapes
from inferl.data.streams import Clock
from inferl.data.vectors import Sparse
from inferl.variance.batch_means import Cascade, Moments

__all__ = ["SparseCascade"]

DENSE = 8  # a block with more than one entry per `DENSE` parameters is stored as a dense vector


@dataclass(eq=False)
class SparseCascade(InPlace):
    """Dyadic blocks along each stream, of scores with `m` entries per row."""

    short: Moments  # levels 0 .. L - 1, of blocks of fewer than 2^L rows; never buffered
    long: Cascade  # levels L, L + 1, ...
    index: Integers  # (S, 2^L, m) entries of the rows since the last block of 2^L rows closed
    value: Floats  # (S, 2^L, m)
    rows: Integers  # (S,) number of these rows

    def verify(self) -> None:
        """Raise for indices outside the parameters, and for more rows than a block has."""
        shared = {"short.gathered": "L 0 p", "long.moments.total": "J p"}
        sizes = shapes(self, {**shared, "index": "S T m", "value": "S T m", "rows": "S"})
        demand(
            sizes["L"] < 32 and sizes["T"] == 2 ** sizes["L"], f"blocks have {sizes['T']} rows at {sizes['L']} levels"
        )
        bounds(self, {"index": (0, max(sizes["p"] - 1, 0)), "rows": (0, sizes["T"] - 1)})

    @classmethod
    def empty(cls, n_levels: int, p: int, m: int) -> SparseCascade:
        """Start with no blocks and no streams."""
        n_short = min(max(ceil(log2(max(p, 1) / (DENSE * m))), 0), n_levels - 1)
        none = np.zeros((0, 2**n_short, m))
        return cls(
            Moments.empty(n_short, p, gather=0),
            Cascade.empty(n_levels - n_short, p),
            none.astype(np.int64),
            none,
            np.zeros(0, np.int64),
        )

    @property
    def moments(self) -> Moments:
        """Moments of all levels together."""
        return Moments.stacked(self.short, self.long.moments)

    def next_epoch(self, n_levels: int) -> SparseCascade:
        """Start an epoch with new moments; open blocks are dropped."""
        return SparseCascade.empty(n_levels, self.short.total.shape[1], self.index.shape[2])

    def add(self, scores: Sparse, clock: Clock) -> None:
        """Add scores with (T, m) entries."""
        new = int(clock.slot.max(initial=-1)) + 1 - len(self.rows)
        if new > 0:
            more = np.zeros((new, *self.index.shape[1:]))
            self.index = np.concatenate([self.index, more.astype(np.int64)])
            self.value = np.concatenate([self.value, more])
            self.rows = np.concatenate([self.rows, np.zeros(new, np.int64)])
        sums, closed_by = engine.active().add_entries(
            scores.index,
            scores.value,
            clock.slot,
            self.index,
            self.value,
            self.rows,
            self.short.outer,
            self.short.total,
            self.short.count,
            self.short.total.shape[1],
        )
        if len(sums):
            self.long.add(sums, clock.slot[closed_by])

    def widened(self, more: int) -> SparseCascade:
        """Add capacity for more parameters."""
        return SparseCascade(self.short.widened(more), self.long.widened(more), self.index, self.value, self.rows)
