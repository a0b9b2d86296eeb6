"""Plans: a log in parts, evaluated by any executor, with the same answer from all."""

from __future__ import annotations

import hashlib
import os
import pickle
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

from inferl.algorithms import TD, Algorithm, DoublyRobust
from inferl.data.arrays import as_count
from inferl.errors import SettingError
from inferl.evaluation.log import for_policies, noted, opened
from inferl.evaluation.watching import watched
from inferl.evaluator import Evaluator
from inferl.interval import check_level
from inferl.methods.base import Method
from inferl.runs import Run, SavedRun
from inferl.scale.work import Work
from inferl.sources.logs.cutting import ROWS, Cut
from inferl.sources.logs.inputs.extents import Extent
from inferl.sources.logs.regrouping import written
from inferl.sources.logs.table import Table, table
from inferl.storage.checkpoint import digest_of

__all__ = ["ROWS", "Plan", "evaluate_part", "identity", "plan", "question"]

GROWN = 1.02  # a prefix is looked at when the data have grown by this factor


@dataclass(frozen=True, eq=False)
class Plan:
    """A log that is cut into parts; made by `plan`.

    Attributes
    ----------
    table
        The whole log.
    cut
        How it is cut.
    parts
        Tables of the episodes that begin in each part.
    options
        What a run file should tell about the log.

    Examples
    --------
    >>> import tempfile, pandas, inferl
    >>> frame = pandas.DataFrame({"episode": [1, 1, 2, 2], "reward": [0.0, 1.0, 0.0, 2.0], "done": [0, 1, 0, 1]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for k in range(2):
    ...         frame[2 * k : 2 * k + 2].to_parquet(f"{folder}/{k}.parquet")
    ...     plan = inferl.scale.plan(folder, rows=2, discount=1)
    ...     [sum(len(chunk) for chunk in part) for part in plan.parts]
    [2, 2]
    """

    table: Table
    cut: Cut
    parts: tuple[Table, ...]
    options: Mapping[str, Any]

    @classmethod
    def of(cls, log: Table, options: Mapping[str, Any], rows: int) -> Plan:
        """Cut a log."""
        cut, parts = log.cut(rows)
        return cls(log, cut, tuple(parts), options)

    def __repr__(self) -> str:
        return f"Plan({self.table.name}, {len(self.parts):,} parts, about {sum(self.cut.rows):,} rows)"

    def evaluate(
        self,
        algorithm: Algorithm | None = None,
        method: Method | None = None,
        executor: Any = None,
        checkpoint: str | os.PathLike[str] | None = None,
        *,
        target: Any = "start",
        level: float = 0.95,
        kind: str | None = None,
        progress: bool | None = None,
    ) -> Run:
        """Evaluate all parts, and return one run, which is that of a single reader of the log.

        The answer does not depend on the executor, on the number of its workers, or on which of them were killed.

        Parameters
        ----------
        algorithm
            Default: `DoublyRobust`, or `TD` if the log shows no episodes, as `evaluate_log` chooses.
        method
            One that can be merged: `LeastSquares`, the default.
        executor
            Number of processes on this machine (default: all cores), `inferl.scale.ray()`, or an object with
            ``submit(function, *args)``, such as a ``dask.distributed.Client``.
        checkpoint
            A folder for finished parts, which are not computed again after a crash.
        target, level, kind
            As for `Run`.
        progress
            Whether to show the interval so far and the time left. Default: on a terminal and in a notebook.
        """
        work = self.work(self.blank(algorithm, method, target, level, kind))
        with watched(self.table.name, progress) as show:
            for prefix in work.follow(executor, checkpoint):
                if show is not None and prefix.n:
                    done = f"{prefix.number:,} of {len(self.parts):,} parts"
                    show(prefix.whole().interval(), done, prefix.number, len(self.parts))
        return work.finished(prefix)

    def watch(
        self,
        algorithm: Algorithm | None = None,
        method: Method | None = None,
        executor: Any = None,
        checkpoint: str | os.PathLike[str] | None = None,
        *,
        target: Any = "start",
        level: float = 0.95,
    ) -> Iterator[Run]:
        """Evaluate the parts, and yield a run of the longest prefix of the plan that is finished, again and again.

        Its anytime interval is valid at each look, so you may stop when it suffices. A prefix, because which parts are
        done at a certain time may depend on the data. Arguments as for `evaluate`.
        """
        work, seen = self.work(self.blank(algorithm, method, target, level, "anytime")), 0.0
        for prefix in work.follow(executor, checkpoint):
            if prefix.n and (prefix.n >= GROWN * seen or prefix.number == len(self.parts)):
                seen = prefix.n
                yield work.finished(prefix)

    def blank(self, algorithm: Algorithm | None, method: Method | None, target: Any, level: float, kind: Any) -> Run:
        """Return a run without data that asks a question."""
        check_level(level)
        source, n_policies = self.first
        if algorithm is None:
            by_starts = target == "start" if isinstance(target, str) else False
            algorithm = (DoublyRobust if source.episodic and by_starts else TD)(source.dimension)
            algorithm = for_policies(algorithm, n_policies)
        return Run(Evaluator(algorithm, method), "plan", dict(self.options), target, level, kind)

    @cached_property
    def first(self) -> tuple[Table, int]:
        """A part of which the first rows are read, so that its features are known; and the number of policies."""
        for part in self.parts:
            source = replace(part, _now=[], _fitted=[], _opened=[])
            if next(iter(source), None) is not None:
                return source, opened(source)[1]
        raise SettingError(f"{self.table.name}: there is no transition in any part")

    def keys(self, blank: Run) -> list[str]:
        """Return a digest for each part, of all that its result depends on."""
        one = self.parts[0]
        settings = {
            "asked": question(blank),
            "table": repr(
                (
                    *(sorted(one.wanted.items()), one.fit_behaviour, one.state, one.n_states, one.discount, one.clip),
                    *(one.episodes_end, one.idle_timeout, one.gaps, one.ends),
                )
            ),
            "code": (identity(one.features), *((name, identity(own)) for name, own in one.policies.items())),
            "begin": one.position,
        }
        shared = digest_of(settings)
        return [
            hashlib.sha256(f"{shared}; {[_place(extent) for extent in part.source]}".encode()).hexdigest()
            for part in self.parts
        ]

    def work(self, blank: Run) -> Work:
        """Return the parts with a question about them."""
        parts = [(part, self.cut.whole_files, i == 0) for i, part in enumerate(self.parts)]
        begins = [f"{part.source[0].name}, row {part.source[0].begin + 1}" for part in self.parts]
        places = [{"from": one, "to": other} for one, other in pairwise([*begins, "the end"])]
        return Work(blank, evaluate_part, parts, places, self.keys(blank), self.table)


def plan(log: Any, *, rows: int = ROWS, regroup: str | os.PathLike[str] | None = None, **options: Any) -> Plan:
    """Cut a log into parts, by its files and row groups alone: the same parts for any number of workers.

    A part owns the episodes that begin in it. Only a few rows at each border are read, unless categories or a behaviour
    policy are learned from the whole log first: name the levels of categories (``C(ward, levels=[...])``) to save that.

    Parameters
    ----------
    log
        Files, as for `sources.table`: Parquet files are cut between row groups, others are not cut.
    rows
        Number of rows of a part, roughly.
    regroup
        A new folder, if the rows of an episode are scattered over the log: they are first brought together, in Parquet
        files in this folder, in memory of fixed size.
    **options
        As for `sources.table`.

    Examples
    --------
    >>> import tempfile, numpy as np, pyarrow, inferl
    >>> from pyarrow import parquet
    >>> rng = np.random.default_rng(0)
    >>> episode = np.arange(20_000) // 7
    >>> log = pyarrow.table({"episode": episode, "reward": rng.normal(size=20_000), "done": np.arange(20_000) % 7 == 6})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for k in range(4):
    ...         parquet.write_table(log[5000 * k : 5000 * (k + 1)], f"{folder}/{k}.parquet")
    ...     plan = inferl.scale.plan(folder, rows=5000, discount=1)
    ...     run = plan.evaluate(executor=2)
    >>> len(plan.parts), plan.cut.crossing
    (4, 3)
    >>> print(run.interval())
    0.03 [-0.06, 0.13] 95% pointwise, 19,999 transitions
    """
    as_count("rows", rows, 1)
    source = log if hasattr(log, "cut") else table(log, **options)
    if regroup is not None:
        source = source.regrouped(regroup)
    return Plan.of(source, noted(source.source, options), rows)


def evaluate_part(blank: SavedRun, part: Table, whole_files: bool, readings: bool) -> SavedRun:
    """Evaluate a part; take readings of the first, which is a prefix."""
    run = Run.restored(deepcopy(blank), part.name, threads=1)  # threads may share it, and sums change in place
    for chunk in part:
        if readings:
            run.take(chunk, part)
        else:
            run.fold(chunk, part)
    if part.position["pairing"]["mixed"] and not whole_files:
        raise SettingError(
            f"{part.name}: rows of several episodes are mixed, which the rows at the borders of the parts did not "
            "show, so an episode may be cut; bring the rows of each episode together (regroup), or use one process"
        )
    run.follow(part)
    run.complete = True
    return run.saved()


def question(blank: Run) -> SavedRun:
    """Return what a run without data asks, and by which version, without what does not matter for the answer."""
    return replace(blank, provenance={"inferl": blank.provenance["inferl"]}, options={}).saved()


def _place(extent: Extent) -> tuple[Any, ...]:
    """Return what changes if the rows do: the file, when it was written, and which rows."""
    return extent.file.name, extent.file.size, written(extent.file), extent.begin, extent.end


def identity(value: Any) -> str:
    """Return a text for a setting; code is known by its name alone."""
    if value is None or value is ... or isinstance(value, str | list | tuple):
        return repr(value)
    if getattr(value, "digest", ""):
        return str(value.digest)
    try:
        return hashlib.sha256(pickle.dumps(value, protocol=4)).hexdigest()
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise SettingError(f"{type(value).__name__} cannot be sent to another process: {error}") from None
