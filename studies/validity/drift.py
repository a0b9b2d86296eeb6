"""Windows and the drift check: coverage of windowed intervals, false alarms, power, and what is known of a change.

    python -m studies.validity.drift [--parts alarms power] [--processes 2] [--seed 85000]

Seven parts, each a list in validity/results/drift.json:

- limit: Gaussian blocks of known variance, from which the limit of the check was found; its false alarms;
- coverage: windowed intervals, read at the end of streams that do not change, and once a window has passed a change;
- alarms: how often the check ever fails in a million steps of a stream that does not change, looked at after every
  block and, with a window, after every pane;
- power: shifts of 6 and 3 standard errors of a window of 24 panes, after 10 and 20 windows without a change; the check
  fails if it finds a shift while this is within the window, and passes and says so once the window has passed it;
- ideal: the same shifts of Gaussian panes whose variance is known: what no estimate of the variance can do better;
- evaluators: alarms and power with evaluators, which must agree with the sums that these are counted from;
- features: streams with 64 features, and evaluators that are looked at 20 times.

About an hour of one core.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
from scipy.signal import lfilter
from scipy.special import log_ndtr

import inferl
from inferl.data.arrays import GATHER, Floats
from inferl.variance.changes import BLOCKS, FEWEST, LIMIT, Change, changes
from inferl.variance.history import STEPS, History
from studies.provenance import provenance
from studies.repeats import Result, repeat
from studies.validity.study import RESULTS, clopper_pearson, options, partial_file, write_results
from studies.validity.value_problems import problem

SEED = 85_000
LONG = 2**20  # steps of a stream
PANES = 24
PANE = 2000  # steps, or those of 100 episodes
EPISODE = 20  # steps of an episode, where that matters
LIMITED, COVERED, ALARMED, TRIED, IDEAL, EVALUATED, WIDE = 4000, 1000, 1000, 1000, 2000, 40, 40  # repeats of each part
CHANGED = 200  # of those of coverage in which something changes
SHIFTS = {6.0: 1, 3.0: 4}  # in standard errors of a window: the windows in which it is to be found
LOOKS = 20  # at an evaluator, which takes longer
BEFORE = (10, 20)  # windows without a change


# Streams of numbers whose mean is 0: what one step, or one episode, adds to an estimate.


def ar(rho: float) -> Callable[[np.random.Generator, int], Floats]:
    """A stationary autoregression."""

    def made(rng: np.random.Generator, n: int) -> Floats:
        start = rng.normal() / np.sqrt(1 - rho**2)
        return np.asarray(lfilter([1.0], [1.0, -rho], rng.normal(size=n), zi=[rho * start])[0])

    return made


UP, DOWN, STATES, DISCOUNT = 0.35, 0.5, 60, 0.9


def queue(rng: np.random.Generator, n: int, down: float = DOWN) -> np.ndarray[Any, Any]:
    """States of a queue: one more, one fewer or neither in a step; it begins in its stationary law."""
    u = rng.random(n)
    walk = np.cumsum((u < UP).astype(np.int64) - (u > 1 - down)) + rng.geometric(1 - UP / down) - 1
    walk = np.concatenate([walk[:1] * 0 + rng.geometric(1 - UP / down) - 1, walk])
    return np.minimum(walk - np.minimum(np.minimum.accumulate(walk), 0), STATES - 1)


@cache
def queue_truth(down: float = DOWN) -> tuple[Floats, Floats]:
    """The values of its states, which cost their number, and what a unit of TD error adds to the value of state 0."""
    p = np.zeros((STATES, STATES))
    for s in range(STATES):
        p[s, min(s + 1, STATES - 1)] += UP
        p[s, max(s - 1, 0)] += down
        p[s, s] += 1 - UP - down
    share = (UP / down) ** np.arange(STATES)
    inverse = np.linalg.inv(np.eye(STATES) - DISCOUNT * p)
    return -inverse @ np.arange(STATES), inverse[0] / (share / share.sum())


def queue_scores(rng: np.random.Generator, n: int) -> Floats:
    """TD errors of a queue, weighted by what they add to the value of state 0."""
    states, (value, weight) = queue(rng, n), queue_truth()
    return np.asarray(weight[states[:-1]] * (-states[:-1] + DISCOUNT * value[states[1:]] - value[states[:-1]]))


def rare(rng: np.random.Generator, n: int) -> Floats:
    """Returns of episodes of which one in twenty pays."""
    return np.asarray((rng.random(n) < 0.05) - 0.05)


def weighted(rng: np.random.Generator, n: int) -> Floats:
    """Weighted returns of episodes with five decisions, made by a coin and evaluated for a coin that falls 4 to 1."""
    good = rng.binomial(5, 0.5, size=n)
    return np.asarray(1.6**good * 0.4 ** (5 - good) * (good / 5 + 0.5 * rng.normal(size=n)) - 0.8)


STREAMS: dict[str, tuple[Callable[[np.random.Generator, int], Floats], bool]] = {
    "AR(.9), the mean": (ar(0.9), False),
    "AR(.99), the mean": (ar(0.99), False),
    "queue, TD, value of the empty queue": (queue_scores, False),
    "episodes, one in twenty pays": (rare, True),
    "episodes, off-policy, five decisions": (weighted, True),
}


@cache
def error_of_window(name: str) -> float:
    """Standard error of a window of this stream, from its long-run variance."""
    made, episodic = STREAMS[name]
    rng = np.random.default_rng(1)
    length, total = (1, 4_000_000) if episodic else (20_000, 40_000_000)
    rate = np.mean(
        [np.mean(made(rng, length * 200).reshape(-1, length).sum(axis=1) ** 2) for _ in range(total // length // 200)]
    )
    return float(np.sqrt(rate / length / (PANES * pane_of(episodic))))


def pane_of(episodic: bool) -> int:
    return PANE // EPISODE if episodic else PANE


class Watched:
    """A stream in blocks, and the check of it after any of them: as an evaluator makes it, for one number a step."""

    def __init__(self, units: Floats, block: int, independent: bool, window: int | None = None) -> None:
        self.block, self.independent, self.window = block, independent, window
        levels = int(np.log2(block))
        rows = units[: len(units) // block * block].reshape(-1, block)
        self.sums = rows.sum(axis=1)
        self.fine = next(level for level in range(levels + 1) if block >> level < GATHER)  # as evaluators have it
        self.squares, self.number = np.zeros((len(rows), levels + 1)), np.zeros(levels + 1)
        for level in range(levels + 1):
            self.squares[:, level] = (rows**2).sum(axis=1)
            self.number[level] = rows.shape[1]
            if level == self.fine:
                self.fourth = np.cumsum(np.concatenate([[0.0], (rows**4).sum(axis=1)]))
            rows = rows[:, : rows.shape[1] // 2 * 2].reshape(len(rows), -1, 2).sum(axis=2)
        self.every = np.cumsum(np.concatenate([np.zeros((1, levels + 1)), self.squares]), axis=0)
        self.history, self.n = History.empty(1), 0

    def look(self, n: int) -> list[Change]:
        """The changes that are seen after n blocks."""
        if n > self.n:
            self.history._push(self.sums[self.n : n, None], np.full(n - self.n, self.block))
            self.n = n
        first = 0 if self.window is None else max(n - self.window, 0)
        blocks = n * self.number
        rate = self.every[n] / (blocks * 2.0 ** np.arange(len(blocks)))
        squares = float(self.every[n, self.fine] - self.every[first, self.fine])
        excess = float(self.fourth[n] - self.fourth[first]) - 3 * squares**2 / ((n - first) * self.number[self.fine])
        ess = squares**2 / excess * n / (n - first) if excess > 0 else np.inf  # see inferl.variance.kurtosis
        h = self.history
        return changes(
            h.sums[:, 0], h.length, h.added, rate, blocks.astype(np.int64), ess, independent=self.independent
        )


# The parts.


def limit(job: Any) -> Result:
    """The largest excess of Gaussian blocks of known variance over the limit, in the first 512 blocks."""
    _, _, first, last, seed = job
    worst = np.full(last - first, -np.inf)
    x = np.random.default_rng([seed, 1, first]).standard_normal((BLOCKS, last - first))
    total = np.concatenate([np.zeros((1, last - first)), np.cumsum(x, axis=0)])
    for n in range(2 * FEWEST, BLOCKS + 1):
        k = np.arange(FEWEST, n - FEWEST + 1)
        distance = np.abs(total[k] - (k / n)[:, None] * total[n]) / np.sqrt(k * (n - k) / n)[:, None]
        place, run = np.nonzero(distance > 3.2)  # less has no chance
        evidence = -log_ndtr(-distance[place, run]) - np.log(2) - np.log(BLOCKS / (n - k[place]))
        np.maximum.at(worst, run, evidence)
    return {"evidence": worst.tolist()}


def alarms(job: Any) -> Result:
    """When a stream that does not change first raises an alarm; None: never."""
    _, name, first, last, seed = job
    made, episodic = STREAMS[name]
    n = LONG // (EPISODE if episodic else 1)
    columns: Result = {"all": [], "window": []}
    for number in range(first, last):
        units = made(np.random.default_rng([seed, 2, number]), n)
        block = 16 if episodic else STEPS
        whole, part = Watched(units, block, episodic), Watched(units, pane_of(episodic), episodic, PANES)
        for watched, column in ((whole, "all"), (part, "window")):
            looks = suspicious(watched.sums, error_of_window(name) * np.sqrt(PANES * pane_of(episodic) * watched.block))
            column_found = next((look * watched.block for look in looks if watched.look(look)), None)
            columns[column].append(column_found)
    return columns


def suspicious(sums: Floats, spread: float) -> list[int]:
    """The numbers of blocks after which a look can raise an alarm: others would take most of the time.

    A change needs a border at which the means differ by four standard errors or more. So where they differ by less than
    three, by the true spread of a block, the variance would have to be wrong by half; it may be while blocks are few.
    """
    total = np.concatenate([[0.0], np.cumsum(sums)])
    found = list(range(2 * FEWEST, min(32, len(sums)) + 1))
    for n in range(len(found) + 2 * FEWEST, len(sums) + 1):
        k = np.arange(FEWEST, n - FEWEST + 1)
        if (np.abs(total[k] - (k / n) * total[n]) / np.sqrt(k * (n - k) / n)).max() > 3 * spread:
            found.append(n)
    return found


def power(job: Any) -> Result:
    """When a shift is found, and what is then said of it."""
    _, name, first, last, seed = job
    made, episodic = STREAMS[name]
    pane, error = pane_of(episodic), error_of_window(name)
    columns: Result = {}
    for number in range(first, last):
        for before in BEFORE:
            for size, windows in SHIFTS.items():
                at = before * PANES
                units = made(np.random.default_rng([seed, 3, number]), (at + windows * PANES) * pane)
                units[at * pane :] += size * error
                watched, found = Watched(units, pane, episodic, PANES), None
                if not watched.look(at):
                    for look in range(at + 1, at + windows * PANES + 1):
                        seen = watched.look(look)
                        if seen:
                            off = (seen[-1].at - at * pane) / (PANES * pane)
                            within = any(change.latest > (look - PANES) * pane for change in seen)
                            found = [(look - at) / PANES, off, seen[-1].shift / error, seen[-1].error / error, within]
                            break
                columns.setdefault(f"{size}|{before}", []).append(found)
    return columns


def ideal(job: Any) -> Result:
    """Whether the shifts are found where the variance is known."""
    _, _, first, last, seed = job
    columns: Result = {}
    for before in BEFORE:
        for size, windows in SHIFTS.items():
            at, stop = before * PANES, (before + windows) * PANES
            x = np.random.default_rng([seed, 8, first]).standard_normal((stop, last - first))
            x[at:] += size / np.sqrt(PANES)
            total, found = (
                np.concatenate([np.zeros((1, last - first)), np.cumsum(x, axis=0)]),
                np.zeros(last - first, bool),
            )
            for n in range(at + 1, stop + 1):
                k = np.arange(FEWEST, n - FEWEST + 1)
                distance = np.abs(total[k] - (k / n)[:, None] * total[n]) / np.sqrt(k * (n - k) / n)[:, None]
                least = LIMIT + np.log(n / (n - k)) + abs(np.log(n / BLOCKS))
                found |= (-log_ndtr(-distance) - np.log(2) > least[:, None]).any(axis=0)
            columns[f"{size}|{before}"] = found.tolist()
    return columns


def fed_mean(rewards: Floats, evaluator: inferl.Evaluator) -> None:
    evaluator.update(inferl.Increments.dense(np.ones((len(rewards), 1, 1)), rewards[:, None]))


def joined(name: str, seed: list[int], steps: int) -> inferl.Transitions:
    """Whole episodes of a problem, so many steps at least."""
    parts, n = list[inferl.Transitions](), 0
    while n < steps:
        parts.append(problem(name).data([*seed, len(parts)]))
        n += len(parts[-1])
    return inferl.Transitions.join(parts)


def scaled(data: inferl.Transitions, factor: float) -> inferl.Transitions:
    return inferl.Transitions(
        data.features, factor * data.rewards, data.next_features, data.discounts, data.ratios, last=data.last
    )


EPISODIC = {"FrozenLake, DoublyRobust": "FrozenLake: tiles 2x2", "clinic, off-policy": "clinic 5, 0.6: 3 bins"}
COVERAGE = ("AR(.9), the mean", "queue, TD", *EPISODIC)


def coverage(job: Any) -> Result:
    """Whether windowed intervals cover the value, and their widths, where nothing changes and after a change."""
    _, name, first, last, seed = job
    pane = 500
    window, columns = inferl.Window(PANES, pane), dict[str, list[Any]]()
    for number in range(first, last):
        for changed in (False, True)[: 1 + (number < CHANGED)]:
            rng = np.random.default_rng([seed, 4, number, changed])
            target: Any = None
            early, late = (20 if changed else 6) * pane, (PANES + 6) * pane
            if name == "AR(.9), the mean":
                evaluator, target, truth = inferl.Evaluator(inferl.Linear(1), window=window), np.ones(1), 0.0
                rewards = ar(0.9)(rng, early + late)
                rewards[:early] += 3.0 * changed
                fed_mean(rewards, evaluator)
            elif name == "queue, TD":
                evaluator, target = inferl.Evaluator(inferl.TD(STATES), window=window), 0
                for n, down in ((early, 0.6 if changed else DOWN), (late, DOWN)):
                    states = queue(rng, n, down)
                    data = inferl.Transitions(states[:-1], -1.0 * states[:-1], states[1:], DISCOUNT, last=False)
                    evaluator.update(data)
                truth = float(queue_truth()[0][0])
            else:
                one = problem(EPISODIC[name])
                evaluator, truth = inferl.Evaluator(inferl.DoublyRobust(one.dimension), window=window), one.truth
                for part, n in ((0, early), (1, late)):
                    data = joined(one.name, [seed, number, int(changed), part], n)
                    evaluator.update(scaled(data, 1.5) if changed and part == 0 else data)
            report = evaluator.report(target)
            interval, drift = report.interval, next(check for check in report.checks if check.name == "drift")
            found = [truth in interval, float(interval.width), float(interval.standard_error), drift.failed]
            columns.setdefault("after a change" if changed else "no change", []).append(found)
    return columns


def evaluators(job: Any) -> Result:
    """A mean with a window: looked at 20 times where nothing changes, and after each pane from a shift on."""
    _, _, first, last, seed = job
    columns: Result = {"alarm": [], "alarm without a window": [], "found": []}
    at = 10 * PANES
    for number in range(first, last):
        units = ar(0.9)(np.random.default_rng([seed, 5, number]), LONG)
        for window, column in ((inferl.Window(PANES, PANE), "alarm"), (None, "alarm without a window")):
            evaluator, failed = inferl.Evaluator(inferl.Linear(1), window=window), False
            for chunk in np.array_split(units, LOOKS):
                fed_mean(chunk, evaluator)
                failed |= _found(evaluator, [1.0])
            columns[column].append(failed)
        units = ar(0.9)(np.random.default_rng([seed, 6, number]), (at + PANES) * PANE)
        units[at * PANE :] += 6 * error_of_window("AR(.9), the mean")
        evaluator, found = inferl.Evaluator(inferl.Linear(1), window=inferl.Window(PANES, PANE)), None
        fed_mean(units[: at * PANE], evaluator)
        for look in range(PANES):
            fed_mean(units[(at + look) * PANE : (at + look + 1) * PANE + (look < PANES - 1)], evaluator)
            if found is None and _found(evaluator, [1.0]):
                found = look + 1
        columns["found"].append(found)
    return columns


def features(job: Any) -> Result:
    """Whether the check ever fails in 20 looks at TD with 64 random features of a queue, and no change."""
    _, _, first, last, seed = job
    rows = np.random.default_rng(0).normal(size=(STATES, 64)) / 8
    rows[:, 0] = 1.0
    columns: Result = {"alarm": []}
    for number in range(first, last):
        states = queue(np.random.default_rng([seed, 7, number]), 300_000)
        evaluator, failed = inferl.Evaluator(inferl.TD(64)), False
        for part in np.array_split(np.arange(len(states) - 1), LOOKS):
            data = inferl.Transitions(rows[states[part]], -1.0 * states[part], rows[states[part + 1]], DISCOUNT)
            failed |= _found(evaluator.update(data), rows[0])
        columns["alarm"].append(failed)
    return columns


def _found(evaluator: inferl.Evaluator, target: Any) -> bool:
    """Whether the check says that something has changed, within the window or before it."""
    return any(bool(check.value) for check in evaluator.report(target).checks if check.name == "drift")


PARTS: dict[str, tuple[Callable[[Any], Result], tuple[str, ...], int, int]] = {
    "limit": (limit, ("Gaussian blocks",), LIMITED, 500),
    "coverage": (coverage, COVERAGE, COVERED, 50),
    "alarms": (alarms, tuple(STREAMS), ALARMED, 10),
    "power": (power, tuple(STREAMS), TRIED, 25),
    "ideal": (ideal, ("Gaussian blocks",), IDEAL, 250),
    "evaluators": (evaluators, ("AR(.9), the mean",), EVALUATED, 5),
    "features": (features, ("queue, TD, 64 features",), WIDE, 4),
}


def one_job(job: Any) -> Result:
    return PARTS[job[0]][0](job)


def share(found: list[bool]) -> dict[str, Any]:
    """A number of runs, with its exact binomial interval."""
    k, n = int(np.sum(found)), len(found)
    return {"runs": n, "number": k, "share": k / n, "binomial_95": clopper_pearson(k, n, 0.95)}


def cells(part: str, name: str, columns: dict[str, list[Any]]) -> Iterator[dict[str, Any]]:
    """Summarise what the jobs of a part found for one stream."""
    for key, rows in columns.items():
        if part == "limit":
            yield {"stream": name, "limit": LIMIT, "quantile_99": float(np.quantile(rows, 0.99))} | share(
                [row > LIMIT for row in rows]
            )
        elif part == "coverage":
            held, width, error, failed = np.array(rows, np.float64).T
            more = {"mean_width": float(width.mean()), "median_error": float(np.median(error))}
            yield {"stream": name, "when": key, **share(held > 0), **more, "drift_failed": int(failed.sum())}
        elif part == "alarms":
            first = [row for row in rows if row is not None]
            yield {
                "stream": name,
                "data": key,
                **share([row is not None for row in rows]),
                "first_alarms": sorted(first),
            }
        elif part == "power":
            size, before = key.split("|")
            found = np.array([row for row in rows if row is not None])
            delay, off, shift, error, within = found.T if len(found) else np.full((5, 1), np.nan)
            yield (
                {"stream": name, "shift": float(size), "windows_before": int(before)}
                | share([row is not None for row in rows])
                | {
                    "failed": int(np.nansum(within)),
                    "median_delay": float(np.median(delay)),
                    "median_miss_of_time": float(np.median(np.abs(off))),
                    "late_miss_of_time": float(np.quantile(np.abs(off), 0.9)),
                    "median_shift": float(np.median(shift)),
                    "shift_within_two_errors": float(np.mean(np.abs(shift - float(size)) <= 2 * error)),
                }
            )
        elif part == "ideal":
            size, before = key.split("|")
            yield {"stream": name, "shift": float(size), "windows_before": int(before)} | share(rows)
        else:
            found_at = [row for row in rows if row is not None and row is not False]
            yield (
                {"stream": name, "what": key}
                | share([row is not None and row is not False for row in rows])
                | ({"median_panes": float(np.median(found_at))} if key == "found" else {})
            )


def kept_results(anew: list[str]) -> dict[str, Any]:
    """The parts that are not run, each with its own origin."""
    if set(anew) == set(PARTS):
        return {"provenance": {}}
    content: dict[str, Any] = json.loads((RESULTS / "drift.json").read_text())
    return content


def main() -> None:
    asked = options(__doc__, SEED, parts=list(PARTS))
    made_by = provenance(asked.seed)
    todo = [
        [part, name, i, min(i + at_once, number), asked.seed]
        for part, (_, names, number, at_once) in PARTS.items()
        if part in asked.parts
        for name in names
        for i in range(0, number, at_once)
    ]
    todo.sort(key=lambda job: bool(job[0] != "evaluators"))  # the longest first
    results = repeat(one_job, todo, partial_file("drift"), processes=asked.processes)
    content = kept_results(asked.parts)
    for part in asked.parts:
        content["provenance"][part], content[part], names = made_by, [], PARTS[part][1]
        for name in names:
            columns: dict[str, list[Any]] = {}
            for job, result in zip(todo, results, strict=True):
                if job[:2] == [part, name]:
                    for key, rows in result.items():
                        columns.setdefault(key, []).extend(rows)
            content[part] += list(cells(part, name, columns))
        for cell in content[part]:
            print(part, {key: value for key, value in cell.items() if key != "first_alarms"})
    print(write_results("drift", content).name)


if __name__ == "__main__":
    main()
