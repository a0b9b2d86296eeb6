"""Method: the protocol of everything that folds increments into a state and reads intervals off it.

The evaluator, the schedule, reports, run files and the shell use this class and no method behind it. A new method is
one file: a frozen dataclass that inherits from `Method`, its state, and one call of `registry.register`. Operations
that most methods lack (merging, concatenating replicas) have defaults here that raise a clear error.
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
    from inferl.diagnostics import Check
    from inferl.methods.least_squares import LeastSquaresReading
    from inferl.methods.misfit import Misfit

__all__ = ["Method", "NormalReading", "Reading", "covariance_of", "no_replicas"]


def covariance_of(standard_error: Floats, correlation: Floats) -> Floats:
    """Return the covariance matrix (k, k) of errors; covariances with an infinite standard error are NaN.

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
    """Explain why two evaluators of one stream cannot be subtracted, and what to do instead."""
    return (
        "both saw one stream, so their errors are correlated: the difference is computed from the replicas of two "
        f"bootstraps, and {type(method).__name__} has none; evaluate both policies at once with Stack, and ask it for "
        "the target (c, -c)"
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
        """Number of increments that it rests on."""
        ...

    @property
    def units(self) -> int:
        """Number of the method's units that it rests on, which are increments or episodes."""
        ...

    @property
    def solved(self) -> LeastSquaresReading | None:
        """The least-squares reading of the same targets, if its sums are kept; many checks need it."""
        ...

    def scores(self) -> Floats:
        """Joint draws (m, k) of all errors, in standard errors; simultaneous intervals use their maxima."""
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
    correlation: Floats | None = None  # (k, k) of the errors; None: all targets share one error
    solved: None = None

    @property
    def units(self) -> int:
        """Number of increments."""
        return self.n

    def scores(self) -> Floats:
        """Draw joint errors of all targets, in standard errors (m, k)."""
        return correlated_scores((self._correlation,))

    def covariance(self) -> Floats:
        """Covariance matrix (k, k) of the estimates."""
        return covariance_of(self.standard_error, self._correlation)

    @property
    def _correlation(self) -> Floats:
        k = len(self.estimate)
        return np.ones((k, k)) if self.correlation is None else self.correlation


class Method:
    """Base class of all methods. A method is a frozen dataclass of settings; its state can be anything storable.

    A method must define `init`, `read`, and either `advance` or, for large states, `prepare`, `commit` and `copy`. A
    checkpoint may contain arrays, numbers, strings, tuples, dicts, and the dataclasses that `stores` lists.

    >>> from inferl import LeastSquares
    >>> isinstance(LeastSquares(), Method), LeastSquares.kinds
    (True, ('normal',))
    """

    kinds: ClassVar[tuple[str, ...]] = ("normal",)  # of pointwise intervals; the first is the default
    stores: ClassVar[tuple[type, ...]] = ()  # dataclasses inside its settings and states
    solves: ClassVar[bool] = True  # whether it can solve equations that have no recursion, such as DoublyRobust's
    whole: ClassVar[bool] = False  # whether targets may involve the auxiliary parameters too

    @property
    def unit(self) -> str:
        """What its information grows with, ``"steps"`` or, where these are independent blocks, ``"episodes"``."""
        return "steps"

    # Folding.

    def init(self, algorithm: Algorithm) -> Any:
        """Return the state before the first row; refuse an algorithm that this method does not support."""
        raise NotImplementedError

    def advance(self, algorithm: Algorithm, state: Any, steps: Steps, increments: Increments, clock: Clock) -> Any:
        """Return the state after these rows; do not change the given one.

        `steps` are the rows, `increments` what the algorithm made of them, with their `clock`. An algorithm that waits
        for later steps may return fewer increments, or those of earlier rows. Some increments have a short form;
        `expanded()` writes them out. A call has one tile of rows or several, depending on the chunks: floating-point
        sums must run row by row or tile by tile, or the bits would depend on the chunking.
        """
        raise NotImplementedError

    def prepare(
        self, algorithm: Algorithm, state: Any, steps: Steps, increments: Increments, clock: Clock
    ) -> tuple[Any, Any]:
        """Do the part of `advance` that can fail; return the state, and the work that is left for `commit`.

        Only for states that are too large to copy for a few rows; for others `advance` is enough.
        """
        return self.advance(algorithm, state, steps, increments, clock), None

    def commit(self, state: Any, work: Any) -> None:
        """Do the rest of the work, in place."""

    def copy(self, state: Any) -> Any:
        """Return a state that `commit` may change without changing this one."""
        return state

    def limited(self, algorithm: Algorithm) -> bool:
        """Whether rows must pass `admit` first."""
        return False

    def admit(self, states: Sequence[Any], rows: Sequence[Transitions | Increments]) -> None:
        """Refuse rows that would make the state too large, or several states that are merged when they are read."""

    @classmethod
    def admit_vectors(cls, n_parameters: int) -> None:
        """Refuse features that are vectors with so many parameters, before any of them is computed."""

    def expect(self, algorithm: Algorithm, source: Any) -> None:
        """Refuse a source, before its first chunk is made, whose features are vectors that are too long."""
        if getattr(source, "tabular", None) is False:
            self.admit_vectors(algorithm.dimension)

    # Reading.

    def read(self, algorithm: Algorithm, state: Any, rows: Floats, jointly: bool = False) -> Reading:
        """Read the state along targets, the rows of a matrix; `jointly` adds the correlations of their errors."""
        raise NotImplementedError

    def estimate(self, algorithm: Algorithm, state: Any, rows: Floats) -> Floats:
        """Return the estimates alone; override it where that is cheaper than a reading."""
        return self.read(algorithm, state, rows).estimate

    def interval(self, reading: Any, level: float, kind: str | None = None) -> Interval:
        """Turn a reading into intervals; by default Student's t with the standard error of the reading."""
        kind = self.one_of_kinds(kind)
        error, df = reading.standard_error, reading.df
        lower, upper = normal(reading.estimate, error, level, df)
        return Interval(reading.estimate, lower, upper, level, kind, error, reading.n, df=df)

    def one_of_kinds(self, kind: str | None) -> str:
        """Return the kind of interval, by default the first; refuse an unknown one."""
        if kind is None or kind in self.kinds:
            return kind or self.kinds[0]
        from inferl.methods.registry import registered

        others = [cls.__name__ for cls in registered() if kind in cls.kinds]
        hint = f" ({' and '.join(others)} has)" if others else ""
        there = ", ".join([*self.kinds, "anytime", "simultaneous"])
        raise KindError(f"{type(self).__name__} has no {kind!r} interval{hint}; choose one of {there}")

    def checks(self, algorithm: Algorithm, state: Any, reading: Any, interval: Interval) -> Sequence[Check]:
        """Make the checks of this method; those of the data and of the target are made for every method."""
        return ()

    def misfit(self, algorithm: Algorithm, state: Any) -> Misfit | None:
        """Estimate the bias of the features at the starts of episodes, if the state allows it."""
        return None

    def information(self, n: int) -> float:
        """Information after n units: proportional to the inverse variance of the error."""
        return float(n)

    # Several states.

    def merge(self, states: Sequence[Any]) -> Any:
        """Merge the states of separate streams."""
        raise SettingError(f"{type(self).__name__} cannot be merged; LeastSquares can")

    def closed(self, state: Any) -> Any:
        """Return the state of a pane that leaves a window, before it is merged into the past."""
        return state

    def recall(self, state: Any, past: Any, panes: Sequence[Any], units: Sequence[int]) -> Any:
        """Return the state of a window that knows what came before, for checks of how the value changes over time.

        `past` is the merged state of what has left the window, or None; `panes` are those that are over, each of so
        many units.
        """
        return state

    def concatenate(self, methods: Sequence[Method], states: Sequence[Any]) -> tuple[Method, Any]:
        """Concatenate the replicas of one stream, this method's first; return the method of all of them, too."""
        raise SettingError(f"{type(self).__name__} has no replicas to concatenate; LeastSquares can be merged")

    def subtract(self, other: Method, one: Any, two: Any) -> Reading:
        """Return the reading of a difference on one stream, from the readings of both evaluators."""
        raise SettingError(no_replicas(self))

    # Files and the shell.

    def verify_state(self, algorithm: Algorithm, state: Any) -> None:
        """Refuse a state from a file whose types or sizes do not fit this method and algorithm."""

    def verify_rows(self, algorithm: Algorithm, state: Any, like: Increments) -> None:
        """Refuse a state that does not fit `like`, the algorithm's increments of a step."""

    @classmethod
    def from_options(cls, options: Mapping[str, Any], algorithm: Algorithm) -> Method:
        """Build the method from the options of the shell."""
        return cls()
