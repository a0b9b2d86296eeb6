r"""Intervals that hold uniformly: at all times at once, or for all targets at once.

Both widen a pointwise interval, estimate ± quantile x standard error. Who looks at every hour and stops when he likes
what he sees needs ``anytime``; who speaks of all states in one sentence needs ``simultaneous``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import log

import numpy as np

from inferl.arrays import is_integer, short
from inferl.errors import SettingError
from inferl.interval import Interval, quantile
from inferl.rows import Floats

__all__ = ["TUNING_TIME", "anytime", "correlated_scores", "grown", "simultaneous", "tightest"]

TUNING_TIME = 10_000  # transitions, unless told: where the anytime interval is tightest
MOST_NUMBERS = 4_000_000  # of the draws behind a simultaneous interval


def tightest(level: float) -> float:
    """Solve x = log(1 + x) + 2 log(1 / (1 - level)): where `anytime` is tightest, as a multiple of its variance.

    >>> round(tightest(0.95), 2)
    8.21
    """
    x = 2 * log(1 / (1 - level)) + 1
    for _ in range(100):  # each step takes at least the factor 1 + x out of the error
        x = log(1 + x) + 2 * log(1 / (1 - level))
    return x


def grown(information: Callable[[int], float], n: int, tuning_time: int) -> float:
    """Return the information of n transitions, relative to that of the tuning time.

    >>> grown(lambda n: float(n), 500, tuning_time=1000)
    0.5
    """
    if not is_integer(tuning_time) or not 1 <= tuning_time < 2**63:
        raise SettingError(f"tuning_time is {short(tuning_time)}; it is a number of transitions, at least 1")
    tuned = information(int(tuning_time))
    if tuned <= 0:
        raise SettingError(
            f"tuning_time is {tuning_time}, when nothing has been averaged yet (a burn-in); give a later one"
        )
    return information(n) / tuned


def anytime(interval: Interval, grown: float) -> Interval:
    r"""Widen an interval so that all of them, over time, hold the truth together: it may be looked at again and again.

    With s the standard error, it is estimate ± s sqrt((1 + 1/x) log((1 + x) / (1 - level)^2)): the normal mixture
    boundary, an asymptotic confidence sequence (Waudby-Smith et al. 2024), valid after a burn-in. x is `tightest` times
    `grown`: the information so far, relative to that at the tuning time. There, where x is `tightest`, the interval is
    1.55 times as wide as the pointwise one at a level of 95 %. Few degrees of freedom widen it as they widen the
    pointwise interval of that width, which is one of 99.76 %.

    >>> pointwise = Interval(0.0, -1.96, 1.96, 0.95, "normal", 1.0, n=10_000)
    >>> print(anytime(pointwise, grown=1.0))
    0.0 [-3.0, 3.0] 95% anytime, 10 000 transitions
    """
    level, x = interval.level, tightest(interval.level)
    least = _boundary(x, level)
    return _widened(interval, _boundary(x * grown, level) * _student(least, interval.freedom) / least, "anytime")


def _boundary(x: float, level: float) -> float:
    return float(np.sqrt((1 + 1 / x) * np.log((1 + x) / (1 - level) ** 2))) if x > 0 else np.inf


def _student(reach: float, freedom: Floats | float) -> Floats:
    """Student's quantile at the level at which the normal one is `reach`."""
    from scipy.special import erf

    return quantile(float(erf(reach / np.sqrt(2))), freedom)


def simultaneous(interval: Interval, scores: Floats) -> Interval:
    """Widen the intervals of k targets so that all of them hold their truths together, as often as the level says.

    `scores` (m, k) are draws of all errors at once, in standard errors. The quantile of the largest is a normal
    quantile at some higher level; each target gets the interval of that level, with its own degrees of freedom.

    >>> two = Interval(np.zeros(2), -np.ones(2), np.ones(2), 0.95, "normal", np.ones(2), n=100)
    >>> independent = np.random.default_rng(0).normal(size=(100_000, 2))
    >>> print(simultaneous(two, independent))
    0.0 [-2.2, 2.2] 95% simultaneous, 100 transitions
    0.0 [-2.2, 2.2] 95% simultaneous, 100 transitions
    """
    error = np.asarray(interval.standard_error)
    known = np.isfinite(error) & (error > 0)
    if not known.any():
        return _widened(interval, np.inf, "simultaneous")
    largest = float(
        np.quantile(np.abs(scores[:, known]).max(axis=1), interval.level, method="weibull")
    )  # as percentile
    return _widened(interval, _student(max(largest, float(quantile(interval.level))), interval.freedom), "simultaneous")


def correlated_scores(correlations: Sequence[Floats]) -> Floats:
    """Draw normal errors of k targets with given correlations (k, k); with the worst of several correlations.

    What is drawn is always the same, so that equal readings give equal intervals.
    """
    if not correlations:  # nothing has been seen yet
        return np.zeros((0, 0))
    k = len(correlations[0])
    normals = np.random.default_rng(0).standard_normal((int(np.clip(MOST_NUMBERS // k, 1_000, 20_000)), k))
    drawn = []
    for correlation in correlations:
        sizes, directions = np.linalg.eigh(np.nan_to_num(correlation))  # it is unknown where numbers overflow
        drawn.append(normals @ (directions * np.sqrt(np.maximum(sizes, 0.0))).T)
    return max(drawn, key=lambda scores: float(np.median(np.abs(scores).max(axis=1))))


def _widened(interval: Interval, reach: Floats | float, kind: str) -> Interval:
    error = np.asarray(interval.standard_error)
    with np.errstate(invalid="ignore"):
        deviation = np.where(error > 0, reach * error, 0.0)
    lower, upper = interval.estimate - deviation, interval.estimate + deviation
    return replace(interval, lower=lower[()], upper=upper[()], kind=kind)
