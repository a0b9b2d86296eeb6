"""Environments side by side with episodes of very different lengths: is the dependence check quiet, is the value held?

    python -m studies.validity.sidebyside [--repeats 400] [--processes 2] [--seed 78000]

Steps come in order of time, one of each environment in turn, so that short episodes end long before those that began
with them. Beside it the same steps, environment by environment. Episodes are independent: each alarm is a false one.
Writes validity/results/sidebyside.json; stopped and started again, it goes on. About half an hour of one core.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import inferl
from inferl.data.arrays import Floats, Integers
from studies.provenance import provenance
from studies.repeats import Result, repeat
from studies.validity.study import clopper_pearson, options, partial_file, write_results

SEED = 78_000
LEVEL = 0.95
ENVIRONMENTS, STEPS = (64, 256, 512), 1000
DISCOUNT = 0.9
AT_ONCE = 10  # repeats of a job
LONGEST = 400

Law = Callable[[int, np.random.Generator], Integers]


def two_lengths(n: int, rng: np.random.Generator) -> Integers:
    return np.where(rng.random(n) < 0.5, 2, 100)


def log_uniform(n: int, rng: np.random.Generator) -> Integers:
    return np.floor(2 * (LONGEST / 2) ** rng.random(n)).astype(np.int64)


def geometric(n: int, rng: np.random.Generator) -> Integers:
    return rng.geometric(np.where(rng.random(n) < 0.5, 0.5, 0.01))


PROBLEMS: dict[str, Law] = {
    "2 or 100 steps": two_lengths,
    "2 to 400 steps, log-uniform": log_uniform,
    "geometric, of mean 2 or 100": geometric,
}


def truth(name: str) -> float:
    """Value of a start: each step earns 1 in the mean."""
    if name == "2 or 100 steps":
        weight = np.array([DISCOUNT**2, DISCOUNT**100]).mean()
    elif name == "geometric, of mean 2 or 100":
        ends = np.array([0.5, 0.01])
        weight = (DISCOUNT * ends / (1 - DISCOUNT * (1 - ends))).mean()
    else:  # P(length >= k) = log(LONGEST / k) / log(LONGEST / 2)
        k = np.arange(2, LONGEST + 1)
        at_least = np.log(LONGEST / k) / np.log(LONGEST / 2)
        weight = float(-np.diff(at_least) @ DISCOUNT ** k[:-1])
    return float((1 - weight) / (1 - DISCOUNT))


def steps(law: Law, environments: int, rng: np.random.Generator) -> tuple[Floats, np.ndarray[Any, Any]]:
    """Rewards (STEPS, environments), and whether an episode ends: its rewards share a part of their noise."""
    rewards, last = np.empty((STEPS, environments)), np.zeros((STEPS, environments), np.bool_)
    for k in range(environments):
        ends = np.cumsum(law(STEPS, rng))
        last[ends[ends <= STEPS] - 1, k] = True
        number: Integers = np.cumsum(last[:, k]) - last[:, k]
        rewards[:, k] = 1 + rng.normal(size=STEPS) + rng.normal(size=STEPS)[number]
    return rewards, last


def one_job(job: list[Any]) -> Result:
    """Error, half width and what fired, for a few runs of one problem and number of environments."""
    name, environments, first, last_run, seed = job
    asked, algorithm = truth(name), inferl.DoublyRobust(inferl.TD(1))
    columns: Result = {"side by side": [], "one by one": []}
    for run in range(first, last_run):
        rng = np.random.default_rng([seed, environments, run])
        rewards, last = steps(PROBLEMS[name], environments, rng)
        discounts, here = np.where(last, 0.0, DISCOUNT), np.zeros(rewards.size, np.int64)
        stream = np.tile(np.arange(environments), STEPS)
        cut = last.copy()
        cut[-1] = True  # so that the next environment can follow
        ways = {
            "side by side": inferl.Transitions(
                here, rewards.reshape(-1), here, discounts.reshape(-1), last=last.reshape(-1), stream=stream
            ),
            "one by one": inferl.Transitions(
                here, rewards.T.reshape(-1), here, discounts.T.reshape(-1), last=cut.T.reshape(-1)
            ),
        }
        for way, data in ways.items():
            report = inferl.Evaluator(algorithm, threads=1).update(data).report("value", LEVEL)
            fired = [check.name for check in report.checks if check.failed]
            columns[way].append([report.interval.estimate - asked, report.interval.width / 2, fired])
    return columns


def cells(todo: list[list[Any]], results: list[Result]) -> Iterator[dict[str, Any]]:
    for name in PROBLEMS:
        for environments in ENVIRONMENTS:
            mine = [r for job, r in zip(todo, results, strict=True) if job[:2] == [name, environments]]
            for way in ("side by side", "one by one"):
                runs = [run for result in mine for run in result[way]]
                error, half = np.array([run[:2] for run in runs]).T
                held = int((np.abs(error) <= half).sum())
                alarms = sum("dependence" in run[2] for run in runs)
                low, high = clopper_pearson(held, len(runs), 0.999)
                fewest, _ = clopper_pearson(alarms, len(runs), 0.999)
                yield {
                    "problem": name,
                    "environments": environments,
                    "steps": STEPS,
                    "way": way,
                    "runs": len(runs),
                    "held": held,
                    "binomial_99.9": [low, high],
                    "width": float(np.median(half) / (1.959964 * error.std(ddof=1))),
                    "alarms": alarms,
                    "alarms_95": clopper_pearson(alarms, len(runs), 0.95),
                    "which": {c: sum(c in run[2] for run in runs) for c in sorted({c for r in runs for c in r[2]})},
                    "met": bool(low <= 0.97 and high >= 0.93 and fewest <= 0.02),
                }


def main() -> None:
    asked = options(__doc__, SEED, repeats=400)
    made_by = provenance(asked.seed)
    todo = [
        [name, environments, first, min(first + AT_ONCE, asked.repeats), asked.seed]
        for environments in ENVIRONMENTS
        for name in PROBLEMS
        for first in range(0, asked.repeats, AT_ONCE)
    ]
    found = list(cells(todo, repeat(one_job, todo, partial_file("sidebyside"), processes=asked.processes)))
    for cell in found:
        print({key: round(value, 3) if isinstance(value, float) else value for key, value in cell.items()})
    print(write_results("sidebyside", {"provenance": made_by, "cells": found}).name)


if __name__ == "__main__":
    main()
