"""The tile grid: however rows arrive, methods see them in tiles of `TILE` rows of the whole stream.

Rows that do not fill a tile wait; a reading works on a copy of the state that has taken them in. So one call with
10,000 steps, 10,000 calls with one, and a run stopped and resumed anywhere give the same bits.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np

from inferl.algorithms import Algorithm, Carry
from inferl.data.fingerprints import combined, fingerprints
from inferl.data.increments import Increments
from inferl.data.invariants import bounds, demand
from inferl.data.ratios import RatioSummary
from inferl.data.streams import TILE, Clock, Steps, Streams
from inferl.data.transitions import Transitions
from inferl.data.vectors import Sparse
from inferl.errors import DivergenceError, SettingError
from inferl.methods.bootstrap import BootstrapState, OnlineBootstrap
from inferl.methods.least_squares import LeastSquares, LeastSquaresState
from inferl.methods.linear_system import MOST_SOLVED, too_large
from inferl.variance.episodes import EpisodeSummary

__all__ = ["COMPANION", "EvaluatorState", "Method", "Schedule", "uninterrupted"]

LONGEST_RUN = 262_144  # numbers of features that are worked on at once
MANY_ROWS = 4096  # of a chunk; to work on a copy of the sums, however large, then costs less than a tenth of the work
MOST_COMPANIONED = 1000  # parameters up to which a bootstrap keeps least-squares sums beside it
COMPANION = LeastSquares()

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
    episodes: EpisodeSummary = field(default_factory=EpisodeSummary)
    outcomes: int = 0  # fingerprint of the rewards and discounts of all full tiles
    fingerprint: int = 0  # of all their columns
    tabular: bool | None = None  # kind of the features, once known
    ratios_ndim: int = 1  # 2 for several target policies on one log
    like: Increments | None = None  # no rows, of the form that a user's increments have
    diverged: tuple[str, int, int | None] | None = None  # message, step, replica
    broken: bool = False  # sums were left half-changed, as when memory runs out

    def verify(self) -> None:
        """Refuse numbers that no stream has; how the parts go together is said in `storable.py`."""
        bounds(self, {"outcomes": (0, 2**64 - 1), "fingerprint": (0, 2**64 - 1), "ratios_ndim": (0, 2)})
        demand(not self.broken, "an evaluator was saved whose last update was cut off")


@dataclass(frozen=True)
class Schedule:
    """Brings rows into tiles, makes increments of them and folds these into a state."""

    algorithm: Algorithm
    method: Method
    threads: int = 1

    @property
    def run(self) -> int:
        """Rows that are worked on at once.

        Several tiles at once spare calls; a delayed algorithm answers tile by tile, or tiles would blur.
        """
        return TILE if self.algorithm.delayed else max(LONGEST_RUN // self.algorithm.n_features // TILE, 1) * TILE

    def start(self) -> EvaluatorState:
        """Return the state before the first row; refuse a method that the algorithm cannot have."""
        algorithm, method = self.algorithm, self.method
        if isinstance(method, OnlineBootstrap):
            if not algorithm.recursive:
                raise SettingError(f"{algorithm} is a ratio of sums, which no step size leads to; use LeastSquares")
            kept = method.companion and algorithm.affine and algorithm.dimension <= MOST_COMPANIONED
            companion = COMPANION.init(algorithm.dimension) if kept else None
            return EvaluatorState(method.init(algorithm.n_parameters), companion)
        if not algorithm.affine:
            raise SettingError(f"{algorithm} is not linear, so LeastSquares cannot solve for it; use OnlineBootstrap")
        if algorithm.dimension > MOST_SOLVED and not algorithm.sparse:
            raise SettingError(too_large(algorithm.dimension, "parameters"))
        return EvaluatorState(method.init(algorithm.dimension, algorithm.outputs), None)

    def update(self, state: EvaluatorState, data: Transitions | Increments) -> None:
        """Place checked rows in time and work on the tiles that they complete: all of it or, if it raises, nothing.

        Work is done on a draft. Sums of least squares are too large to be copied for a few rows: then all that can
        raise comes first, and they are changed in place at the end, where signals are held back.
        """
        copied = len(data) >= MANY_ROWS
        draft = self._copied(state) if copied else replace(state, episodes=state.episodes.copy())
        draft.tabular = isinstance(data, Transitions) and data.tabular
        draft.ratios_ndim = data.ratios.ndim if isinstance(data, Transitions) else 0
        if isinstance(data, Increments) and draft.like is None:
            draft.like = data[:0].copied()
        diverged, waiting = None, []
        with np.errstate(all="ignore"):  # where numbers overflow, a check says so
            draft.streams, steps = state.streams.place(data)
            try:
                for run in self._runs(draft, steps):
                    waiting.append(self._prepared(draft, run))
                    if copied:
                        self._fold(draft, waiting.pop())
            except DivergenceError as error:
                diverged, start = error, int(run.clock.step[0])
                sound = max(error.step - start, 0) // TILE * TILE  # back to the edge of the tile it was in
                if sound:
                    waiting.append(self._prepared(draft, run[:sound]))
                draft.streams = replace(draft.streams, n=start - 1 + sound)
                draft.diverged = (str(error), error.step, error.replica)
            with uninterrupted():
                try:
                    for increments in waiting:
                        self._fold(draft, increments)
                except BaseException:
                    state.broken = not copied
                    raise
                vars(state).update(vars(draft))
        if diverged is not None:
            raise diverged

    def with_pending(self, own: EvaluatorState) -> EvaluatorState:
        """Return the state with the pending rows taken in; the one that is given stays as it is."""
        if own.pending is None:
            return own
        state = self._copied(own)
        with np.errstate(all="ignore"):
            try:
                self._fold(state, self._prepared(state, own.pending))
            except DivergenceError as error:  # the reading is that of the last full tile, and says so
                state.diverged = (str(error), error.step, error.replica)
        return state

    def fingerprints(self, state: EvaluatorState) -> tuple[int, int]:
        """Return the fingerprint of the outcomes and that of all columns, with the rows that wait."""
        return _fingerprints(state, state.pending)

    def _copied(self, state: EvaluatorState) -> EvaluatorState:
        method = state.method.copy() if isinstance(state.method, LeastSquaresState) else state.method
        companion = state.companion and state.companion.copy()
        return replace(state, method=method, companion=companion, episodes=state.episodes.copy())

    def _runs(self, draft: EvaluatorState, steps: Steps) -> Iterator[Steps]:
        """Cut the rows that waited and new ones into runs of whole tiles; what is left over waits."""
        start, longest = 0, self.run
        while start < len(steps):
            waiting = 0 if draft.pending is None else len(draft.pending)
            whole = (len(steps) - start) // TILE * TILE
            rows = steps[start : start + (TILE - waiting if waiting or not whole else min(whole, longest))]
            start += len(rows)
            run = rows if draft.pending is None else Steps.join([draft.pending, rows])
            if len(run) < TILE:
                draft.pending = deepcopy(run)  # the chunk it is a view of can be freed
                return
            draft.pending = None
            yield run

    def _prepared(self, draft: EvaluatorState, run: Steps) -> tuple[Increments, Clock] | None:
        """Take in whole tiles (or, for a reading, less than one); return what is left to fold into sums."""
        increments, clock, carry = self.algorithm.increments(run, draft.carry)
        to_fold = None
        if len(increments):
            if isinstance(draft.method, LeastSquaresState) or draft.companion is not None:
                to_fold = self.algorithm.value_form(increments), clock
            if isinstance(self.method, OnlineBootstrap):
                replicas = cast(BootstrapState, draft.method)
                draft.method = self.method.advance(replicas, increments, clock, self.threads)
        draft.carry = carry
        draft.outcomes, draft.fingerprint = _fingerprints(draft, run)
        if isinstance(run.data, Transitions):
            draft.ratios = draft.ratios.updated(run.data.ratios, run.data.discounts)
            draft.episodes.add(run)
        return to_fold

    def _fold(self, draft: EvaluatorState, prepared: tuple[Increments, Clock] | None) -> None:
        """Fold increments into the sums of least squares, in place."""
        if prepared is not None:
            if isinstance(self.method, OnlineBootstrap):
                COMPANION.advance(cast(LeastSquaresState, draft.companion), *prepared)
            else:
                self.method.advance(cast(LeastSquaresState, draft.method), *prepared)


def _fingerprints(state: EvaluatorState, rows: Steps | None) -> tuple[int, int]:
    """Add rows to the fingerprints of a state: that of its outcomes, and that of all columns."""
    if rows is None:
        return state.outcomes, state.fingerprint
    data, clock = rows.data, rows.clock
    columns: tuple[tuple[Any, ...], tuple[Any, ...]]
    if isinstance(data, Transitions):
        columns = (data.rewards, data.discounts), (data.ratios, data.features, data.next_features)
    else:
        parts = [(x.index, x.value) if isinstance(x, Sparse) else (x,) for x in (data.u, data.v)]
        columns = (data.c, *parts[0], *parts[1]), ()
    outcomes, whole = fingerprints(clock.step, clock.stream, *columns)
    return combined([state.outcomes, outcomes]), combined([state.fingerprint, whole])


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold back Ctrl-C and the like: what they do, such as raising KeyboardInterrupt, is done at the end."""
    held: list[tuple[signal.Signals, Any]] = []
    usual: dict[signal.Signals, Any] = {}
    try:
        if threading.current_thread() is threading.main_thread():  # others are never interrupted
            for number in (signal.SIGTERM, signal.SIGINT):
                usual[number] = signal.getsignal(number)
                if callable(usual[number]):
                    signal.signal(number, lambda got, frame: held.append((signal.Signals(got), frame)))
        yield
    finally:
        for number, handler in usual.items():
            if callable(handler):
                signal.signal(number, handler)
        for number, frame in held:
            usual[number](number, frame)
