"""The reference backend: Algorithm 1 in NumPy, one transition after the other; it needs no compiler.

Iterates are arrays (p, R), parameters down and replicas across, so that the sums of a replica do not depend on the
other replicas. Nothing here calls BLAS, whose order of summation depends on the shape.
"""

from __future__ import annotations

import numpy as np

from inferl.data.arrays import GATHER, Bools, Floats, Integers, Words
from inferl.data.increments import FieldIncrements, GradientIncrements, Increments
from inferl.data.streams import TILE
from inferl.data.vectors import Sparse, dense
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
    "largest",
    "squared_norms",
    "subtract_scaled",
    "sum_episodes",
    "sum_segments",
    "sum_words",
    "walk",
]


def fold(
    iterate: Floats,
    average_offset: Floats,
    increments: Foldable,
    step_size: Floats,
    weight_sum: Floats,
    draws: Draws,
    threads: int = 1,
) -> Floats:
    """Fold increments into the iterates, tile by tile; see `backend.Fold`. It uses one thread."""
    largest = []
    replica = draws.first_replica + np.arange(iterate.shape[1] - 1)
    for start in range(0, len(increments), TILE):
        rows = slice(start, start + TILE)
        gain = np.empty((len(step_size[rows]), iterate.shape[1]))
        gain[:, 0] = step_size[rows]
        multiplier = draws.multipliers.draw(draws.seed, draws.tick[rows], draws.stream[rows], replica)
        gain[:, 1:] = step_size[rows, None] * multiplier.T
        with np.errstate(over="ignore", invalid="ignore"):  # the caller detects divergence
            _fold_tile(iterate, average_offset, increments[rows], gain, weight_sum[rows])
            largest.append(np.abs(iterate).max(axis=0))
    return np.array(largest)


def _fold_tile(iterate: Floats, average_offset: Floats, increments: Foldable, gain: Floats, weight_sum: Floats) -> None:
    if isinstance(increments, GradientIncrements):
        increments = increments.expanded()
    if isinstance(increments, FieldIncrements):
        _fold_field(iterate, average_offset, increments, gain, weight_sum)
    elif isinstance(increments.u, Sparse) and isinstance(increments.v, Sparse):
        _fold_sparse(iterate, average_offset, increments.u, increments.v, increments, gain, weight_sum)
    else:
        _fold_dense(iterate, average_offset, increments, gain, weight_sum)


def _fold_dense(
    iterate: Floats, average_offset: Floats, increments: Increments, gain: Floats, weight_sum: Floats
) -> None:
    u, v, c = dense(increments.u), dense(increments.v), increments.c
    damping = increments.damping[:, None]
    for t in range(len(increments)):
        change = -damping * iterate if damping.any() else np.zeros_like(iterate)
        for k in range(increments.n_terms):
            residual = c[t, k] - np.add.reduce(v[t, k][:, None] * iterate, axis=0)
            change += u[t, k][:, None] * residual
        change *= gain[t]
        average_offset += weight_sum[t] * change
        iterate += change


def _fold_field(
    iterate: Floats, average_offset: Floats, increments: FieldIncrements, gain: Floats, weight_sum: Floats
) -> None:
    for t in range(len(increments)):
        change = gain[t] * increments.at(t, iterate.T.copy()).T  # a copy, because the user's function may write to it
        average_offset += weight_sum[t] * change
        iterate += change


def _fold_sparse(
    iterate: Floats,
    average_offset: Floats,
    u: Sparse,
    v: Sparse,
    increments: Increments,
    gain: Floats,
    weight_sum: Floats,
) -> None:
    """Fold sparse increments; only the parameters that they name are touched."""
    damped = np.flatnonzero(increments.damping)
    damping = increments.damping[damped, None]
    # Plain Python numbers: indexing NumPy scalars costs more than the arithmetic on 200 replicas.
    u_terms, v_terms, constants = _entries(u), _entries(v), increments.c.tolist()
    for t, moment in enumerate(weight_sum.tolist()):
        residuals = []
        for k, entries in enumerate(v_terms[t]):
            residual = constants[t][k]
            for index, value in entries:
                residual = residual - value * iterate[index]
            residuals.append(gain[t] * residual)
        if damped.size:
            change = -gain[t] * damping * iterate[damped]
            average_offset[damped] += moment * change
            iterate[damped] += change
        for residual, entries in zip(residuals, u_terms[t], strict=True):
            for index, value in entries:
                change = value * residual
                average_offset[index] += moment * change
                iterate[index] += change


def _entries(x: Sparse) -> list[list[list[tuple[int, float]]]]:
    """Return the non-zeros of each term of each row."""
    return [
        [
            [(index, value) for index, value in zip(indices, values, strict=True) if value != 0.0]
            for indices, values in zip(row_indices, row_values, strict=True)
        ]
        for row_indices, row_values in zip(x.index.tolist(), x.value.tolist(), strict=True)
    ]


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
    """Add products of rows; see `backend.AddProducts`."""
    capacity = len(buffers[2])
    expect(0 <= waiting < capacity and all(len(buffer) == capacity for buffer in buffers))
    np.maximum(size, np.abs(v).max(axis=0, initial=0.0), out=size)
    for t in range(len(u)):
        for buffer, rows in zip(buffers, (u, v, c), strict=True):
            buffer[waiting] = rows[t]
        waiting = (waiting + 1) % capacity
        if waiting == 0:
            matrix += np.einsum("ti,tj->ij", buffers[0], buffers[1])
            vector += np.einsum("ti,t->i", buffers[0], buffers[2])
            for buffer in buffers:
                buffer[:] = 0.0
    return waiting


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
    """Form block sums along each stream; see `backend.AddBlocks`."""
    n_levels, capacity = gathered.shape[:2]
    expect(capacity > 0 and all_below(waiting, capacity) and all_below(slot, len(half)))
    expect(half.shape[:2] == is_open.shape and len(outer) == len(total) == len(count) == n_levels)
    for g, s in zip(scores, slot.tolist(), strict=True):
        for level in range(n_levels):
            gathered[level, waiting[level]] = g
            waiting[level] += 1
            if waiting[level] == capacity:
                outer[level] += np.tril(np.einsum("gi,gj->ij", gathered[level], gathered[level]))
                total[level] += gathered[level].sum(axis=0)
                count[level] += capacity
                gathered[level], waiting[level] = 0.0, 0
            is_open[s, level] ^= True
            if is_open[s, level]:  # the first half of a block; the second completes it
                half[s, level] = g
                break
            g = half[s, level] + g


def evaluate(increments: Increments, theta: Floats, threads: int = 1) -> Floats:
    """Evaluate increments at one parameter vector; see `backend.Evaluate`."""
    return increments.at(theta)


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
    sums, closed_by = [], []
    longest = kept_index.shape[1]
    expect(longest == 2 ** len(count) and all_below(kept_rows, longest) and all_below(slot, len(kept_rows)))
    expect(all_below(index, p) and all_below(kept_index, p))
    for t, s in enumerate(slot.tolist()):
        kept_index[s, kept_rows[s]] = index[t]
        kept_value[s, kept_rows[s]] = value[t]
        kept_rows[s] += 1
        for level in range(len(count)):
            if kept_rows[s] % 2**level:
                break
            members = slice(kept_rows[s] - 2**level, kept_rows[s])
            places, entries = kept_index[s, members].ravel(), kept_value[s, members].ravel()
            np.add.at(total[level], places, entries)
            row, column = np.meshgrid(places, places, indexing="ij")
            lower = row >= column
            np.add.at(outer[level], (row[lower], column[lower]), np.outer(entries, entries)[lower])
            count[level] += 1
        if kept_rows[s] == longest:
            block = np.zeros(p)
            np.add.at(block, kept_index[s].ravel(), kept_value[s].ravel())
            sums.append(block)
            closed_by.append(t)
            kept_rows[s] = 0
    return np.array(sums).reshape(len(sums), p), np.array(closed_by, np.int64)


def decaying_sum(add: Floats, decay: Floats, slot: Integers, first: Bools, carried: Floats, most: float) -> Floats:
    """Compute a decaying sum along each stream; see `backend.DecayingSum`."""
    expect(all_below(slot, len(carried)))
    out = np.empty(len(add))
    columns = zip(add.tolist(), decay.tolist(), slot.tolist(), first.tolist(), strict=True)
    for t, (more, factor, s, opens) in enumerate(columns):
        out[t] = (0.0 if opens else carried[s]) + more
        carried[s] = min(factor * out[t], most)
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
    expect(all_below(slot, len(sum)) and (index is None or all_below(index, sum.shape[1])))
    closed: list[Floats] = []
    which: list[int] = []

    def close(s: int) -> None:
        closed.append(sum[s].copy())
        which.append(int(order[s]))
        sum[s], is_open[s] = 0.0, 0

    while row < len(slot) and len(closed) + 2 <= GATHER:
        s = int(slot[row])
        if is_open[s] != episode[row]:  # a new episode begins, whether or not `last` ended the previous one
            if is_open[s] > 0:
                close(s)
            is_open[s], order[s] = episode[row], begun
            begun += 1
        if index is None:
            sum[s] += value[row]
        else:
            np.add.at(sum[s], index[row], value[row])
        if last[row]:
            close(s)
        row += 1
    return row, np.array(closed).reshape(len(closed), sum.shape[1]), np.array(which, np.int64), begun


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
    expect(all_below(slot, len(open)) and open.shape[1] == closed.shape[1] == 5 and len(closed) > 1)
    filled = 0

    def close(s: int, at: int) -> None:
        nonlocal filled
        closed[filled] = *open[s, :4], at
        open[s, 4] = 0.0
        filled += 1

    while row < len(slot) and filled + 2 <= len(closed):
        s = int(slot[row])
        if first[row]:
            if open[s, 4] > 0:
                close(s, -1)
            open[s] = 0.0, 1.0, 1.0, 0.0, 1.0
        before = open[s, 2]
        open[s, 1] = min(open[s, 1] * ratio[row], most)
        open[s, 0] += open[s, 2] * reward[row]
        open[s, 2] *= discount[row]
        open[s, 3] += (before - open[s, 2]) * open[s, 1]
        if last[row]:
            close(s, row)
        row += 1
    return row, filled


def subtract_scaled(x: Floats, y: Floats, factor: Floats, threads: int = 1) -> Floats:
    """Compute x - factor y row by row; see `backend.SubtractScaled`."""
    return x - factor[:, None] * y


def squared_norms(x: Floats, threads: int = 1) -> Floats:
    """Compute |x|^2 of each row; see `backend.SquaredNorms`."""
    return np.asarray(np.einsum("tp,tp->t", x, x))


def largest(x: Floats, threads: int = 1) -> Floats:
    """Return the largest absolute value of each column; see `backend.LargestOf`."""
    return np.asarray(np.abs(x).max(axis=0, initial=0.0))


def sum_words(words: Words, keys: Words, threads: int = 1) -> Words:
    """Sum the words of each row times their keys; see `backend.SumWords`."""
    return np.asarray(np.einsum("tm,m->t", words, keys))


def add_rows(sums: Floats, row: Integers, index: Integers | None, value: Floats, threads: int = 1) -> None:
    """Add rows to rows of sums; see `backend.AddRows`."""
    expect(all_below(row, len(sums)) and (index is None or all_below(index, sums.shape[1])))
    if index is None:
        np.add.at(sums[:, : value.shape[1]], row, value)
    else:
        np.add.at(sums, (row[:, None], index), value)


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
    expect(all_below(slot, len(open)) and (index is None or all_below(index, open.shape[1])))
    seen = 0
    while row < len(slot) and filled < len(means):
        s = int(slot[row])
        if (number[row] - 1) % stride == 0:
            at = np.arange(value.shape[1]) if index is None else index[row]
            for sums, x in ((open[s], value[row]), (total, value[row]), (squares, value[row] ** 2)):
                np.add.at(sums, at, x)
            looked[s] += 1
            seen += 1
        done[s] += 1
        if number[row] % length == 0:
            if looked[s]:
                means[filled], owner[filled] = open[s] / looked[s], s
                filled += 1
            open[s], looked[s], done[s] = 0.0, 0, 0
        row += 1
    return row, filled, seen


BATCH = 128  # steps whose entries are gathered at once


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
    sparse = isinstance(increments.u, Sparse) and isinstance(increments.v, Sparse)
    take = _SparseWalk(increments) if sparse else _DenseWalk(increments)
    rank = np.argsort(-lengths, kind="stable")  # the longest first, so that unfinished ones are contiguous
    theta, behind = iterate[rank], average_offset[rank]
    walking = len(lengths) - np.searchsorted(lengths[rank][::-1], np.arange(rows.shape[1]), side="right")
    edges = np.union1d(np.flatnonzero(np.diff(walking)) + 1, np.arange(0, rows.shape[1], BATCH))
    with np.errstate(over="ignore", invalid="ignore"):  # the caller detects divergence
        for first, end in zip(edges, np.r_[edges[1:], rows.shape[1]], strict=True):
            m = walking[first]
            own = np.ascontiguousarray(rows[rank[:m], first:end].T)
            gain = np.minimum(step_size[first:end, None], limit[own])
            take(theta[:m], behind[:m], own, gain, weight_sum[first:end])
    iterate[rank], average_offset[rank] = theta, behind


class _SparseWalk:
    """Steps with sparse increments; only the parameters that they name are touched."""

    def __init__(self, x: Increments) -> None:
        assert isinstance(x.u, Sparse) and isinstance(x.v, Sparse)
        self.c = np.ascontiguousarray(x.c.T)  # (K, T)
        self.damping = x.damping
        # Entries (index, value) of each term, without zeros; the value is None if it is 1 in every row.
        self.updates, self.looks = (
            [
                [
                    (np.ascontiguousarray(index), None if (value == 1).all() else np.ascontiguousarray(value))
                    for index, value in zip(indices, values, strict=True)
                    if value.any()
                ]
                for indices, values in zip(np.moveaxis(y.index, 0, 2), np.moveaxis(y.value, 0, 2), strict=True)
            ]
            for y in (x.u, x.v)
        )

    def __call__(self, theta: Floats, average_offset: Floats, rows: Integers, gain: Floats, weight_sum: Floats) -> None:
        """Take T steps with m resamples; resample b has the parameters theta[b] and uses rows[:, b]."""
        flat, behind = theta.reshape(-1), average_offset.reshape(-1)  # views
        offset = np.arange(len(theta)) * theta.shape[1]
        updates, looks = (
            [
                [(index[rows] + offset, None if value is None else value[rows]) for index, value in entries]
                for entries in of_terms
            ]
            for of_terms in (self.updates, self.looks)
        )
        c = self.c[:, rows]
        damped = np.flatnonzero(self.damping)
        for t, moment in enumerate(weight_sum.tolist()):
            residuals = []
            for constant, entries in zip(c, looks, strict=True):
                residual = constant[t]
                for index, value in entries:
                    seen = flat.take(index[t])
                    residual = residual - (seen if value is None else np.multiply(seen, value[t], out=seen))
                residuals.append(np.multiply(residual, gain[t], out=residual if entries else None))
            if damped.size:
                change = -gain[t][:, None] * self.damping[damped] * theta[:, damped]
                average_offset[:, damped] += moment * change
                theta[:, damped] += change
            for residual, entries in zip(residuals, updates, strict=True):
                for index, value in entries:
                    change = residual if value is None else residual * value[t]
                    flat[index[t]] += change
                    behind[index[t]] += moment * change


class _DenseWalk:
    """Steps with dense increments."""

    def __init__(self, x: Increments) -> None:
        u, v = dense(x.u), dense(x.v)
        self.terms = [(np.ascontiguousarray(u[:, k]), np.ascontiguousarray(v[:, k])) for k in range(x.n_terms)]
        self.c = np.ascontiguousarray(x.c.T)  # (K, T)
        self.damping = x.damping

    def __call__(self, theta: Floats, average_offset: Floats, rows: Integers, gain: Floats, weight_sum: Floats) -> None:
        """Take T steps with m resamples; resample b has the parameters theta[b] and uses rows[:, b]."""
        gathered = np.empty_like(theta)
        c = self.c[:, rows]
        damped = self.damping.any()
        for t, (own, moment) in enumerate(zip(rows, weight_sum.tolist(), strict=True)):
            residuals = []
            for constant, (_, look) in zip(c, self.terms, strict=True):
                look.take(own, axis=0, out=gathered, mode="clip")  # without a mode NumPy copies `out`
                residual = _dots(gathered, theta)
                np.subtract(constant[t], residual, out=residual)
                residual *= gain[t]
                residuals.append(residual)
            if damped:
                change = -gain[t][:, None] * self.damping * theta
                average_offset += moment * change
                theta += change
            for (update, _), residual in zip(self.terms, residuals, strict=True):
                update.take(own, axis=0, out=gathered, mode="clip")
                gathered *= residual[:, None]
                theta += gathered
                gathered *= moment
                average_offset += gathered


def _dots(x: Floats, y: Floats) -> Floats:
    """Return the dot products of rows; `np.vecdot` is the fastest way, where NumPy has it."""
    return np.vecdot(x, y) if hasattr(np, "vecdot") else np.asarray(np.einsum("bp,bp->b", x, y))
