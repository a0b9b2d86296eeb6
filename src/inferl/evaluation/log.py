"""evaluate_log: the value of one policy or several from a log, with an interval, in one call."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from itertools import chain
from typing import Any

from inferl.algorithms import TD, Algorithm, DoublyRobust, Stack
from inferl.data.transitions import Transitions
from inferl.errors import SettingError
from inferl.evaluation.result import VALUE, Result, quantity_of
from inferl.evaluation.watching import Show, watched
from inferl.evaluator import Evaluator
from inferl.interval import check_level
from inferl.methods.window import Window
from inferl.runs import POLICIES, Run
from inferl.sources import Source, table
from inferl.sources.logs.inputs.files import is_uri

__all__ = ["evaluate_log", "for_policies", "noted", "opened"]


def evaluate_log(
    log: Any, *, level: float = 0.95, window: Window | None = None, progress: bool | None = None, **options: Any
) -> Result:
    """Read a log in one pass, and return the value of a policy with an interval.

    It is the mean value over the population of which the episodes of the log are a sample. Without probabilities or
    ratios, the policy that made the log is evaluated. A log without episodes has no starts whose returns could be
    averaged: the answer is then the value of its first state by the features alone.

    Parameters
    ----------
    log
        As for `sources.table`: a path or several, a data frame, an Arrow table, ...; or a source, such as
        `sources.minari` returns.
    level
        Nominal coverage.
    window
        Look at the latest data only: ``inferl.Window(24, "1h")``.
    progress
        Whether to show the interval and the time left meanwhile. Default: on a terminal and in a notebook.
    **options
        As for `sources.table`: the columns (`features`, `reward`, `episode`, `order`, ...), the policies
        (`behaviour_probability`, `target_probability`, `ratio`, `policy`, ...), `discount`, `episodes_end`, ...

    Returns
    -------
    Result
        For several policies, its interval has one entry for each, and `differences` has each minus the first.

    Examples
    --------
    Five-step episodes in which an action pays 1 with probability 0.3 or 0.6. It was chosen by a coin; policy `q`
    chooses the better one four times out of five, so its mean return is 5 x 0.54 = 2.7:

    >>> import numpy as np, pandas, inferl
    >>> rng = np.random.default_rng(0)
    >>> action = rng.integers(2, size=5000)
    >>> frame = pandas.DataFrame(
    ...     {
    ...         "episode": np.arange(5000) // 5,
    ...         "reward": rng.random(5000) < 0.3 + 0.3 * action,
    ...         "p": 0.5,
    ...         "q": np.where(action == 1, 0.8, 0.2),
    ...     }
    ... )
    >>> print(
    ...     inferl.evaluate_log(frame, behaviour_probability="p", target_probability="q", discount=1, episodes_end=True)
    ... )
    the pandas DataFrame: mean return 2.71 [2.50, 2.93], 95%, 1,000 episodes
    """
    check_level(level)
    source = _source(log, options)
    name = _short(str(getattr(source, "name", type(source).__name__)))
    with watched(name, progress) as show:
        total = None if show is None else _rows(source)
        chunks, n_policies = opened(source)
        by_starts = getattr(source, "episodic", True)
        algorithm: Algorithm = DoublyRobust(source.dimension) if by_starts else TD(source.dimension)
        evaluator = Evaluator(for_policies(algorithm, n_policies), window=window)
        run = Run(evaluator, "evaluate_log", noted(log, options), level=level)
        for chunk in chunks:
            for _ in run.taking(chunk, source):
                _look(run, source, total, show)
        run.follow(source)  # its end may have closed episodes
        run.complete = True
        run.read()
    return Result.of(run, name, _quantity(source) if by_starts else VALUE, run.report())


def opened(source: Source) -> tuple[Iterator[Transitions], int]:
    """Begin to read a source; return its chunks, and the number of target policies.

    >>> import pandas
    >>> chunks, n_policies = opened(table(pandas.DataFrame({"s": [0, 1, 0], "reward": [0.0, 1.0, 0.0]}), state="s"))
    >>> [len(chunk) for chunk in chunks], n_policies
    ([1, 1], 1)
    """
    chunks = iter(source)
    first = next(chunks, None)
    if first is None:
        facts = "; ".join(f"{name}: {fact}" for name, fact in source.describe().items())
        raise SettingError(f"there is no transition ({facts})")
    return chain([first], chunks), 1 if first.ratios.ndim == 1 else first.ratios.shape[1]


def for_policies(algorithm: Algorithm, number: int) -> Algorithm:
    """Return the algorithm, or one that runs a copy for each of several policies.

    >>> for_policies(TD(3), 1), len(for_policies(TD(3), 2).parts)
    (TD(dimension=3, trace=0.0), 2)
    """
    return algorithm if number == 1 else Stack(*[algorithm] * number)


def _source(log: Any, options: Mapping[str, Any]) -> Source:
    """Return the log as a source; refuse options that it does not have."""
    if isinstance(log, Source):
        if options:
            raise SettingError(
                f"{', '.join(options)}: the log is a {type(log).__name__} already; say this where it is made"
            )
        if getattr(log, "endless", False):
            raise SettingError("this source never ends; limit it, as in sources.rollout(..., episodes=100)")
        return log
    known = list(inspect.signature(table).parameters)[1:]
    for name in options:
        if name not in known:
            near = get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
            raise SettingError(f"evaluate_log has no option {name!r}; {hint}")
    return table(log, **options)


def noted(log: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a run file should tell: the names of the policies, and which files were read."""
    noted: dict[str, Any] = {}
    for name in POLICIES:
        given = options.get(name)
        if isinstance(given, str | Mapping | list | tuple):
            noted[name] = given if isinstance(given, str) else ",".join(map(str, given))
    files = log if isinstance(log, list | tuple) else [log]
    paths = [os.fspath(one) for one in files if isinstance(one, str | os.PathLike)]
    return noted | {"file": tuple(one if one == "-" or is_uri(one) else os.path.abspath(one) for one in paths)}


def _short(name: str) -> str:
    """Leave the folders of paths out: a line has little room, and the facts of a report name them.

    >>> _short("3 files, logs/a.csv to logs/c.csv"), _short("logs/"), _short("s3://bucket/log.parquet")
    ('3 files, a.csv to c.csv', 'logs/', 'log.parquet')
    """
    return re.sub(r"\S*/(?=\S)", "", name)


def _quantity(source: Any) -> str:
    """Name what is estimated; a source of another kind does not tell what a truncation means."""
    known = hasattr(source, "discount") and hasattr(source, "ends")
    return quantity_of(source.discount, source.ends) if known else VALUE


def _rows(source: Any) -> int | None:
    """Return the number of rows of a log, or an estimate; None if it is not known."""
    if not (hasattr(source, "plan") and source.rereadable):
        return None
    rows: int | None = source.plan().rows
    return rows


def _look(run: Run, source: Any, total: int | None, show: Show | None) -> None:
    """Show the interval; the bar is full if all rows were read."""
    if show is None:
        return
    read = source.rows if hasattr(source, "rows") else run.evaluator.n
    of = "" if total is None else f" of {total:,}"
    show(run.interval(), f"{read:,}{of} rows", read, total)
