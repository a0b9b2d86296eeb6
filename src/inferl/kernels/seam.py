"""The seam between the bootstrap and its kernels: what a kernel is given, and what it gives back."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from inferl.algorithms.gradient import GradientIncrements
from inferl.increments import FieldIncrements, Increments
from inferl.multipliers import Multipliers
from inferl.rows import Bools, Floats, Integers

__all__ = ["AddEntries", "Draws", "Fold", "Foldable", "PairUp", "Walk"]

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


class Walk(Protocol):
    """Let resamples walk along rows of their own, in place; the averaged recursion, without multipliers.

    Walker b takes row `rows` (B, T) [b, t] of the increments at its t-th step, up to `lengths` (B,) [b]. With H of that
    row:  Delta = min(step_size_t, limit_row) H(iterate_b),  lag_b += mass_t Delta,  iterate_b += Delta.  `iterate` and
    `lag` are (B, p). `limit` has one entry a row of the increments.
    """

    def __call__(
        self,
        iterate: Floats,
        lag: Floats,
        increments: Increments,
        rows: Integers,
        lengths: Integers,
        step_size: Floats,
        mass: Floats,
        limit: Floats,
    ) -> None:
        """Walk."""
        ...


class PairUp(Protocol):
    """Form block sums of length 1, 2, 4, ... along each stream, in place.

    Row t of `scores` (T, p), of the stream in `slot` t, is a block of level 0. Every block is appended to `gathered`
    (J, room, p) at its level; two of a stream that follow each other make a block of the next level, the first waiting
    in `half` (S, J, p) with its flag in `is_open` (S, J). Starts at `row`, stops before a row if a level is full, and
    returns the row to go on with.
    """

    def __call__(
        self,
        scores: Floats,
        slot: Integers,
        half: Floats,
        is_open: Bools,
        gathered: Floats,
        waiting: Integers,
        row: int,
    ) -> int:
        """Pair up, and return the row to go on with."""
        ...


class AddEntries(Protocol):
    """Add the short blocks of sparse scores to their moments, entry by entry and in place.

    Row t has entries `index` and `value` (T, m) and belongs to the stream in `slot` t. The rows of each stream since
    its last block of 2^L rows are kept in `kept_index`, `kept_value` (S, 2^L, m), `kept_rows` (S,). Where a row closes
    a block of level j < L, the block's outer product (lower triangle) goes into `outer` (L, p, p), its sum into `total`
    (L, p), and `count` (L,) grows. Returns the sums (b, p) of the blocks of 2^L rows that closed, and the rows that
    closed them.
    """

    def __call__(
        self,
        index: Integers,
        value: Floats,
        slot: Integers,
        kept_index: Integers,
        kept_value: Floats,
        kept_rows: Integers,
        outer: Floats,
        total: Floats,
        count: Integers,
        p: int,
    ) -> tuple[Floats, Integers]:
        """Add, and return the longer blocks."""
        ...
