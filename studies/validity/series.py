"""What noise hides, and cycles: the mean of rewards that no problem of trust.py gives.

    python -m studies.validity.series [--repeats 1000] [--processes 2] [--seed 59000]

Rewards of one state, discount 0: a slow part under noise, and sums that take back what came before. Writes
validity/results/series.json; about 5 minutes of one core.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy.signal import lfilter

import inferl
from inferl.data.arrays import Floats
from studies.provenance import provenance
from studies.repeats import Result, repeat
from studies.validity.study import clopper_pearson, options, partial_file, write_results

SEED = 59_000
LENGTHS = (500, 1_000, 2_000, 5_000, 10_000, 25_000)
AT_ONCE = 50  # repeats of a job
SLOW = 0.99  # correlation of neighbours in the slow part: a relaxation time of 100 steps


def slow(rng: np.random.Generator, n: int) -> Floats:
    """A stationary autoregression with noise of 1."""
    start = rng.normal() / np.sqrt(1 - SLOW**2)
    return np.asarray(lfilter([1.0], [1.0, -SLOW], rng.normal(size=n), zi=[SLOW * start])[0])


def taken_back(rng: np.random.Generator, n: int) -> Floats:
    noise = rng.normal(size=n + 3)
    return noise[3:] - 0.6 * noise[:-3]


def cycle(rng: np.random.Generator, n: int) -> Floats:
    return rng.normal(size=n) + np.sin(2 * np.pi * (np.arange(n) / 7 + rng.random()))


SERIES: dict[str, Callable[[np.random.Generator, int], Floats]] = {
    "noise and a slow part, variance of long sums 10 times that of the noise": lambda rng, n: (
        rng.normal(size=n) + 0.03 * slow(rng, n)
    ),
    "noise and a slow part, 3.25 times": lambda rng, n: rng.normal(size=n) + 0.015 * slow(rng, n),
    "0.6 of each step taken back three steps later": taken_back,
    "noise and a cycle of seven steps": cycle,
}


def one_job(job: list[Any]) -> Result:
    """Estimates, half widths, and whether a check fired."""
    first, last, seed = job
    columns: Result = {}
    for number in range(first, last):
        for kind, (name, made) in enumerate(SERIES.items()):
            rewards = made(np.random.default_rng([seed, number, kind]), LENGTHS[-1])
            here, start = np.zeros(LENGTHS[-1], np.int64), 0
            evaluator = inferl.Evaluator(inferl.TD(1))
            for n in LENGTHS:
                rows = slice(start, n)
                evaluator.update(inferl.Transitions(here[rows], rewards[rows], here[rows], 0.0))
                report = evaluator.report(0)
                fired = any(check.failed for check in report.checks)
                interval = report.interval
                found = [float(interval.estimate), float(interval.width) / 2, fired]
                columns.setdefault(f"{name}|{n}", []).append(found)
                start = n
    return columns


def cells(results: list[Result]) -> Iterator[dict[str, Any]]:
    for name in SERIES:
        for n in LENGTHS:
            estimate, half, fired = np.array([run for result in results for run in result[f"{name}|{n}"]]).T
            held = np.abs(estimate) <= half
            yield {
                "series": name,
                "length": n,
                "runs": len(held),
                "held": int(held.sum()),
                "binomial_95": clopper_pearson(int(held.sum()), len(held), 0.95),
                "width": float(np.median(half) / (1.96 * estimate.std(ddof=1))),
                "fired_when_missed": int(fired[~held].sum()),
                "fired_when_held": int(fired[held].sum()),
            }


def main() -> None:
    asked = options(__doc__, SEED, repeats=1000)
    made_by = provenance(asked.seed)
    todo = [[i, min(i + AT_ONCE, asked.repeats), asked.seed] for i in range(0, asked.repeats, AT_ONCE)]
    found = list(cells(repeat(one_job, todo, partial_file("series"), processes=asked.processes)))
    for cell in found:
        print(cell)
    print(write_results("series", {"provenance": made_by, "cells": found}).name)


if __name__ == "__main__":
    main()
