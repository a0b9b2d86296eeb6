"""Intervals: an estimate with its bounds, and the functions that compute bounds. Independent of RL."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import log
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from inferl.data.arrays import Bools, Floats, is_integer, is_number, short
from inferl.errors import LevelError, SettingError, ShapeError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "TUNING_TIME",
    "UNIFORM",
    "Interval",
    "anytime",
    "basic",
    "brief",
    "check_level",
    "correlated_scores",
    "grown",
    "normal",
    "percentile",
    "quantile",
    "simultaneous",
    "tightest",
    "unseen_share",
]

UNIFORM = ("anytime", "simultaneous")  # kinds that hold at all times, or for all targets


@dataclass(frozen=True, eq=False)
class Interval:
    """An estimate and the interval around it; for k targets, arrays (k,) that can be iterated over.

    Examples
    --------
    >>> interval = Interval(0.412, 0.398, 0.426, level=0.95, kind="normal", standard_error=0.007, n=43210)
    >>> print(interval)
    0.412 [0.398, 0.426] 95% pointwise, 43,210 transitions
    >>> 0.4 in interval, round(interval.width, 3)
    (True, 0.028)
    """

    estimate: Any  # float or (k,)
    lower: Any  # float or (k,)
    upper: Any  # float or (k,)
    level: float
    kind: str
    standard_error: Any  # float or (k,)
    n: int
    notes: tuple[str, ...] = ()
    df: Any = np.inf  # degrees of freedom of the standard error: float or (k,)
    estimand: str = ""

    @property
    def width(self) -> Any:
        """Upper minus lower bound."""
        return self.upper - self.lower

    def contains(self, value: ArrayLike) -> Bools:
        """Whether the value lies inside, for each target."""
        return np.asarray((self.lower <= np.asarray(value)) & (np.asarray(value) <= self.upper))

    def __contains__(self, value: float) -> bool:
        return bool(np.all(self.contains(value)))

    def __len__(self) -> int:
        return len(self._table())

    def __iter__(self) -> Iterator[Interval]:
        for row in self._table().tolist():
            estimate, lower, upper, error, df = row
            yield Interval(estimate, lower, upper, self.level, self.kind, error, self.n, self.notes, df, self.estimand)

    def only(self) -> Interval:
        """Convert an interval for a single target from arrays to plain numbers."""
        (one,) = self
        return one

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers and lists, ready for JSON."""
        plain = {name: _plain(getattr(self, name)) for name in ("estimate", "lower", "upper")}
        return plain | {
            "level": self.level,
            "kind": self.kind,
            "standard_error": _plain(self.standard_error),
            "df": _plain(self.df),
            "n": self.n,
            "estimand": self.estimand,
            "notes": list(self.notes),
        }

    @property
    def scope(self) -> str:
        """Level and kind in words, and the number of transitions.

        >>> Interval(0.412, 0.398, 0.426, level=0.95, kind="normal", standard_error=0.007, n=43210).scope
        '95% pointwise, 43,210 transitions'
        """
        kind = self.kind if self.kind in UNIFORM else "pointwise"
        return f"{self.level * 100:g}% {kind}, {self.n:,} transitions"

    def __str__(self) -> str:
        lines = [f"{brief(*row[:3])} {self.scope}" for row in self._table()]
        return "\n".join(lines + [f"note: {note}" for note in self.notes])

    def _repr_html_(self) -> str:
        from inferl.display import block, headline, notes

        return block(headline(self), notes(self.notes))

    def plot(self, axes: Axes | None = None, names: Sequence[str] = (), reference: float | None = None) -> Axes:
        """Draw the estimate with its bounds, one row for each target; return the Matplotlib Axes.

        Parameters
        ----------
        axes
            Where to draw; None: a new figure.
        names
            One for each target.
        reference
            A number to mark, such as 0 for a difference.

        Examples
        --------
        >>> interval = Interval(0.412, 0.398, 0.426, level=0.95, kind="normal", standard_error=0.007, n=43210)
        >>> interval.plot(names=["new policy"]).get_xlabel()
        'estimate and its 95% interval'
        """
        from inferl.plots import forest

        rows = list(self)
        labels = list(names) or (["estimate"] if len(rows) == 1 else [str(i) for i in range(len(rows))])
        if len(labels) != len(rows) or len(set(labels)) != len(rows):
            raise ShapeError(f"there are {len(rows)} targets and {len(labels)} names; give each one name of its own")
        return forest(dict(zip(labels, rows, strict=True)), axes, reference)

    def _table(self) -> Floats:
        columns = (self.estimate, self.lower, self.upper, self.standard_error, self.df)
        arrays = np.broadcast_arrays(*(np.atleast_1d(np.asarray(column, np.float64)) for column in columns))
        return np.stack(arrays, axis=1)


def _plain(values: Any) -> Any:
    """Return numbers that JSON can represent: None instead of numbers that are not finite."""
    array = np.asarray(values, dtype=object)
    array[~np.isfinite(np.asarray(values, dtype=np.float64))] = None
    return array.tolist()


def brief(estimate: float, lower: float, upper: float) -> str:
    """Format with as many digits as the width justifies.

    >>> brief(437.21, 408.4, 466.02)
    '437 [408, 466]'
    >>> brief(-0.001, -0.06, 0.058)
    '0.00 [-0.06, 0.06]'
    >>> brief(2e300, 1.998e300, 2.002e300)
    '2e+300 [1.998e+300, 2.002e+300]'
    """
    width, largest = upper - lower, max(abs(estimate), abs(lower), abs(upper))
    if not np.isfinite(width):
        return f"{estimate:.4g} [{lower:.4g}, {upper:.4g}]"
    if largest >= 1e15 or 0 < largest < 1e-9:  # too many digits, or only zeros
        digits = int(np.clip(2 + np.log10(largest / width), 3, 15)) if width > 0 else 4
        return f"{estimate:.{digits}g} [{lower:.{digits}g}, {upper:.{digits}g}]"
    digits = int(np.clip(1 - np.floor(np.log10(width)), 0, 12)) if width > 0 else 4
    return f"{estimate:z.{digits}f} [{lower:z.{digits}f}, {upper:z.{digits}f}]"  # z: no -0.00


def check_level(level: float) -> None:
    """Raise for a level outside (0, 1)."""
    if not (is_number(level) and 0 < level < 1):
        hint = f"; did you mean {level / 100:g}?" if is_number(level) and 50 <= level < 100 else ""
        raise LevelError(f"level is {short(level)}; it must be a probability between 0 and 1, such as 0.95{hint}")


def quantile(level: float, df: Floats | float = np.inf) -> Floats:
    """Two-sided quantile of the normal distribution, or of Student's t if the degrees of freedom are finite.

    >>> [round(float(quantile(0.95, df)), 3) for df in (np.inf, 5)]
    [1.96, 2.571]
    """
    from scipy.special import ndtri, stdtrit

    df = np.asarray(df, np.float64)
    finite = ~np.isinf(df)
    student = stdtrit(np.where(finite, df, 1.0), (1 + level) / 2)
    student = np.where(df > 0, student, np.inf)
    return np.where(finite, student, ndtri((1 + level) / 2))[()]


def normal(
    estimate: Floats, standard_error: Floats, level: float, df: Floats | float = np.inf
) -> tuple[Floats, Floats]:
    """Bounds estimate -+ quantile x standard error.

    >>> normal(np.array([0.0]), np.array([1.0]), 0.95)
    (array([-1.95996398]), array([1.95996398]))
    """
    reach = quantile(level, df) * standard_error
    return estimate - reach, estimate + reach


def percentile(estimate: Floats, deviations: Floats, level: float) -> tuple[Floats, Floats]:
    """Bounds estimate plus the quantiles of the replicas' deviations (B, k): the quantile interval of the paper.

    >>> percentile(np.zeros(1), np.arange(-9.0, 10.0)[:, None], 0.8)
    (array([-8.]), array([8.]))
    """
    low, high = _quantiles(deviations, level)
    return estimate + low, estimate + high


def basic(estimate: Floats, deviations: Floats, level: float) -> tuple[Floats, Floats]:
    """Bounds estimate minus the quantiles of the replicas' deviations (B, k): the reflected percentile interval.

    >>> basic(np.zeros(1), np.arange(-9.0, 10.0)[:, None] + 1, 0.8)
    (array([-9.]), array([7.]))
    """
    low, high = _quantiles(deviations, level)
    return estimate - high, estimate - low


def _quantiles(deviations: Floats, level: float) -> tuple[Floats, Floats]:
    """Return the lower and the upper quantile of each column, at the positions (B + 1) share of its order statistics.

    One more draw from the same distribution then falls between them with probability `level` (type 6 of Hyndman and
    Fan); with NumPy's default, 200 replicas at 95 % would cover 94.05 %. `np.quantile` computes the same, in ten times
    the time.
    """
    ordered = np.sort(deviations, axis=0)
    last = len(ordered) - 1

    def at(share: float) -> Floats:
        position = min(max(share * (last + 2) - 1, 0.0), float(last))  # from 0; clipped to the extremes
        below = int(position)
        above = min(below + 1, last)
        return np.asarray(ordered[below] + (position - below) * (ordered[above] - ordered[below]))

    return at((1 - level) / 2), at((1 + level) / 2)


def unseen_share(n: int, chance: float) -> float:
    """Return how frequent a kind of outcome can be that none of n has shown: (1 - p)^n is at least this chance.

    >>> round(unseen_share(100, 0.05), 3)
    0.03
    """
    return float(1 - chance ** (1 / n))


TUNING_TIME = {"steps": 10_000, "episodes": 100}  # where the anytime interval is tightest, unless said otherwise
MOST_NUMBERS = 4_000_000  # largest number of normal draws for a simultaneous interval


def tightest(level: float) -> float:
    """Solve x = log(1 + x) + 2 log(1 / (1 - level)): where `anytime` is tightest, as a multiple of its variance.

    >>> round(tightest(0.95), 2)
    8.21
    """
    x = 2 * log(1 / (1 - level)) + 1
    for _ in range(100):  # each step divides the error by at least 1 + x
        x = log(1 + x) + 2 * log(1 / (1 - level))
    return x


def grown(information: Callable[[int], float], n: int, tuning_time: int | None, unit: str = "steps") -> float:
    """Return the information of n steps, or n episodes, relative to that at the tuning time.

    >>> grown(lambda n: float(n), 500, tuning_time=1000), grown(lambda n: float(n), 500, None, "episodes")
    (0.5, 5.0)
    """
    tuning_time = TUNING_TIME[unit] if tuning_time is None else tuning_time
    if not is_integer(tuning_time) or not 1 <= tuning_time < 2**63:
        raise SettingError(f"tuning_time is {short(tuning_time)}; it must be a number of {unit}, at least 1")
    tuned = information(int(tuning_time))
    if tuned <= 0:
        raise SettingError(
            f"tuning_time is {tuning_time}, which lies in the burn-in, before averaging starts; give a later one"
        )
    return information(n) / tuned


def anytime(interval: Interval, grown: float) -> Interval:
    r"""Widen an interval so that it covers at all times simultaneously, and may be read repeatedly.

    With s the standard error, it is estimate ± s sqrt((1 + 1/x) log((1 + x) / (1 - level)^2)): the normal mixture
    boundary, an asymptotic confidence sequence (Waudby-Smith et al. 2024), valid after a burn-in. x is `tightest` times
    `grown`, the information so far relative to that at the tuning time. At the tuning time the interval is 1.55 times
    as wide as the pointwise one, for a level of 95 %. Few degrees of freedom widen it by the same factor as the
    pointwise interval of that width, which has a level of 99.76 %.

    >>> pointwise = Interval(0.0, -1.96, 1.96, 0.95, "normal", 1.0, n=10_000)
    >>> print(anytime(pointwise, grown=1.0))
    0.0 [-3.0, 3.0] 95% anytime, 10,000 transitions
    """
    level, x = interval.level, tightest(interval.level)
    least = _boundary(x, level)
    return _widened(interval, _boundary(x * grown, level) * _student(least, interval.df) / least, "anytime")


def _boundary(x: float, level: float) -> float:
    return float(np.sqrt((1 + 1 / x) * np.log((1 + x) / (1 - level) ** 2))) if x > 0 else np.inf


def _student(reach: float, df: Floats | float) -> Floats:
    """Student's quantile at the level at which the normal one is `reach`."""
    from scipy.special import erf

    return quantile(float(erf(reach / np.sqrt(2))), df)


def simultaneous(interval: Interval, scores: Floats) -> Interval:
    """Widen the intervals of k targets so that all of them cover simultaneously, with probability `level`.

    `scores` (m, k) are joint draws of the errors of all targets, in standard errors. The quantile of the largest is the
    normal quantile of a higher level; each target gets the interval of that level, with its own degrees of freedom.

    >>> two = Interval(np.zeros(2), -np.ones(2), np.ones(2), 0.95, "normal", np.ones(2), n=100)
    >>> independent = np.random.default_rng(0).normal(size=(100_000, 2))
    >>> print(simultaneous(two, independent))
    0.0 [-2.2, 2.2] 95% simultaneous, 100 transitions
    0.0 [-2.2, 2.2] 95% simultaneous, 100 transitions
    """
    error = np.asarray(interval.standard_error)
    usable = np.isfinite(error) & (error > 0)
    if not usable.any():
        return _widened(interval, np.inf, "simultaneous")
    # The same type of quantile as in `percentile`.
    largest = float(np.quantile(np.abs(scores[:, usable]).max(axis=1), interval.level, method="weibull"))
    return _widened(interval, _student(max(largest, float(quantile(interval.level))), interval.df), "simultaneous")


def correlated_scores(correlations: Sequence[Floats]) -> Floats:
    """Draw normal errors of k targets with given correlations (k, k); of several correlations, the worst.

    The seed is fixed, so that equal states give equal intervals.
    """
    if not correlations:  # no data yet
        return np.zeros((0, 0))
    k = len(correlations[0])
    normals = np.random.default_rng(0).standard_normal((int(np.clip(MOST_NUMBERS // k, 1_000, 20_000)), k))
    drawn = []
    for correlation in correlations:
        sizes, directions = np.linalg.eigh(np.nan_to_num(correlation))  # NaN where numbers overflow
        drawn.append(normals @ (directions * np.sqrt(np.maximum(sizes, 0.0))).T)
    return max(drawn, key=lambda scores: float(np.median(np.abs(scores).max(axis=1))))


def _widened(interval: Interval, reach: Floats | float, kind: str) -> Interval:
    error = np.asarray(interval.standard_error)
    with np.errstate(invalid="ignore"):
        deviation = np.where(error > 0, reach * error, 0.0)
    lower, upper = interval.estimate - deviation, interval.estimate + deviation
    return replace(interval, lower=lower[()], upper=upper[()], kind=kind)
