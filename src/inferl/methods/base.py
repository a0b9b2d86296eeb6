"""Method: the protocol of everything that folds increments into a state and reads intervals off it.

The evaluator, the schedule, reports, run files and the shell know this class and no method behind it. A new method is
one file: a frozen dataclass that inherits from `Method`, its state, and one call of `registry.register`. What most
methods do not have (replicas, sums to merge) has a default here that refuses with a clear error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from inferl.algorithms import Algorithm
from inferl.data.arrays import Floats
from inferl.data.increments import Increments
from inferl.data.streams import Clock, Steps
from inferl.data.transitions import Transitions
from inferl.errors import KindError, SettingError
from inferl.interval import Interval, correlated_scores, normal

if TYPE_CHECKING:
    from inferl.diagnostics import Check, Misfit
    from inferl.methods.least_squares import LeastSquaresReading

__all__ = ["Method", "NormalReading", "Reading", "covariance_of", "no_replicas"]


def covariance_of(standard_error: Floats, correlation: Floats) -> Floats:
    """Return the covariance matrix (k, k) of errors; what an infinite standard error shares with others is NaN.

    >>> covariance_of(np.array([2.0, np.inf]), np.eye(2))
    array([[ 4., nan],
           [nan, inf]])
    """
    known = np.flatnonzero(np.isfinite(standard_error))
    matrix = np.full(correlation.shape, np.nan)
    block = np.ix_(known, known)
    matrix[block] = correlation[block] * np.outer(standard_error[known], standard_error[known])
    np.fill_diagonal(matrix, standard_error**2)
    return matrix


def no_replicas(method: Method) -> str:
    """Say why two evaluators of one stream cannot be subtracted, and what to do instead."""
    return (
        f"paired=True subtracts the replicas of two bootstraps, and {type(method).__name__} has none; evaluate both "
        "policies at once with Stack, and ask it for the target (c, -c)"
    )


class Reading(Protocol):
    """What a state says along k targets: all that an interval and its checks are made of.

    >>> from inferl import TD, Evaluator, Transitions
    >>> coin = np.random.default_rng(1).integers(2, size=2000)
    >>> reading = Evaluator(TD(1)).update(Transitions(0 * coin, coin, 0 * coin, 0.9)).read(0)
    >>> reading.n, reading.estimate.round(2)
    (2000, array([5.07]))
    """

    @property
    def estimate(self) -> Floats:
        """The estimates (k,)."""
        ...

    @property
    def df(self) -> Any:
        """Degrees of freedom of the variance."""
        ...

    @property
    def n(self) -> int:
        """Number of transitions behind it."""
        ...

    @property
    def solved(self) -> LeastSquaresReading | None:
        """What least squares says along the same targets, if its sums are kept; many checks need it."""
        ...

    def scores(self) -> Floats:
        """Draws of all errors at once, in standard errors (m, k); what simultaneous intervals are made of."""
        ...

    def covariance(self) -> Floats:
        """Covariance matrix (k, k) of the estimates."""
        ...


@dataclass(frozen=True)
class NormalReading:
    """Estimates whose errors are taken to be normal; enough for a method that has no more to say.

    >>> NormalReading(np.array([1.0, 2.0]), np.array([0.1, 0.2]), df=9, n=10).covariance().round(2).tolist()
    [[0.01, 0.02], [0.02, 0.04]]
    """

    estimate: Floats  # (k,)
    standard_error: Floats  # (k,)
    df: float
    n: int
    correlation: Floats | None = None  # (k, k) of the errors; None: one error, which all targets share
    solved: None = None

    def scores(self) -> Floats:
        """Draw errors of all targets at once, in standard errors (m, k)."""
        return correlated_scores((self._correlation,))

    def covariance(self) -> Floats:
        """Covariance matrix (k, k) of the estimates."""
        return covariance_of(self.standard_error, self._correlation)

    @property
    def _correlation(self) -> Floats:
        k = len(self.estimate)
        return np.ones((k, k)) if self.correlation is None else self.correlation


class Method:
    """Base of all methods; their settings are frozen dataclasses, their states anything that can be stored.

    A method must have `init`, `advance` and `read`. States are made of dataclasses, which `stores` names,
    so that a checkpoint may contain them.

    >>> from inferl import LeastSquares
    >>> isinstance(LeastSquares(), Method), LeastSquares.kinds
    (True, ('normal',))
    """

    kinds: ClassVar[tuple[str, ...]] = ("normal",)  # of pointwise intervals; the first is the default
    stores: ClassVar[tuple[type, ...]] = ()  # dataclasses inside its settings and states
    solves: ClassVar[bool] = True  # whether equations that no recursion leads to can be solved, as of DoublyRobust
    whole: ClassVar[bool] = False  # whether the auxiliary parameters can be asked for, too

    # Folding.

    def init(self, algorithm: Algorithm) -> Any:
        """Return the state before the first row; refuse an algorithm that this method cannot have."""
        raise NotImplementedError

    def advance(self, algorithm: Algorithm, state: Any, steps: Steps, increments: Increments, clock: Clock) -> Any:
        """Return the state after these rows; the one given stays as it is.

        `steps` are the rows as they came, `increments` what the algorithm made of them, each with its `clock`. An
        algorithm that waits for later steps may return fewer, or those of earlier rows. Some algorithms have increments
        in a short form; `expanded()` writes them out.
        """
        raise NotImplementedError

    def prepare(
        self, algorithm: Algorithm, state: Any, steps: Steps, increments: Increments, clock: Clock
    ) -> tuple[Any, Any]:
        """Do all of `advance` that can fail; return the state, and what is left for `commit` to do.

        For states that are too large to be copied for a few rows; others need not know of it.
        """
        return self.advance(algorithm, state, steps, increments, clock), None

    def commit(self, state: Any, work: Any) -> None:
        """Do what is left, changing the state in place."""

    def copy(self, state: Any) -> Any:
        """Return a state that `commit` may change without changing this one."""
        return state

    def limited(self, algorithm: Algorithm) -> bool:
        """Whether rows must pass `admit` before they are taken in."""
        return False

    def admit(self, state: Any, rows: Sequence[Transitions | Increments]) -> None:
        """Refuse rows that the state has no room for."""

    # Reading.

    def read(self, algorithm: Algorithm, state: Any, rows: Floats, jointly: bool = False) -> Reading:
        """Look along targets, the rows of a matrix; `jointly`, also at how their errors go together."""
        raise NotImplementedError

    def estimate(self, algorithm: Algorithm, state: Any, rows: Floats) -> Floats:
        """Return the estimates alone, as cheaply as they can be had."""
        return self.read(algorithm, state, rows).estimate

    def interval(self, reading: Any, level: float, kind: str | None = None) -> Interval:
        """Turn a reading into intervals: by default Student's, with the standard error of the reading."""
        kind = self.one_of_kinds(kind)
        error, df = reading.standard_error, reading.df
        lower, upper = normal(reading.estimate, error, level, df)
        return Interval(reading.estimate, lower, upper, level, kind, error, reading.n, df=df)

    def one_of_kinds(self, kind: str | None) -> str:
        """Return the kind of interval that is asked for; refuse one that this method does not have."""
        if kind is None or kind in self.kinds:
            return kind or self.kinds[0]
        from inferl.methods.registry import registered

        others = [cls.__name__ for cls in registered() if kind in cls.kinds]
        hint = f" ({' and '.join(others)} has)" if others else ""
        there = ", ".join([*self.kinds, "anytime", "simultaneous"])
        raise KindError(f"{type(self).__name__} has no {kind!r} interval{hint}; choose one of {there}")

    def checks(self, algorithm: Algorithm, state: Any, reading: Any, interval: Interval) -> Sequence[Check]:
        """Make the checks that belong to this method; those of the data and of the target are made for all."""
        return ()

    def misfit(self, algorithm: Algorithm, state: Any) -> Misfit | None:
        """Compare what the features say of the starts with what was earned, if that can be read off the state."""
        return None

    def information(self, n: int) -> float:
        """How fast the error shrinks: proportional to the inverse of its variance after n steps."""
        return float(n)

    # Several states.

    def merge(self, states: Sequence[Any]) -> Any:
        """Join what was learned from separate streams."""
        raise SettingError(f"{type(self).__name__} cannot be merged; LeastSquares can")

    def concatenate(self, methods: Sequence[Method], states: Sequence[Any]) -> tuple[Method, Any]:
        """Join replicas of one stream, this method's first; return the method that would have run all of them."""
        raise SettingError(f"{type(self).__name__} has no replicas to concatenate; LeastSquares are merged")

    def subtract(self, other: Method, one: Any, two: Any) -> Reading:
        """Return the reading of a difference on one stream, from the readings of both methods."""
        raise SettingError(no_replicas(self))

    # Files and the shell.

    def verify_state(self, algorithm: Algorithm, state: Any) -> None:
        """Refuse a state from a file that this method and algorithm cannot have left: its types and sizes."""

    def verify_rows(self, algorithm: Algorithm, state: Any, like: Increments) -> None:
        """The same, beside the increments that the algorithm makes of a step."""

    @classmethod
    def from_options(cls, options: Mapping[str, Any], algorithm: Algorithm) -> Method:
        """Build the method from the options of the shell."""
        return cls()
