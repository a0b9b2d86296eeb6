"""Replay: the averaged recursion on many resamples of the same data.

All resamples walk at the same time, each along its own rows, so that one NumPy call serves all. Nothing more can be
shared, for at any moment each of them looks at another row. (That all look at the same row is the online trick.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from inferl import kernels
from inferl.algorithms.gradient import GradientIncrements
from inferl.bootstrap import OnlineBootstrap
from inferl.errors import DivergenceError, SettingError
from inferl.increments import FieldIncrements, Increments
from inferl.kernels import Foldable
from inferl.rows import Floats, Integers
from inferl.streams import Clock
from inferl.vectors import Sparse, dense

__all__ = ["Draw", "Resample", "Units", "replay"]

WINDOW = 2**20  # row numbers that are looked up at once
STRETCH = 128  # steps whose small numbers are gathered at once

Draw = Callable[[int], Integers]  # k -> the next k units


@dataclass(frozen=True, eq=False)
class Units:
    """What is resampled as a whole: episodes, blocks of a stream, or single transitions.

    >>> episodes = Units(order=np.array([0, 1, 2, 3, 4]), start=np.array([0, 3]), length=np.array([3, 2]))
    >>> episodes.rows(np.array([1, 1, 0]))
    array([3, 4, 3, 4, 0, 1, 2])
    """

    order: Integers  # (T,) rows, unit by unit
    start: Integers  # (E,) place in `order` of a unit's first row
    length: Integers  # (E,)

    @classmethod
    def of(cls, clock: Clock, unit: str | int) -> Units:
        """Find the units of rows with their place in time; those of one stream stand in its order."""
        if unit == "transition":
            return cls(np.arange(len(clock)), np.arange(len(clock)), np.ones(len(clock), np.int64))
        if unit != "episode" and not (isinstance(unit, int) and not isinstance(unit, bool) and unit > 0):
            raise SettingError(f"there is no unit {unit!r}; choose 'episode', 'transition' or the length of a block")
        number = clock.episode if isinstance(unit, str) else (clock.count - 1) // unit
        order = np.lexsort((number, clock.slot))
        slot, number = clock.slot[order], number[order]
        start = np.flatnonzero(np.r_[True, (slot[1:] != slot[:-1]) | (number[1:] != number[:-1])])
        return cls(order, start, np.diff(np.r_[start, len(order)]))

    def __len__(self) -> int:
        return len(self.start)

    def rows(self, drawn: Integers) -> Integers:
        """List the rows of some units, one unit after the other."""
        if len(self) == len(self.order):
            return self.order[drawn]
        length = self.length[drawn]
        before = np.cumsum(length) - length
        rows: Integers = self.order[np.repeat(self.start[drawn] - before, length) + np.arange(length.sum())]
        return rows


class Resample:
    """As many units as there are, drawn one after the other; their rows are handed out a few at a time."""

    def __init__(self, units: Units, draw: Draw) -> None:
        self.units, self.draw = units, draw
        self.left = len(units)
        self.rows = np.zeros(0, np.int64)

    def take(self, n: int) -> Integers:
        """Return the next n rows, or what is left."""
        while len(self.rows) < n and self.left:
            k = min(self.left, 1 + (n - len(self.rows)) * len(self.units) // len(self.units.order))
            self.left -= k
            self.rows = np.concatenate([self.rows, self.units.rows(self.draw(k))])
        taken, self.rows = self.rows[:n], self.rows[n:]
        return taken


def replay(
    increments: Foldable, resamples: Sequence[Resample], lengths: Integers, method: OnlineBootstrap, p: int
) -> Floats:
    """Run the averaged recursion, row 0 of a bootstrap, on every resample of `lengths` (B,) rows: averages (B, p)."""
    if isinstance(increments, FieldIncrements):
        return _replay_field(increments, resamples, lengths, method, p)
    if isinstance(increments, GradientIncrements):
        increments = increments.expanded()
    sparse = isinstance(increments.u, Sparse) and isinstance(increments.v, Sparse)
    walk = _SparseWalk(increments) if sparse else _DenseWalk(increments)
    rank = np.argsort(-lengths, kind="stable")  # the longest first: those that are not over yet stand together
    theta, lag = np.zeros((len(resamples), p)), np.zeros((len(resamples), p))
    cap = method.step_size.cap
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        limit = None if cap is None else cap / increments.scale
        for start, rows in _windows([resamples[b] for b in rank], int(lengths.max())):
            steps = np.arange(start, start + rows.shape[1])
            step_size, mass = method.step_size(steps + 1, np.zeros(len(steps))), method.mass(steps)
            walking = len(resamples) - np.searchsorted(lengths[rank][::-1], steps, side="right")
            edges = np.union1d(np.flatnonzero(np.diff(walking)) + 1, np.arange(0, len(steps), STRETCH))
            for first, end in zip(edges, np.r_[edges[1:], len(steps)], strict=True):
                m = walking[first]
                own = np.ascontiguousarray(rows[:m, first:end].T)
                gain = step_size[first:end, None]
                walk(theta[:m], lag[:m], own, gain if limit is None else np.minimum(gain, limit[own]), mass[first:end])
        averages = np.empty_like(theta)
        averages[rank] = theta - lag / method.mass(lengths[rank])[:, None]
    return _finite(averages, lengths)


def _windows(resamples: Sequence[Resample], longest: int) -> Iterator[tuple[int, Integers]]:
    """Look up the rows (B, window) of all resamples for one window of steps after the other; 0 beyond their ends."""
    window = max(WINDOW // len(resamples), 1)
    for start in range(0, longest, window):
        rows = np.zeros((len(resamples), min(window, longest - start)), np.int64)
        for own, resample in zip(rows, resamples, strict=True):
            taken = resample.take(len(own))
            own[: len(taken)] = taken
        yield start, rows


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


def _replay_field(
    increments: FieldIncrements, resamples: Sequence[Resample], lengths: Integers, method: OnlineBootstrap, p: int
) -> Floats:
    """Walk one resample after the other: the user's function takes one transition at a time."""
    theta, lag = np.zeros((len(resamples), p, 1)), np.zeros((len(resamples), p, 1))
    for b, length in enumerate(lengths.tolist()):
        steps, none = np.arange(length), np.zeros(length, np.int64)
        own = increments[resamples[b].take(length)]
        draws = kernels.Draws(method.multipliers, 0, 0, none, none)
        kernels.fold(theta[b], lag[b], own, method.step_size(steps + 1, own.scale), method.mass(steps), draws)
    with np.errstate(over="ignore", invalid="ignore"):
        return _finite(theta[..., 0] - lag[..., 0] / method.mass(lengths)[:, None], lengths)


def _finite(averages: Floats, lengths: Integers) -> Floats:
    exploded = np.flatnonzero(~np.isfinite(averages).all(axis=1))
    if exploded.size:
        b = int(exploded[0])
        raise DivergenceError(f"resample {b} diverged; use a smaller step size or a smaller cap", int(lengths[b]), b)
    return averages
