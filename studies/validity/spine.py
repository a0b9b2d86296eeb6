"""Coverage of the two methods where the truth is exact: FrozenLake 8x8, and the two-state chain.

    python -m studies.validity.spine [--repeats 1000] [--processes 2]

FrozenLake: 95 % intervals of V(s0), slippery, optimal policy, discount .99, tabular TD, episodes not cut. Two-state
chain: one constant feature, correlation .8, 10,000 steps. Writes validity/results/spine.json; stopped and started
again, it goes on.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import gymnasium as gym
import numpy as np

import inferl
from inferl.data.arrays import Floats
from inferl.environments import FiniteMDP, two_state_chain
from studies.provenance import provenance
from studies.repeats import Result, repeat
from studies.validity.study import coverage_cell, options, partial_file, write_results

SEED = 20_000
DISCOUNT = 0.99
EPISODES = {
    "least squares": (50, 100, 250, 500),
    "bootstrap": (250, 500, 1000, 2000),
    "as printed": (250, 500, 1000, 2000),
}
CHAIN_DISCOUNT = 0.5
CHAIN_STEPS = 10_000


def bootstrap(method: str, seed: int) -> inferl.OnlineBootstrap:
    """Settings of the bootstraps; no companion, which only serves the checks."""
    if method == "as printed":
        return replace(inferl.OnlineBootstrap.as_printed(10.0, seed=seed), companion=False)
    return inferl.OnlineBootstrap(inferl.Polynomial(100, decay=0.65, cap=0.5), seed=seed, companion=False)


@cache
def frozen_lake() -> tuple[FiniteMDP, Floats, float]:
    mdp = FiniteMDP.from_toy_text(gym.make("FrozenLake-v1", map_name="8x8", is_slippery=True))
    policy = mdp.optimal_policy(DISCOUNT)
    return mdp, policy, float(mdp.values(policy, DISCOUNT)[0])


def read(evaluator: inferl.Evaluator, target: Any) -> dict[str, tuple[float, float]]:
    return {
        kind: (float(interval.lower), float(interval.upper))
        for kind in evaluator.method.kinds
        for interval in [evaluator.interval(target, kind=kind)]
    }


def one_repeat(number: int) -> Result:
    """One path through each environment, all methods on the same data."""
    mdp, policy, _ = frozen_lake()
    path = mdp.sample(policy, 260_000, seed=SEED + number)  # 2000 episodes of 86 steps on average, and room
    ends = np.flatnonzero(path.terminated) + 1
    data = path.transitions(DISCOUNT)
    result: Result = {}
    for name, checkpoints in EPISODES.items():
        method = inferl.LeastSquares() if name == "least squares" else bootstrap(name, SEED + number)
        evaluator, start = inferl.Evaluator(inferl.TD(64), method), 0
        for episodes in checkpoints:
            evaluator.update(data[start : ends[episodes - 1]])
            start = ends[episodes - 1]
            result[f"FrozenLake|{name}|{episodes}"] = read(evaluator, 0)
    chain, features = two_state_chain(0.8)
    steps = chain.sample(np.ones((2, 1)), CHAIN_STEPS, seed=SEED + number).transitions(CHAIN_DISCOUNT, features)
    for name in ("least squares", "bootstrap"):
        iid = inferl.OnlineBootstrap(inferl.Polynomial(5, decay=0.65), seed=SEED + number, companion=False)
        evaluator = inferl.Evaluator(inferl.TD(1), inferl.LeastSquares() if name == "least squares" else iid)
        result[f"two-state chain|{name}|{CHAIN_STEPS}"] = read(evaluator.update(steps), [1.0])
    return result


def main() -> None:
    asked = options(__doc__, repeats=1000)
    made_by = provenance(SEED)
    results = repeat(one_repeat, range(asked.repeats), partial_file("spine"), processes=asked.processes)
    chain, features = two_state_chain(0.8)
    truth = {
        "FrozenLake": frozen_lake()[2],
        "two-state chain": float(chain.fixed_point(features, np.ones((2, 1)), None, CHAIN_DISCOUNT)[0]),
    }
    cells = []
    for key in results[0]:
        environment, method, length = key.split("|")
        for kind in results[0][key]:
            bounds = np.array([result[key][kind] for result in results])
            covered = (bounds[:, 0] <= truth[environment]) & (truth[environment] <= bounds[:, 1])
            widths = bounds[:, 1] - bounds[:, 0]
            labels = {"environment": environment, "method": method, "kind": kind, "length": int(length)}
            cells.append(coverage_cell(covered.tolist(), widths.tolist(), **labels))
            low, high = cells[-1]["binomial_99.9"]
            print(f"{key:40s} {kind:10s} {cells[-1]['coverage']:.3f} [{low:.3f}, {high:.3f}]")
    settings = {name: repr(bootstrap(name, 0)) for name in ("bootstrap", "as printed")}
    path = write_results("spine", {"provenance": made_by, "settings": settings, "truth": truth, "cells": cells})
    print(path.name)


if __name__ == "__main__":
    main()
