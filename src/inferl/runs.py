"""Runs: evaluations that can be saved and resumed.

A run file is one checkpoint, written atomically. It holds the evaluator, the target, the readings over time, the
position in the source, and the options from which the source is built again.
"""

from __future__ import annotations

import os
import platform
from array import array
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np

from inferl.algorithms import AverageReward, Stack
from inferl.data.arrays import Floats, Integers
from inferl.data.invariants import COUNT, bounds, demand, shapes
from inferl.data.transitions import Transitions
from inferl.diagnostics import Report
from inferl.errors import SettingError, TargetError
from inferl.evaluator import Evaluator, SavedEvaluator
from inferl.interval import Interval, check_level
from inferl.merging import merge
from inferl.methods.base import Reading as MethodReading
from inferl.sources.base import Source
from inferl.storage.checkpoint import read_checkpoint, write_checkpoint
from inferl.storage.storable import storable
from inferl.variance.batch_means import Levels

__all__ = ["NamedTarget", "Reading", "Run"]

FIRST_READING = 100  # transitions
POLICIES = ("ratio", "target_probability", "target_log_probability", "policy")  # options that name target policies
SPACING = 1.25  # later readings are taken when the data have grown by this factor
MOST_READINGS = 1000  # with a window, which is read whenever a pane is over; then every second old one is left out


@dataclass(frozen=True, eq=False)
class Reading:
    """An interval at an earlier time; arrays have one entry for each target policy."""

    n: int  # transitions
    estimate: Floats  # (m,)
    lower: Floats  # (m,)
    upper: Floats  # (m,)
    standard_error: Floats  # (m,)

    def verify(self) -> None:
        """Check shapes and bounds of a reading that comes from a file."""
        shapes(self, dict.fromkeys(("estimate", "lower", "upper", "standard_error"), "m"))
        bounds(self, {"n": COUNT})


@dataclass(frozen=True, eq=False)
class ObservedStart:
    """The start distribution that a source has observed, as a run file keeps it: a target with a name."""

    text: str
    target: Floats | Integers  # mean features (d,), or the number of a state ()

    def verify(self) -> None:
        """Check the shape of a start that comes from a file."""
        demand(self.target.ndim < 2, f"ObservedStart.target has shape {self.target.shape}")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Floats | Integers:
        return self.target if dtype is None else self.target.astype(dtype)


@dataclass(eq=False)
class Returns:
    """Returns of episodes that come one after the other, 8 bytes each: what is needed to match two policies.

    >>> returns = Returns()
    >>> returns.add(Transitions([0, 0, 0], [1.0, 2.0, 5.0], [0, 0, 0], [0.5, 0.0, 0.5]))
    >>> returns.ended.tolist(), returns.open
    ([2.0], 5.0)
    """

    of_ended: array[float] = field(default_factory=lambda: array("d"))
    open: float = 0.0  # of the open episode, so far
    weight: float = 1.0  # of its next reward

    @property
    def ended(self) -> Floats:
        """Returns of the episodes that have ended, in order."""
        return np.array(self.of_ended)

    @classmethod
    def joined(cls, parts: Sequence[Returns | None]) -> Returns | None:
        """Return the returns of parts in their order; None where one has none, or ends within an episode."""
        whole = cls()
        for part in parts:
            if part is None or (part.open, part.weight) != (0.0, 1.0):
                return None
            whole.of_ended.extend(part.of_ended)
        return whole

    def add(self, chunk: Transitions) -> None:
        """Add the next steps."""
        for reward, discount, last in zip(
            chunk.rewards.tolist(), chunk.discounts.tolist(), chunk.last.tolist(), strict=True
        ):
            self.open += self.weight * reward
            self.weight *= discount
            if last:
                self.of_ended.append(self.open)
                self.open, self.weight = 0.0, 1.0


@dataclass(frozen=True, eq=False)
class SavedReturns:
    """Returns as a run file keeps them."""

    ended: Floats  # (m,)
    open: float
    weight: float

    def verify(self) -> None:
        """Check the shape of returns that come from a file."""
        shapes(self, {"ended": "m"})
        demand(bool(np.isfinite(self.ended).all()), "a return is not finite")


@dataclass(frozen=True, eq=False)
class NamedTarget:
    """A target with a name, such as that of a state in the words of a log: ``ward=icu,hr=80``."""

    name: str
    target: Floats | Integers  # features (d,), or the number of a state ()

    def verify(self) -> None:
        """Check the shape of a target that comes from a file."""
        demand(self.target.ndim < 2, f"NamedTarget.target has shape {self.target.shape}")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Floats | Integers:
        return self.target if dtype is None else self.target.astype(dtype)


@dataclass(eq=False)
class Run:
    """An evaluation that is saved with everything needed to resume it.

    Attributes
    ----------
    evaluator
        Holds the state of the estimate.
    command, options
        How to build the source again.
    target
        A state's number; a vector of features; ``"start"``, the start distribution; ``"fitted"``, its value by the
        features alone; or ``"average"``, the average reward. Or a tuple of several of these.
    level
        Confidence level of the interval.
    kind
        Kind of the interval; None: the default of the method.
    position
        Position of the source, plain data (`Source.position`).
    start
        The start distribution that the source observed, a target (`Source.start`); None: none so far.
    facts
        What the source says about itself (`Source.describe`).
    readings
        Intervals over time.
    complete
        Whether the source has been read to its end.
    provenance
        When the run began, and with which versions.
    returns
        Returns of the episodes, if another policy with the same seed meets the same ones; None: they cannot be matched.
    before
        The run before the end of the data was taken for the end of the last episodes. If the data grow, the run is
        resumed from there.

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
    start: Any = None
    facts: dict[str, str] = field(default_factory=dict)
    readings: tuple[Reading, ...] = ()
    complete: bool = False
    provenance: dict[str, str] = field(default_factory=dict)  # filled in if not given
    returns: Returns | None = field(default_factory=Returns)
    before: SavedRun | None = None

    def __post_init__(self) -> None:
        self.provenance = self.provenance or provenance(self.evaluator.backend.name)

    def take(self, chunk: Any, source: Source | None = None) -> None:
        """Update the evaluator with a chunk, note the position of its source, and add the readings that are due."""
        for _ in self.taking(chunk, source):
            pass

    def taking(self, chunk: Any, source: Source | None = None) -> Iterator[None]:
        """Take a chunk in parts, which end where readings are due; yield after each part.

        The position is that of the source, so it is right after the last part only. Until then there is none: if a part
        raises, a run that has taken the parts before it is not at the end of the chunk.
        """
        start, borders = 0, self.evaluator.borders(chunk)
        if borders[:1] == [0]:
            self.read()
            yield
        while start < len(chunk):
            border = next((row for row in borders if row > start), len(chunk))
            stop = min(start + max(self.due - self.evaluator.n, 1), border)
            self.fold(chunk[start:stop], source)
            start = stop
            if source is not None:
                self.follow(source)
            if source is None or stop < len(chunk):
                self.position = None  # data from elsewhere, or a part: no position of a source stands for all of it
            if self.evaluator.n >= self.due or start in borders:
                self.read()
            yield

    def fold(self, chunk: Any, source: Source | None = None) -> None:
        """Update the evaluator, and keep the returns of episodes that can be matched."""
        self.evaluator.update(chunk)
        if not getattr(source, "matchable", False):
            self.returns = None
        if self.returns is not None:
            self.returns.add(chunk)

    @property
    def due(self) -> int:
        """Number of transitions at which the next reading is due, however the data are cut into chunks."""
        return ceil(SPACING * self.readings[-1].n) if self.readings else FIRST_READING

    def follow(self, source: Source) -> None:
        """Note the position of the source, the start distribution that it observed, and its facts."""
        self.position, self.start, self.facts = source.position, source.start(), source.describe()
        self.evaluator.heed(source)

    def read(self) -> None:
        """Add the present interval to the readings."""
        now = self.interval()
        n = now.n if self.evaluator.window is None else self.evaluator.n
        if not self.readings or self.readings[-1].n < n:
            columns = (now.estimate, now.lower, now.upper, now.standard_error)
            self.readings += (Reading(n, *(np.atleast_1d(np.asarray(column, float)) for column in columns)),)
        if self.evaluator.window is not None and len(self.readings) > MOST_READINGS:
            half = MOST_READINGS // 2
            self.readings = self.readings[:half:2] + self.readings[half:]

    def interval(self, kind: str | None = None, level: float | None = None) -> Interval:
        """Return the interval for the target."""
        kind, level = kind or self.kind, self.level if level is None else level
        if isinstance(self.target, tuple):
            return self._answered(kind, level).interval
        return self.evaluator.interval(self._along(), level, kind)

    def is_decided(self, width: float | None, lower_above: float | None) -> bool:
        """Return whether the anytime interval is at most this wide, or lies above this number."""
        return self.evaluator.is_decided(self._along(), width=width, lower_above=lower_above, level=self.level)

    @property
    def policies(self) -> tuple[str, ...]:
        """Names of the target policies (their columns, or as they were given), empty for a single policy."""
        algorithm = self.evaluator.algorithm
        if not isinstance(algorithm, Stack):
            return ()
        given = next((str(self.options[name]) for name in POLICIES if name in self.options), "")
        names = tuple(os.path.basename(name.strip()) for name in given.split(",") if name.strip())
        number = len(algorithm.parts)
        return names if len(set(names)) == number else tuple(f"policy {i + 1}" for i in range(number))

    @property
    def names(self) -> tuple[str, ...]:
        """What each number of an interval belongs to (a policy, a target, or both), empty for a single number."""
        return self._named(self.policies)

    def differences(self, kind: str | None = None) -> Interval | None:
        """Return the value of each policy minus that of the first, on the same data; None for a single policy."""
        if not self.policies:
            return None
        apart = np.concatenate([rows[1:] - rows[:1] for rows in map(self._rows, self._targets)])
        found = self.evaluator.interval(apart, self.level, kind or self.kind)
        return replace(found, estimand=f"difference of two policies: {self.interval().estimand}")

    @property
    def difference_names(self) -> tuple[str, ...]:
        """What each number of `differences` belongs to."""
        return self._named(tuple(f"{name} - {self.policies[0]}" for name in self.policies[1:]))

    def report(self) -> Report:
        """Return the interval with all checks, the estimand, and the facts of the source."""
        report = self._answered(self.kind, self.level)
        meaning = "; ".join(map(self._meaning, self._targets))
        estimand = {"estimand": report.facts["estimand"], "for": meaning}
        return Report(report.interval, report.checks, estimand | report.facts | self.facts)

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Write the page of `inferl report`: interval, checks and charts in one HTML file, named after the file.

        >>> from tempfile import TemporaryDirectory
        >>> from inferl import TD, Transitions
        >>> run = Run(Evaluator(TD(1)), target=0)
        >>> run.take(Transitions([0, 0, 0], [1.0, 2.0, 3.0], [0, 0, 0], 0.5))
        >>> with TemporaryDirectory() as folder:
        ...     run.to_html(f"{folder}/coin.html")
        ...     "coin" in Path(f"{folder}/coin.html").read_text("utf-8")
        True
        """
        from inferl.report import page

        Path(path).write_text(page({Path(path).stem: self}), encoding="utf-8")

    def _repr_html_(self) -> str:
        return self.report()._repr_html_()

    def reading(self) -> MethodReading:
        """Return what the evaluator's state says along the target."""
        return self.evaluator.read(np.concatenate(list(map(self._rows, self._targets))))

    def levels(self) -> Levels | None:
        """Return the variance rate of blocks of 1, 2, 4, ... steps along the target; None if the method keeps none."""
        solved = self.reading().solved
        return None if solved is None else solved.levels

    def keep(self, source: Source) -> None:
        """Keep a copy of the present run in `before`, with another position of the source, and what is known there."""
        before = deepcopy(replace(self, before=None))
        before.follow(source)
        self.before = before.saved()

    def saved(self) -> SavedRun:
        """Return the content of a run file."""
        content = {name: getattr(self, name) for name in _KEPT} | {"start": _stored(self.start)}
        if self.returns is not None:
            content["returns"] = SavedReturns(self.returns.ended, self.returns.open, self.returns.weight)
        return SavedRun(self.evaluator.saved(), **content)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the run to one file, atomically: a crash leaves the old file or the new one."""
        write_checkpoint(path, self.saved())

    @classmethod
    def load(cls, path: str | os.PathLike[str], threads: int | None = None) -> Run:
        """Read a run from its file; `threads` as for `Evaluator.load`."""
        saved: SavedRun = read_checkpoint(path, (*storable(), SavedEvaluator, *_STORED), SavedRun)
        return cls.restored(saved, path, threads)

    @classmethod
    def restored(cls, saved: SavedRun, path: str | os.PathLike[str], threads: int | None = None) -> Run:
        """Build a run from the content of the file at `path`."""
        evaluator = Evaluator.restored(saved.evaluator, path, threads=threads)
        kept = {name: getattr(saved, name) for name in _KEPT}
        if saved.returns is not None:
            returns = saved.returns
            kept["returns"] = Returns(array("d", returns.ended.tobytes()), returns.open, returns.weight)
        return cls(evaluator, **kept)

    @classmethod
    def merge(cls, runs: Sequence[Run], source: Source | None = None) -> Run:
        """Merge runs of separate data, such as the parts of a log: their evaluators, and what a report needs.

        Parameters
        ----------
        runs
            Complete, with the same algorithm, method, target, level and kind; in the order of their data.
        source
            Speaks for the data of all of them, as ``Table.joined`` of their positions does: for the observed start, the
            facts and the checks. Default: the facts that all runs share.

        Examples
        --------
        >>> from inferl import TD, Transitions
        >>> coin = np.random.default_rng(1).integers(2, size=2000)
        >>> runs = [Run(Evaluator(TD(1)), target=0) for _ in range(4)]
        >>> for k, run in enumerate(runs):
        ...     half = coin[500 * k : 500 * (k + 1)]
        ...     run.take(Transitions(0 * half, half, 0 * half, 0.9))
        ...     run.complete = True
        >>> print(Run.merge(runs).interval())
        5.07 [4.84, 5.30] 95% pointwise, 2,000 transitions
        """
        check_alike(runs)
        first = runs[0]
        filled = [run.evaluator.fingerprint for run in runs if run.evaluator.n]
        if source is None and len(set(filled)) < len(filled):
            raise SettingError("two of the runs have read the same data; give each once")
        begun = min(run.provenance.get("begun", "") for run in runs)
        whole = replace(
            first,
            evaluator=merge(*(run.evaluator for run in runs)),
            position=None,
            start=None,
            facts=_shared([run.facts for run in runs]),
            complete=True,
            provenance={"begun": begun} | _shared([run.provenance for run in runs]),
            returns=Returns.joined([run.returns for run in runs]),
            before=None,
        )
        if source is not None:
            whole.follow(source)
        return whole

    @property
    def _targets(self) -> tuple[Any, ...]:
        return self.target if isinstance(self.target, tuple) else (self.target,)

    def _answered(self, kind: str | None, level: float) -> Report:
        """Return the report of the evaluator; for several targets, one with all intervals and all checks."""
        reports = [self.evaluator.report(self._along_one(target), level, kind) for target in self._targets]
        if not isinstance(self.target, tuple):
            return reports[0]
        checks = tuple(dict.fromkeys(check for report in reports for check in report.checks))
        notes = tuple(dict.fromkeys(note for report in reports for note in report.interval.notes))
        estimand = "; ".join(dict.fromkeys(report.interval.estimand for report in reports))
        interval = replace(self.evaluator.interval(self._along(), level, kind), notes=notes, estimand=estimand)
        return Report(interval, checks, reports[0].facts | {"estimand": estimand})

    def _named(self, policies: tuple[str, ...]) -> tuple[str, ...]:
        """Combine the names of policies with those of the targets."""
        if not isinstance(self.target, tuple):
            return policies
        targets = [_target_name(target) for target in self.target]
        return tuple(f"{policy}, {target}" for target in targets for policy in policies) or tuple(targets)

    def _meaning(self, target: Any) -> str:
        if isinstance(self.evaluator.algorithm, AverageReward):
            return "all steps"
        return getattr(self.start, "text", "the start") if isinstance(target, str) else _target_name(target)

    def _rows(self, target: Any) -> Floats:
        """Return one target as rows, one for each policy."""
        return self.evaluator.targets(self._along_one(target)).rows

    def _along(self) -> Any:
        """Return the target as an evaluator accepts it: one row for each policy and each target."""
        if not isinstance(self.target, tuple):
            return self._along_one(self.target)
        return np.concatenate(list(map(self._rows, self.target)))

    def _along_one(self, target: Any) -> Any:
        algorithm, at_start = self.evaluator.algorithm, isinstance(target, str)
        if at_start:
            name = "value" if target == "start" else target
            if name in algorithm.named_targets():
                return name
        if at_start and self.start is None:
            raise TargetError("no episode has begun yet, so there is no observed start; read data first")
        wanted = self.start if at_start else target
        if not isinstance(algorithm, Stack):
            return wanted
        vector = np.asarray(wanted)
        if vector.ndim == 0:
            vector = algorithm.parts[0].state_vector(int(vector))
        return np.kron(np.eye(len(algorithm.parts)), vector)


def _target_name(target: Any) -> str:
    """Name a target.

    >>> _target_name("start"), _target_name(3), _target_name(np.array([0.5, 1.0]))
    ('start', 'target 3', 'target 0.5,1')
    """
    if isinstance(target, NamedTarget):
        return target.name
    return target if isinstance(target, str) else f"target {','.join(f'{x:g}' for x in np.atleast_1d(target))}"


@dataclass(frozen=True, eq=False)
class SavedRun:
    """The content of a run file."""

    evaluator: SavedEvaluator
    command: str
    options: dict[str, Any]
    target: Any
    level: float
    kind: str | None
    position: Any
    start: ObservedStart | None
    facts: dict[str, str]
    readings: tuple[Reading, ...]
    complete: bool
    provenance: dict[str, str]
    returns: SavedReturns | None
    before: SavedRun | None

    def verify(self) -> None:
        """Check the level and the number of targets of a run that comes from a file."""
        check_level(self.level)
        demand(not isinstance(self.target, tuple) or len(self.target) > 0, "the run has no target")


_KEPT = tuple(f.name for f in fields(Run) if f.name != "evaluator")
_STORED = (SavedRun, SavedReturns, Reading, ObservedStart, NamedTarget)


def _stored(start: Any) -> ObservedStart | None:
    """Return the target of a source as a file keeps it; None if no episode has begun."""
    try:
        return None if start is None else ObservedStart(getattr(start, "text", "the start"), np.asarray(start))
    except TargetError:
        return None


def check_alike(runs: Sequence[Run]) -> None:
    """Refuse to merge no runs, runs that are not complete, and runs that ask different questions."""
    if not runs:
        raise SettingError("there are no runs to merge")
    for run in runs:
        if not run.complete:
            raise SettingError("a run that is not complete cannot be merged; resume it first")
        for name in ("level", "kind"):
            if getattr(run, name) != getattr(runs[0], name):
                raise SettingError(f"the runs have different settings: {name} is {getattr(run, name)!r} in one of them")
        if not _same_targets(run.target, runs[0].target):
            raise SettingError("the runs have different targets; merge runs that ask for the same")


def _shared(parts: Sequence[dict[str, str]]) -> dict[str, str]:
    """Return what is the same in all dicts.

    >>> _shared([{"a": "1", "b": "2"}, {"a": "1", "b": "3"}])
    {'a': '1'}
    """
    return {name: text for name, text in parts[0].items() if all(part.get(name) == text for part in parts)}


def _same_targets(one: Any, other: Any) -> bool:
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(_same_targets, one, other))
    return type(one) is type(other) and _target_name(one) == _target_name(other) and np.array_equal(one, other)


def provenance(backend: str) -> dict[str, str]:
    """Return the time, and the versions of all software that matters.

    >>> list(provenance("native"))
    ['begun', 'inferl', 'kernel', 'python', 'numpy', 'system']
    """
    from importlib.metadata import version

    return {
        "begun": datetime.now(UTC).isoformat(" ", "seconds"),
        "inferl": version("inferl"),
        "kernel": backend,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "system": f"{platform.system()} {platform.machine()}",
    }
