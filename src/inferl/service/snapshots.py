"""Snapshots: all that a page, a metric or a message says about a run, as plain data; and their history.

A snapshot is made by the thread that owns the run. Nobody changes it afterwards, so any thread may read it.
"""

from __future__ import annotations

import re
import time as clock
from collections import deque
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from inferl.comparison import difference_of, growth, refuse_other_discounts, verdict, welch
from inferl.data.ratios import RatioSummary
from inferl.diagnostics import FEWEST_BLOCKS, FEWEST_STEPS, signed
from inferl.display import finite
from inferl.errors import SettingError, TargetError
from inferl.interval import UNIFORM, Interval, anytime, brief, grown
from inferl.methods.base import Reading
from inferl.methods.drift import latest_change
from inferl.report.text import QUESTIONS, judged, light
from inferl.runs import Run

__all__ = ["COLUMNS", "History", "Rows", "difference", "snapshot", "worst"]

OPEN = "not decided: a check failed"
COLUMNS = ("estimate", "lower", "upper", "anytime_lower", "anytime_upper", "standard_error")


def snapshot(run: Run, name: str, thresholds: Sequence[float] = (), time: float | None = None) -> dict[str, Any]:
    """Return the state of a run as plain data, ready for JSON; None stands for infinity.

    Checks and facts are those of ``inferl evaluate --json``. Each target has its estimate with both intervals, and what
    the anytime interval, which holds at all times at once, says about each threshold: ``"above"``, ``"below"`` or
    ``"open"``. While a check fails, nothing is decided. A window has no anytime interval: what it says about thresholds
    (``decided_by``) is said by the interval for one look. The verdict says if there are too few data for any answer.

    Parameters
    ----------
    run
        It is read, and not changed.
    name
        Of the experiment.
    thresholds
        Numbers that a decision waits for.
    time
        In seconds since 1970; None: now.

    Examples
    --------
    >>> from inferl import TD, Evaluator, Transitions
    >>> coin = np.random.default_rng(1).integers(2, size=2000)
    >>> run = Run(Evaluator(TD(1)), target=0)
    >>> run.take(Transitions(0 * coin, coin, 0 * coin, 0.9))
    >>> (target,) = snapshot(run, "coin", thresholds=[4.0])["targets"]
    >>> target["text"]
    {'pointwise': '5.07 [4.84, 5.30]', 'anytime': '5.07 [4.68, 5.46]'}
    >>> target["decisions"]
    [{'threshold': 4.0, 'is': 'above'}]
    """
    state = run.evaluator.with_pending()
    found: dict[str, Any] = {
        "name": name,
        "time": clock.time() if time is None else time,
        "n": run.evaluator.n,
        "episodes": state.episodes.closed,
        "completed": run.evaluator.episodes,
        "level": run.level,
        "thresholds": list(thresholds),
        "decided_by": "anytime" if run.evaluator.window is None else "pointwise",
        "window": None,
        "change": None,
        "estimand": "",
        "targets": [],
        "differences": [],
        "checks": [],
        "facts": dict(run.facts),
        "ratios": _ratios(state.ratios, run.policies),
        "discounts": state.episodes.discounts.tolist(),
        "outcomes": f"{run.evaluator.outcomes:016x}",
    }
    try:
        report = run.report()
    except TargetError as error:  # no episode has begun yet, so there is no observed start
        return finite(found | {"verdict": {"light": "grey", "text": f"No answer yet: {error}."}})  # type: ignore[no-any-return]
    pointwise = "normal" if run.kind in UNIFORM else run.kind
    interval = run.interval(pointwise) if run.kind in UNIFORM else report.interval
    apart = run.differences(pointwise)
    reading, method = run.reading(), run.evaluator.method
    information = None
    if run.evaluator.window is None:
        information = grown(method.information, reading.units, None, method.unit)
    plain = report.to_dict()
    found |= {
        "window": None if run.evaluator.window is None else {"text": str(run.evaluator.window), "n": interval.n},
        "change": _change(run, reading),
        "estimand": interval.estimand,
        "targets": _targets(interval, information, run.names, thresholds),
        "differences": [] if apart is None else _targets(apart, information, run.difference_names),
        "checks": [
            content
            | {"light": light(check), "question": QUESTIONS.get(check.name, check.name)}
            | {"message": _named(check.message, run.policies)}
            for check, content in zip(report.checks, plain["checks"], strict=True)
        ],
        "facts": plain["facts"],
        "verdict": judged(report.checks)._asdict(),
        "growth": growth(method, reading),
    }
    young = _gathering(run, found)
    if young:
        found["verdict"] = {"light": "grey", "text": young}
        for check in found["checks"]:
            if check["name"] == "length":
                check["light"] = "grey"
    return finite(found)  # type: ignore[no-any-return]


def _named(text: str, policies: Sequence[str]) -> str:
    """Call policies by their names.

    >>> _named("the mean ratio of policy 2 is 1.1", ["a", "b"])
    'the mean ratio of b is 1.1'
    """
    return re.sub(r"\bpolicy (\d+)\b", lambda found: dict(enumerate(policies, 1)).get(int(found[1]), found[0]), text)


def _gathering(run: Run, found: Mapping[str, Any]) -> str:
    """Say how much there is of what any answer needs, which is no fault; empty: there is enough."""
    have, need, unit = run.evaluator.n, FEWEST_STEPS, "transitions"
    if run.evaluator.method.unit == "episodes":
        have, need, unit = found["episodes"], FEWEST_BLOCKS, "episodes"
    short = have < need and any(check["name"] == "length" and check["status"] == "failed" for check in found["checks"])
    return f"Gathering data: {have:,} of {need:,} {unit}." if short else ""


def _change(run: Run, reading: Reading) -> dict[str, Any] | None:
    """Return the latest change of the value that the data show: by how much, and how many episodes or transitions ago.

    After how many transitions it was, and when, `History.placed` says: a change may alter the length of episodes.
    """
    found = latest_change(reading.solved)
    if found is None:
        return None
    text = signed(found.shift, found.error)
    at = (run.evaluator.episodes if found.unit == "episodes" else run.evaluator.n) - found.ago
    about = {"ago": found.ago, "unit": found.unit, "at": max(at, 0), "n": None, "time": None}
    return {"shift": found.shift, "text": text, "within": found.within} | about


def _targets(
    pointwise: Interval, information: float | None, names: Sequence[str], thresholds: Sequence[float] = ()
) -> list[dict[str, Any]]:
    """Return what is known of each target; `information` is relative to that at the tuning time, None for a window."""
    wide = [None] * len(tuple(pointwise)) if information is None else anytime(pointwise, information)
    rows = zip(pointwise, wide, names or ("",), strict=True)
    return [_target(one, each, name, thresholds) for one, each, name in rows]


def _target(pointwise: Interval, wide: Interval | None, name: str, thresholds: Sequence[float]) -> dict[str, Any]:
    deciding = pointwise if wide is None else wide

    def decided(threshold: float) -> str:
        if deciding.notes or deciding.lower <= threshold <= deciding.upper:
            return "open"
        return "above" if deciding.lower > threshold else "below"

    return {
        "name": name,
        "estimate": pointwise.estimate,
        "lower": pointwise.lower,
        "upper": pointwise.upper,
        "anytime_lower": None if wide is None else wide.lower,
        "anytime_upper": None if wide is None else wide.upper,
        "standard_error": pointwise.standard_error,
        "df": pointwise.df,
        "text": {
            kind: None if one is None else brief(one.estimate, one.lower, one.upper)
            for kind, one in (("pointwise", pointwise), ("anytime", wide))
        },
        "decisions": [{"threshold": threshold, "is": decided(threshold)} for threshold in thresholds],
    }


def _ratios(ratios: RatioSummary, policies: Sequence[str]) -> list[dict[str, Any]]:
    """Return the distribution of the importance ratios for each target policy; nothing if all of them are 1."""
    if ratios.on_policy:
        return []
    begin, share = ratios.shares()
    columns = zip(policies or ("",), ratios.mean, ratios.largest, ratios.largest_share, ratios.effective, strict=True)
    return [
        {
            "policy": policy,
            "mean": float(mean),
            "largest": float(largest),
            "largest_share": float(largest_share),
            "effective": float(effective),
            "tails": [[low, part] for low, part in zip(begin.tolist(), share[:, i].tolist(), strict=True)],
        }
        for i, (policy, mean, largest, largest_share, effective) in enumerate(columns)
    ]


def difference(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Return one experiment minus another, target by target, as `inferl.difference` has it for independent streams.

    While a check of one of them fails, nothing is decided.

    Examples
    --------
    >>> from inferl import TD, Evaluator, Transitions
    >>> def played(chance, seed):
    ...     coin = (np.random.default_rng(seed).random(2000) < chance).astype(float)
    ...     run = Run(Evaluator(TD(1)), target=0)
    ...     run.take(Transitions(np.zeros(2000, int), coin, np.zeros(2000, int), 0.9))
    ...     return snapshot(run, f"chance {chance}")
    >>> found = difference(played(0.6, seed=1), played(0.5, seed=2))
    >>> found["targets"][0]["text"]["pointwise"], found["verdict"]
    ('1.02 [0.71, 1.33]', ['chance 0.6 is larger'])
    """
    names = (one["name"], other["name"])
    if not (one["targets"] and other["targets"]):
        raise SettingError(f"{other['name'] if one['targets'] else one['name']} has no answer yet")
    if [target["name"] for target in one["targets"]] != [target["name"] for target in other["targets"]]:
        raise SettingError(f"{names[0]} and {names[1]} have different targets")
    if one["level"] != other["level"]:
        raise SettingError(f"the level of {names[0]} is {one['level']:g}, that of {names[1]} {other['level']:g}")
    if one["n"] == other["n"] and one["outcomes"] == other["outcomes"]:
        raise SettingError(f"{names[0]} and {names[1]} were fed the same stream, so they are not independent")
    difference_of(one["estimand"], other["estimand"], names)
    if None not in one["discounts"] + other["discounts"]:
        refuse_other_discounts(one["discounts"], other["discounts"], names)
    apart = welch(_interval(one), _interval(other))
    information = None
    if one["decided_by"] == other["decided_by"] == "anytime":
        information = (one["growth"] + other["growth"]) / 2
    (*wide,) = apart if information is None else anytime(apart, information)
    return {
        "of": names[0],
        "minus": names[1],
        "level": one["level"],
        "decided_by": "pointwise" if information is None else "anytime",
        "notes": list(apart.notes),
        "targets": finite(_targets(apart, information, [target["name"] for target in one["targets"]])),
        "verdict": [OPEN if apart.notes else verdict(each, names[0]) for each in wide],
    }


def _interval(found: Mapping[str, Any]) -> Interval:
    """Return the interval of a snapshot, as far as a difference needs it."""

    def column(name: str, missing: float) -> Any:
        return np.array([missing if target[name] is None else target[name] for target in found["targets"]])

    estimate, error, df = column("estimate", np.nan), column("standard_error", np.inf), column("df", np.inf)
    notes = tuple(f"{check['name']}: {check['message']}" for check in found["checks"] if check["status"] == "failed")
    return Interval(
        estimate, -np.inf, np.inf, found["level"], "normal", error, found["n"], notes, df, found["estimand"]
    )


def worst(checks: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return one check of each name: of several targets, that of the worst.

    >>> made = [{"name": "length", "status": status} for status in ("passed", "failed", "not available")]
    >>> worst(made)
    [{'name': 'length', 'status': 'failed'}]
    """
    order = ("passed", "not available", "failed")
    found: dict[str, Mapping[str, Any]] = {}
    for check in checks:
        before = found.setdefault(check["name"], check)
        if order.index(check["status"]) > order.index(before["status"]):
            found[check["name"]] = check
    return list(found.values())


class Rows(NamedTuple):
    """A part of a history."""

    era: int  # with another one, forget the rows that you have
    end: int  # number of snapshots so far
    rows: list[list[Any]]


class History:
    """The numbers of the latest snapshots, all of them, and of earlier ones, evenly spaced, in bounded memory.

    A row is ``[time, n, failed, numbers, completed]``: when, after how many transitions, how many checks had failed,
    for each target the numbers named in `COLUMNS`, and how many episodes were completed.

    Parameters
    ----------
    most
        Number of rows that are kept. Half of them are the latest. When the other half is full, every other row of it is
        left out, and from then on half as many are added.

    Examples
    --------
    >>> history = History(most=8)
    >>> for n in range(1, 33):
    ...     history.add({"time": 0.1 * n, "n": n, "checks": [], "targets": []})
    >>> [n for _, n, *_ in history.since().rows]
    [1, 9, 17, 25, 29, 30, 31, 32]
    >>> _, end, _ = history.since()
    >>> history.add({"time": 3.3, "n": 33, "checks": [], "targets": []})
    >>> history.since(end).rows
    [[3.3, 33, 0, [], 0]]
    """

    def __init__(self, most: int = 1000) -> None:
        self._half = most // 2
        self._earlier: list[list[Any]] = []
        self._latest: deque[list[Any]] = deque()
        self._step = 1  # of the snapshots that leave the latest, every how many-th is kept
        self._end = 0
        self._lock = Lock()

    def add(self, snapshot: Mapping[str, Any]) -> None:
        """Add a snapshot."""
        failed = sum(check["status"] == "failed" for check in worst(snapshot["checks"]))
        failed *= snapshot.get("verdict", {}).get("light") != "grey"  # there were too few data for an answer
        numbers = [[target[column] for column in COLUMNS] for target in snapshot["targets"]]
        with self._lock:
            self._append([snapshot["time"], snapshot["n"], failed, numbers, snapshot.get("completed", 0)])

    def placed(self, change: Mapping[str, Any]) -> dict[str, Any]:
        """Return a change of the value with its place: after how many transitions, and when; None before the first row.

        >>> history = History()
        >>> for n, episodes in ((0, 0), (100, 10), (300, 20)):  # they became longer
        ...     history.add({"time": 0.1 * n, "n": n, "completed": episodes, "checks": [], "targets": []})
        >>> history.placed({"at": 15, "unit": "episodes"})
        {'at': 15, 'unit': 'episodes', 'n': 200, 'time': 20.0}
        """
        rows, at = self.since().rows, change["at"]
        seen = [row[4 if change["unit"] == "episodes" else 1] for row in rows]
        if not seen or at < seen[0]:
            return {**change, "n": at if change["unit"] == "steps" else None, "time": None}
        n, when = (float(np.interp(at, seen, [row[column] for row in rows])) for column in (1, 0))
        return {**change, "n": round(n), "time": when}

    def since(self, end: int = 0) -> Rows:
        """Return the rows after the first `end` snapshots; 0: all that are kept."""
        with self._lock:
            new = self._end - end
            rows = list(self._latest)
            rows = rows[len(rows) - new :] if end and new <= len(rows) else self._earlier + rows
            return Rows(self._end // self._half, self._end, rows)

    def saved(self) -> dict[str, Any]:
        """Return the content of a file, plain data."""
        with self._lock:
            kept = {"columns": [*COLUMNS, "completed"], "step": self._step, "end": self._end}
            return kept | {"earlier": list(self._earlier), "latest": list(self._latest)}

    @classmethod
    def restored(cls, saved: Mapping[str, Any], n: int, most: int = 1000) -> History:
        """Return a history from the content of a file, without rows after `n` transitions; empty if it is no such file.

        >>> history = History()
        >>> for n in (10, 20, 30):
        ...     history.add({"time": 0.1 * n, "n": n, "checks": [], "targets": []})
        >>> [row[1] for row in History.restored(history.saved(), n=20).since().rows]
        [10, 20]
        """
        history = cls(most)
        if saved.get("columns") == [*COLUMNS, "completed"]:
            history._step = saved["step"]
            history._earlier = [row for row in saved["earlier"] if row[1] <= n]
            history._latest.extend(row for row in saved["latest"][-history._half :] if row[1] <= n)
            history._end = saved["end"] - len(saved["latest"]) + len(history._latest)
        return history

    def _append(self, row: list[Any]) -> None:
        self._latest.append(row)
        self._end += 1
        if len(self._latest) <= self._half:
            return
        leaving, number = self._latest.popleft(), self._end - self._half - 1  # its number, from 0
        if number % self._step == 0:
            self._earlier.append(leaving)
        if len(self._earlier) > self._half:
            self._earlier = self._earlier[::2]
            self._step *= 2
