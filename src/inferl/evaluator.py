"""Evaluator: transitions in, intervals out.

It keeps the tile grid: however rows arrive, methods see them in tiles of `TILE` rows of the whole stream. Rows that do
not fill a tile wait; a reading works on a copy that has taken them in. So one call with 10 000 steps, 10 000 calls with
one, and a run stopped and resumed anywhere give the same bits.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike

from inferl.algorithms import Algorithm, Carry
from inferl.bootstrap import BootstrapReading, BootstrapState, OnlineBootstrap
from inferl.checkpoint import read_checkpoint, write_checkpoint
from inferl.coordinates import MOST_SOLVED, too_large
from inferl.diagnostics import Check, RatioSummary, Report
from inferl.diagnostics import checks as all_checks
from inferl.errors import CheckpointMismatchError, DivergenceError, SettingError, ShapeError
from inferl.increments import Increments
from inferl.interval import Interval, check_level
from inferl.least_squares import LeastSquares, LeastSquaresReading, LeastSquaresState
from inferl.multipliers import LAYOUT
from inferl.observations import Observations
from inferl.storable import STORABLE
from inferl.streams import TILE, Steps, Streams
from inferl.targets import as_targets
from inferl.transitions import Transitions

__all__ = ["Evaluator", "EvaluatorState"]

LONGEST_RUN = 262_144  # numbers of features that are worked on at once
MOST_COMPANIONED = 1000  # parameters up to which a bootstrap keeps least-squares sums beside it

Method = LeastSquares | OnlineBootstrap


@dataclass(eq=False)
class EvaluatorState:
    """All that has been learned from the stream; what a checkpoint holds."""

    method: BootstrapState | LeastSquaresState
    companion: LeastSquaresState | None
    streams: Streams = field(default_factory=Streams)
    pending: Steps | None = None  # rows of the tile that is not full yet
    carry: Carry = field(default_factory=dict)
    ratios: RatioSummary = field(default_factory=RatioSummary)
    tabular: bool | None = None  # kind of the features, once known
    ratios_ndim: int = 1  # 2 for several target policies on one log
    diverged: tuple[str, int, int | None] | None = None  # message, step, replica


class Evaluator:
    """Evaluates a policy from its transitions, and says how sure it is.

    Parameters
    ----------
    algorithm
        What a transition adds to the equation of the value: `TD`, `GTD2`, ...
    method
        How increments become an interval: `LeastSquares` (the default) or `OnlineBootstrap`.
    threads
        Threads that share the replicas of a bootstrap; the numbers do not depend on it.

    Examples
    --------
    A coin that pays 1 or 0 at each step, for ever, at a discount of 0.9; its value is 5:

    >>> from inferl import TD, Transitions
    >>> coin = np.random.default_rng(1).integers(2, size=2000)
    >>> evaluator = Evaluator(TD(1)).update(Transitions(0 * coin, coin, 0 * coin, 0.9))
    >>> print(evaluator.interval(0))
    5.07 [4.84, 5.30] 95% pointwise, 2 000 transitions
    """

    def __init__(self, algorithm: Algorithm, method: Method | None = None, threads: int = 1) -> None:
        self.algorithm = algorithm
        self.method: Method = LeastSquares() if method is None else method
        self.threads = threads
        # Several tiles at once spare calls; a delayed algorithm answers tile by tile, or tiles would blur.
        self._run = TILE if algorithm.delayed else max(LONGEST_RUN // algorithm.n_features // TILE, 1) * TILE
        self._observed = Observations(algorithm.n_features, self._run)
        self._companion = LeastSquares()
        if isinstance(self.method, OnlineBootstrap):
            kept = self.method.companion and algorithm.affine and algorithm.dimension <= MOST_COMPANIONED
            companion = self._companion.init(algorithm.dimension) if kept else None
            self._state = EvaluatorState(self.method.init(algorithm.n_parameters), companion)
        elif not algorithm.affine:
            raise SettingError(f"{algorithm} is not linear, so LeastSquares cannot solve for it; use OnlineBootstrap")
        elif algorithm.dimension > MOST_SOLVED and not algorithm.sparse:
            raise SettingError(too_large(algorithm.dimension, "parameters"))
        else:
            self._state = EvaluatorState(self.method.init(algorithm.dimension), None)

    def __repr__(self) -> str:
        return f"Evaluator({self.algorithm}, {self.method})"

    @property
    def n(self) -> int:
        """Number of transitions taken in."""
        return self._state.streams.n + len(self._observed)

    @property
    def episodes(self) -> int:
        """Number of episodes that have ended."""
        self._flush()
        return int(self._state.streams.completed.sum())

    # Data in.

    def update(self, data: Transitions | Increments | Iterable[Transitions]) -> Self:
        """Take in a chunk, or all chunks of a source; each chunk as a whole or, if it is bad, not at all."""
        if not isinstance(data, Transitions | Increments):
            for chunk in data:
                self.update(chunk)
            return self
        if len(data) == 0:
            raise ShapeError("a chunk needs at least one row, this one is empty")
        self._flush()
        self._refuse_after_divergence()
        self.algorithm.check(data)
        tabular = isinstance(data, Transitions) and data.tabular
        columns = data.ratios.ndim if isinstance(data, Transitions) else 0
        if (tabular, columns) != (self._state.tabular, self._state.ratios_ndim) and self._state.tabular is not None:
            raise ShapeError(
                "features or ratios have another shape than before: row numbers of a table or vectors, "
                "one column of ratios or several; a stream keeps to one"
            )
        self._check_size(data)
        self._take(data)
        self._state.tabular, self._state.ratios_ndim = tabular, columns
        # Steps may be gathered one by one unless a limit has to be watched, which takes a chunk.
        unlimited = isinstance(self.method, OnlineBootstrap) or self.algorithm.dimension <= MOST_SOLVED
        if isinstance(data, Transitions) and columns == 1 and unlimited:
            streams = self._state.streams
            if len(self._observed.known) < len(streams):
                self._observed.known = dict.fromkeys(streams.label.tolist(), tabular)
        return self

    def observe(
        self,
        features: ArrayLike,
        reward: float,
        next_features: ArrayLike,
        discount: float,
        ratio: float = 1.0,
        first: bool | None = None,
        last: bool | None = None,
        episode: int | None = None,
        stream: int = 0,
    ) -> None:
        """Take in one step: checked at the call, copied, and worked on with others, or when something is asked."""
        if self._state.diverged is not None:
            self._refuse_after_divergence()
        if first is None and episode is None:
            waiting = self._observed.take(features, reward, next_features, discount, ratio, last, stream)
            if waiting:
                if waiting >= self._run:
                    self._flush()
                return
        flags = {"first": first, "last": last, "episode": episode}
        rows = {name: None if flag is None else [flag] for name, flag in flags.items()}
        phi, phi_next = np.asarray(features)[None], np.asarray(next_features)[None]
        self.update(Transitions(phi, [reward], phi_next, [discount], [ratio], stream=stream, **rows))

    def _check_size(self, data: Transitions | Increments) -> None:
        """Refuse a chunk that would make least squares keep too large a square."""
        if isinstance(self._state.method, LeastSquaresState):
            waiting = [] if self._state.pending is None else [self._state.pending.data]
            self._state.method.coordinates.check_room_for([*waiting, data])

    def _flush(self) -> None:
        if len(self._observed):
            self._take(self._observed.chunk())

    def _take(self, data: Transitions | Increments) -> None:
        """Place checked rows in time and work on the tiles that they complete."""
        state = self._state
        state.streams, steps = state.streams.place(data)
        start = 0
        while start < len(steps):
            waiting = 0 if state.pending is None else len(state.pending)
            whole = (len(steps) - start) // TILE * TILE
            rows = steps[start : start + (TILE - waiting if waiting or not whole else min(whole, self._run))]
            start += len(rows)
            run = rows if state.pending is None else Steps.join([state.pending, rows])
            if len(run) < TILE:
                state.pending = deepcopy(run)  # the chunk it is a view of can be freed
                return
            state.pending = None
            try:
                self._work(state, run)
            except DivergenceError as error:
                sound = (error.step - int(run.clock.step[0])) // TILE * TILE  # back to the edge of the tile it was in
                if sound:
                    self._work(state, run[:sound])
                state.streams = replace(state.streams, n=int(run.clock.step[0]) - 1 + sound)
                state.diverged = (str(error), error.step, error.replica)
                raise

    def _work(self, state: EvaluatorState, run: Steps) -> None:
        """Fold whole tiles (or, for a reading, less than one) into a state."""
        increments, clock, carry = self.algorithm.increments(run, state.carry)
        if len(increments):
            if isinstance(self.method, OnlineBootstrap):
                replicas = cast(BootstrapState, state.method)
                state.method = self.method.advance(replicas, increments, clock, self.threads)
                if state.companion is not None:
                    self._companion.advance(state.companion, self.algorithm.value_form(increments), clock)
            else:
                solved = cast(LeastSquaresState, state.method)
                self.method.advance(solved, self.algorithm.value_form(increments), clock)
        state.carry = carry
        if isinstance(run.data, Transitions):
            state.ratios = state.ratios.taking(run.data.ratios, run.data.discounts)

    def _refuse_after_divergence(self) -> None:
        if self._state.diverged is not None:
            raise DivergenceError(*self._state.diverged)

    # Answers out.

    def estimate(self, target: ArrayLike) -> Any:
        """Return the value along a target: a state's number, or a vector of features, or a matrix with k of them."""
        return self.interval(target).estimate

    def interval(self, target: ArrayLike, level: float = 0.95, kind: str | None = None) -> Interval:
        """Return the interval for a target, with a note for each check that failed.

        Parameters
        ----------
        target
            The number of a state (tabular features), a vector of features, or a matrix (k, d) for k intervals. The
            value of a start distribution is the target that averages its states' features.
        level
            Probability with which the interval holds the truth.
        kind
            ``"normal"``, and for the bootstrap ``"percentile"`` (its default) and ``"basic"``.
        """
        return self._answer(target, level, kind)[0]

    def report(self, target: ArrayLike, level: float = 0.95, kind: str | None = None) -> Report:
        """Return the interval with all checks and what they mean."""
        interval, checks = self._answer(target, level, kind)
        streams, ratios = self._state.streams, self._state.ratios
        facts = {
            "algorithm": str(self.algorithm),
            "method": str(self.method),
            "kind": interval.kind,
            "episodes completed": int(streams.completed.sum()),
            "streams": len(streams),
            "ratios": "all 1 (on-policy)" if np.all(ratios.squares == ratios.n) else "given (off-policy)",
            "speaks of": "the value"
            if self._state.tabular
            else "the projected fixed point, which is the value only if the value is linear in the features",
        }
        if hasattr(target, "words"):  # such as the starts that a source has observed
            facts["for"] = target.words
        return Report(interval, checks, facts)

    def _answer(self, target: ArrayLike, level: float, kind: str | None) -> tuple[Interval, tuple[Check, ...]]:
        check_level(level)
        whole = isinstance(self.method, OnlineBootstrap)  # also the auxiliary parameters can be asked for
        targets, single = as_targets(target, self.algorithm, self._state.tabular, whole)
        state = self.settled()
        if isinstance(self.method, OnlineBootstrap):
            replicas = self.method.read(cast(BootstrapState, state.method), self.algorithm.pad(targets))
            interval = self.method.interval(replicas, level, kind)
            reading: BootstrapReading | LeastSquaresReading = replicas
            solved = None
            if state.companion is not None and targets.shape[1] == self.algorithm.dimension:
                solved = self._companion.read(state.companion, targets)
        else:
            solved = reading = self.method.read(cast(LeastSquaresState, state.method), targets)
            interval = self.method.interval(solved, level, kind)
        message = state.diverged and state.diverged[0]
        checks = all_checks(self.algorithm, self.method, interval, reading, solved, state.ratios, message)
        notes = tuple(f"{check.name}: {check.words}" for check in checks if check.failed)
        interval = Interval(**{**interval.__dict__, "notes": notes})
        return (interval.only() if single else interval), checks

    def settled(self) -> EvaluatorState:
        """Return the state with the pending rows taken in; the evaluator's own stays as it is."""
        self._flush()
        if self._state.pending is None:
            return self._state
        own = self._state
        method = own.method.copy() if isinstance(own.method, LeastSquaresState) else own.method
        state = replace(own, method=method, companion=own.companion and own.companion.copy())
        try:
            self._work(state, self._state.pending)
        except DivergenceError as error:  # the reading is that of the last full tile, and says so
            state.diverged = (str(error), error.step, error.replica)
        return state

    # Keeping.

    def copy(self) -> Evaluator:
        """Return an independent evaluator in the same state."""
        self._flush()
        return deepcopy(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to a file, from which `load` goes on as if nothing had happened."""
        self._flush()
        content = {
            "algorithm": self.algorithm if self.algorithm.affine else None,  # a function cannot be stored
            "method": self.method,
            "parameters": self.algorithm.n_parameters,
            "tile": TILE,
            "layout": LAYOUT,
            "state": self._state,
        }
        write_checkpoint(path, content)

    @classmethod
    def load(cls, path: str | os.PathLike[str], algorithm: Algorithm | None = None) -> Evaluator:
        """Read an evaluator back; with `algorithm` given, refuse a file of another one."""
        own = () if algorithm is None else (type(algorithm),)  # also one that is not part of this package
        content = read_checkpoint(path, (*STORABLE, EvaluatorState, *own))
        if not isinstance(content, dict) or "algorithm" not in content:
            raise CheckpointMismatchError(f"{path} is a checkpoint, but not of an evaluator")
        if (content["tile"], content["layout"]) != (TILE, LAYOUT):
            raise CheckpointMismatchError(
                f"{path} was written with tiles of {content['tile']} rows and random layout {content['layout']}, "
                f"and this version works with {TILE} and {LAYOUT}"
            )
        stored: Algorithm | None = content["algorithm"]
        if stored is None and (algorithm is None or algorithm.affine):
            raise CheckpointMismatchError(
                f"{path} holds a nonlinear field: load(path, algorithm=Field(...)) supplies it"
            )
        if stored is not None and algorithm not in (None, stored):
            raise CheckpointMismatchError(f"{path} holds {stored}, not {algorithm}")
        evaluator = cls(cast(Algorithm, stored or algorithm), content["method"])
        if evaluator.algorithm.n_parameters != content["parameters"]:
            raise CheckpointMismatchError(f"{path} holds {content['parameters']} parameters, {algorithm} has others")
        evaluator._state = content["state"]
        return evaluator
