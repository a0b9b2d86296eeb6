"""The parts of the study of trust: what is measured in a few repeats of one problem.

Each part is a function of the problem's name, the numbers of the repeats, the seed and the longest length, and returns
columns with an entry for each repeat.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import Any, cast

import numpy as np

import inferl
from inferl.baselines import offline_bootstrap
from inferl.comparison import welch
from inferl.data.arrays import Floats
from inferl.interval import Interval
from inferl.methods.least_squares import LeastSquaresState
from studies.repeats import Result
from studies.validity.problems import Problem, problem
from studies.validity.rivals import hac, of_iterates

LEVEL = 0.95
LONG_BOOTSTRAP = "ring 20/4, lazy"  # followed to its end by the bootstraps too

IN_BLOCKS = inferl.Multipliers("two-point", inferl.BlockClock(4, 0.5))

# Where anytime intervals are looked at: from t0 on, which is in trusted territory, 100 times until 100 t0.
ANYTIME = {
    "two-state chain .8": 1_500,
    "ring 20/4, lazy": 10_500,
    "FrozenLake": 6_500,
    "random MDP, linear": 1_000,
    "random MDP, misspecified": 1_000,
    "random MDP, off-policy": 1_000,
}
LOOKS = 100
BANDS = {
    "random MDP, tabular": (10_000, 30_000, 100_000),
    "ring 20/4, lazy": (10_000, 30_000, 100_000),
    "FrozenLake": (100_000, 300_000),
}
DIFFERENCE_LENGTHS = (3_000, 10_000, 30_000)


def bootstrap(name: str, asked: Problem, seed: int) -> inferl.OnlineBootstrap:
    """The bootstraps that are compared."""
    if name == "bootstrap, as printed":
        return inferl.OnlineBootstrap.as_printed(asked.initial, seed=seed)
    method = inferl.OnlineBootstrap(inferl.Polynomial(asked.initial, 0.65), seed=seed)
    return replace(method, multipliers=IN_BLOCKS) if name == "bootstrap, blocks" else method


BOOTSTRAPS = ("bootstrap, as printed", "bootstrap", "bootstrap, blocks")


class Found:
    """Bounds of many runs, in columns: key -> lower, upper and the names of the checks that fired."""

    def __init__(self) -> None:
        self.columns: Result = {}

    def add(
        self, method: str, length: int, targets: list[str], lower: Floats, upper: Floats, fired: Any = None
    ) -> None:
        for i, target in enumerate(targets):
            column = self.columns.setdefault(f"{method}|{length}|{target}", {"lower": [], "upper": [], "fired": []})
            column["lower"].append(float(f"{lower[i]:.8g}"))
            column["upper"].append(float(f"{upper[i]:.8g}"))
            if fired is not None:
                column["fired"].append(fired[i])


def fired(evaluator: inferl.Evaluator, rows: Floats) -> list[list[str]]:
    """Names of the checks that fail, for each target."""
    return [[check.name for check in evaluator.report(row).checks if check.failed] for row in rows]


def of_single_steps(evaluator: inferl.Evaluator, rows: Floats) -> Interval:
    """What `LeastSquares("none")` says; it keeps the same sums, and reads level 0."""
    method = inferl.LeastSquares("none")
    return method.interval(method.look(cast(LeastSquaresState, evaluator.with_pending().method), rows), LEVEL)


def solved(name: str, numbers: range, seed: int, longest: int) -> Result:
    asked, found = problem(name), Found()
    rows, targets = asked.rows, list(asked.asked)
    episodic = bool(asked.mdp.terminal.any())
    for number in numbers:
        lengths = [n for n in asked.lengths if n <= longest]
        data = asked.data(lengths[-1], [seed, number])
        dyadic, start = inferl.Evaluator(asked.algorithm), 0
        episodes = inferl.Evaluator(asked.algorithm, inferl.LeastSquares("episode")) if episodic else None
        for n in lengths:
            dyadic.update(data[start:n])
            interval = dyadic.interval(rows, LEVEL)
            found.add("least squares", n, targets, interval.lower, interval.upper, fired(dyadic, rows))
            interval = of_single_steps(dyadic, rows)
            found.add("least squares, lag 0", n, targets, interval.lower, interval.upper)
            if episodes is not None:
                interval = episodes.update(data[start:n]).interval(rows, LEVEL)
                found.add("least squares, episodes", n, targets, interval.lower, interval.upper)
            start = n
    return found.columns


def bootstrapped(name: str, numbers: range, seed: int, longest: int) -> Result:
    asked, found = problem(name), Found()
    rows, targets = asked.rows, list(asked.asked)
    lengths = [n for n in asked.lengths if n <= (100_000 if name == LONG_BOOTSTRAP else longest)]
    for number in numbers:
        data = asked.data(lengths[-1], [seed, number])
        for method in BOOTSTRAPS:
            evaluator, start = inferl.Evaluator(asked.walking, bootstrap(method, asked, seed + number)), 0
            for n in lengths:
                with suppress(inferl.errors.DivergenceError):  # then the state is that of the last sound tile
                    evaluator.update(data[start:n])
                interval = evaluator.interval(rows, LEVEL)
                found.add(method, n, targets, interval.lower, interval.upper, fired(evaluator, rows))
                start = n
    return found.columns


def iterated(name: str, numbers: range, seed: int, longest: int) -> Result:
    asked, found = problem(name), Found()
    for n in asked.lengths:
        if n <= longest:
            for method, (lower, upper) in of_iterates(asked, n, [[seed, number] for number in numbers]).items():
                for one, other in zip(lower, upper, strict=True):
                    found.add(method, n, list(asked.asked), one, other)
    return found.columns


def stored(name: str, numbers: range, seed: int, longest: int) -> Result:
    asked, found = problem(name), Found()
    for number in numbers:
        data = asked.data(max(n for n in asked.lengths if n <= longest), [seed, number])
        for n in asked.lengths:
            if n <= longest:
                found.add("HAC on LSTD", n, list(asked.asked), *hac(asked, data[:n]))
    return found.columns


def resampled(name: str, numbers: range, seed: int, longest: int) -> Result:
    asked, found = problem(name), Found()
    for number in numbers:
        for n in [n for n in asked.lengths if n <= longest][-2:]:
            data = asked.data(n, [seed, number])
            unit = "episode" if asked.mdp.terminal.any() else round(4 * np.sqrt(n))
            lower, upper = np.full((2, len(asked.rows)), [[-np.inf], [np.inf]])
            with suppress(inferl.errors.DataError):  # a single episode cannot be drawn again: nothing is known
                interval = offline_bootstrap(
                    data, asked.algorithm, inferl.LeastSquares(), asked.rows, unit=unit, seed=number, level=LEVEL
                )
                lower, upper = np.asarray(interval.lower), np.asarray(interval.upper)
            found.add("offline bootstrap", n, list(asked.asked), lower, upper)
    return found.columns


def looked_at(name: str, numbers: range, seed: int, longest: int) -> Result:
    """Whether intervals ever missed over 100 looks, spread evenly on a logarithmic scale."""
    asked, found, first = problem(name), Found(), ANYTIME[name]
    truth, _ = asked.solution()
    looks = np.unique(np.geomspace(first, min(100 * first, longest), LOOKS).round().astype(int)).tolist()
    for number in numbers:
        data = asked.data(looks[-1], [seed, number])
        evaluators = {"least squares": inferl.Evaluator(asked.algorithm)}
        if name == "random MDP, linear":
            method = replace(bootstrap("bootstrap", asked, seed + number), companion=False)
            evaluators["bootstrap"] = inferl.Evaluator(asked.algorithm, method)
        for method_name, evaluator in evaluators.items():
            missed = {kind: np.zeros(len(asked.rows), np.bool_) for kind in ("anytime", "normal")}
            start = 0
            for n in looks:
                evaluator.update(data[start:n])
                start = n
                for kind, ever in missed.items():
                    ever |= ~evaluator.interval(asked.rows, LEVEL, kind, tuning_time=10 * first).contains(truth)
            for kind, ever in missed.items():
                for target, miss in zip(asked.asked, ever.tolist(), strict=True):
                    column = found.columns.setdefault(f"{method_name}|{kind}|{target}", {"missed": []})
                    column["missed"].append(miss)
    return found.columns


@cache
def two_policies() -> tuple[Problem, Floats, Floats, Floats]:
    """The off-policy problem, a policy close to its target, the target state, and the true difference of values."""
    asked = problem("random MDP, off-policy")
    near = 0.7 * asked.target + 0.3 * cast(Floats, asked.behaviour)
    c = asked.rows[0]
    values = [
        c @ asked.mdp.fixed_point(asked.features, policy, asked.behaviour, asked.discount)  # type: ignore[arg-type]
        for policy in (asked.target, near)
    ]
    return asked, near, c, np.array(values[0] - values[1])


def differing(name: str, numbers: range, seed: int, longest: int) -> Result:
    """The difference of two policies from one log, three ways; and from two logs."""
    asked, near, c, _ = two_policies()
    assert asked.behaviour is not None
    found = Found()
    d = asked.algorithm.dimension
    for number in numbers:
        paths = [asked.path(DIFFERENCE_LENGTHS[-1], [seed, number, log]) for log in range(2)]
        ratios = [[path.ratios(policy, asked.behaviour) for policy in (asked.target, near)] for path in paths]
        for n in DIFFERENCE_LENGTHS:
            if n > longest:
                continue
            both = paths[0].transitions(asked.discount, asked.features, np.stack(ratios[0], axis=1))[:n]
            first, second, other = (
                paths[log].transitions(asked.discount, asked.features, ratios[log][policy])[:n]
                for log, policy in ((0, 0), (0, 1), (1, 1))
            )
            stack = inferl.Evaluator(inferl.Stack(inferl.TD(d), inferl.TD(d))).update(both)
            alone = [inferl.Evaluator(inferl.TD(d)).update(data) for data in (first, second, other)]
            method = replace(bootstrap("bootstrap", asked, seed + number), companion=False)
            coupled = [inferl.Evaluator(inferl.TDC(d), method).update(data) for data in (first, second)]
            intervals: dict[str, Interval] = {
                "one log, Stack": stack.interval(np.concatenate([c, -c]), LEVEL),
                "one log, coupled bootstraps": inferl.difference(coupled[0], coupled[1], c, LEVEL, paired=True),
                "one log, treated as two": welch(
                    *(one.interval(c, LEVEL) for one in alone[:2])
                ),  # which `difference` refuses
                "two logs": inferl.difference(alone[0], alone[2], c, LEVEL),
            }
            for words, interval in intervals.items():
                found.add(words, n, ["difference"], np.array([interval.lower]), np.array([interval.upper]))
    return found.columns


def banded(name: str, numbers: range, seed: int, longest: int) -> Result:
    """Whether a band holds all states at once: all that are seen 50 times and more in the mean, for a table."""
    asked, found = problem(name), Found()
    states = banded_states(name)
    truth = banded_truth(name)
    for number in numbers:
        data = asked.data(min(BANDS[name][-1], longest), [seed, number])
        evaluators = {"least squares": inferl.Evaluator(asked.algorithm)}
        if name == "random MDP, tabular":
            method = replace(bootstrap("bootstrap", asked, seed + number), companion=False)
            evaluators["bootstrap"] = inferl.Evaluator(asked.algorithm, method)
        for method_name, evaluator in evaluators.items():
            start = 0
            for n in BANDS[name]:
                if n > longest or (method_name == "bootstrap" and n > 30_000):
                    continue
                evaluator.update(data[start:n])
                start = n
                for kind in ("simultaneous", "normal"):
                    inside = evaluator.interval(states, LEVEL, kind).contains(truth)
                    column = found.columns.setdefault(f"{method_name}|{kind}|{n}", {"missed": []})
                    column["missed"].append(not inside.all())
    return found.columns


@cache
def banded_states(name: str) -> Floats:
    """Rows of all targets of a band."""
    asked = problem(name)
    d = asked.algorithm.dimension
    if asked.features is not None:
        return np.eye(d)
    often = asked.mdp.stationary(asked.acting) * BANDS[name][0] >= 50
    return np.eye(d)[often]


@cache
def banded_truth(name: str) -> Floats:
    asked = problem(name)
    if asked.features is None:
        return banded_states(name) @ asked.mdp.values(asked.target, asked.discount)
    return asked.mdp.fixed_point(asked.features, asked.target, asked.behaviour, asked.discount)
