"""The reference walk of resamples, in NumPy.

All walk at the same time, each along its own rows, so that one NumPy call serves all.
"""

from __future__ import annotations

import numpy as np

from inferl.increments import Increments
from inferl.rows import Floats, Integers
from inferl.vectors import Sparse, dense

__all__ = ["walk"]

STRETCH = 128  # steps whose small numbers are gathered at once


def walk(
    iterate: Floats,
    lag: Floats,
    increments: Increments,
    rows: Integers,
    lengths: Integers,
    step_size: Floats,
    mass: Floats,
    limit: Floats,
) -> None:
    """Let resamples walk along rows of their own; see `seam.Walk`."""
    sparse = isinstance(increments.u, Sparse) and isinstance(increments.v, Sparse)
    take = _SparseWalk(increments) if sparse else _DenseWalk(increments)
    rank = np.argsort(-lengths, kind="stable")  # the longest first: those that are not over yet stand together
    theta, behind = iterate[rank], lag[rank]
    walking = len(lengths) - np.searchsorted(lengths[rank][::-1], np.arange(rows.shape[1]), side="right")
    edges = np.union1d(np.flatnonzero(np.diff(walking)) + 1, np.arange(0, rows.shape[1], STRETCH))
    with np.errstate(over="ignore", invalid="ignore"):  # an exploded resample is the caller's to find
        for first, end in zip(edges, np.r_[edges[1:], rows.shape[1]], strict=True):
            m = walking[first]
            own = np.ascontiguousarray(rows[rank[:m], first:end].T)
            gain = np.minimum(step_size[first:end, None], limit[own])
            take(theta[:m], behind[:m], own, gain, mass[first:end])
    iterate[rank], lag[rank] = theta, behind


class _SparseWalk:
    """Steps that touch only the parameters that a row names."""

    def __init__(self, x: Increments) -> None:
        assert isinstance(x.u, Sparse) and isinstance(x.v, Sparse)
        self.c = np.ascontiguousarray(x.c.T)  # (K, T)
        self.damping = x.damping
        # For each term its entries: where, and how much; None: 1 in every row. Zeros are left out.
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

    def __call__(self, theta: Floats, lag: Floats, rows: Integers, gain: Floats, mass: Floats) -> None:
        """Take steps (T, m): resample b, which has the parameters theta[b], that of its own rows[:, b]."""
        flat, behind = theta.reshape(-1), lag.reshape(-1)  # views
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
        for t, moment in enumerate(mass.tolist()):
            rests = []
            for constant, entries in zip(c, looks, strict=True):
                rest = constant[t]
                for index, value in entries:
                    seen = flat.take(index[t])
                    rest = rest - (seen if value is None else np.multiply(seen, value[t], out=seen))
                rests.append(np.multiply(rest, gain[t], out=rest if entries else None))
            if damped.size:
                change = -gain[t][:, None] * self.damping[damped] * theta[:, damped]
                lag[:, damped] += moment * change
                theta[:, damped] += change
            for rest, entries in zip(rests, updates, strict=True):
                for index, value in entries:
                    change = rest if value is None else rest * value[t]
                    flat[index[t]] += change
                    behind[index[t]] += moment * change


class _DenseWalk:
    """Steps that touch all parameters."""

    def __init__(self, x: Increments) -> None:
        u, v = dense(x.u), dense(x.v)
        self.terms = [(np.ascontiguousarray(u[:, k]), np.ascontiguousarray(v[:, k])) for k in range(x.n_terms)]
        self.c = np.ascontiguousarray(x.c.T)  # (K, T)
        self.damping = x.damping

    def __call__(self, theta: Floats, lag: Floats, rows: Integers, gain: Floats, mass: Floats) -> None:
        """Take steps (T, m): resample b, which has the parameters theta[b], that of its own rows[:, b]."""
        gathered = np.empty_like(theta)
        c = self.c[:, rows]
        damped = self.damping.any()
        for t, (own, moment) in enumerate(zip(rows, mass.tolist(), strict=True)):
            rests = []
            for constant, (_, look) in zip(c, self.terms, strict=True):
                look.take(own, axis=0, out=gathered, mode="clip")  # without a mode NumPy works on a copy of `out`
                rest = _dots(gathered, theta)
                np.subtract(constant[t], rest, out=rest)
                rest *= gain[t]
                rests.append(rest)
            if damped:
                change = -gain[t][:, None] * self.damping * theta
                lag += moment * change
                theta += change
            for (update, _), rest in zip(self.terms, rests, strict=True):
                update.take(own, axis=0, out=gathered, mode="clip")
                gathered *= rest[:, None]
                theta += gathered
                gathered *= moment
                lag += gathered


def _dots(x: Floats, y: Floats) -> Floats:
    """Dot products of rows; `np.vecdot` is the fastest, where there is one."""
    return np.vecdot(x, y) if hasattr(np, "vecdot") else np.asarray(np.einsum("bp,bp->b", x, y))
