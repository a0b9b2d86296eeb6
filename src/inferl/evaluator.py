"""Evaluator: transitions in, intervals out.

This is the public surface. It validates rows and passes them to the schedule (`methods.schedule`); it converts targets
to vectors, lets the method read the state along them, and returns the interval with its checks.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike

from inferl import engine
from inferl.algorithms import Algorithm
from inferl.algorithms.targets import Targets, as_targets
from inferl.data.arrays import Floats, is_integer, is_number, short
from inferl.data.device import device_of, on_host
from inferl.data.increments import Increments
from inferl.data.observations import Observations
from inferl.data.streams import TILE
from inferl.data.transitions import Transitions
from inferl.diagnostics import Check, Report, together
from inferl.engine import Backend
from inferl.engine.multipliers import LAYOUT
from inferl.errors import BrokenError, CheckpointMismatchError, DivergenceError, KindError, SettingError, ShapeError
from inferl.interval import Interval, check_level
from inferl.methods.answers import Answer, answer
from inferl.methods.base import Method, Reading
from inferl.methods.registry import method_named
from inferl.methods.schedule import EvaluatorState, Schedule, uninterrupted
from inferl.methods.window import Window, WindowSchedule
from inferl.storage.checkpoint import read_checkpoint, refused, write_checkpoint
from inferl.storage.storable import storable, verify_together

__all__ = ["Evaluator", "SavedEvaluator"]

FEWEST = {"steps": 1000, "episodes": 32}  # before `until` may stop


@dataclass(frozen=True)
class SavedEvaluator:
    """The content of an evaluator's file."""

    algorithm: Algorithm | None  # None: a nonlinear field, whose function cannot be stored
    method: Method
    window: Window | None
    parameters: int
    tile: int
    layout: int
    state: EvaluatorState


class Evaluator:
    """Estimates the value of a policy from its transitions, with error bars.

    Parameters
    ----------
    algorithm
        Turns transitions into increments: `TD`, `GTD2`, ...
    method
        Turns increments into intervals: `LeastSquares` (the default) or `OnlineBootstrap`.
    threads
        Number of threads that share the work; it changes no bit. Default: all cores, or ``OMP_NUM_THREADS``. From four
        on, two more prepare the rows of long chunks.
    backend
        Does the arithmetic: ``"auto"``, ``"native"``, ``"reference"``, ``"torch"`` (on a GPU), or a `Backend` of your
        own. Files record neither backend nor threads.
    device
        Of ``"torch"``: ``"cuda"``, ``"cuda:1"``, ``"cpu"``. Default: the GPU, if there is one.
    window
        A `Window`: intervals and checks are then about the latest data. None: about all data.

    Notes
    -----
    An evaluator is not thread-safe. Lock every call, also readings, which process the steps that `observe` has
    buffered; or give each thread its own evaluator, and `merge` them.

    Examples
    --------
    A coin that pays 1 or 0 at each step, discounted by 0.9; its value is 5:

    >>> from inferl import TD, Transitions
    >>> coin = np.random.default_rng(1).integers(2, size=2000)
    >>> evaluator = Evaluator(TD(1)).update(Transitions(0 * coin, coin, 0 * coin, 0.9))
    >>> print(evaluator.interval(0))
    5.07 [4.84, 5.30] 95% pointwise, 2,000 transitions
    """

    def __init__(
        self,
        algorithm: Algorithm,
        method: Method | None = None,
        threads: int | None = None,
        backend: str | Backend = "auto",
        device: str | None = None,
        window: Window | None = None,
    ) -> None:
        if not isinstance(algorithm, Algorithm):
            raise SettingError(f"algorithm is {short(algorithm)}; give one with its settings, such as TD(4)")
        if not isinstance(method, Method | None):
            raise SettingError(f"method is {short(method)}; give one with its settings, such as LeastSquares()")
        chosen = method_named("least-squares").from_options({}, algorithm) if method is None else method
        if not isinstance(window, Window | None):
            raise SettingError(f"window is {short(window)}; give one with its settings, such as Window(24, every=1000)")
        settings = algorithm, chosen, _checked_backend(backend, threads, device), threads or engine.cores()
        self._schedule = Schedule(*settings) if window is None else WindowSchedule(*settings, window)
        self._window = window
        self._state = self._schedule.start()
        self._run = replace(self._schedule, threads=1).run()  # steps that are observed before they are processed
        self._observed = Observations(algorithm.n_features, self._run)

    @property
    def algorithm(self) -> Algorithm:
        """The algorithm, which turns transitions into increments."""
        return self._schedule.algorithm

    @property
    def method(self) -> Method:
        """The method, which turns increments into intervals."""
        return self._schedule.method

    @property
    def window(self) -> Window | None:
        """The window that is read, or None where all data are."""
        return self._window

    @property
    def backend(self) -> Backend:
        """The backend, which does the arithmetic."""
        return self._schedule.backend

    def __repr__(self) -> str:
        window = "" if self.window is None else f", window={self.window!r}"
        return f"Evaluator({self.algorithm}, {self.method}{window})"

    @property
    def n(self) -> int:
        """Number of transitions seen."""
        return self._state.streams.n + len(self._observed)

    @property
    def episodes(self) -> int:
        """Number of episodes that have ended."""
        self._flush()
        return int(self._state.streams.completed.sum())

    @property
    def fingerprint(self) -> int:
        """Hash of all columns of the stream, in order; the same for any chunking."""
        self._flush()
        return self._schedule.fingerprints(self._state)[1]

    @property
    def outcomes(self) -> int:
        """Hash of the stream's steps, stream labels, rewards and discounts.

        Unlike `fingerprint`, it is the same for two policies, or two feature maps, that are evaluated on one log.
        """
        self._flush()
        return self._schedule.fingerprints(self._state)[0]

    # Data in.

    def update(self, data: Transitions | Increments | Iterable[Transitions | Increments]) -> Self:
        """Process a chunk, or all chunks of a source, whose checks join ours. A chunk that raises changes nothing."""
        if isinstance(data, Transitions | Increments):
            self._collect(data)
            return self
        self.method.expect(self.algorithm, data)
        if getattr(data, "endless", False):
            raise SettingError("this source never ends; limit it, as in source.take(episodes=100), or use until()")
        with self._heeding(data):
            for chunk in _chunks(data):
                self._collect(chunk)
        return self

    @contextmanager
    def _heeding(self, source: Any) -> Iterator[None]:
        """Take over the checks that a source makes, at the end of the block and if it is left by an error."""
        earlier = self._state.source_checks
        try:
            yield
        finally:
            self.heed(source, earlier)

    def heed(self, source: Any, earlier: tuple[Check, ...] = ()) -> None:
        """Take over the checks that a source makes of what was read; `earlier` ones are those of other sources."""
        if hasattr(source, "checks"):
            self._state.source_checks = together(earlier, source.checks())

    def _collect(self, data: Transitions | Increments) -> None:
        self._flush()
        self._refuse_after_divergence()
        self.algorithm.check(data)
        if device_of(data) is not None and self.backend.device is None:
            raise SettingError("the vectors are on a device, but this evaluator works on the host; use backend='torch'")
        if len(data) == 0:
            raise ShapeError("a chunk needs at least one row, this one is empty")
        tabular = isinstance(data, Transitions) and data.tabular
        columns = data.ratios.ndim if isinstance(data, Transitions) else 0
        if (tabular, columns) != (self._state.tabular, self._state.ratios_ndim) and self._state.tabular is not None:
            raise ShapeError(
                "features or ratios have another form than before: features are either row numbers of a table or "
                "vectors, and ratios have either one column or several, for the whole stream"
            )
        if isinstance(data, Increments) and self._state.like is not None and data.form() != self._state.like.form():
            raise ShapeError("increments have another number of terms, form (dense or sparse) or damping than before")
        self._schedule.admit(self._state, data)
        self._schedule.update(self._state, data)
        # Single steps may be buffered, unless each must first pass a check that needs a chunk, or needs a time.
        limited = self.method.limited(self.algorithm) or self.algorithm.checks_rows
        limited |= self.window is not None and self.window.seconds is not None
        if isinstance(data, Transitions) and columns == 1 and not limited:
            self._observed.tabular = tabular

    def borders(self, chunk: Transitions | Increments) -> list[int]:
        """Return the rows of a chunk before which a reading is due, because a pane of the window is over."""
        self._flush()
        return self._schedule.borders(self._state, chunk)

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
        truncated: bool | None = None,
        time: float | None = None,
        version: int | None = None,
    ) -> None:
        """Process one step. It is validated and copied now, and folded together with others or before a reading."""
        if self._state.diverged is not None or self._state.broken or len(self._observed.rows) >= self._run:
            self._flush()
            self._refuse_after_divergence()
        # The buffer derives `truncated` from `last` and the discount; anything else goes through `Transitions`.
        plain = first is episode is time is version is None and (
            truncated is None or (truncated is False and last is not True)
        )
        if plain and self._observed.append(features, reward, next_features, discount, ratio, last, stream):
            return
        flags = {"first": first, "last": last, "episode": episode, "truncated": truncated, "time": time}
        flags["version"] = version
        row: dict[str, Any] = {name: [flag] for name, flag in flags.items() if flag is not None}
        row |= {"features": [features], "rewards": [reward], "next_features": [next_features]}
        self._collect(Transitions(**row, discounts=[discount], ratios=[ratio], stream=[stream]))

    def until(
        self,
        source: Iterable[Transitions | Increments],
        target: Any = None,
        *,
        width: float | None = None,
        lower_above: float | None = None,
        upper_below: float | None = None,
        level: float = 0.95,
        tuning_time: int | None = None,
        after: int | None = None,
    ) -> Iterator[Transitions | Increments]:
        """Process chunks of a source until a stopping criterion is met, and yield each chunk.

        The interval is read after every chunk, so the criteria use the anytime interval. They are not met while a
        check fails.

        Parameters
        ----------
        source
            Chunks: a log, an endless rollout, or part of one, as in ``source.take(episodes=1000)``.
        target
            As for `interval`; all of k targets must meet the criterion. ``source.start()`` stands for the starts that
            the source has observed at each reading.
        width
            Stop when the interval is no wider than this.
        lower_above, upper_below
            Stop when its lower bound is above, or its upper bound below, this number.
        level, tuning_time
            Of the anytime interval.
        after
            Do not stop before this number of transitions (episodes, as for `tuning_time`); default 1,000 (32).

        Examples
        --------
        >>> from inferl import TD, Transitions
        >>> coin = np.random.default_rng(1).integers(2, size=100_000)
        >>> data = Transitions(0 * coin, coin, 0 * coin, 0.9)
        >>> evaluator = Evaluator(TD(1))
        >>> for chunk in evaluator.until((data[k : k + 500] for k in range(0, 100_000, 500)), target=0, width=0.25):
        ...     pass
        >>> print(evaluator.interval(0, kind="anytime"))
        5.05 [4.93, 5.18] 95% anytime, 15,000 transitions
        """
        check_level(level)
        self.method.expect(self.algorithm, source)
        asked = _questions(width, lower_above, upper_below, 0 if after is None else after)
        chunks, earlier = _chunks(source), self._state.source_checks

        def watched() -> Iterator[Transitions | Increments]:
            while True:
                self.heed(source, earlier)
                # A source's own starts are those that it has observed by now.
                now = target.latest() if hasattr(target, "latest") else target
                if self.is_decided(now, **asked, level=level, tuning_time=tuning_time, after=after):
                    return
                chunk = next(chunks, None)
                if chunk is None:
                    return
                self._collect(chunk)
                yield chunk

        return watched()

    def is_decided(
        self,
        target: Any = None,
        *,
        width: float | None = None,
        lower_above: float | None = None,
        upper_below: float | None = None,
        level: float = 0.95,
        tuning_time: int | None = None,
        after: int | None = None,
    ) -> bool:
        """Return whether a stopping criterion of `until` is met; may be called any number of times."""
        fewest = FEWEST[self.method.unit] if after is None else after
        _questions(width, lower_above, upper_below, fewest)
        if (self.episodes if self.method.unit == "episodes" else self.n) < fewest:
            return False
        now = self.interval(target, level, "anytime", tuning_time)
        return not now.notes and bool(
            (width is not None and np.all(now.width <= width))
            or (lower_above is not None and np.all(now.lower > lower_above))
            or (upper_below is not None and np.all(now.upper < upper_below))
        )

    def _flush(self) -> None:
        """Process the buffered steps; they are dropped only once that has succeeded."""
        if self._state.broken:
            raise BrokenError(
                "an update of this evaluator was cut off half-way, as when memory runs out, so its sums are invalid; "
                "continue from a checkpoint, or start again"
            )
        if len(self._observed):
            with uninterrupted():
                try:
                    self._schedule.update(self._state, self._observed.chunk())
                except DivergenceError:
                    self._observed.clear()
                    raise
                self._observed.clear()

    def _refuse_after_divergence(self) -> None:
        if self._state.diverged is not None:
            raise DivergenceError(*self._state.diverged)

    # Answers out.

    def estimate(self, target: Any = None) -> Any:
        """Return the estimate for a target, without standard error and checks, which saves time.

        >>> from inferl import TD, Transitions
        >>> evaluator = Evaluator(TD(1)).update(Transitions([0, 0], [1.0, 2.0], [0, 0], 0.5))
        >>> evaluator.estimate(0)
        3.0
        """
        targets, state = self.targets(target), self.with_pending()
        with self._schedule.working(), np.errstate(all="ignore"):
            found = self.method.estimate(self.algorithm, state.method, targets.rows)
        return float(found[0]) if targets.single else found

    def covariance(self, targets: Any) -> Floats:
        """Return the covariance matrix (k, k) of the estimates; NaN beside an infinite standard error.

        >>> from inferl import TD, Transitions
        >>> states = np.random.default_rng(0).integers(2, size=1000)
        >>> evaluator = Evaluator(TD(2)).update(Transitions(states, states + 0.5, np.roll(states, -1), 0.5))
        >>> evaluator.covariance(np.eye(2)).shape
        (2, 2)
        """
        with np.errstate(all="ignore"):
            return self.read(targets, jointly=True).covariance()

    def ess(self, target: Any = None) -> Any:
        """Return the effective sample size: n times the variance of single steps over that of the estimate.

        It counts episodes where episodes are the blocks, as with `DoublyRobust`. NaN if no least-squares sums are kept.

        >>> from inferl import TD, Transitions
        >>> coin = np.random.default_rng(1).integers(2, size=2000)
        >>> f"{Evaluator(TD(1)).update(Transitions(0 * coin, coin, 0 * coin, 0.9)).ess(0):.0f}"
        '1855'
        """
        targets, solved = self.targets(target), self.read(target).solved
        found = np.full(len(targets.rows), np.nan) if solved is None else solved.ess()
        return float(found[0]) if targets.single else found

    def read(self, target: Any = None, jointly: bool = False) -> Reading:
        """Return the reading behind an interval; with `jointly`, also the correlations between k targets."""
        targets, state = self.targets(target), self.with_pending()
        with self._schedule.working(), np.errstate(all="ignore"):
            return self.method.read(self.algorithm, state.method, targets.rows, jointly)

    def targets(self, target: Any = None) -> Targets:
        """Convert a target to vectors, as `interval` does."""
        return as_targets(target, self.algorithm, self._state.tabular, self.method.whole)

    def interval(
        self, target: Any = None, level: float = 0.95, kind: str | None = None, tuning_time: int | None = None
    ) -> Interval:
        """Return the interval for a target, with a note for each failed check.

        Parameters
        ----------
        target
            With `DoublyRobust` None or ``"value"``: the value of the start distribution; ``"fitted"``: its LSTD
            estimate, from the features alone; ``("value", c)``: the value of a start distribution with known mean
            features c. Otherwise the number of a state (tabular features), a vector of features, or a matrix (k, d)
            for k intervals: the fixed point of the algorithm, which is the value only if the features can express it.
        level
            Nominal coverage.
        kind
            ``"normal"``, and for the bootstrap ``"percentile"`` (its default) and ``"basic"``: pointwise, valid for one
            reading of one target. ``"anytime"``: valid for any number of readings. ``"simultaneous"``: valid for all k
            targets at once.
        tuning_time
            Number of transitions at which an anytime interval is tightest; of episodes, where these are the blocks, as
            with `DoublyRobust`. Fix it before the first reading. Default: 10,000 transitions, 100 episodes.
        """
        return self._answer(target, level, kind, tuning_time).interval

    def report(
        self, target: Any = None, level: float = 0.95, kind: str | None = None, tuning_time: int | None = None
    ) -> Report:
        """Return the interval with all checks, and facts about the data and the method."""
        state = self.with_pending()
        found = self._answer(target, level, kind, tuning_time, state)
        interval, misfit, ratios = found.interval, found.misfit, state.ratios
        facts: dict[str, Any] = {"estimand": interval.estimand}
        if hasattr(target, "text"):  # such as the starts that a source has observed
            facts["starts"] = target.text
        if misfit is not None and np.isfinite(misfit.gap_error) and np.isfinite(misfit.fitted_error):
            facts["features alone"] = misfit.beside
        facts |= {
            "algorithm": str(self.algorithm),
            "method": str(self.method),
            "kind": interval.kind,
            "episodes completed": state.episodes.closed,
            "streams": len(self._state.streams),
            "ratios": "all 1 (on-policy)" if np.all(ratios.squares == ratios.n) else "given (off-policy)",
        }
        if self.window is not None:
            facts["window"] = f"{self.window}; {interval.n:,} of {self.n:,} transitions"
        return Report(interval, found.checks, facts)

    def _answer(
        self, target: Any, level: float, kind: str | None, tuning_time: int | None, state: EvaluatorState | None = None
    ) -> Answer:
        check_level(level)
        if kind is not None and not isinstance(kind, str):
            raise KindError(f"kind is {short(kind)}; it is a name, such as 'anytime'")
        if kind == "anytime" and self.window is not None:
            raise KindError(
                "a window has no 'anytime' interval: what it is about moves on; choose normal, or leave the window out"
            )
        targets, state = self.targets(target), self.with_pending() if state is None else state
        with self._schedule.working():
            found = answer(self._schedule, state, targets, level, kind, tuning_time)
        interval = found.interval
        if self.window is not None:
            interval = replace(interval, estimand=f"{interval.estimand}, in the window")
        return found._replace(interval=interval.only() if targets.single else interval)

    def with_pending(self) -> EvaluatorState:
        """Return the state with the pending rows folded in; the evaluator's own does not change."""
        self._flush()
        return self._schedule.with_pending(self._state)

    # Keeping.

    def copy(self) -> Evaluator:
        """Return an independent evaluator in the same state."""
        self._flush()
        return deepcopy(self)

    def saved(self) -> SavedEvaluator:
        """Return the content of a file."""
        self._flush()
        stored, p = self.algorithm if self.algorithm.affine else None, self.algorithm.n_parameters
        return SavedEvaluator(stored, self.method, self.window, p, TILE, LAYOUT, on_host(self._state))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to a file; `load` continues from it bit for bit."""
        write_checkpoint(path, self.saved())

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        algorithm: Algorithm | None = None,
        threads: int | None = None,
        backend: str | Backend = "auto",
        device: str | None = None,
    ) -> Evaluator:
        """Read an evaluator back.

        Parameters
        ----------
        path
            A file that `save` wrote. Reading it runs no code, and an inconsistent state is refused.
        algorithm
            If given, a file of another algorithm is refused. A `Field` or an algorithm of your own must be given.
        threads, backend, device
            As for a new evaluator.
        """
        own = () if algorithm is None else (type(algorithm),)  # which may be a user's class
        saved: SavedEvaluator = read_checkpoint(path, (*storable(), SavedEvaluator, *own), SavedEvaluator)
        return cls.restored(saved, path, algorithm, threads, backend, device)

    @classmethod
    def restored(
        cls,
        saved: SavedEvaluator,
        path: str | os.PathLike[str],
        algorithm: Algorithm | None = None,
        threads: int | None = None,
        backend: str | Backend = "auto",
        device: str | None = None,
    ) -> Evaluator:
        """Build an evaluator from the content of the file at `path`."""
        if (saved.tile, saved.layout) != (TILE, LAYOUT):
            raise CheckpointMismatchError(
                f"{path} was written with tiles of {saved.tile} rows and random layout {saved.layout}, "
                f"and this version works with {TILE} and {LAYOUT}"
            )
        stored = saved.algorithm
        if stored is None and (algorithm is None or algorithm.affine):
            raise CheckpointMismatchError(
                f"{path} holds a nonlinear field: load(path, algorithm=Field(...)) supplies it"
            )
        if stored is not None and algorithm not in (None, stored):
            raise CheckpointMismatchError(f"{path} holds {stored}, not {algorithm}")
        known = cast(Algorithm, stored or algorithm)
        if known.n_parameters != saved.parameters:
            raise CheckpointMismatchError(f"{path} holds {saved.parameters} parameters, {known} has others")
        owned = _checked_backend(backend, threads, device)
        with refused(path):  # verify before allocating arrays of the sizes that the file claims
            verify_together(known, saved.method, saved.state, saved.window)
            evaluator = cls(known, saved.method, threads, owned, window=saved.window)
        evaluator._state = saved.state
        return evaluator


def _checked_backend(backend: str | Backend, threads: int | None, device: str | None) -> Backend:
    """Return the backend itself, or the one of this name; validate both arguments."""
    owned = engine.backend_named(backend, device) if isinstance(backend, str) else backend
    if not isinstance(owned, Backend):
        raise SettingError(f"backend is {short(owned)}; give a name, such as 'auto', or a Backend")
    if threads is not None and (not is_integer(threads) or threads < 1):
        raise SettingError(f"threads is {short(threads)}; give 1 or more")
    return owned


def _chunks(source: Any) -> Iterator[Transitions | Increments]:
    """Iterate over the chunks of a source, with clear errors for anything else."""
    if isinstance(source, str | bytes | os.PathLike) or hasattr(source, "columns") or isinstance(source, Mapping):
        what = f"{source!r:.40}" if isinstance(source, str | bytes | os.PathLike) else f"a {type(source).__name__}"
        raise ShapeError(
            f"{what} does not define the roles of its columns; read it with inferl.sources.table(log, features=..., "
            "reward=..., discount=...)"
        )
    try:
        chunks = iter(source)
    except TypeError:
        raise ShapeError(f"a {type(source).__name__} is neither Transitions nor a source of them") from None
    for chunk in chunks:
        if not isinstance(chunk, Transitions | Increments):
            raise ShapeError(f"a source yields Transitions, and this one yielded {short(chunk)}")
        yield chunk


def _questions(width: Any, lower_above: Any, upper_below: Any, after: Any) -> dict[str, Any]:
    """Validate the stopping criteria."""
    asked = {"width": width, "lower_above": lower_above, "upper_below": upper_below}
    if all(bound is None for bound in asked.values()):
        raise SettingError("say when to stop: give width, lower_above or upper_below")
    for name, bound in (*((name, bound) for name, bound in asked.items() if bound is not None), ("after", after)):
        if not (is_number(bound) and -np.inf <= bound <= np.inf):
            raise SettingError(f"{name} is {short(bound)}; give a number")
    return asked
