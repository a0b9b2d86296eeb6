"""Many streams, and evaluators merged from many parts: does the interval still hold?

    python -m studies.validity.manyparts [--repeats 1000] [--processes 2] [--seed 73000]

About 16,000 steps of each problem in 1, 8, 64 and 512 independent streams, which begin in equilibrium: as streams of
one evaluator, their steps in turn, and as one evaluator each, merged. Writes validity/results/manyparts.json; stopped
and started again, it goes on. About 3 hours of one core.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from scipy.signal import lfilter

import inferl
from inferl.algorithms import Algorithm
from inferl.data.arrays import Floats
from inferl.environments import FiniteMDP
from studies.provenance import provenance
from studies.repeats import Result, repeat
from studies.validity.problems import alone, around, lake
from studies.validity.study import clopper_pearson, options, partial_file, write_results

SEED = 73_000
LEVEL = 0.95
SHAPES = ((1, 16_000), (8, 2_000), (64, 250), (512, 31))
AT_ONCE = 10  # repeats of a job
TRUSTED = 250  # relaxation times, from which on the interval must hold
CORRELATION = 0.98


@dataclass(frozen=True, eq=False)
class Parts:
    """A problem whose data come in independent streams."""

    algorithm: Algorithm
    target: Any
    truth: float
    relaxation_time: float
    stream: Callable[[int, np.random.Generator], inferl.Transitions]


def autoregression() -> Parts:
    """The mean of an AR(1): one state, discount 0, the reward is the score."""

    def stream(n: int, rng: np.random.Generator) -> inferl.Transitions:
        start = rng.normal() / np.sqrt(1 - CORRELATION**2)
        rewards, _ = lfilter([1.0], [1.0, -CORRELATION], rng.normal(size=n), zi=[CORRELATION * start])
        here = np.zeros(n, np.int64)
        return inferl.Transitions(here, rewards, here, 0.0)

    return Parts(inferl.TD(1), 0, 0.0, 1 / (1 - CORRELATION), stream)


def chain(
    mdp: FiniteMDP, policy: Floats, discount: float, algorithm: Algorithm, features: Floats | None, target: Any
) -> Parts:
    """A chain that has been running for long before it is watched."""
    law = mdp.stationary(policy)
    phi = np.eye(mdp.n_states) if features is None else features
    solution = mdp.fixed_point(phi, policy, None, discount)
    truth = float(solution[target] if isinstance(target, int) else np.dot(solution, target))

    def stream(n: int, rng: np.random.Generator) -> inferl.Transitions:
        start = int(rng.choice(mdp.n_states, p=law))
        return mdp.sample(policy, n, seed=int(rng.integers(2**62)), start=start).transitions(discount, features)

    return Parts(algorithm, target, truth, mdp.relaxation_time(policy), stream)


def queue(arrival: float, service: float, room: int = 40) -> Parts:
    """A line of customers: waiting costs, and the features are 1, its length and its square."""
    up, down = np.full(room, arrival), np.full(room, service)
    stay = 1 - np.append(up, 0) - np.append(0, down)
    transition = np.diag(stay) + np.diag(up, 1) + np.diag(down, -1)
    length = np.arange(room + 1)
    mdp = FiniteMDP([transition], -length / room, initial=np.full(room + 1, 1 / (room + 1)))
    features = np.column_stack([np.ones(room + 1), length / room, (length / room) ** 2])
    return chain(mdp, alone(mdp), 0.9, inferl.TD(3), features, features[5].tolist())


def grouped(n_states: int, n_groups: int, laziness: float) -> Parts:
    asked = around(n_states, n_groups, laziness, ())
    return chain(asked.mdp, asked.target, asked.discount, asked.algorithm, asked.features, np.eye(n_groups)[0].tolist())


def frozen_lake() -> Parts:
    asked = lake()
    return chain(asked.mdp, asked.target, asked.discount, asked.algorithm, None, 0)


PROBLEMS: dict[str, Callable[[], Parts]] = {
    "AR(.98)": autoregression,
    "ring 20/4, lazy": lambda: grouped(20, 4, 0.5),
    "ring 60/6": lambda: grouped(60, 6, 0.0),
    "queue": lambda: queue(0.20, 0.35),
    "queue, busy": lambda: queue(0.30, 0.36),
    "FrozenLake": frozen_lake,
}


@cache
def problem(name: str) -> Parts:
    return PROBLEMS[name]()


def together(parts: list[inferl.Transitions]) -> inferl.Transitions:
    """Streams side by side: the first step of each, then the second, and so on."""
    n, steps = len(parts), len(parts[0])
    order = np.arange(n * steps).reshape(n, steps).T.reshape(-1)
    joined = inferl.Transitions.join([inferl.Transitions(**vars(part)) for part in parts])
    columns = vars(joined) | {"stream": np.repeat(np.arange(n), steps)}
    return inferl.Transitions(**columns)[order]


def one_job(job: list[Any]) -> Result:
    """Error, half width and what fired, for a few runs of one problem and shape."""
    name, n_streams, steps, first, last, seed = job
    asked = problem(name)
    columns: Result = {"streams": [], "merged": []}
    for number in range(first, last):
        rng = np.random.default_rng([seed, n_streams, number])
        parts = [asked.stream(steps, rng) for _ in range(n_streams)]
        evaluators = {
            "streams": inferl.Evaluator(asked.algorithm).update(together(parts)),
            "merged": inferl.merge(*(inferl.Evaluator(asked.algorithm).update(part) for part in parts)),
        }
        for way, evaluator in evaluators.items():
            report = evaluator.report(asked.target, LEVEL)
            interval = report.interval
            fired = [check.name for check in report.checks if check.failed]
            missing = [check.name for check in report.checks if check.status == "not available"]
            columns[way].append([interval.estimate - asked.truth, interval.width / 2, fired, missing])
    return columns


def cells(todo: list[list[Any]], results: list[Result]) -> Iterator[dict[str, Any]]:
    for name in PROBLEMS:
        asked = problem(name)
        for n_streams, steps in SHAPES:
            mine = [r for job, r in zip(todo, results, strict=True) if job[:3] == [name, n_streams, steps]]
            for way in ("streams", "merged"):
                runs = [run for result in mine for run in result[way]]
                error, half = np.array([run[:2] for run in runs]).T
                held = np.abs(error) <= half
                fired = np.array([bool(run[2]) for run in runs])
                low, high = clopper_pearson(int(held.sum()), len(held), 0.999)
                times = n_streams * steps / asked.relaxation_time
                told = float(fired[~held].mean()) if (~held).any() else 1.0
                yield {
                    "problem": name,
                    "streams": n_streams,
                    "steps": steps,
                    "way": way,
                    "relaxation_times": times,
                    "runs": len(held),
                    "held": int(held.sum()),
                    "binomial_99.9": [low, high],
                    "width": float(np.median(half) / (1.959964 * error.std(ddof=1))),
                    "fired": float(fired.mean()),
                    "told": told,
                    "which": {c: sum(c in run[2] for run in runs) for c in sorted({c for r in runs for c in r[2]})},
                    "missing": {c: sum(c in run[3] for run in runs) for c in sorted({c for r in runs for c in r[3]})},
                    "met": bool((low <= 0.97 and high >= 0.93) if times >= TRUSTED else told >= 0.9 or high >= 0.93),
                }


def main() -> None:
    asked = options(__doc__, SEED, repeats=1000)
    made_by = provenance(asked.seed)
    todo = [
        [name, *shape, first, min(first + AT_ONCE, asked.repeats), asked.seed]
        for shape in reversed(SHAPES)
        for name in PROBLEMS
        for first in range(0, asked.repeats, AT_ONCE)
    ]
    found = list(cells(todo, repeat(one_job, todo, partial_file("manyparts"), processes=asked.processes)))
    for cell in found:
        print({key: round(value, 3) if isinstance(value, float) else value for key, value in cell.items()})
    print(write_results("manyparts", {"provenance": made_by, "cells": found}).name)


if __name__ == "__main__":
    main()
