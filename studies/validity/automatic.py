"""The bootstrap without a number to choose: automatic step sizes and solved starts, beside the rule of thumb.

    python -m studies.validity.automatic [--repeats 200] [--processes 2] [--longest 10000] [--problems Garnet ...]

95 % intervals of the problems of `studies.validity.problems`, of all unless some are named. The rule of thumb is what
the other studies use: 5 over the mean squared length of the features, decay .65, or the number that a problem is known
to need (FrozenLake: 100). Multipliers change at every step where scores are uncorrelated, and by blocks elsewhere.
Writes validity/results/automatic.json; stopped and started again, it goes on.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

import inferl
from studies.provenance import provenance
from studies.repeats import Result, repeat
from studies.validity.problems import PROBLEMS, problem
from studies.validity.study import coverage_cell, options, partial_file, write_results

SEED = 92_000
LEVEL = 0.95
UNCORRELATED = (  # tables, or features that can express the value, with one step
    *("FrozenLake", "two-state chain 0", "random MDP, linear", "random MDP, tabular", "random MDP, off-policy"),
    *("walk 5, tabular", "Boyan's chain"),
)
METHODS = ("rule of thumb", "automatic", "rule of thumb, solved", "automatic, solved")


def method_of(name: str, method: str, seed: int) -> inferl.OnlineBootstrap:
    """The bootstrap of that name for a problem."""
    clock: Any = "step" if name in UNCORRELATED else inferl.BlockClock()
    own = inferl.OnlineBootstrap(
        inferl.Polynomial(problem(name).initial, decay=0.65),
        multipliers=inferl.Multipliers(clock=clock),
        seed=seed,
        companion=False,
    )
    if method.startswith("automatic"):
        own = replace(own, step_size="auto")
    return replace(own, initial="solved" if method.endswith("solved") else 0)


def one_job(job: list[Any]) -> Result:
    """One path through a problem, all methods on the same data."""
    name, number, longest = job
    asked, found = problem(name), {}
    truth, _ = asked.solution()
    lengths = [n for n in asked.lengths if n <= longest]
    data = asked.data(lengths[-1], [SEED, number])
    for method in METHODS:
        evaluator, start = inferl.Evaluator(asked.walking, method_of(name, method, SEED + number)), 0
        for n in lengths:
            with suppress(inferl.errors.DivergenceError):  # then the state is that of the last sound tile
                evaluator.update(data[start:n])
            interval, start = evaluator.interval(asked.rows, LEVEL), n
            held = (interval.lower <= truth) & (truth <= interval.upper)
            for target, hit, width, error in zip(
                asked.asked, held, np.asarray(interval.width), interval.estimate - truth, strict=True
            ):
                found[f"{method}|{n}|{target}"] = [bool(hit), float(width), float(error)]
    return found


def cells_of(name: str, results: list[Result]) -> list[dict[str, Any]]:
    """A cell for each method, length and target."""
    asked, cells = problem(name), []
    _, rate = asked.solution()
    for key in results[0]:
        method, length, target = key.split("|")
        covered, widths, errors = zip(*(result[key] for result in results), strict=True)
        if rate is None:  # relative to the spread of the solved estimates
            others = [result[f"rule of thumb, solved|{length}|{target}"][2] for result in results]
            error = float(np.std(others, ddof=1))
        else:
            error = float(np.sqrt(rate[list(asked.asked).index(target)] / int(length)))
        labels = {
            "problem": name,
            "target": target,
            "length": int(length),
            "relaxation_times": int(length) / asked.relaxation_time,
            "method": method,
            "width": float(np.median(widths)) / (2 * 1.959964 * error),
            "root_mean_square": float(np.sqrt(np.mean(np.square(errors)))) / error,
        }
        cells.append(coverage_cell(list(covered), list(widths), **labels))
    return cells


def main() -> None:
    asked = options(__doc__, repeats=200, longest=10_000, problems=list(PROBLEMS))
    made_by = provenance(SEED)
    names = asked.problems or [name for name in PROBLEMS if problem(name).lengths[0] <= asked.longest]
    jobs = [[name, number, asked.longest] for name in names for number in range(asked.repeats)]
    results = repeat(one_job, jobs, partial_file("automatic"), processes=asked.processes)
    cells: list[dict[str, Any]] = []
    for name in names:
        cells += cells_of(name, [result for job, result in zip(jobs, results, strict=True) if job[0] == name])
    left_out = [name for name in PROBLEMS if name not in names]
    settings = {method: repr(method_of("Garnet", method, 0)) for method in METHODS}
    content = {"provenance": made_by, "settings": settings, "left_out": left_out, "cells": cells}
    print(write_results("automatic", content).name)


if __name__ == "__main__":
    main()
