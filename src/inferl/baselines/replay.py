"""Replay: the averaged recursion on many resamples of the same data.

Each resample processes its own rows, by `Backend.walk`. Nothing can be shared, because at any step each resample is at
a different row. (The online bootstrap is fast because all replicas are at the same row.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from inferl import engine
from inferl.data.arrays import Floats, Integers
from inferl.data.increments import FieldIncrements, GradientIncrements
from inferl.data.streams import Clock
from inferl.engine import Foldable
from inferl.errors import DivergenceError, SettingError
from inferl.methods.bootstrap import OnlineBootstrap

__all__ = ["Draw", "Resample", "Units", "replay"]

WINDOW = 2**20  # row numbers that are computed at once

Draw = Callable[[int], Integers]  # k -> the next k units


@dataclass(frozen=True, eq=False)
class Units:
    """The units of resampling: episodes, blocks of a stream, or single transitions.

    >>> episodes = Units(order=np.array([0, 1, 2, 3, 4]), start=np.array([0, 3]), length=np.array([3, 2]))
    >>> episodes.rows(np.array([1, 1, 0]))
    array([3, 4, 3, 4, 0, 1, 2])
    """

    order: Integers  # (T,) rows, unit by unit
    start: Integers  # (E,) index in `order` of the first row of a unit
    length: Integers  # (E,)

    @classmethod
    def of(cls, clock: Clock, unit: str | int) -> Units:
        """Find the units of rows from their positions in time; units of one stream are in its order."""
        if unit == "transition":
            return cls(np.arange(len(clock)), np.arange(len(clock)), np.ones(len(clock), np.int64))
        if unit != "episode" and not (isinstance(unit, int) and not isinstance(unit, bool) and unit > 0):
            raise SettingError(f"unit is {unit!r}; choose 'episode', 'transition' or the length of a block")
        number = clock.episode if isinstance(unit, str) else (clock.count - 1) // unit
        order = np.lexsort((number, clock.slot))
        slot, number = clock.slot[order], number[order]
        start = np.flatnonzero(np.r_[True, (slot[1:] != slot[:-1]) | (number[1:] != number[:-1])])
        return cls(order, start, np.diff(np.r_[start, len(order)]))

    def __len__(self) -> int:
        return len(self.start)

    def rows(self, drawn: Integers) -> Integers:
        """Rows of some units, unit by unit."""
        if len(self) == len(self.order):
            return self.order[drawn]
        length = self.length[drawn]
        before = np.cumsum(length) - length
        rows: Integers = self.order[np.repeat(self.start[drawn] - before, length) + np.arange(length.sum())]
        return rows


class Resample:
    """One resample: as many units as in the data, drawn one by one; their rows are returned a few at a time."""

    def __init__(self, units: Units, draw: Draw) -> None:
        self.units, self.draw = units, draw
        self.left = len(units)
        self.rows = np.zeros(0, np.int64)

    def take(self, n: int) -> Integers:
        """Return the next n rows, or the remaining ones."""
        while len(self.rows) < n and self.left:
            k = min(self.left, 1 + (n - len(self.rows)) * len(self.units) // len(self.units.order))
            self.left -= k
            self.rows = np.concatenate([self.rows, self.units.rows(self.draw(k))])
        head, self.rows = self.rows[:n], self.rows[n:]
        return head


def replay(
    increments: Foldable, resamples: Sequence[Resample], lengths: Integers, method: OnlineBootstrap, p: int
) -> Floats:
    """Run the averaged recursion, row 0 of a bootstrap, on every resample of `lengths` (B,) rows: averages (B, p)."""
    if isinstance(increments, FieldIncrements):
        return _replay_field(increments, resamples, lengths, method, p)
    if isinstance(increments, GradientIncrements):
        increments = increments.expanded()
    theta, average_offset = np.zeros((len(resamples), p)), np.zeros((len(resamples), p))
    cap = method.given_step_size.cap
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        limit = np.full(len(increments), np.inf) if cap is None else cap / increments.scale
        for start, rows in _windows(resamples, int(lengths.max())):
            steps = np.arange(start, start + rows.shape[1])
            step_size, weight_sum = method.given_step_size(steps + 1, np.zeros(len(steps))), method.weight_sum(steps)
            left = np.clip(lengths - start, 0, len(steps))
            engine.active().walk(theta, average_offset, increments, rows, left, step_size, weight_sum, limit)
        averages = theta - average_offset / method.weight_sum(lengths)[:, None]
    return _finite(averages, lengths)


def _windows(resamples: Sequence[Resample], longest: int) -> Iterator[tuple[int, Integers]]:
    """Yield the rows (B, window) of all resamples, window by window; 0 beyond their ends."""
    window = max(WINDOW // len(resamples), 1)
    for start in range(0, longest, window):
        rows = np.zeros((len(resamples), min(window, longest - start)), np.int64)
        for own, resample in zip(rows, resamples, strict=True):
            drawn = resample.take(len(own))
            own[: len(drawn)] = drawn
        yield start, rows


def _replay_field(
    increments: FieldIncrements, resamples: Sequence[Resample], lengths: Integers, method: OnlineBootstrap, p: int
) -> Floats:
    """Run one resample at a time: the user's function takes one transition."""
    theta, average_offset = np.zeros((len(resamples), p, 1)), np.zeros((len(resamples), p, 1))
    for b, length in enumerate(lengths.tolist()):
        steps, none = np.arange(length), np.zeros(length, np.int64)
        own = increments[resamples[b].take(length)]
        draws = engine.Draws(method.multipliers, 0, 0, none, none)
        engine.active().fold(
            theta[b],
            average_offset[b],
            own,
            method.given_step_size(steps + 1, own.scale),
            method.weight_sum(steps),
            draws,
        )
    with np.errstate(over="ignore", invalid="ignore"):
        return _finite(theta[..., 0] - average_offset[..., 0] / method.weight_sum(lengths)[:, None], lengths)


def _finite(averages: Floats, lengths: Integers) -> Floats:
    exploded = np.flatnonzero(~np.isfinite(averages).all(axis=1))
    if exploded.size:
        b = int(exploded[0])
        raise DivergenceError(f"resample {b} diverged; use a smaller step size or a smaller cap", int(lengths[b]), b)
    return averages
