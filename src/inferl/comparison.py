r"""Differences: which of two policies is better, and by how much.

Two independent streams: SE^2 = s1^2 + s2^2, with Welch's degrees of freedom. One stream for both: either subtract the
replicas of two coupled bootstraps (``paired``), or evaluate a `Stack` of both and ask for the target (c, -c).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from inferl.data.arrays import Floats, is_number, short
from inferl.errors import KindError, PairingError, SettingError, TargetError
from inferl.evaluator import Evaluator
from inferl.interval import (
    TUNING_TIME,
    Interval,
    anytime,
    check_level,
    correlated_scores,
    grown,
    normal,
    simultaneous,
)
from inferl.methods.base import Method, Reading

__all__ = [
    *("difference", "difference_of", "growth", "grown_together", "jointly", "refuse_other_discounts"),
    *("refuse_other_questions", "verdict", "welch"),
]


def difference(
    a: Evaluator,
    b: Evaluator | float,
    target: Any = None,
    level: float = 0.95,
    kind: str | None = None,
    *,
    paired: bool | None = None,
    other_target: Any = None,
    tuning_time: int | None = None,
) -> Interval:
    """Return the interval for the value of `a` minus that of `b`.

    Parameters
    ----------
    a, b
        Two evaluators, or an evaluator and a number to compare with.
    target
        As for `Evaluator.interval`.
    level
        Nominal coverage.
    kind
        ``"normal"`` (the default for independent streams) or ``"anytime"``; paired bootstraps also have
        ``"percentile"`` (their default) and ``"basic"``.
    paired
        Whether both were fed the same stream; by default, fingerprints of rewards and discounts decide. Paired
        evaluators must be bootstraps with the same seed, multipliers, average and replicas; step sizes and algorithms
        may differ. For least squares, use a `Stack` of both policies instead.
    other_target
        The target for `b`, if it has other features than `a`.
    tuning_time
        As for `Evaluator.interval`, but of both streams together.

    Examples
    --------
    >>> from inferl import TD, Transitions
    >>> def played(chance, seed):
    ...     coin = (np.random.default_rng(seed).random(2000) < chance).astype(float)
    ...     return Evaluator(TD(1)).update(Transitions(np.zeros(2000, int), coin, np.zeros(2000, int), 0.9))
    >>> found = difference(played(0.6, seed=1), played(0.5, seed=2), target=0)
    >>> print(found)
    1.02 [0.71, 1.33] 95% pointwise, 4,000 transitions
    >>> print(verdict(found))
    the first is larger
    >>> print(difference(played(0.6, seed=1), 5.0, target=0))
    1.01 [0.79, 1.23] 95% pointwise, 2,000 transitions
    """
    check_level(level)
    if kind == "simultaneous":
        raise KindError("a difference has no 'simultaneous' interval; ask for one target at a time")
    if not isinstance(b, Evaluator):
        if not (is_number(b) and np.isfinite(b)):
            raise SettingError(f"the second is {short(b)}; give an evaluator, or a number to compare with")
        one = a.interval(target, level, kind, tuning_time)
        return replace(one, estimate=one.estimate - b, lower=one.lower - b, upper=one.upper - b)
    other_target = target if other_target is None else other_target
    refuse_other_questions(a, b)
    same = a.n == b.n > 0 and a.outcomes == b.outcomes
    if paired is False and same:
        raise PairingError(
            f"both evaluators were fed the same stream of {a.n} transitions, so they are not independent"
        )
    rows = [len(evaluator.targets(asked).rows) for evaluator, asked in ((a, target), (b, other_target))]
    if rows[0] != rows[1]:
        raise TargetError(f"target has {rows[0]} rows and other_target has {rows[1]}; give as many for both")
    if same if paired is None else paired:
        return _paired(a, b, target, other_target, level, kind, tuning_time)
    if kind not in (None, "normal", "anytime"):
        raise KindError(
            f"two independent streams have no {kind!r} interval of their difference, only normal and anytime"
        )
    found = welch(a.interval(target, level, "normal"), b.interval(other_target, level, "normal"))
    if kind != "anytime":
        return found
    return anytime(found, grown_together([(a.method, a.read(target)), (b.method, b.read(other_target))], tuning_time))


def grown_together(streams: Sequence[tuple[Method, Reading]], tuning_time: int | None = None) -> float:
    """Return the information of two independent streams, relative to that at the tuning time of both together."""
    return sum(growth(method, reading, tuning_time) for method, reading in streams) / 2


def growth(method: Method, reading: Reading, tuning_time: int | None = None) -> float:
    """Return the information of one of two independent streams, relative to that at half the tuning time of both."""
    both = TUNING_TIME[method.unit] if tuning_time is None else tuning_time
    return grown(method.information, reading.units, max(both // 2, 1), method.unit)


def jointly(differences: Sequence[Interval], covariance: Floats) -> list[Interval]:
    """Widen the intervals of differences so that all of them hold at once, with the probability of their level.

    The largest of the errors, in standard errors, has a distribution that depends on their correlations alone: with
    equal errors it is the studentized range of Tukey. One difference stays as it is.

    Parameters
    ----------
    differences
        Their pointwise intervals, m of them.
    covariance
        Of the m estimates, (m, m).

    Examples
    --------
    All differences of three independent estimates with a standard error of 1 (Tukey's quantile is 2.344):

    >>> contrasts = np.array([[1, -1, 0], [1, 0, -1], [0, 1, -1]])
    >>> one = Interval(0.0, 0.0, 0.0, 0.95, "normal", 2**0.5, n=100)
    >>> found = jointly([one] * 3, contrasts @ contrasts.T)
    >>> [round(interval.upper / 2**0.5, 2) for interval in found]
    [2.34, 2.34, 2.34]
    """
    if len(differences) == 1:
        return list(differences)
    columns = ("estimate", "lower", "upper", "standard_error", "df")
    estimate, lower, upper, error, df = (np.array([getattr(one, name) for one in differences]) for name in columns)
    together = Interval(estimate, lower, upper, differences[0].level, "normal", error, 0, df=df)
    sizes = np.sqrt(np.diagonal(covariance))
    scale = np.where((sizes > 0) & np.isfinite(sizes), sizes, np.inf)
    found = simultaneous(together, correlated_scores([covariance / np.outer(scale, scale)]))
    return [
        replace(one, lower=wide.lower, upper=wide.upper, kind=wide.kind)
        for one, wide in zip(differences, found, strict=True)
    ]


def welch(one: Interval, other: Interval) -> Interval:
    """Subtract two independent intervals: SE^2 = s1^2 + s2^2, df = SE^4 / (s1^4 / f1 + s2^4 / f2).

    >>> one = Interval(3.0, 1.0, 5.0, 0.95, "normal", 1.0, n=100, df=10.0)
    >>> both = welch(one, one)
    >>> print(f"{both.standard_error:.3f} {both.df:.0f}")
    1.414 20
    """
    first, second = (np.square(np.asarray(interval.standard_error, np.float64)) for interval in (one, other))
    with np.errstate(invalid="ignore", divide="ignore"):
        weight = first**2 / one.df + second**2 / other.df
        df = np.where((weight > 0) & np.isfinite(weight), (first + second) ** 2 / weight, np.inf)[()]
    estimate, error = one.estimate - other.estimate, np.sqrt(first + second)
    lower, upper = normal(estimate, error, one.level, df)
    notes = tuple(f"{name}: {note}" for name, part in (("first", one), ("second", other)) for note in part.notes)
    about = difference_of(one.estimand, other.estimand)
    return Interval(estimate, lower, upper, one.level, "normal", error, one.n + other.n, notes, df, about)


def difference_of(one: str, other: str, names: tuple[str, str] = ("the first", "the second")) -> str:
    """Return the estimand of a difference; refuse to subtract different estimands."""
    if _question(one) != _question(other):
        raise SettingError(f"{names[0]} is about {one}, {names[1]} about {other}: ask both the same question")
    return f"difference of two policies: {max(one, other, key=len)}" if one else ""


def _question(estimand: str) -> str:
    """Return an estimand without the part that depends on the data: whether a time limit ended any episode."""
    whole = estimand.replace("the mean return up to the time limit", "the value of the start distribution")
    return whole.replace(", up to the time limit", "")


def verdict(interval: Interval, name: str = "the first") -> str:
    """Describe the result of a comparison."""
    if interval.lower > 0 or interval.upper < 0:
        return f"{name} is {'larger' if interval.lower > 0 else 'smaller'}"
    return "the data do not tell which is larger"


def _paired(
    a: Evaluator, b: Evaluator, target: Any, other_target: Any, level: float, kind: str | None, tuning: int | None
) -> Interval:
    """Let the method subtract two readings of one stream: a bootstrap does it replica by replica."""
    method, one, other = a.method, a.read(target), b.read(other_target)
    both = method.subtract(b.method, one, other)
    if a.n != b.n or a.outcomes != b.outcomes:
        raise PairingError(
            f"the evaluators were not fed the same stream: {a.n} and {b.n} transitions, whose outcomes "
            f"have the fingerprints {a.outcomes:016x} and {b.outcomes:016x}; leave paired out if they are independent"
        )
    found = method.interval(both, level, "normal" if kind == "anytime" else kind)
    if kind == "anytime":
        found = anytime(found, grown(method.information, one.units, tuning, method.unit))
    notes = tuple(
        f"{name}: {note}"
        for name, evaluator, asked in (("first", a, target), ("second", b, other_target))
        for note in evaluator.interval(asked, level).notes
    )
    about = difference_of(a.interval(target, level).estimand, b.interval(other_target, level).estimand)
    found = replace(found, notes=notes, estimand=about)
    return found.only() if a.targets(target).single else found


def refuse_other_questions(a: Evaluator, b: Evaluator, names: tuple[str, str] = ("the first", "the second")) -> None:
    """Refuse values with different discounts: their difference is not one of policies."""
    one, other = (evaluator.with_pending().episodes.discounts.tolist() for evaluator in (a, b))
    refuse_other_discounts(one, other, names)


def refuse_other_discounts(
    one: Sequence[float], other: Sequence[float], names: tuple[str, str] = ("the first", "the second")
) -> None:
    """The same, from the smallest and the largest discount of each."""
    if one[0] == one[1] != other[0] == other[1]:  # each discount is constant, and they differ
        raise SettingError(
            f"the discounts differ: {_between(one)} in {names[0]} and {_between(other)} in {names[1]}; evaluate both "
            "with the same discount"
        )


def _between(bounds: Sequence[float]) -> str:
    low, high = bounds
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"
