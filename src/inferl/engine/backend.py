"""Backend: the protocol of the arithmetic, one class per function with its arguments and results."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields
from types import ModuleType
from typing import Any, NamedTuple, Protocol

from inferl.data.arrays import Bools, Floats, Integers, Words
from inferl.data.increments import FieldIncrements, GradientIncrements, Increments
from inferl.engine.multipliers import Multipliers

__all__ = [
    "AddBlocks",
    "AddEntries",
    "AddProducts",
    "AddRows",
    "Backend",
    "DecayingSum",
    "Draws",
    "Evaluate",
    "Fold",
    "Foldable",
    "FollowEpisodes",
    "LargestOf",
    "SquaredNorms",
    "SubtractScaled",
    "SumEpisodes",
    "SumSegments",
    "SumWords",
    "Walk",
    "all_below",
    "expect",
]

Foldable = Increments | GradientIncrements | FieldIncrements


def expect(fits: bool) -> None:
    """Raise unless the arrays fit together; a backend checks this on every call, before it reads or writes."""
    if not fits:
        raise ValueError("arrays that do not fit together, or numbers that lead outside of them")


def all_below(index: Integers, bound: int) -> bool:
    """Return whether all are valid indices of an array of this length."""
    return index.size == 0 or bool(index.min() >= 0 and index.max() < bound)


class Draws(NamedTuple):
    """All that determines the multipliers of T rows."""

    multipliers: Multipliers
    seed: int
    first_replica: int
    tick: Integers  # (T,)
    stream: Integers  # (T,)


class Fold(Protocol):
    """Fold T increments into the iterates, in place.

    For t = 1..T, in each column:  Delta = step_size_t W_t H_t(iterate),  average_offset += weight_sum_t Delta,
    iterate += Delta.

    `iterate` and `average_offset` are (p, R): parameters down, the estimate and its replicas across; W is 1 in column
    0. `weight_sum` (T,) is the sum of the averaging weights before t. The weighted average of all iterates is
    iterate - average_offset / weight_sum, with the weight of t included: a summation by parts, so that averaging a
    sparse step costs as much as its non-zeros. Returns the largest absolute parameter of each column for every tile of
    rows, (tiles, R): at the end of the tile, or, for sparse steps, of the parameters that it touched, when it touched
    them. It only serves to detect divergence.
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
    """Run the averaged recursion on B resamples of the rows, in place and without multipliers.

    Resample b uses row `rows` (B, T) [b, t] of the increments at its t-th step, up to `lengths` (B,) [b]. With H of
    that row:  Delta = min(step_size_t, limit_row) H(iterate_b),  average_offset_b += weight_sum_t Delta,
    iterate_b += Delta.  `iterate` and `average_offset` are (B, p). `limit` has one entry per row of the increments.
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
        """Run the recursions."""
        ...


class AddProducts(Protocol):
    """Add u' v to `matrix` (p, p) and u' c to `vector` (p,), in place, in batches of as many rows as the buffers have.

    Rows are `u` and `v` (T, p) and `c` (T,). `buffers` are arrays (G, p), (G, p) and (G,) in which `waiting` rows,
    fewer than G, wait for others; free rows are 0. A batch is a sum of its own, which is then added, so nothing depends
    on how the rows were cut into calls. `size` (p,) becomes the largest |v| of each column. Returns the number of rows
    that wait now.
    """

    def __call__(
        self,
        matrix: Floats,
        vector: Floats,
        size: Floats,
        buffers: tuple[Floats, Floats, Floats],
        waiting: int,
        u: Floats,
        v: Floats,
        c: Floats,
        threads: int = 1,
    ) -> int:
        """Add, and return the number of rows that wait."""
        ...


class AddBlocks(Protocol):
    """Form block sums of length 1, 2, 4, ... along each stream, and add them to their moments, in place.

    Row t of `scores` (T, p), of the stream in slot `slot` [t], is a block of level 0. Two consecutive blocks of a
    stream make a block of the next level; the first of them is kept in `half` (S, J, p), flagged in `is_open` (S, J).
    Every block is appended to `gathered` (J, G, p) at its level; `waiting` (J,) counts them, and is below G. When there
    are G, their outer products (lower triangle) are added to `outer` (J, p, p), their sum to `total` (J, p), and G to
    `count` (J,); free rows of `gathered` are 0.
    """

    def __call__(
        self,
        scores: Floats,
        slot: Integers,
        half: Floats,
        is_open: Bools,
        gathered: Floats,
        waiting: Integers,
        outer: Floats,
        total: Floats,
        count: Integers,
        threads: int = 1,
    ) -> None:
        """Add the blocks."""
        ...


class Evaluate(Protocol):
    """Evaluate dense increments at `theta` (p,): sum over k of u_k (c_k - v_k . theta), minus the damping: (T, p)."""

    def __call__(self, increments: Increments, theta: Floats, threads: int = 1) -> Floats:
        """Evaluate."""
        ...


class AddEntries(Protocol):
    """Add the short blocks of sparse scores to their moments, entry by entry and in place.

    Row t has entries `index` and `value` (T, m) and belongs to the stream in slot `slot` [t]. The rows of each stream
    since its last block of 2^L rows are kept in `kept_index` and `kept_value` (S, 2^L, m), `kept_rows` (S,) of them.
    Where a row closes a block of level j < L, the block's outer product (lower triangle) is added to `outer` (L, p, p),
    its sum to `total` (L, p), and 1 to `count` (L,). Returns the sums (b, p) of the blocks of 2^L rows that closed, and
    the rows that closed them.
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
    """Compute a decaying sum along each stream: out_t = carried + add_t,  carried = min(decay_t out_t, `most`).

    Row t belongs to the stream in slot `slot` [t]; `carried` (S,) is changed in place, and starts from 0 where `first`
    marks a new episode. Returns out (T,).
    """

    def __call__(
        self, add: Floats, decay: Floats, slot: Integers, first: Bools, carried: Floats, most: float
    ) -> Floats:
        """Compute the sums."""
        ...


class SumEpisodes(Protocol):
    """Sum scores over the episodes of each stream, in place.

    Row t has the scores `value` (T, p), or the entries `index` and `value` (T, m). `sum` (S, p) holds the sums of open
    episodes, whose numbers within their stream are in `is_open` (S,), 0 where there is none. An episode closes at its
    `last` row, or where another begins. Over all streams, episodes are numbered from 0 in the order in which they
    begin: `begun` have, and `order` (S,) holds the numbers of the open ones. The call starts at `row` and may stop
    before the end. It returns the next row; the sums (m, p) and the numbers (m,) of the episodes that closed, in the
    order in which they did; and how many have begun.
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
        order: Integers,
        begun: int,
        row: int,
    ) -> tuple[int, Floats, Integers, int]:
        """Sum the scores."""
        ...


class FollowEpisodes(Protocol):
    """Accumulate returns and importance weights of the episodes of each stream, in place.

    `open` (S, 5) holds, for the current episode, its discounted return; its weight w, the product of its ratios, at
    most `most`; the product d of its discounts; its mean weight, the sum of w_t (d_t - d_{t+1}); and 1 if it is open.
    When an episode closes, this is written to `closed` (capacity, 5), with the row that closed it in place of the 1, or
    -1 if only the start of the next episode shows that it ended. The call starts at `row`, stops when `closed` may be
    full, and returns the next row and the number of episodes that closed.
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
        """Accumulate."""
        ...


class SubtractScaled(Protocol):
    """Compute x - factor y for rows `x`, `y` (T, p) and `factor` (T,): (T, p)."""

    def __call__(self, x: Floats, y: Floats, factor: Floats, threads: int = 1) -> Floats:
        """Subtract."""
        ...


class SquaredNorms(Protocol):
    """Compute |x|^2 of each row of `x` (T, p): (T,)."""

    def __call__(self, x: Floats, threads: int = 1) -> Floats:
        """Compute."""
        ...


class LargestOf(Protocol):
    """Return the largest absolute value of each column of `x` (T, p): (p,)."""

    def __call__(self, x: Floats, threads: int = 1) -> Floats:
        """Look at all rows."""
        ...


class SumWords(Protocol):
    """Sum the words (T, m) of each row, each multiplied by its key (m,): (T,). Sums wrap around at 2^64."""

    def __call__(self, words: Words, keys: Words, threads: int = 1) -> Words:
        """Sum."""
        ...


class AddRows(Protocol):
    """Add rows to the sums (S, p), in place and in their order: row t to that of number `row` (T,) [t].

    Row t is the vector `value` (T, m) [t], m at most p, or has the entries `index` and `value` (T, m).
    """

    def __call__(self, sums: Floats, row: Integers, index: Integers | None, value: Floats, threads: int = 1) -> None:
        """Add."""
        ...


class SumSegments(Protocol):
    """Sum rows over segments of `length` steps of each stream, in place; one step of `stride` is looked at.

    Row t is step `number` [t], counted from 1, of the stream in slot `slot` [t]; its vector is as in `AddRows`. Steps
    1, 1 + stride, ... are added to `open` (S, p), and they and their squares to `total` and `squares` (p,). `looked`
    (S,) counts those in the open segment, `done` (S,) all its steps. Where the number is a multiple of the length, the
    segment closes: its mean is written to `means` (m, p), its slot to `owner` (m,), both after the `filled` ones. The
    call starts at `row`, stops when m are filled, and returns the next row, how many are filled, and how many steps
    were looked at. Length and stride are powers of two.
    """

    def __call__(
        self,
        index: Integers | None,
        value: Floats,
        slot: Integers,
        number: Integers,
        length: int,
        stride: int,
        open: Floats,
        looked: Integers,
        done: Integers,
        total: Floats,
        squares: Floats,
        means: Floats,
        owner: Integers,
        filled: int,
        row: int,
    ) -> tuple[int, int, int]:
        """Sum."""
        ...


@dataclass(frozen=True)
class Backend:
    """The arithmetic of an evaluator: functions on arrays that agree with the reference to 1e-12.

    A backend with a `device` gets vectors that are there (`inferl.data.device`), and so are the sums that it changes.

    ``Backend.of("mine", module)`` makes one of a module with functions of these names. `inferl.testing.check_backend`
    compares it with the reference.
    """

    name: str
    fold: Fold
    walk: Walk
    add_products: AddProducts
    add_blocks: AddBlocks
    evaluate: Evaluate
    add_entries: AddEntries
    decaying_sum: DecayingSum
    sum_episodes: SumEpisodes
    follow_episodes: FollowEpisodes
    subtract_scaled: SubtractScaled
    squared_norms: SquaredNorms
    largest: LargestOf
    sum_words: SumWords
    add_rows: AddRows
    sum_segments: SumSegments
    threads: int = 1  # that share the work; results do not depend on it
    device: str | None = None  # where vectors are; None: the host
    run: int = 2**18  # feature values that are processed at once, times the threads

    @classmethod
    def of(cls, name: str, module: ModuleType, **options: Any) -> Backend:
        """Collect the functions of a module."""
        functions = [field.name for field in fields(cls) if field.default is MISSING][1:]
        return cls(name, *(getattr(module, function) for function in functions), **options)
