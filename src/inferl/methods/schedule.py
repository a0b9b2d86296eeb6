"""The tile grid: however rows arrive, methods see them in tiles of `TILE` rows of the whole stream.

Rows that do not fill a tile wait; a reading works on a copy of the state that has taken them in. So one call with
10,000 steps, 10,000 calls with one, and a run stopped and resumed anywhere give the same bits.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from inferl import engine
from inferl.algorithms import Algorithm, Carry
from inferl.data.fingerprints import combined, fingerprints
from inferl.data.increments import Increments
from inferl.data.invariants import bounds, demand
from inferl.data.ratios import RatioSummary
from inferl.data.streams import TILE, Steps, Streams
from inferl.data.transitions import Transitions
from inferl.data.vectors import Sparse
from inferl.engine import Backend
from inferl.errors import DivergenceError
from inferl.methods.base import Method
from inferl.variance.episodes import EpisodeSummary

__all__ = ["EvaluatorState", "Schedule", "uninterrupted"]

LONGEST_RUN = 262_144  # numbers of features that are worked on at once
MANY_ROWS = 4096  # of a chunk; to work on a copy of the sums, however large, then costs less than a tenth of the work


@dataclass(eq=False)
class EvaluatorState:
    """All that has been learned from the stream; what a checkpoint holds."""

    method: Any  # of the method, which alone knows what it is
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
        """Refuse numbers that no stream has; how the parts go together is said in `storage`."""
        bounds(self, {"outcomes": (0, 2**64 - 1), "fingerprint": (0, 2**64 - 1), "ratios_ndim": (0, 2)})
        demand(not self.broken, "an evaluator was saved whose last update was cut off")


@dataclass(frozen=True)
class Schedule:
    """Brings rows into tiles, makes increments of them and folds these into a state."""

    algorithm: Algorithm
    method: Method
    backend: Backend
    threads: int = 1

    def working(self) -> AbstractContextManager[None]:
        """Activate the backend as long as the block lasts."""
        return engine.using(self.backend, self.threads)

    @property
    def run(self) -> int:
        """Rows that are worked on at once.

        Several tiles at once spare calls; a delayed algorithm answers tile by tile, or tiles would blur.
        """
        return TILE if self.algorithm.delayed else max(LONGEST_RUN // self.algorithm.n_features // TILE, 1) * TILE

    def start(self) -> EvaluatorState:
        """Return the state before the first row; refuse a method that the algorithm cannot have."""
        return EvaluatorState(self.method.init(self.algorithm))

    def update(self, state: EvaluatorState, data: Transitions | Increments) -> None:
        """Place checked rows in time and work on the tiles that they complete: all of it or, if it raises, nothing.

        Work is done on a draft. The state of a method may be too large to be copied for a few rows: then all that can
        raise comes first (`Method.prepare`), and it is changed in place at the end (`Method.commit`), where signals
        are held back.
        """
        copied = len(data) >= MANY_ROWS
        draft = self._copied(state) if copied else replace(state, episodes=state.episodes.copy())
        draft.tabular = isinstance(data, Transitions) and data.tabular
        draft.ratios_ndim = data.ratios.ndim if isinstance(data, Transitions) else 0
        if isinstance(data, Increments) and draft.like is None:
            draft.like = data[:0].copied()
        diverged, waiting = None, []
        with self.working(), np.errstate(all="ignore"):  # where numbers overflow, a check says so
            draft.streams, steps = state.streams.place(data)
            try:
                for run in self._runs(draft, steps):
                    waiting.append(self._prepared(draft, run))
                    if copied:
                        self.method.commit(draft.method, waiting.pop())
            except DivergenceError as error:
                diverged, start = error, int(run.clock.step[0])
                sound = max(error.step - start, 0) // TILE * TILE  # back to the edge of the tile it was in
                if sound:
                    waiting.append(self._prepared(draft, run[:sound]))
                draft.streams = replace(draft.streams, n=start - 1 + sound)
                draft.diverged = (str(error), error.step, error.replica)
            with uninterrupted():
                try:
                    for work in waiting:
                        self.method.commit(draft.method, work)
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
        with self.working(), np.errstate(all="ignore"):
            try:
                self.method.commit(state.method, self._prepared(state, own.pending))
            except DivergenceError as error:  # the reading is that of the last full tile, and says so
                state.diverged = (str(error), error.step, error.replica)
        return state

    def fingerprints(self, state: EvaluatorState) -> tuple[int, int]:
        """Return the fingerprint of the outcomes and that of all columns, with the rows that wait."""
        return _fingerprints(state, state.pending)

    def _copied(self, state: EvaluatorState) -> EvaluatorState:
        return replace(state, method=self.method.copy(state.method), episodes=state.episodes.copy())

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

    def _prepared(self, draft: EvaluatorState, run: Steps) -> Any:
        """Take in whole tiles (or, for a reading, less than one); return what is left for the method to commit."""
        increments, clock, carry = self.algorithm.increments(run, draft.carry)
        draft.method, work = self.method.prepare(self.algorithm, draft.method, run, increments, clock)
        draft.carry = carry
        draft.outcomes, draft.fingerprint = _fingerprints(draft, run)
        if isinstance(run.data, Transitions):
            draft.ratios = draft.ratios.updated(run.data.ratios, run.data.discounts)
            draft.episodes.add(run)
        return work


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
