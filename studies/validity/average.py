"""Average reward: coverage of the gain, and of the bias of a state, on chains where both are exact.

    python -m studies.validity.average [--repeats 400] [--processes 2] [--longest 30000]

One feature for each state, so that the bias is exact too; it is asked for in the state in which it is largest. Least
squares, and the bootstrap without numbers to choose, with multipliers by blocks. Writes validity/results/average.json;
stopped and started again, it goes on.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

import inferl
from inferl.data.arrays import Floats
from inferl.environments import FiniteMDP, garnet, ring, two_state_chain
from studies.provenance import provenance
from studies.repeats import Result, repeat
from studies.validity.problems import MDP_SEED, alone, problem
from studies.validity.study import coverage_cell, options, partial_file, write_results

SEED = 94_000
LEVEL = 0.95
LENGTHS = (1_000, 3_000, 10_000, 30_000)
CHAINS = ("two-state chain .8", "ring of 20, lazy", "random MDP, lazy", "Garnet")
BLOCKS = inferl.Multipliers(clock=inferl.BlockClock())


@cache
def chain_of(name: str) -> tuple[FiniteMDP, Floats]:
    """A chain that goes on for ever, and its policy."""
    if name == "Garnet":
        mdp, _, policy = garnet(seed=MDP_SEED)
        return mdp, policy
    if name == "random MDP, lazy":
        return problem(name).mdp, problem(name).target
    mdp, _ = two_state_chain(0.8) if name.startswith("two") else ring(20, 4, 0.5)
    return mdp, alone(mdp)


def methods(seed: int) -> dict[str, Any]:
    """What is compared."""
    bootstrap = inferl.OnlineBootstrap("auto", multipliers=BLOCKS, seed=seed, companion=False, initial="solved")
    return {"least squares": inferl.LeastSquares(), "bootstrap": bootstrap}


def one_job(job: list[Any]) -> Result:
    """One path through a chain."""
    name, number, longest = job
    mdp, policy = chain_of(name)
    exact = mdp.average_reward(policy)
    state = int(exact.bias.argmax())
    truths = {"gain": exact.gain, "bias": float(exact.bias[state])}
    lengths = [n for n in LENGTHS if n <= longest]
    data = mdp.sample(policy, lengths[-1], seed=[SEED, number]).transitions(0.9)
    found: Result = {}
    for method, made in methods(SEED + number).items():
        evaluator, start = inferl.Evaluator(inferl.AverageReward(mdp.n_states, bias=True), made), 0
        for n in lengths:
            evaluator.update(data[start:n])
            start = n
            for target, asked in (("gain", None), ("bias", state)):
                interval = evaluator.interval(asked, LEVEL)
                lower, upper = float(interval.lower), float(interval.upper)
                estimate = float(interval.estimate)
                found[f"{method}|{n}|{target}"] = [lower <= truths[target] <= upper, upper - lower, estimate]
    return found


def main() -> None:
    asked = options(__doc__, repeats=400, longest=30_000)
    made_by = provenance(SEED)
    jobs = [[name, number, asked.longest] for name in CHAINS for number in range(asked.repeats)]
    results = repeat(one_job, jobs, partial_file("average"), processes=asked.processes)
    cells: list[dict[str, Any]] = []
    for name in CHAINS:
        runs = [result for job, result in zip(jobs, results, strict=True) if job[0] == name]
        mdp, policy = chain_of(name)
        for key in runs[0]:
            method, length, target = key.split("|")
            covered, widths, estimates = zip(*(run[key] for run in runs), strict=True)
            labels = {
                "chain": name,
                "relaxation_times": int(length) / mdp.relaxation_time(policy),
                "method": method,
                "length": int(length),
                "target": target,
                "width": float(np.median(widths)) / (2 * 1.959964 * float(np.std(estimates, ddof=1))),
            }
            cells.append(coverage_cell(list(covered), list(widths), **labels))
            one = cells[-1]
            print(f"{name:20s} {key:30s} {one['coverage']:.3f} {one['width']:.2f}")
    settings = {name: repr(method) for name, method in methods(0).items()}
    print(write_results("average", {"provenance": made_by, "settings": settings, "cells": cells}).name)


if __name__ == "__main__":
    main()
