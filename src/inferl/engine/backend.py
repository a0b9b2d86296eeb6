"""Backend: the protocol between methods and the arithmetic. What a backend is given, and what it gives back."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import NamedTuple, Protocol

from inferl.data.arrays import Bools, Floats, Integers
from inferl.data.increments import FieldIncrements, GradientIncrements, Increments
from inferl.engine.multipliers import Multipliers

__all__ = [
    "AddEntries",
    "Backend",
    "DecayingSum",
    "Draws",
    "Fold",
    "Foldable",
    "FollowEpisodes",
    "PairUp",
    "SumEpisodes",
    "Walk",
    "all_below",
    "expect",
]

Foldable = Increments | GradientIncrements | FieldIncrements


def expect(fits: bool) -> None:
    """Refuse arrays that a backend would read or write outside of; each checks once a call, whoever checked before."""
    if not fits:
        raise ValueError("arrays that do not fit together, or numbers that lead outside of them")


def all_below(index: Integers, bound: int) -> bool:
    """Say whether all are valid indices of an array of this length."""
    return index.size == 0 or bool(index.min() >= 0 and index.max() < bound)


class Draws(NamedTuple):
    """Where the multipliers of T rows come from."""

    multipliers: Multipliers
    seed: int
    first_replica: int
    tick: Integers  # (T,)
    stream: Integers  # (T,)


class Fold(Protocol):
    """Fold T increments into the rows, in place.

    For t = 1..T, in each column:  Delta = step_size_t W_t H_t(iterate),  average_offset += weight_sum_t Delta,
    iterate += Delta.

    `iterate` and `average_offset` are (p, R): parameters down, the estimate and its replicas across; W is 1 in column
    0. `weight_sum` (T,) is the sum of the averaging weights before t. The weighted average of all iterates is
    iterate - average_offset / weight_sum, with the weight of t included: a summation by parts, so that sparse steps
    average at the cost of their non-zeros. Returns the largest absolute parameter of each column for every tile of
    rows, (tiles, R): at its edge, or, for sparse steps, of what the tile touched and when it was touched. It
    only serves to see divergence.
    """

    def __call__(
        self,
        iterate: Floats,
        average_offset: Floats,
        increments: Foldable,
        step_size: Floats,
        weight_sum: Floats,
        draws: Draws,
        threads: int = 1,
    ) -> Floats:
        """Fold, and return the largest parameters."""
        ...


class Walk(Protocol):
    """Let resamples walk along rows of their own, in place; the averaged recursion, without multipliers.

    Walker b takes row `rows` (B, T) [b, t] of the increments at its t-th step, up to `lengths` (B,) [b]. With H of that
    row:  Delta = min(step_size_t, limit_row) H(iterate_b),  average_offset_b += weight_sum_t Delta,
    iterate_b += Delta.  `iterate` and `average_offset` are (B, p). `limit` has one entry a row of the increments.
    """

    def __call__(
        self,
        iterate: Floats,
        average_offset: Floats,
        increments: Increments,
        rows: Integers,
        lengths: Integers,
        step_size: Floats,
        weight_sum: Floats,
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


class DecayingSum(Protocol):
    """Let a sum decay along each stream: out_t = carried + add_t,  carried = min(decay_t out_t, `most`).

    Row t belongs to the stream in `slot` t; `carried` (S,) is changed in place, and is 0 where `first` opens an
    episode. Returns out (T,).
    """

    def __call__(
        self, add: Floats, decay: Floats, slot: Integers, first: Bools, carried: Floats, most: float
    ) -> Floats:
        """Run along the rows."""
        ...


class SumEpisodes(Protocol):
    """Add up scores over the episodes of each stream, in place.

    Row t has the scores `value` (T, p), or the entries `index` and `value` (T, m). `sum` (S, p) holds those of open
    episodes, whose numbers are in `is_open` (S,), 0 where there is none. An episode closes at its `last` row, or where
    another begins. Sums of closed ones go to `closed` (room, p). Starts at `row`, stops when there may be no room, and
    returns the row to go on with and the number that closed.
    """

    def __call__(
        self,
        index: Integers | None,
        value: Floats,
        slot: Integers,
        episode: Integers,
        last: Bools,
        sum: Floats,
        is_open: Integers,
        closed: Floats,
        row: int,
    ) -> tuple[int, int]:
        """Add up."""
        ...


class FollowEpisodes(Protocol):
    """Follow the episodes of each stream, in place.

    `open` (S, 5) holds what each has earned; its weight w, the product of its ratios, at most `most`; the product d of
    its discounts; its mean weight, the sum of w_t (d_t - d_{t+1}); and 1 if it is open. Those that close are written to
    `closed` (room, 5), with the row that closed them in place of the 1, or -1 where only the next episode shows it.
    Starts at `row`, stops when there may be no room, and returns the row to go on with and the number that closed.
    """

    def __call__(
        self,
        reward: Floats,
        discount: Floats,
        ratio: Floats,
        slot: Integers,
        first: Bools,
        last: Bools,
        open: Floats,
        closed: Floats,
        most: float,
        row: int,
    ) -> tuple[int, int]:
        """Follow."""
        ...


@dataclass(frozen=True)
class Backend:
    """The arithmetic that an evaluator works with: seven functions on arrays, which agree with the reference to 1e-12.

    A module with functions of these names makes one: ``Backend.of("mine", module)``. `inferl.testing.check_backend`
    compares it with the reference.
    """

    name: str
    fold: Fold
    walk: Walk
    pair_up: PairUp
    add_entries: AddEntries
    decaying_sum: DecayingSum
    sum_episodes: SumEpisodes
    follow_episodes: FollowEpisodes
    threads: int = 1  # that share the replicas of a fold; the bits do not depend on it

    @classmethod
    def of(cls, name: str, module: ModuleType) -> Backend:
        """Collect the functions of a module."""
        functions = ("fold", "walk", "pair_up", "add_entries", "decaying_sum", "sum_episodes", "follow_episodes")
        return cls(name, *(getattr(module, function) for function in functions))
