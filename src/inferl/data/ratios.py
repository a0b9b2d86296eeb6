"""Moments and tails of the importance ratios so far: whether they average 1, and whether few steps dominate."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from inferl.data.arrays import Floats, Integers
from inferl.data.invariants import COUNT, bounds, demand, shapes

__all__ = ["RatioSummary"]

TAIL = 32  # bins of the histogram, one per power of 2
SMALL = 10  # the bin just below 1/64; `shares` adds smaller ratios to it
MOST = 64  # blocks; when there are more, their length doubles


@dataclass(frozen=True, eq=False)
class RatioSummary:
    """Moments and tails of the importance ratios, one column per target policy.

    Row i of `tails` counts the ratios in [2^(i - 17), 2^(i - 16)); the first row also smaller and the last larger ones.
    """

    n: int = 0
    total: Floats = field(default_factory=lambda: np.zeros(1))  # (m,)
    squares: Floats = field(default_factory=lambda: np.zeros(1))  # (m,)
    largest: Floats = field(default_factory=lambda: np.zeros(1))  # (m,)
    tails: Integers = field(default_factory=lambda: np.zeros((TAIL, 1), np.int64))  # (TAIL, m)
    discount: float = 0.0  # the largest seen
    # Blocks of steps in order of arrival, for a standard error that allows for dependence.
    length: int = 1  # steps of a block
    marks: Floats = field(default_factory=lambda: np.zeros((1, 1)))  # (K + 1, m) the sum of the ratios at their borders
    open: int = 0  # steps since the last border
    outside: Floats = field(default_factory=lambda: np.zeros(1))  # (m,) sum of merged ratios that are in no block

    def verify(self) -> None:
        """Raise for moments that no ratios can have."""
        vectors = dict.fromkeys(("total", "squares", "largest", "outside"), "m")
        sizes = shapes(self, {**vectors, "tails": f"{TAIL} m", "marks": "K m"})
        bounds(self, {"n": COUNT, "tails": COUNT, "discount": (0, 1), "length": (1, COUNT[1])})
        bounds(self, {"open": (0, self.length - 1)} | dict.fromkeys((*vectors, "marks"), (0, np.inf)))
        demand(0 < sizes["K"] <= MOST + 1, f"RatioSummary has {sizes['K']} borders of blocks")

    def updated(self, ratios: Floats, discounts: Floats) -> RatioSummary:
        """Return the summary with further ratios, (T,) or (T, m), and their discounts."""
        discount = max(self.discount, float(discounts.max()))
        column = ratios if ratios.ndim == 2 else ratios[:, None]
        ones = bool((column == 1).all())
        m = column.shape[1]
        wide = self._coarser(len(self.marks) - 1 + (self.open + len(column)) // self.length)
        marks, outside = wide.marks, wide.outside
        if len(outside) < m:  # the first ratios show the number of policies
            marks, outside = np.zeros((1, m)), np.zeros(m)
        border = slice(wide.length - wide.open, len(column) + 1, wide.length)  # steps up to each new border
        if ones and self._whole:  # on-policy: sums of integers are exact in any order
            more = np.full(m, float(len(column)))
            total, squares = self.total + more, self.squares + more
            running = self.total + np.arange(border.start, border.stop, border.step)[:, None]
        else:
            sums = _running(self.total, column)
            total, squares, running = sums[-1], _running(self.squares, column**2)[-1], sums[border]
        if len(running):
            marks = np.concatenate([marks, np.broadcast_to(running - outside, (len(running), m))])
        return RatioSummary(
            self.n + len(column),
            total,
            squares,
            np.maximum(self.largest, column.max(axis=0)),
            self.tails + (len(column) * TAIL_OF_ONE.repeat(m, axis=1) if ones else _tails(column)),
            discount,
            wide.length,
            marks,
            (wide.open + len(column)) % wide.length,
            outside,
        )

    def _coarser(self, blocks: int) -> RatioSummary:
        """Return the summary with blocks so long, by a power of 2, that `blocks` of the present length make few."""
        return self._joined(1 << (blocks // (MOST + 1)).bit_length())

    def _joined(self, factor: int) -> RatioSummary:
        """Return the summary with blocks of so many present ones."""
        if factor == 1:
            return self
        left = (len(self.marks) - 1) % factor  # complete blocks that become part of the open one
        return replace(
            self,
            length=factor * self.length,
            marks=self.marks[::factor],
            open=self.open + left * self.length,
        )

    @property
    def effective(self) -> Floats:
        """Effective sample size (sum rho)^2 / sum rho^2, as a share of the transitions."""
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            return np.asarray(self.total**2 / (self.n * self.squares))

    @property
    def mean(self) -> Floats:
        """Mean ratio, (m,)."""
        return self.total / max(self.n, 1)

    @property
    def on_policy(self) -> bool:
        """Whether every ratio was 1."""
        return bool((self.total == self.n).all() and (self.squares == self.n).all())

    def shares(self) -> tuple[Floats, Floats]:
        """Return the lower ends of the bins that are not empty, powers of 2, and the share of the steps in each.

        The size of small ratios does not matter: those below 1/64 share a bin, the first, which begins at 0.

        >>> low, share = RatioSummary().updated(np.array([0.001, 0.7, 1.0, 1.5]), np.ones(4)).shares()
        >>> low.tolist(), share[:, 0].tolist()
        ([0.0, 0.015625, 0.03125, 0.0625, 0.125, 0.25, 0.5, 1.0], [0.25, 0.0, 0.0, 0.0, 0.0, 0.0, 0.25, 0.5])
        """
        counts = self.tails.copy()
        counts[SMALL] += counts[:SMALL].sum(axis=0)
        counts[:SMALL] = 0
        first, final = np.flatnonzero(counts.any(axis=1))[[0, -1]]
        rows = np.arange(first, final + 1)
        return np.where(rows == SMALL, 0.0, 2.0 ** (rows - 17)), counts[rows] / counts.sum(axis=0)

    @property
    def distance_from_one(self) -> Floats:
        """Distance between the mean ratio and 1 in standard errors, (m,).

        Given the past, a ratio has mean 1. Its deviations from 1 are then uncorrelated, and the standard error is that
        of independent steps. Where actions were not drawn step by step (one for all visits of a user), it is larger:
        that of blocks, 32 to 64 of them, counts if it is.
        """
        n, mean = max(self.n, 1), self.mean
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            rate = np.maximum(self.squares / n - mean**2, 0.0)
            if len(self.marks) > 2:
                rate = np.maximum(rate, np.diff(self.marks, axis=0).var(axis=0, ddof=1) / self.length)
            distance = np.abs(mean - 1) / np.sqrt(rate / n)
        return np.where(np.abs(mean - 1) > 1e-9, distance, 0.0)

    @property
    def largest_share(self) -> Floats:
        """Share of the largest ratio in the sum of all ratios."""
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            return np.asarray(self.largest / self.total)

    @property
    def _whole(self) -> bool:
        """Whether only whole numbers have been added so far."""
        return bool((self.total % 1 == 0).all() and (self.squares % 1 == 0).all())

    def plus(self, other: RatioSummary) -> RatioSummary:
        """Add the moments of two streams; blocks of `self` continue."""
        length = max(self.length, other.length)
        own, more = (part._joined(length // part.length) for part in (self, other))
        both = RatioSummary(
            self.n + other.n,
            self.total + other.total,
            self.squares + other.squares,
            np.maximum(self.largest, other.largest),
            self.tails + other.tails,
            max(self.discount, other.discount),
            length,
            np.concatenate([more.marks[:-1], more.marks[-1] + own.marks]),
            own.open,
            self.outside + other.total - more.marks[-1],
        )
        return both._coarser(len(both.marks) - 1)


def _running(total: Floats, rows: Floats) -> Floats:
    """Return the sums before and after each row; in any other order the bits would depend on the chunk borders."""
    start = np.broadcast_to(total, (1, rows.shape[1]))
    return np.cumsum(np.concatenate([start, rows]), axis=0)


def _tails(ratios: Floats) -> Integers:
    """Histogram of the ratios (T, m) by power of 2."""
    row = np.clip(np.frexp(ratios)[1] + TAIL // 2, 0, TAIL - 1)
    row[ratios == 0] = 0
    return np.stack([np.bincount(column, minlength=TAIL) for column in row.T], axis=1)


TAIL_OF_ONE = _tails(np.ones((1, 1)))
