"""SAVE (Shi et al. 2021) without a sieve: action values by LSTD-Q on stored data, with a sandwich variance."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from inferl.data.transitions import Transitions
from inferl.errors import DataError, ShapeError
from inferl.interval import Interval, check_level, normal
from inferl.methods.least_squares import UNIDENTIFIED
from inferl.methods.linear_system import Factored

__all__ = ["save"]


def save(data: Transitions, target: ArrayLike, level: float = 0.95) -> Interval:
    r"""Evaluate a target policy off-policy without ratios, in two passes over stored data.

    With psi = psi(s, a), U(s') the mean of psi(s', a) under the target policy,

    .. math:: \Sigma = \tfrac1N \sum \psi (\psi - g U(s'))', \quad \beta = \Sigma^{-1} \tfrac1N \sum \psi r, \quad
              \Omega = \tfrac1N \sum e^2 \psi \psi', \quad e = r + g U(s')'\beta - \psi'\beta

    the value of a state is U(s)'beta with variance U' Sigma^-1 Omega Sigma^-T U / N.

    Parameters
    ----------
    data
        Features psi(s, a), next features U(s'), as for `QEvaluation`: floats (T, d).
    target
        U of a state, (d,), or a matrix with k of them.
    level
        Confidence level of the interval.

    Examples
    --------
    A fair coin pays 1 or 0 at every step, for ever, at a discount of 0.9; its value is 5:

    >>> coin = np.random.default_rng(1).integers(2, size=2000)
    >>> one = np.ones((2000, 1))
    >>> print(save(Transitions(one, coin, one, 0.9), [1.0]))
    5.07 [4.85, 5.29] 95% pointwise, 2,000 transitions
    """
    check_level(level)
    if data.tabular:
        raise ShapeError("features are row numbers of a table; give vectors psi(s, a) and their means U(s')")
    if data.ratios.ndim != 1 or (data.ratios != 1).any():
        raise DataError("ratios are not all 1; SAVE reads the target policy from next_features, so leave ratios out")
    targets = np.atleast_2d(np.asarray(target, dtype=np.float64))
    psi, n = data.features, len(data)
    if targets.ndim != 2 or targets.shape[1] != psi.shape[1]:
        raise ShapeError(f"target has shape {np.shape(target)}, but features have length {psi.shape[1]}")
    difference = psi - data.discounts[:, None] * data.next_features
    factored = Factored(psi.T @ difference / n, np.abs(difference).max(axis=0))
    beta = factored.solve(psi.T @ data.rewards / n)
    error = data.rewards - difference @ beta
    rows, unidentified = factored.influence(targets, np.zeros(len(targets)))  # U' Sigma^-1
    spread = np.sqrt(np.mean((error[:, None] * (psi @ rows.T)) ** 2, axis=0) / n)
    lost = unidentified > UNIDENTIFIED
    spread = np.where(lost, np.inf, spread)
    estimate = targets @ beta
    lower, upper = normal(estimate, spread, level)
    notes = ("identification: the data do not identify a part of the target",) if lost.any() else ()
    interval = Interval(estimate, lower, upper, level, "normal", spread, n, notes)
    return interval.only() if np.ndim(target) == 1 else interval
