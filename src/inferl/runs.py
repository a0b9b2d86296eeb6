"""Runs: an evaluation that can be put away and taken up again. A run file holds all of it.

It is one checkpoint, written at once or not at all: the evaluator, the target, the readings over time, the position in
the source, and the options from which the source is made again.
"""

from __future__ import annotations

import os
import platform
from copy import deepcopy
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from inferl import engine
from inferl.algorithms import AverageReward, Stack
from inferl.algorithms.targets import as_targets
from inferl.comparison import welch
from inferl.data.arrays import Floats
from inferl.data.invariants import COUNT, bounds, shapes
from inferl.diagnostics import Report
from inferl.errors import SettingError
from inferl.evaluator import SAVED, Evaluator, SavedEvaluator
from inferl.interval import Interval, check_level
from inferl.methods.bootstrap import OnlineBootstrap
from inferl.methods.least_squares import LeastSquares, LeastSquaresState
from inferl.sources.logs.decoding import LogRows
from inferl.sources.logs.labelling import Labelling
from inferl.sources.logs.pairing import Pairing
from inferl.sources.logs.table import Progress
from inferl.sources.starts import Starts
from inferl.storage.checkpoint import read_checkpoint, write_checkpoint
from inferl.variance.batch_means import Levels

__all__ = ["Reading", "Run", "difference"]

SPACING = 1.25  # readings are taken when the data have grown by this factor


@dataclass(frozen=True, eq=False)
class Reading:
    """An interval as it was at some time; arrays with one entry a target policy."""

    n: int  # transitions
    estimate: Floats  # (m,)
    lower: Floats  # (m,)
    upper: Floats  # (m,)
    standard_error: Floats  # (m,)

    def verify(self) -> None:
        """Refuse what no interval is."""
        shapes(self, dict.fromkeys(("estimate", "lower", "upper", "standard_error"), "m"))
        bounds(self, {"n": COUNT})


@dataclass(eq=False)
class Run:
    """An evaluation under way.

    Attributes
    ----------
    evaluator
        What has been learned.
    command, options
        How the source is made again.
    target
        A state's number, a vector of features, ``"start"``: where episodes begin, ``"fitted"``: what the features alone
        say of it, or ``"average"``: all steps.
    level
        Of the interval.
    kind
        Of the interval; None: the method's own.
    position
        Of the source, in its own terms.
    starts
        Episode starts observed so far.
    readings
        Intervals over time.
    complete
        Whether the source has been read to its end.
    provenance
        When the run was begun, and with which versions.
    before
        The run before the end of the source was taken for its end: if rows are appended, it goes on from there.

    Examples
    --------
    >>> from inferl import TD, Transitions
    >>> coin = np.random.default_rng(1).integers(2, size=2000)
    >>> run = Run(Evaluator(TD(1)), target=0)
    >>> run.take(Transitions(0 * coin, coin, 0 * coin, 0.9))
    >>> print(run.interval())
    5.07 [4.84, 5.30] 95% pointwise, 2,000 transitions
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     run.save(f"{folder}/coin.run")
    ...     print(Run.load(f"{folder}/coin.run").interval())
    5.07 [4.84, 5.30] 95% pointwise, 2,000 transitions
    """

    evaluator: Evaluator
    command: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    target: Any = "start"
    level: float = 0.95
    kind: str | None = None
    position: Any = None
    starts: Starts = field(default_factory=Starts)
    readings: tuple[Reading, ...] = ()
    complete: bool = False
    provenance: dict[str, str] = field(default_factory=lambda: provenance())
    before: SavedRun | None = None

    def take(self, chunk: Any, position: Any = None, starts: Starts | None = None) -> None:
        """Take in a chunk, and where it leaves the source; read the interval if it is time."""
        self.evaluator.update(chunk)
        self.move(position, starts)
        if not self.readings or self.evaluator.n >= SPACING * self.readings[-1].n:
            self.read()

    def move(self, position: Any, starts: Starts | None = None) -> None:
        """Note where the source stands."""
        self.position = position
        self.starts = self.starts if starts is None else starts

    def read(self) -> None:
        """Put the interval as it is now among the readings."""
        now = self.interval()
        if not self.readings or self.readings[-1].n < now.n:
            columns = (now.estimate, now.lower, now.upper, now.standard_error)
            self.readings += (Reading(now.n, *(np.atleast_1d(np.asarray(column, float)) for column in columns)),)

    def interval(self, kind: str | None = None, level: float | None = None) -> Interval:
        """Return the interval for the target."""
        return self.evaluator.interval(self._along(), self.level if level is None else level, kind or self.kind)

    def known(self, width: float | None, lower_above: float | None) -> bool:
        """Say whether the anytime interval is as narrow, or as high, as asked."""
        return self.evaluator.is_decided(self._along(), width=width, lower_above=lower_above, level=self.level)

    def differences(self) -> Interval | None:
        """Return each policy's value minus that of the first, from the same data; None for a single policy."""
        algorithm = self.evaluator.algorithm
        if not isinstance(algorithm, Stack):
            return None
        along = self._along()
        rows = algorithm.named_targets()[along] if isinstance(along, str) else along
        found = self.evaluator.interval(rows[1:] - rows[:1], self.level, self.kind)
        return replace(found, estimand=f"difference of two policies: {self.interval().estimand}")

    def report(self) -> Report:
        """Return the interval with all checks; it says what the target is."""
        report = self.evaluator.report(self._along(), self.level, self.kind)
        meaning = self.starts.text if self._at_start() else f"target {self.target}"
        if isinstance(self.evaluator.algorithm, AverageReward):
            meaning = "all steps"
        estimand = {"estimand": report.facts["estimand"], "for": meaning}
        return Report(report.interval, report.checks, estimand | report.facts)

    def levels(self) -> Levels | None:
        """Return how much noise blocks of 1, 2, 4, ... steps show along the target; None if no such blocks are kept."""
        evaluator, state = self.evaluator, self.evaluator.with_pending()
        beside = isinstance(evaluator.method, OnlineBootstrap)  # its companion keeps the blocks
        sums = state.companion if beside else state.method
        method = LeastSquares() if beside else evaluator.method
        if not isinstance(sums, LeastSquaresState) or not isinstance(method, LeastSquares):
            return None
        targets = as_targets(self._along(), evaluator.algorithm, state.tabular, whole=False)
        return method.read(sums, targets.rows).levels

    def keep(self, position: Any, starts: Starts) -> None:
        """Keep the run as it is now, in `before`."""
        self.before = deepcopy(replace(self, position=position, starts=starts, before=None).saved())

    def saved(self) -> SavedRun:
        """Return all that a file needs to hold."""
        return SavedRun(self.evaluator.saved(), **{name: getattr(self, name) for name in _KEPT})

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the run to one file; a crash leaves the old file or the new one."""
        write_checkpoint(path, self.saved())

    @classmethod
    def load(cls, path: str | os.PathLike[str], threads: int = 1) -> Run:
        """Read a run back; `threads` as for `Evaluator.load`."""
        saved: SavedRun = read_checkpoint(path, (*SAVED, *_STORED), SavedRun)
        return cls.restored(saved, path, threads)

    @classmethod
    def restored(cls, saved: SavedRun, path: str | os.PathLike[str], threads: int = 1) -> Run:
        """Make a run of what the file at `path` holds."""
        evaluator = Evaluator.restored(saved.evaluator, path, threads=threads)
        return cls(evaluator, **{name: getattr(saved, name) for name in _KEPT})

    def _at_start(self) -> bool:
        return isinstance(self.target, str)

    def _along(self) -> Any:
        """Return the target as the evaluator takes it: for several policies, a row for each."""
        algorithm = self.evaluator.algorithm
        if self._at_start():
            name = "value" if self.target == "start" else self.target
            if name in algorithm.named_targets():
                return name
        target = self.starts if self._at_start() else self.target
        if not isinstance(algorithm, Stack):
            return target
        vector = np.asarray(target)
        if vector.ndim == 0:
            vector = algorithm.parts[0].state_vector(int(vector))
        return np.kron(np.eye(len(algorithm.parts)), vector)


@dataclass(frozen=True, eq=False)
class SavedRun:
    """What a file holds of a run."""

    evaluator: SavedEvaluator
    command: str
    options: dict[str, Any]
    target: Any
    level: float
    kind: str | None
    position: Any
    starts: Starts
    readings: tuple[Reading, ...]
    complete: bool
    provenance: dict[str, str]
    before: SavedRun | None

    def verify(self) -> None:
        """Refuse what no run can have left."""
        check_level(self.level)


_KEPT = tuple(f.name for f in fields(Run) if f.name != "evaluator")
_STORED = (SavedRun, Reading, Progress, Pairing, Labelling, LogRows, Starts)


def provenance() -> dict[str, str]:
    """Say when and with what a run is made.

    >>> list(provenance())
    ['begun', 'inferl', 'kernel', 'python', 'numpy', 'system']
    """
    from importlib.metadata import version

    return {
        "begun": datetime.now(UTC).isoformat(" ", "seconds"),
        "inferl": version("inferl"),
        "kernel": engine.name,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "system": f"{platform.system()} {platform.machine()}",
    }


def difference(one: Run, other: Run, level: float = 0.95) -> Interval:
    """Compare two independent runs: the value of the first minus that of the second, as `welch` does.

    >>> from inferl import TD, Transitions
    >>> runs = []
    >>> for seed in (0, 1):
    ...     coin = np.random.default_rng(seed).integers(2, size=2000)
    ...     runs.append(Run(Evaluator(TD(1)), target=0))
    ...     runs[-1].take(Transitions(0 * coin, coin + seed, 0 * coin, 0.9))
    >>> print(difference(*runs))
    -9.86 [-10.17, -9.54] 95% pointwise, 4,000 transitions
    """
    _refuse_dependent(one, other)
    first, second = (run.interval("normal", level) for run in (one, other))
    if np.ndim(first.estimate) or np.ndim(second.estimate):
        raise SettingError("a run of several target policies cannot be compared as a whole; evaluate one at a time")
    return welch(first, second)


def _refuse_dependent(one: Run, other: Run) -> None:
    def share(option: str) -> bool:
        return option in one.options and one.options[option] == other.options.get(option)

    if one.command == other.command == "evaluate" and share("file") and one.options["file"] != "-":
        raise SettingError(
            f"both runs read {one.options['file']}, so they are not independent; evaluate both policies at once, "
            "with several columns: inferl evaluate --ratio a,b"
        )
    if one.command == other.command == "rollout" and share("seed"):
        raise SettingError(f"both runs have the seed {one.options['seed']}, so they are not independent; change one")
