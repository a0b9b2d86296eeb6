"""The seam between the bootstrap and its kernels: what a kernel is given, and what it gives back."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from inferl.algorithms.gradient import GradientIncrements
from inferl.increments import FieldIncrements, Increments
from inferl.multipliers import Multipliers
from inferl.rows import Floats, Integers

__all__ = ["Draws", "Fold", "Foldable"]

Foldable = Increments | GradientIncrements | FieldIncrements


class Draws(NamedTuple):
    """Where the multipliers of T rows come from."""

    multipliers: Multipliers
    seed: int
    first_replica: int
    tick: Integers  # (T,)
    stream: Integers  # (T,)


class Fold(Protocol):
    """Fold T increments into the rows, in place.

    For t = 1..T, in each column:  Delta = step_size_t W_t H_t(iterate),  lag += mass_t Delta,  iterate += Delta.

    `iterate` and `lag` are (p, R): parameters down, the estimate and its replicas across; W is 1 in column 0. `mass`
    (T,) is the sum of the averaging weights before t; with it the weighted average of all iterates is
    iterate - lag / (mass with t included): a summation by parts, so that sparse steps average at the cost of their
    non-zeros. Returns the largest absolute parameter of each column after every tile of rows: (tiles, R); for sparse
    steps, of the parameters that the tile touched.
    """

    def __call__(
        self,
        iterate: Floats,
        lag: Floats,
        increments: Foldable,
        step_size: Floats,
        mass: Floats,
        draws: Draws,
        threads: int = 1,
    ) -> Floats:
        """Fold, and return the largest parameters."""
        ...
