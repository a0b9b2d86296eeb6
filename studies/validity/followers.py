"""What follows the paper, side by side: intervals for one target from one pass of averaged linear TD.

    python -m studies.validity.followers [--repeats 200] [--processes 2] [--problems PROBLEM ...]

Random scaling, batch means and the multiplier subsample bootstrap need the path of the iterate along the target only
(studies.validity.iterates). Plug-in needs the matrix A and scores along the way. The online bootstrap of the package
and least squares get the same paths. The recursion is the same for all that have one: the step size that the package
chooses from the first rows of a path of its own, a start at 0, and the linear average beside the uniform one.

A table of 2,500 states (studies.validity.many_states) is more than least squares takes; plug-in keeps the same matrix,
and is left out there too. Step sizes are not automatic there: the rule is the same, with (1 - discount) / S for the
slowest rate. The recursion starts at the mean of the first rewards over 1 - discount, so that it converges within the
given steps; a bootstrap that starts at 0 is there for comparison.

Methods that look at iterates need them to forget quickly. So they get a second recursion with larger steps: the rule of
thumb of the other studies, and for the large table steps that stay at the cap. Writes validity/results/followers.json;
stopped and started again, it goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from scipy.special import ndtri, stdtrit

import inferl
from inferl.algorithms import Algorithm
from inferl.data.arrays import Floats
from inferl.environments import Trajectory
from inferl.errors import DivergenceError
from studies.provenance import provenance
from studies.repeats import Result, repeat
from studies.validity.iterates import LEVEL, LONG_RUN, Interval, critical_value, intervals
from studies.validity.many_states import ManyStates
from studies.validity.problems import MDP_SEED, Problem, problem
from studies.validity.study import coverage_cell, options, partial_file, write_results

SEED = 96_000
PILOT = 10_000  # steps of the path from which a step size is chosen
TABLE, DISCOUNT = 2_500, 0.5
BEGINNING = 1_000  # rewards from which the large table has its start
TOGETHER = 25  # paths of one job
LENGTHS = {"small": (2_000, 8_000, 32_000), "large": (20_000, 60_000, 150_000)}
SHARE = 3 / 4  # of the repeats for the large table


@dataclass(frozen=True, eq=False)
class Case:
    """A problem, what is asked of it, and the recursion."""

    sample: Callable[[int, list[int]], Trajectory]
    discount: float
    features: Floats | None  # (S, d); None: a table
    target: Floats  # (d,)
    truth: float
    rate: float  # n times the variance of the best estimate
    step_size: inferl.Polynomial  # automatic, or by the same rule
    larger: inferl.Polynomial  # of a second recursion, for methods that look at the iterates
    walking: Algorithm
    solving: Algorithm | None = None  # of least squares; None: too many parameters
    ratios: Callable[[Trajectory], Floats | float] = lambda path: 1.0
    from_zero: bool = False  # whether one of the bootstraps starts at 0, where the others do not

    @property
    def steps(self) -> dict[str, inferl.Polynomial]:
        """The step sizes of the two recursions."""
        return {"automatic": self.step_size, "larger": self.larger}

    @property
    def lengths(self) -> tuple[int, ...]:
        return LENGTHS["small" if self.solving is not None else "large"]

    def start(self, path: Trajectory) -> Floats:
        """theta_0."""
        if self.solving is not None:
            return np.zeros(len(self.target))
        return np.full(len(self.target), path.rewards[:BEGINNING].mean() / (1 - self.discount))

    def oracle(self, n: int) -> float:
        """The smallest possible standard error."""
        return float(np.sqrt(self.rate / n))


def known(name: str) -> Case:
    """The first target of a problem of the other studies."""
    asked = problem(name)
    truth, rate = asked.solution()
    assert rate is not None
    phi = asked.features
    if phi is not None:
        phi = np.where(asked.mdp.terminal[:, None], 0.0, phi)
    return Case(
        asked.path,
        asked.discount,
        phi,
        asked.rows[0],
        float(truth[0]),
        float(rate[0]),
        automatic(asked),
        inferl.Polynomial(asked.initial, 0.65),
        asked.walking,
        asked.algorithm,
        asked.ratios,
    )


def automatic(asked: Problem) -> inferl.Polynomial:
    """The package's automatic step size, from a path that is not used otherwise."""
    method = inferl.OnlineBootstrap(n_replicas=2, initial=0, companion=False)
    data = asked.data(PILOT, [SEED, MDP_SEED, PILOT])
    chosen: inferl.Polynomial = inferl.Evaluator(asked.walking, method).update(data)._state.method.step_size
    return chosen


def table(correlation: float) -> Case:
    """The large table. The slowest rate of A is (1 - discount) / S, and the step size 1 / 8 over it."""
    many = ManyStates(TABLE, correlation, DISCOUNT)
    step_size = inferl.Polynomial(TABLE / (8 * (1 - DISCOUNT)), 2 / 3)
    return Case(
        many.path,
        DISCOUNT,
        None,
        many.target,
        many.truth,
        many.rate,
        step_size,
        inferl.Polynomial(TABLE, 0.65),
        inferl.TD(TABLE),
        from_zero=correlation == 0,
    )


CASES: dict[str, Callable[[], Case]] = {
    "FrozenLake": lambda: known("FrozenLake"),
    "two-state chain .8": lambda: known("two-state chain .8"),
    "ring 20/4, lazy": lambda: known("ring 20/4, lazy"),
    "random MDP, off-policy": lambda: known("random MDP, off-policy"),
    "table of 2,500": lambda: table(0.0),
    "table of 2,500, dependent": lambda: table(0.8),
}


@cache
def case(name: str) -> Case:
    """The case of that name; made once in each process."""
    return CASES[name]()


@dataclass(frozen=True, eq=False)
class Walk:
    """What a recursion leaves behind, for several paths at once."""

    iterates: Floats  # (paths, n) along the target
    errors: Floats | None  # (paths, n) TD errors at the linear average so far, for plug-in


def walk(asked: Case, paths: list[Trajectory], step_size: inferl.Polynomial) -> Walk:
    """Follow TD, or TDC where ratios are not 1, along all paths together."""
    n, phi, target = len(paths[0]), asked.features, asked.target
    s, after, rewards, over = (
        np.array([getattr(path, name) for path in paths]).T
        for name in ("states", "next_states", "rewards", "terminated")
    )
    discounts = np.where(over, 0.0, asked.discount)
    ratios = np.array([np.broadcast_to(asked.ratios(path), n) for path in paths]).T
    lengths = np.ones(asked.target.shape) if phi is None else (phi**2).sum(axis=1)
    every, corrected = np.arange(len(paths)), isinstance(asked.walking, inferl.TDC)
    theta = np.array([asked.start(path) for path in paths])
    y, mean, along = np.zeros_like(theta), np.zeros_like(theta), theta @ target
    iterates = np.empty((n, len(paths)))
    errors = np.empty_like(iterates) if asked.solving is not None else None
    cap, steps = step_size.cap, step_size.initial * np.arange(1.0, n + 1) ** -step_size.decay
    assert cap is not None
    for t in range(n):
        now, later, g = s[t], after[t], discounts[t]
        step = np.minimum(steps[t], cap / np.maximum(lengths[now], 1e-12)) * ratios[t]
        if phi is None:
            if errors is not None:
                errors[t] = rewards[t] + g * mean[every, later] - mean[every, now]
            change = step * (rewards[t] + g * theta[every, later] - theta[every, now])
            theta[every, now] += change
            along += change * target[now]
            iterates[t] = along
        else:
            here, there = phi[now], g[:, None] * phi[later]
            if errors is not None:
                errors[t] = rewards[t] + ((there - here) * mean).sum(axis=1)
            error = rewards[t] + ((there - here) * theta).sum(axis=1)
            if corrected:
                gap = (here * y).sum(axis=1)
                y += (step * error - step / ratios[t] * gap)[:, None] * here
                theta -= (step * gap)[:, None] * there
            theta += (step * error)[:, None] * here
            iterates[t] = theta @ target
        if errors is not None:
            mean += (theta - mean) * (2 / (t + 2))
    return Walk(np.ascontiguousarray(iterates.T), None if errors is None else np.ascontiguousarray(errors.T))


def plug_in(asked: Case, path: Trajectory, errors: Floats, estimates: dict[str, float]) -> dict[str, Interval]:
    """A^-1 Sigma A^-T: Sigma from single scores, as if they were independent, and from batches of about sqrt(n)."""
    n, phi = len(errors), asked.features
    phi = np.eye(len(asked.target)) if phi is None else phi
    ratios = np.broadcast_to(asked.ratios(path), len(path))[:n]
    s, after = path.states[:n], path.next_states[:n]
    discounted = np.where(path.terminated[:n], 0.0, asked.discount) * ratios
    counts = np.diag(np.bincount(s, ratios, len(phi)))
    moves = np.bincount(s * len(phi) + after, discounted, len(phi) ** 2).reshape(len(phi), -1)
    matrix = phi.T @ (counts - moves) @ phi / n
    influence = np.linalg.pinv(matrix, rcond=1e-10).T @ asked.target
    scores = ratios * errors * (phi @ influence)[s]
    length = int(np.ceil(np.sqrt(n)))
    batches = scores[n % length :].reshape(-1, length).sum(axis=1)
    found = {}
    for average, estimate in estimates.items():
        for name, variance, quantile in (
            ("plug-in, independent", scores.var(), ndtri((1 + LEVEL) / 2)),
            ("plug-in, batches", batches.var(ddof=1) / length, stdtrit(len(batches) - 1, (1 + LEVEL) / 2)),
        ):
            reach = float(quantile * np.sqrt(LONG_RUN[average] * variance / n))
            found[f"{name}|{average}"] = (estimate, estimate - reach, estimate + reach)
    return found


def evaluated(asked: Case, path: Trajectory, seed: int) -> dict[str, dict[int, Interval]]:
    """The package's own methods, at all lengths."""
    start = asked.start(path)

    def bootstrap(initial: Any = start, **settings: Any) -> inferl.OnlineBootstrap:
        return inferl.OnlineBootstrap(asked.step_size, seed=seed, companion=False, initial=initial, **settings)

    blocks = inferl.Multipliers(clock=inferl.BlockClock())
    methods: dict[str, tuple[Algorithm, Any]] = {
        "bootstrap by step|linear": (asked.walking, bootstrap()),
        "bootstrap by block|linear": (asked.walking, bootstrap(multipliers=blocks)),
    }
    if asked.solving is not None:
        methods["least squares|none"] = asked.solving, inferl.LeastSquares()
    elif asked.from_zero:
        methods["bootstrap by block, from 0|linear"] = asked.walking, bootstrap(0, multipliers=blocks)
    data = path.transitions(asked.discount, asked.features, asked.ratios(path))
    found: dict[str, dict[int, Interval]] = {}
    for name, (algorithm, method) in methods.items():
        evaluator, begin = inferl.Evaluator(algorithm, method), 0
        found[name] = {}
        for n in asked.lengths:
            try:
                interval = evaluator.update(data[begin:n]).interval(asked.target, LEVEL)
            except DivergenceError:
                found[name] |= dict.fromkeys(asked.lengths[asked.lengths.index(n) :], (np.nan, np.nan, np.nan))
                break
            found[name][n] = float(interval.estimate), float(interval.lower), float(interval.upper)
            begin = n
    return found


def one_job(job: list[Any]) -> Result:
    """Several paths of one problem, all methods on each; an interval for each method, length and path."""
    name, first, number = job
    asked = case(name)
    numbers = range(first, first + number)
    paths = [asked.sample(asked.lengths[-1], [SEED, k]) for k in numbers]
    with np.errstate(over="ignore", invalid="ignore"):  # an iterate may diverge
        walks = [(name, walk(asked, paths, size), size.decay) for name, size in asked.steps.items()]
    found: dict[str, list[Interval]] = {}
    for k, path in enumerate(paths):
        for step, walked, decay in walks:
            for n in asked.lengths:
                own = intervals(walked.iterates[k, :n], decay)
                if walked.errors is not None:
                    estimates = {average: own[f"random scaling|{average}"][0] for average in LONG_RUN}
                    own |= plug_in(asked, path, walked.errors[k, :n], estimates)
                for method, interval in own.items():
                    found.setdefault(f"{method}|{step}|{n}", []).append(interval)
        for method, at in evaluated(asked, path, SEED + first + k).items():
            for n, interval in at.items():
                found.setdefault(f"{method}|automatic|{n}", []).append(interval)
    return found


def cell(asked: Case, rows: list[Interval], **labels: Any) -> dict[str, Any]:
    """Coverage and width of one method; bias and spread of its estimates, in standard errors of the best one."""
    estimates, lower, upper = np.array(rows).T
    covered = (lower <= asked.truth) & (asked.truth <= upper)
    best = asked.oracle(labels["length"])
    widths = (upper - lower) / (2 * float(ndtri((1 + LEVEL) / 2)) * best)
    labels["bias"] = float((np.mean(estimates) - asked.truth) / best)
    labels["spread"] = float(np.std(estimates, ddof=1) / best)
    return coverage_cell(covered.tolist(), widths.tolist(), **labels)


def main() -> None:
    asked = options(__doc__, repeats=200, problems=list(CASES))
    made_by = provenance(SEED)
    names = asked.problems or list(CASES)
    repeats = {name: int(asked.repeats * (1 if case(name).solving is not None else SHARE)) for name in names}
    jobs = [
        [name, first, min(TOGETHER, repeats[name] - first)]
        for first in range(0, asked.repeats, TOGETHER)
        for name in names
        if first < repeats[name]
    ]
    results = repeat(one_job, jobs, partial_file("followers"), processes=asked.processes)
    cells: list[dict[str, Any]] = []
    for name in names:
        own = [result for job, result in zip(jobs, results, strict=True) if job[0] == name]
        for key in own[0]:
            method, average, step, length = key.split("|")
            rows = [interval for result in own for interval in result[key]]
            labels = {"problem": name, "method": method, "average": average, "step": step, "length": int(length)}
            cells.append(cell(case(name), rows, **labels))
            print({k: cells[-1][k] for k in (*labels, "coverage", "median_width", "infinite", "bias", "spread")})
    settings = {
        name: {
            "parameters": len(case(name).target),
            "algorithm": type(case(name).walking).__name__,
            **{step: repr(size) for step, size in case(name).steps.items()},
        }
        for name in names
    }
    values = {average: critical_value(average) for average in LONG_RUN}
    content = {"provenance": made_by, "settings": settings, "critical_values": values, "cells": cells}
    print(write_results("followers", content).name)


if __name__ == "__main__":
    main()
