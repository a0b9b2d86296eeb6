"""Where the replicas start after a pilot, and what their clocks do: coverage of the variants that were considered.

    python -m studies.validity.starts [--repeats 400] [--processes 2]

The first `PILOT` steps are solved by least squares. Then the recursion starts: from 0 at the first step, as the paper
does ("zero"); all rows from the solution ("shared"); or each row from the solution of its own equations, perturbed by
its own multipliers ("own"). The step sizes and the weights of the average count either all steps ("all") or those
after the pilot ("after"). Two step sizes: the rule of thumb (5 over the mean squared length of the features), and a
tenth of it. Writes validity/results/starts.json; stopped and started again, it goes on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any, cast

import numpy as np

import inferl
from inferl.data.arrays import Floats, Integers
from inferl.data.increments import Increments
from inferl.data.streams import Clock, Streams
from inferl.data.vectors import Sparse
from inferl.methods.linear_system import Factored, Sums
from inferl.testing import written_out
from studies.provenance import provenance
from studies.repeats import Result, repeat
from studies.validity.problems import Problem, problem
from studies.validity.study import coverage_cell, options, partial_file, write_results

SEED = 91_000
PILOT = 512
LENGTHS = (512, 768, 1024, 2048, 8192)
CHEAP = (
    "walk 5, tabular",
    "random MDP, linear",
    "random MDP, tabular",
    "random MDP, off-policy",
    "Garnet",
    "Boyan's chain",
)
FACTORS = (1.0, 0.1)  # of the initial step size
VARIANTS = (("zero", "all"), ("shared", "all"), ("shared", "after"), ("own", "all"), ("own", "after"))


@dataclass(frozen=True)
class Later:
    """Step sizes that count the steps after the pilot."""

    usual: Any

    def __call__(self, step: Integers, scale: Floats) -> Floats:
        return np.asarray(self.usual(step - PILOT, scale))


@cache
def truth(name: str) -> tuple[float, float]:
    """What is true of the first target, and n times the variance of least squares."""
    values, variances = problem(name).solution()
    assert variances is not None
    return float(values[0]), float(variances[0])


def rows_of(asked: Problem, number: int) -> tuple[Increments, Clock]:
    """All increments of a path, written out."""
    _, steps = Streams().place(asked.data(LENGTHS[-1], [SEED, number]))
    increments, clock, _ = asked.walking.increments(steps, {})
    return written_out(increments), clock


def starts(method: inferl.OnlineBootstrap, pilot: Increments, clock: Clock, own: bool) -> Floats:
    """The solution for row 0, and for each replica its own or the same."""
    p = pilot.n_parameters
    sums = Sums.empty(p)
    sums.add(pilot)
    matrix, vector = sums.total()
    factored = Factored(matrix, sums.size)
    theta = factored.solve(vector)
    begun = np.repeat(theta[:, None], method.n_replicas + 1, axis=1)
    if own:
        scores = pilot.scores(theta, factored.inverse)
        summed = np.zeros((len(pilot), p))
        if isinstance(scores, Sparse):
            np.add.at(summed, (np.arange(len(pilot))[:, None], scores.index), scores.value)
        else:
            summed = scores
        ticks, replicas = method.multipliers.ticks(clock), np.arange(method.n_replicas)
        w = method.multipliers.draw(method.seed, ticks, clock.slot, replicas)
        begun[:, 1:] += factored.inverse @ (summed.T @ (w - 1.0).T)
    return begun


def one_repeat(number: int) -> Result:
    found: Result = {}
    for name in CHEAP:
        asked = problem(name)
        increments, clock = rows_of(asked, number)
        target = asked.walking.pad(asked.rows[:1])
        value, _ = truth(name)
        for factor in FACTORS:
            cap = 0.5
            method = inferl.OnlineBootstrap(
                inferl.Polynomial(factor * asked.initial, decay=0.65, cap=cap), seed=number, companion=False
            )
            for start, counted in VARIANTS:
                state = method.at_zero(increments.n_parameters)
                first = 0
                if start != "zero":
                    begun = starts(method, increments[:PILOT], clock[:PILOT], start == "own")
                    state = replace(
                        state, iterate=begun, n=PILOT if counted == "all" else 0, scale=float(np.abs(begun).max())
                    )
                    first = PILOT
                running = (
                    replace(method, step_size=cast(Any, Later(method.step_size))) if counted == "after" else method
                )
                for length in LENGTHS:
                    if length > first:
                        state = running.fold(state, increments[first:length], clock[first:length])
                    first = max(first, length)
                    interval = running.interval(running.look(state, target), 0.95)
                    lower, upper = float(interval.lower[0]), float(interval.upper[0])
                    found[f"{name}|{factor:g}|{start}|{counted}|{length}"] = [
                        lower <= value <= upper,
                        upper - lower,
                        float(interval.estimate[0]) - value,
                    ]
    return found


def main() -> None:
    asked = options(__doc__, repeats=400)
    made_by = provenance(SEED)
    results = repeat(one_repeat, range(asked.repeats), partial_file("starts"), processes=asked.processes)
    cells = []
    for key in results[0]:
        name, factor, start, counted, length = key.split("|")
        covered, widths, errors = zip(*(result[key] for result in results), strict=True)
        oracle = 2 * 1.96 * np.sqrt(truth(name)[1] / int(length))
        labels: dict[str, Any] = {
            "problem": name,
            "factor": float(factor),
            "start": start,
            "counted": counted,
            "length": int(length),
            "width_over_oracle": float(np.median(widths) / oracle),
            "rmse_over_oracle": float(np.sqrt(np.mean(np.square(errors))) / np.sqrt(truth(name)[1] / int(length))),
        }
        cells.append(coverage_cell(list(covered), list(widths), **labels))
        one = cells[-1]
        print(f"{key:60s} {one['coverage']:.3f} {one['width_over_oracle']:.2f} {one['rmse_over_oracle']:.2f}")
    print(write_results("starts", {"provenance": made_by, "pilot": PILOT, "cells": cells}).name)


if __name__ == "__main__":
    main()
