"""Moments and tails of the importance ratios so far; from them the checks read whether few steps dominate."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from inferl.data.arrays import Floats, Integers
from inferl.data.invariants import COUNT, bounds, shapes

__all__ = ["RatioSummary"]

TAIL = 32  # bins of the histogram, one per power of 2


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

    def verify(self) -> None:
        """Raise for moments that no ratios can have."""
        shapes(self, {"total": "m", "squares": "m", "largest": "m", "tails": f"{TAIL} m"})
        bounds(self, {"n": COUNT, "tails": COUNT, "discount": (0, 1)})
        bounds(self, dict.fromkeys(("total", "squares", "largest"), (0, np.inf)))

    def updated(self, ratios: Floats, discounts: Floats) -> RatioSummary:
        """Return the summary with further ratios, (T,) or (T, m), and their discounts."""
        discount = max(self.discount, float(discounts.max()))
        column = ratios if ratios.ndim == 2 else ratios[:, None]
        ones = bool((column == 1).all())
        if ones and self._whole:  # on-policy: sums of integers are exact in any order
            more = np.full(column.shape[1], float(len(column)))
            total, squares = self.total + more, self.squares + more
        else:
            total, squares = _added(self.total, column), _added(self.squares, column**2)
        return RatioSummary(
            self.n + len(column),
            total,
            squares,
            np.maximum(self.largest, column.max(axis=0)),
            self.tails + (len(column) * TAIL_OF_ONE.repeat(column.shape[1], axis=1) if ones else _tails(column)),
            discount,
        )

    @property
    def effective(self) -> Floats:
        """Effective sample size (sum rho)^2 / sum rho^2, as a share of the transitions."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(self.total**2 / (self.n * self.squares))

    @property
    def mean(self) -> Floats:
        """Mean ratio, (m,)."""
        return self.total / max(self.n, 1)

    @property
    def distance_from_one(self) -> float:
        """Distance between the mean ratio and 1 in standard errors; the largest over the columns.

        A ratio has conditional mean 1 given the past, so its deviations from 1 are uncorrelated.
        """
        if (self.total == self.n).all():  # on-policy: saves the arithmetic at every interval
            return 0.0
        variance = self.squares / max(self.n, 1) - self.mean**2
        with np.errstate(divide="ignore", invalid="ignore"):
            distance = np.abs(self.mean - 1) / np.sqrt(np.maximum(variance, 0.0) / max(self.n, 1))
        return float(np.max(np.where(np.abs(self.mean - 1) > 1e-9, distance, 0.0)))

    @property
    def largest_share(self) -> Floats:
        """Share of the largest ratio in the sum of all ratios."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(self.largest / self.total)

    @property
    def _whole(self) -> bool:
        """Whether only whole numbers have been added so far."""
        return bool((self.total % 1 == 0).all() and (self.squares % 1 == 0).all())

    def plus(self, other: RatioSummary) -> RatioSummary:
        """Add the moments of two streams."""
        return RatioSummary(
            self.n + other.n,
            self.total + other.total,
            self.squares + other.squares,
            np.maximum(self.largest, other.largest),
            self.tails + other.tails,
            max(self.discount, other.discount),
        )


def _added(total: Floats, rows: Floats) -> Floats:
    """Add rows one after the other; in any other order the bits would depend on the chunk borders."""
    start = np.broadcast_to(total, (1, rows.shape[1]))
    return np.asarray(np.cumsum(np.concatenate([start, rows]), axis=0)[-1])


def _tails(ratios: Floats) -> Integers:
    """Histogram of the ratios (T, m) by power of 2."""
    row = np.clip(np.frexp(ratios)[1] + TAIL // 2, 0, TAIL - 1)
    row[ratios == 0] = 0
    return np.stack([np.bincount(column, minlength=TAIL) for column in row.T], axis=1)


TAIL_OF_ONE = _tails(np.ones((1, 1)))
