"""The offline bootstrap, which Algorithm 1 replaces: store the data, resample them, run the estimator on each resample.

Increments are resampled: a transition keeps the trace, or the n rewards, that it had in the data.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

import numpy as np
from numpy.typing import ArrayLike

from inferl.algorithms import Algorithm, Carry
from inferl.algorithms.targets import as_targets
from inferl.baselines.replay import Draw, Resample, Units, replay
from inferl.baselines.resampled_sums import solutions
from inferl.data.increments import Increments
from inferl.data.streams import Clock, Streams
from inferl.data.transitions import Transitions
from inferl.engine import Foldable
from inferl.errors import DataError, KindError, SettingError, ShapeError
from inferl.interval import Interval, basic, check_level, normal, percentile
from inferl.methods.bootstrap import BurnIn, OnlineBootstrap
from inferl.methods.least_squares import LeastSquares
from inferl.methods.step_sizes import StepSize

__all__ = ["offline_bootstrap"]

KINDS = ("percentile", "basic", "normal")


def offline_bootstrap(
    data: Transitions | Increments | Iterable[Transitions],
    algorithm: Algorithm,
    estimator: StepSize | LeastSquares,
    target: ArrayLike,
    *,
    unit: str | int = "episode",
    n_resamples: int = 200,
    average: str | BurnIn = "linear",
    level: float = 0.95,
    kind: str = "percentile",
    seed: int = 0,
) -> Interval:
    """Resample units with replacement B times, and run the same estimator on each resample.

    Parameters
    ----------
    data
        Transitions, or a source of them; all are stored in memory.
    algorithm
        The algorithm that computes increments: `TD`, `GTD2`, ...
    estimator
        A step size: the averaged recursion, row 0 of `OnlineBootstrap`. Or `LeastSquares`: the solution of the sums.
    target
        As for `Evaluator.interval`: the number of a state, a vector of features, or a matrix with k of them.
    unit
        ``"episode"``, ``"transition"``, or a number: blocks of that many consecutive steps of a stream. Units must be
        nearly independent of each other; an episode that is open at the end of the data is a unit too.
    n_resamples
        B.
    average
        Weights of the iterates in the average, as for `OnlineBootstrap`.
    level
        Confidence level of the interval.
    kind
        ``"percentile"``, ``"basic"`` or ``"normal"``.
    seed
        Seed of the draws; resample b does not depend on B.

    Examples
    --------
    A fair coin pays 1 or 0 at every step, for ever, at a discount of 0.9; its value is 5:

    >>> import inferl
    >>> coin = np.random.default_rng(0).integers(2, size=3000)
    >>> data = inferl.Transitions(0 * coin, coin, 0 * coin, 0.9)
    >>> print(offline_bootstrap(data, inferl.TD(1), inferl.LeastSquares(), 0, unit="transition"))
    5.22 [5.07, 5.40] 95% pointwise, 3,000 transitions
    """
    check_level(level)
    if kind not in KINDS:
        raise KindError(
            f"kind is {kind!r}, which the offline bootstrap does not have; choose one of {', '.join(KINDS)}"
        )
    if n_resamples < 2:
        raise SettingError(f"n_resamples is {n_resamples}; a standard error needs at least 2")
    increments, clock, n, tabular = _increments(data, algorithm)
    units = Units.of(clock, unit)
    if len(units) < 2:
        raise DataError(f"there is only one unit to resample, of kind {unit!r}; use shorter units, or more data")
    if not algorithm.recursive:
        raise SettingError(f"{algorithm} cannot be resampled; compare it with monte_carlo or per_decision")
    targets, single, _ = as_targets(target, algorithm, tabular, whole=callable(estimator))

    def draw(b: int) -> Draw:
        generator = np.random.default_rng((seed, b))
        return lambda k: generator.integers(len(units), size=k)

    notes: tuple[str, ...] = ()
    if not callable(estimator):  # LeastSquares; a step size is callable
        if not algorithm.affine:
            raise SettingError(f"{algorithm} is not linear, so LeastSquares cannot solve for it; give a step size")
        drawn = (np.bincount(draw(b)(len(units)), minlength=len(units)) for b in range(n_resamples))
        all_once = [np.ones(len(units), np.int64)]
        form = algorithm.value_form(increments)  # type: ignore[arg-type]
        (estimate, *others), (_, *lost) = zip(*solutions(form, units, chain(all_once, drawn), targets), strict=True)
        values = np.array(others)
        if any(lost):
            notes = (f"identification: {sum(lost)} of {n_resamples} resamples do not identify a target",)
    else:
        method = OnlineBootstrap(estimator, 2, average=average, companion=False)
        targets = algorithm.pad(targets)
        whole = method.fold(method.at_zero(algorithm.n_parameters), increments, clock)
        estimate = method.look(whole, targets).estimate
        # Drawn twice, once for the lengths of the resamples: storing all draws would take more memory than the data.
        common = len(units.order) if (units.length == units.length[0]).all() else None
        lengths = np.array([common or int(units.length[draw(b)(len(units))].sum()) for b in range(n_resamples)])
        resamples = [Resample(units, draw(b)) for b in range(n_resamples)]
        values = replay(increments, resamples, lengths, method, algorithm.n_parameters) @ targets.T
    deviations = values - estimate
    spread = deviations.std(axis=0, ddof=1)
    if kind == "normal":
        lower, upper = normal(estimate, spread, level)
    else:
        lower, upper = (percentile if kind == "percentile" else basic)(estimate, deviations, level)
    interval = Interval(estimate, lower, upper, level, kind, spread, n, notes)
    return interval.only() if single else interval


def _increments(
    data: Transitions | Increments | Iterable[Transitions], algorithm: Algorithm
) -> tuple[Foldable, Clock, int, bool]:
    """Convert data to increments and their positions in time; return also the number of rows and whether tabular."""
    streams, carry = Streams(), Carry()
    increments: list[Foldable] = []
    clocks: list[Clock] = []
    kinds = set()
    for chunk in [data] if isinstance(data, Transitions | Increments) else data:
        algorithm.check(chunk)
        kinds.add(isinstance(chunk, Transitions) and chunk.tabular)
        streams, steps = streams.place(chunk)
        made, clock, carry = algorithm.increments(steps, carry)
        increments.append(made)
        clocks.append(clock)
    if len(kinds) != 1:
        raise ShapeError(
            "there are no data" if not kinds else "features are numbers in some chunks, vectors in others; use one kind"
        )
    return type(increments[0]).join(increments), Clock.join(clocks), streams.n, kinds.pop()  # type: ignore[arg-type]
