"""Schedule: cuts a stream into tiles of `TILE` rows, whatever its chunks, and folds them into a state.

Rows that do not fill a tile are pending; a reading folds them into a copy of the state. So one call with 10,000 steps,
10,000 calls with one step, and a run that is stopped and resumed anywhere give the same bits.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Generator, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from inferl import engine
from inferl.algorithms import Algorithm, Carry
from inferl.data.arrays import Words
from inferl.data.constants import ConstantFit
from inferl.data.device import beside, on_host
from inferl.data.fingerprints import combined, fingerprints
from inferl.data.increments import Increments
from inferl.data.invariants import bounds, demand
from inferl.data.parallel import ahead
from inferl.data.ratios import RatioSummary
from inferl.data.streams import TILE, Clock, Steps, Streams
from inferl.data.transitions import Transitions
from inferl.data.vectors import Sparse
from inferl.diagnostics import Check, together
from inferl.engine import Backend
from inferl.errors import DivergenceError, SettingError
from inferl.methods.base import Method
from inferl.variance.episodes import EpisodeSummary

__all__ = ["EvaluatorState", "Schedule", "merged_states", "uninterrupted"]

RunOfRows = tuple[Steps, Increments, Clock]  # rows of whole tiles, and what the algorithm makes of them
Prepared = Generator[tuple[Any, Any], None, None]  # the method's state after each run, and what is left to commit

MOST_TOGETHER = 8  # threads for which runs become longer, so that they wait for each other less often
MOST_ROWS = 2**15  # of a run on the host
MOST_ON_DEVICE = 2**17  # of a run on a device, so that the host prepares the next one meanwhile
FEWEST_AT_ONCE = 4  # threads; with fewer, the stages of runs would take them from each other
MANY_ROWS = 4096  # in a chunk; copying the state of a few streams then costs less than a tenth of the work


@dataclass(eq=False)
class EvaluatorState:
    """All that is kept of the stream; the content of a checkpoint."""

    method: Any  # the method's own state; only the method knows its type
    streams: Streams = field(default_factory=Streams)
    pending: Steps | None = None  # rows of the last, incomplete tile
    carry: Carry = field(default_factory=dict)
    ratios: RatioSummary = field(default_factory=RatioSummary)
    episodes: EpisodeSummary = field(default_factory=EpisodeSummary)
    constant: ConstantFit = field(default_factory=ConstantFit)
    outcomes: int = 0  # fingerprint of the rewards and discounts of all full tiles
    fingerprint: int = 0  # of all their columns
    tabular: bool | None = None  # kind of the features, once known
    ratios_ndim: int = 1  # 2 for several target policies on one log
    source_checks: tuple[Check, ...] = ()  # that sources have made of their data
    like: Increments | None = None  # increments without rows, of the form that the user passes
    diverged: tuple[str, int, int | None] | None = None  # message, step, replica
    broken: bool = False  # an update in place was interrupted, as when memory runs out
    version: int = -1  # of the policy; -1: none was named

    def verify(self) -> None:
        """Refuse impossible numbers; `storage.storable` verifies that the parts are consistent."""
        bounds(self, {"outcomes": (0, 2**64 - 1), "fingerprint": (0, 2**64 - 1), "ratios_ndim": (0, 2)})
        bounds(self, {"version": (-1, 2**63 - 1)})
        demand(not self.broken, "an evaluator was saved whose last update was cut off")


@dataclass(frozen=True)
class Schedule:
    """Cuts rows into tiles, turns them into increments, and folds these into a state."""

    algorithm: Algorithm
    method: Method
    backend: Backend
    threads: int = 1

    def working(self) -> AbstractContextManager[None]:
        """Activate the backend within a `with` block."""
        return engine.using(self.backend, self.threads)

    def run(self, tabular: bool = False) -> int:
        """Return the number of rows that are processed at once; a row of a table holds a few numbers only.

        Several tiles at once save calls. A delayed algorithm gets one tile at a time: its increments may belong to
        earlier rows, and those of different tiles must stay separate.
        """
        if self.algorithm.delayed:
            return TILE
        together = self.backend.run // (1 if tabular and self.algorithm.sparse else self.algorithm.n_features)
        if self.backend.device is None:
            together = min(together * min(self.threads, MOST_TOGETHER), MOST_ROWS)
        return max(min(together, MOST_ON_DEVICE) // TILE, 1) * TILE

    def start(self) -> EvaluatorState:
        """Return the state before the first row; refuse a method that does not support the algorithm."""
        return EvaluatorState(self.method.init(self.algorithm))

    def admit(self, state: EvaluatorState, data: Transitions | Increments) -> None:
        """Refuse rows of another version of the policy, and rows that would make the state too large."""
        if isinstance(data, Transitions) and data.version is not None:
            first = data.version[0] if state.version < 0 else state.version
            if (data.version != first).any():
                raise SettingError(
                    "the data are of more than one version of the policy, and an interval would be about a mixture; "
                    "evaluate each version by itself, or look at a window (window), which begins anew with each version"
                )
        self.method.admit([state.method], [*([] if state.pending is None else [state.pending.data]), data])

    def explained(self, checks: Sequence[Check]) -> Sequence[Check]:
        """Return the checks of the method, in the words of what this schedule makes of the stream.

        A change of the value looks like dependence, too: if it is found, it is the cause.
        """
        if not any(check.failed and check.name == "drift" for check in checks):
            return checks
        cause = "a change of the value looks like dependence: see the check drift"
        return [replace(one, remedy=cause) if one.failed and one.name == "dependence" else one for one in checks]

    def borders(self, state: EvaluatorState, data: Transitions | Increments) -> list[int]:
        """Return the rows before which a reading is due, because a pane of a window is over."""
        return []

    def update(self, state: EvaluatorState, data: Transitions | Increments) -> None:
        """Place validated rows in time and fold the tiles that they complete; if anything raises, change nothing.

        The work is done on a draft. The state of a method may be too large to copy for a few rows. Then everything
        that can raise comes first (`Method.prepare`), and the state is changed in place at the end (`Method.commit`),
        with signals deferred.
        """
        try:
            self._fold(state, data)
        except _DivergedError as diverged:
            self._stop(state, data, *diverged.args)

    def _fold(self, state: EvaluatorState, data: Transitions | Increments) -> None:
        copied = len(data) >= max(MANY_ROWS, len(state.streams))
        draft = self._copied(state) if copied else replace(state, episodes=state.episodes.copy())
        draft.tabular = isinstance(data, Transitions) and data.tabular
        draft.ratios_ndim = data.ratios.ndim if isinstance(data, Transitions) else 0
        if isinstance(data, Transitions) and data.version is not None:
            draft.version = int(data.version[-1])
        if isinstance(data, Increments) and draft.like is None:
            draft.like = data[:0].copied()
        if self.backend.device is not None:
            data = data.on(self.backend.device) if self.algorithm.affine else on_host(data)
        with self.working(), np.errstate(all="ignore"):  # overflow is reported by a check
            draft.streams, steps = state.streams.place(data)
            waiting = []
            with closing(self._prepared(draft, steps, at_once=copied)) as prepared:
                for after, work in prepared:
                    draft.method = after
                    if copied:
                        self.method.commit(after, work)
                    else:
                        waiting.append(work)
            with uninterrupted():
                try:
                    for work in waiting:
                        self.method.commit(draft.method, work)
                except BaseException:
                    state.broken = not copied
                    raise
                vars(state).update(vars(draft))

    def _stop(self, state: EvaluatorState, data: Transitions | Increments, error: DivergenceError, n: int) -> None:
        """Fold the rows before step n + 1, at the edge of a tile, and raise the error of a divergence after it."""
        if n > state.streams.n:
            self._fold(state, data[: n - state.streams.n])  # nothing diverges there
        elif state.pending is not None:  # it diverged in a tile whose first rows are pending
            clock, completed = state.pending.clock, state.streams.completed
            completed = completed - np.bincount(clock.slot[clock.last], minlength=len(completed))
            state.pending, state.streams = None, replace(state.streams, n=n, completed=completed)
        if n == 0:
            state.tabular, state.ratios_ndim = None, 1
        state.diverged = (str(error), error.step, error.replica)
        raise error from None

    def with_pending(self, own: EvaluatorState) -> EvaluatorState:
        """Return a state on the host, with the pending rows folded in; the given one does not change."""
        if own.pending is None:
            return on_host(own)  # type: ignore[no-any-return]
        state = self._copied(own)
        with self.working(), np.errstate(all="ignore"):
            found = self._followed(state, iter([own.pending]))
            try:
                for after, work in self._advanced(state.method, found):
                    state.method = after
                    self.method.commit(after, work)
            except _DivergedError as diverged:  # the reading is that of the last full tile, with a note
                error = diverged.args[0]
                state.diverged = (str(error), error.step, error.replica)
        return on_host(state)  # type: ignore[no-any-return]

    def fingerprints(self, state: EvaluatorState) -> tuple[int, int]:
        """Return the fingerprints of the outcomes and of all columns, including pending rows."""
        with self.working():
            return _fingerprints(state, state.pending)

    def _copied(self, state: EvaluatorState) -> EvaluatorState:
        return replace(state, method=self.method.copy(state.method), episodes=state.episodes.copy())

    def _runs(self, draft: EvaluatorState, steps: Steps) -> Iterator[Steps]:
        """Cut pending and new rows into runs of whole tiles; the remaining rows become pending."""
        start, longest = 0, self.run(bool(draft.tabular))
        while start < len(steps):
            waiting = 0 if draft.pending is None else len(draft.pending)
            whole = (len(steps) - start) // TILE * TILE
            rows = steps[start : start + (TILE - waiting if waiting or not whole else min(whole, longest))]
            start += len(rows)
            run = rows if draft.pending is None else Steps.join([draft.pending, rows])
            if len(run) < TILE:
                draft.pending = deepcopy(run)  # not a view, so that the chunk can be freed
                return
            draft.pending = None
            yield run

    def _prepared(self, draft: EvaluatorState, steps: Steps, at_once: bool) -> Prepared:
        """Cut rows into runs and prepare them; yield the method's state after each, and the work for `commit`.

        A run passes three stages: its increments, `prepare`, and `commit`, which the caller does. If `at_once`, each
        stage has a thread, so that what one does on a single core does not hold up the others. On a device, the last
        two are one: most of their work is the device's, which they seldom wait for. A user's function may be slow, and
        an interrupt would have to wait for it in another thread.
        """
        found, device = self._followed(draft, self._runs(draft, steps)), self.backend.device
        if self.threads < FEWEST_AT_ONCE or not self.algorithm.affine:
            at_once = False
        if not at_once or len(steps) <= self.run(bool(draft.tabular)):
            return self._advanced(draft.method, found)
        if device is not None:
            return self._advanced(draft.method, ahead(beside(found, device)))
        return ahead(self._advanced(draft.method, ahead(found)))

    def _followed(self, draft: EvaluatorState, runs: Iterator[Steps]) -> Generator[RunOfRows, None, None]:
        """Yield the increments of each run, and add its rows to what is known of the stream."""
        for run in runs:
            with np.errstate(all="ignore"):
                increments, clock, draft.carry = self.algorithm.increments(run, draft.carry)
                draft.outcomes, draft.fingerprint = _fingerprints(draft, run)
                if isinstance(run.data, Transitions):
                    draft.ratios = draft.ratios.updated(run.data.ratios, run.data.discounts)
                    draft.episodes.add(run)
                    draft.constant = draft.constant.updated(run.data.features)
            yield run, increments, clock

    def _advanced(self, method: Any, found: Generator[RunOfRows, None, None]) -> Prepared:
        """Prepare each run; if it diverges, say up to which step its tiles are sound."""
        with closing(found):
            for run, increments, clock in found:
                try:
                    with np.errstate(all="ignore"):
                        method, work = self.method.prepare(self.algorithm, method, run, increments, clock)
                except DivergenceError as error:
                    before = int(run.clock.step[0]) - 1
                    sound = (error.first_unsound - before - 1) // TILE * TILE  # rows before the tile that diverged
                    # A delayed increment has the number of an earlier row, and comes alone with its tile.
                    raise _DivergedError(error, before + max(sound, 0)) from error
                yield method, work


def merged_states(schedule: Schedule, parts: Sequence[EvaluatorState]) -> EvaluatorState:
    """Merge the states of separate data, without pending rows; streams and carry are those of the first."""
    versions = sorted({part.version for part in parts if part.version >= 0})
    if len(versions) > 1:
        raise SettingError(
            f"the data are of several versions of the policy ({', '.join(map(str, versions))}), and an interval would "
            "be about a mixture; merge those of each version by themselves"
        )
    first = schedule._copied(parts[0])
    first.version = versions[0] if versions else -1
    if len(parts) == 1:
        return first
    with schedule.working(), np.errstate(all="ignore"):  # overflow is reported by a check
        first.method = schedule.method.merge([part.method for part in parts])
    for part in parts[1:]:
        first.ratios = first.ratios.plus(part.ratios)
        first.episodes = first.episodes.plus(part.episodes)
        first.constant = first.constant.plus(part.constant)
        first.source_checks = together(first.source_checks, part.source_checks)
    first.fingerprint = combined([part.fingerprint for part in parts])
    first.outcomes = combined([part.outcomes for part in parts])
    first.pending = None
    completed = first.streams.completed.copy()
    completed[0] += sum(int(part.streams.completed.sum()) for part in parts[1:])
    first.streams = replace(first.streams, n=sum(part.streams.n for part in parts), completed=completed)
    return first


class _DivergedError(Exception):
    """A divergence, and the number of rows before the tile in which it happened."""


def _fingerprints(state: EvaluatorState, rows: Steps | None) -> tuple[int, int]:
    """Combine the fingerprints of a state (outcomes, all columns) with those of rows."""
    if rows is None or len(rows) == 0:
        return state.outcomes, state.fingerprint
    data, clock = rows.data, rows.clock
    columns: tuple[tuple[Any, ...], tuple[Any, ...]]
    if isinstance(data, Transitions):
        columns = (data.rewards, data.discounts), (data.ratios, data.features, data.next_features)
    else:
        parts = [(x.index, x.value) if isinstance(x, Sparse) else (x,) for x in (data.u, data.v)]
        columns = (data.c, *parts[0], *parts[1]), ()
    use = engine.active()

    def sum_words(words: Words, keys: Words) -> Words:
        return use.sum_words(words, keys, use.threads)

    outcomes, whole = fingerprints(clock.step, clock.stream, columns[0], columns[1], sum_words)
    return combined([state.outcomes, outcomes]), combined([state.fingerprint, whole])


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Defer SIGINT and SIGTERM to the end of the block; then their handlers run, and may raise KeyboardInterrupt."""
    held: list[tuple[signal.Signals, Any]] = []
    usual: dict[signal.Signals, Any] = {}
    try:
        if threading.current_thread() is threading.main_thread():  # signals interrupt no other
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
