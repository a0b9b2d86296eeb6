"""Constants: whether a linear combination of the features is constant, from the first rows of a stream.

If none is, a part of the value that is the same in all states cannot be expressed. Regressing 1 on the features of the
first rows proves it: where they leave a residual, later rows cannot remove it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from inferl.data.arrays import Floats, Integers
from inferl.data.device import on_host
from inferl.data.invariants import FINITE, bounds, demand, shapes

__all__ = ["ConstantFit"]

ROWS = 256  # that are looked at
MOST = 64  # features; more would fit a constant to so few rows by chance


@dataclass(frozen=True, eq=False)
class ConstantFit:
    """The first rows of the features, and, once there are enough, how well they fit a constant.

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(size=(300, 2))
    >>> f"{ConstantFit().updated(x).residual:.3f}"
    '0.992'
    >>> ConstantFit().updated(np.column_stack([2 - x, x])).residual
    0.0
    """

    rows: Floats = field(default_factory=lambda: np.zeros((0, 0)))  # (k, d), none once there were enough
    residual: float | None = None  # of 1, root mean square; 0: a combination is constant

    def verify(self) -> None:
        """Raise for rows that would not have been kept."""
        sizes = shapes(self, {"rows": "k d"})
        bounds(self, {"rows": FINITE, "residual": (0, 1)})
        demand(sizes["k"] < ROWS and sizes["d"] <= MOST, f"ConstantFit has {sizes['k']} rows of {sizes['d']} features")

    def updated(self, features: Floats | Integers) -> ConstantFit:
        """Return the fit with further rows, vectors (T, d); states of a table, (T,), need none."""
        if self.residual is not None or features.ndim != 2 or not 0 < features.shape[1] <= MOST:
            return self
        new = on_host(features[: ROWS - len(self.rows)])
        rows = np.concatenate([self.rows, new]) if len(self.rows) else np.array(new, np.float64)
        return ConstantFit(rows) if len(rows) < ROWS else ConstantFit(residual=_residual(rows))

    def plus(self, other: ConstantFit) -> ConstantFit:
        """Return the fit of two streams: the one that proves more."""
        return other if (other.residual or -1.0) > (self.residual or -1.0) else self


def _residual(rows: Floats) -> float:
    sizes = np.abs(rows).max(axis=0)
    scaled = rows / np.where(sizes > 0, sizes, 1.0)
    left = 1 - scaled @ np.linalg.lstsq(scaled, np.ones(len(rows)), rcond=None)[0]
    found = float(np.sqrt(np.mean(left**2)))
    return min(found, 1.0) if found > 1e-9 else 0.0
