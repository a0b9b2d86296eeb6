"""The native backend: the arithmetic in C++; this module only passes arrays to it."""

from __future__ import annotations

import os

import numpy as np

import inferl.engine._native as _native  # "from inferl.engine" would report a circular import if it is missing
from inferl.data.arrays import GATHER, Bools, Floats, Integers, Words
from inferl.data.increments import FieldIncrements, GradientIncrements, Increments
from inferl.data.streams import TILE
from inferl.data.vectors import Sparse, dense
from inferl.engine import reference
from inferl.engine.backend import Draws, Foldable, all_below, expect

__all__ = [
    "add_blocks",
    "add_entries",
    "add_products",
    "add_rows",
    "decaying_sum",
    "evaluate",
    "fold",
    "follow_episodes",
    "instruction_set",
    "largest",
    "squared_norms",
    "subtract_scaled",
    "sum_episodes",
    "sum_segments",
    "sum_words",
    "walk",
]

_LAWS = {"uniform": 0, "as-printed": 0, "two-point": 1, "exponential": 2, "poisson": 3}
_KINDS = {"gtd": 0, "gtd2": 1, "tdc": 2}

if "INFERL_ISA" in os.environ:
    _native.choose(os.environ["INFERL_ISA"])


def instruction_set() -> str:
    """Name of the instruction set in use."""
    return str(_native.chosen())


def fold(
    iterate: Floats,
    average_offset: Floats,
    increments: Foldable,
    step_size: Floats,
    weight_sum: Floats,
    draws: Draws,
    threads: int = 1,
) -> Floats:
    """Fold increments into the iterates; see `backend.Fold`. Threads share the replicas; the bits do not change."""
    law = _LAWS.get(draws.multipliers.law)
    if isinstance(increments, FieldIncrements) or law is None:  # the user's own Python
        return reference.fold(iterate, average_offset, increments, step_size, weight_sum, draws)
    largest = np.empty((-(-len(increments) // TILE), iterate.shape[1]))
    call = (
        iterate,
        average_offset,
        _flat(step_size),
        _flat(weight_sum),
        TILE,
        largest,
        law,
        draws.seed,
        draws.first_replica,
        _whole(draws.tick),
        _whole(draws.stream),
        threads,
    )
    if isinstance(increments, GradientIncrements):
        x = increments
        if isinstance(x.phi, np.ndarray) and isinstance(x.dphi, np.ndarray):
            kind = _KINDS[x.form.kernel]
            data = (_flat(x.phi), _flat(x.dphi), _flat(x.ratio), _flat(x.reward))
            _native.fold_gradient(*call, kind, *data, x.form.auxiliary_step)
            return largest
        increments = x.expanded()
    u, v, c, damped = increments.u, increments.v, increments.c, bool(increments.damping.any())
    if isinstance(u, Sparse) and isinstance(v, Sparse) and not damped:
        entries = (_whole(u.index), _flat(u.value), _whole(v.index), _flat(v.value))
        _native.fold_sparse(*call, *entries, _flat(c))
    elif c.shape[1] == 1 and not damped:
        _native.fold_single(*call, _flat(dense(u)), _flat(dense(v)), _flat(c))
    else:
        _native.fold_dense(*call, _flat(dense(u)), _flat(dense(v)), _flat(c), _flat(increments.damping))
    return largest


def walk(
    iterate: Floats,
    average_offset: Floats,
    increments: Increments,
    rows: Integers,
    lengths: Integers,
    step_size: Floats,
    weight_sum: Floats,
    limit: Floats,
) -> None:
    """Run the averaged recursion on resamples; see `backend.Walk`."""
    u, v, c = increments.u, increments.v, _flat(increments.c)
    damping = increments.damping if increments.damping.any() else np.zeros(0)
    call = (iterate, average_offset, _whole(rows), _whole(lengths), _flat(step_size), _flat(weight_sum), _flat(limit))
    if isinstance(u, Sparse) and isinstance(v, Sparse) and not len(damping):
        entries = (_whole(u.index), _flat(u.value), _whole(v.index), _flat(v.value))
        _native.walk_sparse(*call, *entries, c)
    else:
        _native.walk_dense(*call, _flat(dense(u)), _flat(dense(v)), c, _flat(damping))


def add_products(
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
    """Add products of rows; see `backend.AddProducts`. Threads share the matrix."""
    return _native.add_products(matrix, vector, size, *buffers, waiting, _flat(u), _flat(v), _flat(c), threads)


def add_blocks(
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
    """Form block sums along each stream; see `backend.AddBlocks`. Threads share the parameters, then the matrices."""
    rows = _flat(scores), _whole(slot)
    _native.add_blocks(*rows, half, is_open, gathered, waiting, outer, total, count, threads)


def evaluate(increments: Increments, theta: Floats, threads: int = 1) -> Floats:
    """Evaluate increments at one parameter vector; see `backend.Evaluate`. Threads share the rows."""
    u, v, out = _flat(dense(increments.u)), _flat(dense(increments.v)), np.empty((len(increments), len(theta)))
    _native.evaluate(u, v, _flat(increments.c), _flat(increments.damping), _flat(theta), out, threads)
    return out


def add_entries(
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
    """Add the short blocks of sparse scores, entry by entry; see `backend.AddEntries`."""
    longest = kept_index.shape[1]
    expect(all_below(kept_rows, longest) and all_below(slot, len(kept_rows)))  # before the results are allocated
    closing = int(np.sum((np.bincount(slot, minlength=len(kept_rows)) + kept_rows) // longest))
    sums, closed_by = np.zeros((closing, p)), np.zeros(closing, np.int64)
    _native.add_entries(
        _whole(index),
        _flat(value),
        _whole(slot),
        kept_index,
        kept_value,
        kept_rows,
        outer,
        total,
        count,
        sums,
        closed_by,
    )
    return sums, closed_by


def decaying_sum(add: Floats, decay: Floats, slot: Integers, first: Bools, carried: Floats, most: float) -> Floats:
    """Compute a decaying sum along each stream; see `backend.DecayingSum`."""
    out = np.empty(len(add))
    _native.decaying_sum(_flat(add), _flat(decay), _whole(slot), _bits(first), most, carried, out)
    return out


def sum_episodes(
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
    """Sum scores over episodes; see `backend.SumEpisodes`."""
    closed, which = np.empty((GATHER, sum.shape[1])), np.empty(GATHER, np.int64)
    places = _whole(slot), _whole(episode), _bits(last)
    after, filled, begun = _native.sum_episodes(
        _entries(index), _flat(value), *places, sum, is_open, order, begun, closed, which, row
    )
    return int(after), closed[: int(filled)], which[: int(filled)], int(begun)


def follow_episodes(
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
    """Accumulate returns and weights of episodes; see `backend.FollowEpisodes`."""
    columns = _flat(reward), _flat(discount), _flat(ratio), _whole(slot), _bits(first), _bits(last)
    after, filled = _native.follow_episodes(*columns, most, open, closed, row)
    return int(after), int(filled)


def subtract_scaled(x: Floats, y: Floats, factor: Floats, threads: int = 1) -> Floats:
    """Compute x - factor y row by row; see `backend.SubtractScaled`. Threads share the rows."""
    out = np.empty(x.shape)
    _native.subtract_scaled(_flat(x), _flat(y), _flat(factor), out, threads)
    return out


def squared_norms(x: Floats, threads: int = 1) -> Floats:
    """Compute |x|^2 of each row; see `backend.SquaredNorms`. Threads share the rows."""
    out = np.empty(len(x))
    _native.squared_norms(_flat(x), out, threads)
    return out


def largest(x: Floats, threads: int = 1) -> Floats:
    """Return the largest absolute value of each column; see `backend.LargestOf`. Threads share the rows."""
    out = np.zeros(x.shape[1])
    _native.largest(_flat(x), out, threads)
    return out


def sum_words(words: Words, keys: Words, threads: int = 1) -> Words:
    """Sum the words of each row times their keys; see `backend.SumWords`. Threads share the rows."""
    out = np.empty(len(words), np.uint64)
    _native.sum_words(np.ascontiguousarray(words), keys, out, threads)
    return out


def add_rows(sums: Floats, row: Integers, index: Integers | None, value: Floats, threads: int = 1) -> None:
    """Add rows to rows of sums; see `backend.AddRows`. Threads share the columns."""
    _native.add_rows(sums, _whole(row), _entries(index), _flat(value), threads)


def sum_segments(
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
    """Sum rows over segments of each stream; see `backend.SumSegments`."""
    rows = _entries(index), _flat(value), _whole(slot), _whole(number)
    after, filled, seen = _native.sum_segments(
        *rows, length, stride, open, looked, done, total, squares, means, owner, filled, row
    )
    return int(after), int(filled), int(seen)


def _entries(index: Integers | None) -> Integers:
    return np.zeros(0, np.int64) if index is None else _whole(index)


def _bits(array: Bools) -> Bools:
    return np.ascontiguousarray(array, dtype=np.bool_)


def _whole(array: Integers) -> Integers:
    return np.ascontiguousarray(array, dtype=np.int64)


def _flat(array: Floats) -> Floats:
    return np.ascontiguousarray(array, dtype=np.float64)
