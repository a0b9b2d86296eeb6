"""Ages: the time since an episode began, known once it is known which row began it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from inferl.data.arrays import Floats
from inferl.sources.logs.values import kind_of, moments, numbers

if TYPE_CHECKING:
    from inferl.sources.logs.episodes.arrangement import Arranged

__all__ = ["AgeColumns", "aged", "clock_of", "multiply"]

AgeColumns = tuple[tuple[slice, tuple[int, ...]], ...]
"""Columns of the features, and the ages by which they are still to be multiplied."""

HOUR = 3600e6  # microseconds


def clock_of(values: Any) -> Floats:
    """Read a column whose differences are ages: numbers as they are, times in hours.

    >>> import pyarrow as pa
    >>> np.diff(clock_of(pa.array(["2024-01-01 00:00", "2024-01-01 12:30"]))), clock_of(pa.array([3, None]))
    (array([12.5]), array([ 3., nan]))
    """
    if kind_of(values) == "time":
        return moments(values) / HOUR
    read = numbers(values)
    if kind_of(values) != "text" or not np.isnan(read).any():
        return read
    return np.where(np.isnan(read), moments(values) / HOUR, read)


def multiply(features: Floats, ages: Floats, columns: AgeColumns) -> Floats:
    """Multiply features (T, d), in place, by ages (T, a)."""
    for part, which in columns:
        features[:, part] *= ages[:, list(which)].prod(axis=1, keepdims=True)
    return features


def aged(rows: Arranged, columns: AgeColumns) -> Arranged:
    """Multiply the features of new rows by their ages.

    The age of a row is the time since the first row of its episode that has a time. Rows that wait keep the time when
    their episode began.
    """
    if not columns:
        return rows
    place = np.arange(len(rows.marks)) if rows.place is None else rows.place
    time = rows.rows.clock[place]  # (T, a), sorted
    episode = np.cumsum(~rows.follows) - 1
    first = np.where(np.isfinite(time), np.arange(len(time))[:, None], len(time))
    first = np.minimum.reduceat(first, np.flatnonzero(~rows.follows), axis=0)[episode]
    began = np.append(time, np.full((1, time.shape[1]), np.nan), axis=0)[first, np.arange(time.shape[1])]
    new = rows.new & ~rows.marks.bad
    features, clock = rows.rows.features.astype(np.float64), rows.rows.clock.copy()
    features[place[new]] = multiply(features[place[new]], (time - began)[new], columns)
    clock[place] = began
    return replace(rows, rows=replace(rows.rows, features=features, clock=clock))
