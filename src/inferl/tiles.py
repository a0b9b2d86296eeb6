"""The tile grid: however rows arrive, methods see them in tiles of `TILE` rows of the whole stream.

Rows that do not fill a tile wait; a reading works on a copy of the state that has taken them in. So one call with
10 000 steps, 10 000 calls with one, and a run stopped and resumed anywhere give the same bits.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import cast

import numpy as np

from inferl.algorithms import Algorithm, Carry
from inferl.bootstrap import BootstrapState, OnlineBootstrap
from inferl.coordinates import MOST_SOLVED, too_large
from inferl.episodes import EpisodeSummary
from inferl.errors import DivergenceError, SettingError
from inferl.fingerprints import fingerprint
from inferl.increments import Increments
from inferl.least_squares import LeastSquares, LeastSquaresState
from inferl.ratios import RatioSummary
from inferl.streams import TILE, Steps, Streams
from inferl.transitions import Transitions

__all__ = ["COMPANION", "EvaluatorState", "Method", "Tiles"]

LONGEST_RUN = 262_144  # numbers of features that are worked on at once
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
    fingerprint: int = 0  # of all rows
    tabular: bool | None = None  # kind of the features, once known
    ratios_ndim: int = 1  # 2 for several target policies on one log
    diverged: tuple[str, int, int | None] | None = None  # message, step, replica


@dataclass(frozen=True)
class Tiles:
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

    def take(self, state: EvaluatorState, data: Transitions | Increments) -> None:
        """Place checked rows in time and work on the tiles that they complete."""
        state.streams, steps = state.streams.place(data)
        rewards = data.rewards if isinstance(data, Transitions) else np.zeros(len(data))
        state.fingerprint = (state.fingerprint + fingerprint(steps.clock.step, steps.clock.stream, rewards)) % 2**64
        start, longest = 0, self.run
        while start < len(steps):
            waiting = 0 if state.pending is None else len(state.pending)
            whole = (len(steps) - start) // TILE * TILE
            rows = steps[start : start + (TILE - waiting if waiting or not whole else min(whole, longest))]
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

    def settled(self, own: EvaluatorState) -> EvaluatorState:
        """Return the state with the pending rows taken in; the one that is given stays as it is."""
        if own.pending is None:
            return own
        method = own.method.copy() if isinstance(own.method, LeastSquaresState) else own.method
        companion = own.companion and own.companion.copy()
        state = replace(own, method=method, companion=companion, episodes=own.episodes.copy())
        try:
            self._work(state, own.pending)
        except DivergenceError as error:  # the reading is that of the last full tile, and says so
            state.diverged = (str(error), error.step, error.replica)
        return state

    def _work(self, state: EvaluatorState, run: Steps) -> None:
        """Fold whole tiles (or, for a reading, less than one) into a state."""
        increments, clock, carry = self.algorithm.increments(run, state.carry)
        if len(increments):
            if isinstance(self.method, OnlineBootstrap):
                replicas = cast(BootstrapState, state.method)
                state.method = self.method.advance(replicas, increments, clock, self.threads)
                if state.companion is not None:
                    COMPANION.advance(state.companion, self.algorithm.value_form(increments), clock)
            else:
                solved = cast(LeastSquaresState, state.method)
                self.method.advance(solved, self.algorithm.value_form(increments), clock)
        state.carry = carry
        if isinstance(run.data, Transitions):
            state.ratios = state.ratios.taking(run.data.ratios, run.data.discounts)
            state.episodes.add(run)
