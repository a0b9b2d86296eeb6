r"""Kurtosis-based effective sample size of a variance: how many steps the width of an interval rests on.

Where a few rare and large scores dominate the variance (a reward once in a thousand steps, a ratio that is seldom
large, a branch that is seldom taken), its estimate is poor, however long the stream. Fourth cumulants add up over a
stream as variances do, so sums over blocks of any length show it for any target::

    variance_ess = (sum of the variances)^2 / (sum of the fourth cumulants)

If rewards occur with a small probability, this is about the number of rewards observed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from inferl.data.arrays import Floats
from inferl.variance.batch_means import Moments
from inferl.variance.segments import Segments

__all__ = ["fourth_moments_of", "kurtosis_ess", "reduced_df"]

FEWEST = 32  # blocks; from fewer the fourth moment is too noisy
COVERED = 2 / 3  # share of the steps that the blocks must cover, or rare events may be missed


def fourth_moments_of(moments: Moments) -> Segments:
    """Return the shortest blocks whose sums are all still buffered; with many streams there may be none.

    Short blocks of sparse scores are never buffered, to save memory.
    """
    whole = np.flatnonzero((moments.count == 0) & (moments.waiting > 1))
    if not len(whole):
        return Segments.none(moments.total.shape[1])
    level = int(whole[0])
    sums = moments.gathered[level, : moments.waiting[level]].copy()
    return Segments(sums, np.full(len(sums), 2.0**level))


def kurtosis_ess(kinds: Sequence[Segments | None], influence: Floats, steps: int) -> Floats:
    """Estimate, for each of k directions (k, p), how many of `steps` steps the variance rests on; NaN if unknown.

    `kinds` are alternative partitions of the data; the first with enough pieces is used.
    """
    for pieces in kinds:
        if pieces is not None and pieces.df >= FEWEST - 1 and np.sum(pieces.length) >= COVERED * steps:
            return _variance_ess(pieces, influence) * steps / np.sum(pieces.length)
    return np.full(len(influence), np.nan)


def _variance_ess(pieces: Segments, influence: Floats) -> Floats:
    residual = pieces.residual(influence)
    largest = np.abs(residual).max(axis=0)
    squares = (residual / np.where(largest > 0, largest, 1.0)) ** 2  # scaled, so that their squares do not overflow
    variance = squares.sum(axis=0)
    share = pieces.length / np.sum(pieces.length)
    fourth = (squares**2).sum(axis=0) - 3 * variance**2 * np.sum(share**2)
    with np.errstate(divide="ignore", invalid="ignore"):
        variance_ess = np.where(fourth > 0, variance**2 / fourth, np.inf)
    return np.where(variance > 0, variance_ess, np.nan)


def reduced_df(df: Floats, variance_ess: Floats) -> Floats:
    """Degrees of freedom of a variance that rests on few steps: its relative variance is 2 / df + 1 / variance_ess."""
    ess = np.where(np.isnan(variance_ess), np.inf, variance_ess)
    return np.asarray(2 / (2 / df + 1 / ess))
