"""SAVE where it can be right, beside where it cannot: the paper's random MDP with two sets of features of (s, a).

    python -m studies.validity.save [--repeats 200] [--processes 2] [--longest 30000]

With phi(s) for each action apart, action values are not linear in the features, although the values of states are: SAVE
then converges to a fixed point of its own. With an indicator for each pair, anything is linear. Every repeat is a fresh
MDP and a fresh path, as in studies.paper.random_mdp. Writes validity/results/save.json; stopped and started again, it
goes on.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import inferl
from inferl.baselines import save
from inferl.data.arrays import Floats
from inferl.environments import RandomProblem
from studies.paper.random_mdp import STATE, RandomMDP, Scene, projected_action_values, state_action_features
from studies.provenance import provenance
from studies.repeats import Result, repeat
from studies.validity.study import coverage_cell, options, partial_file, write_results

SEED = 93_000
LEVEL = 0.95
LENGTHS = (1_000, 3_000, 10_000, 30_000, 100_000)
LINEAR, TABLE = "phi(s) for each action", "a table of (s, a)"


def table(problem: RandomProblem) -> tuple[Floats, Floats]:
    """Psi, (S A, S A): an indicator for each pair; and U, (S, S A), its mean under the target policy."""
    n_states, n_actions = problem.mdp.n_states, problem.mdp.n_actions
    psi = np.eye(n_states * n_actions)
    pairs = psi.reshape(n_states, n_actions, -1)
    return psi, np.einsum("sa,sap->sp", problem.target, pairs)


def one_repeat(job: list[int]) -> Result:
    """One MDP and one path, both sets of features."""
    number, longest = job
    lengths = [n for n in LENGTHS if n <= longest]
    scene = Scene.of(RandomMDP(seed=SEED, steps=tuple(lengths)), number)
    problem, path = scene.problem, scene.path
    taken = path.states * problem.mdp.n_actions + path.actions
    found: Result = {}
    for name, (psi, mean) in ((LINEAR, state_action_features(problem)), (TABLE, table(problem))):
        own = float(mean[STATE] @ projected_action_values(problem)) if name == LINEAR else scene.truth
        for n in lengths:
            data = inferl.Transitions(psi[taken[:n]], path.rewards[:n], mean[path.next_states[:n]], problem.discount)
            interval = save(data, mean[STATE], LEVEL)
            lower, upper = float(interval.lower), float(interval.upper)
            found[f"{name}|{n}"] = {
                "value": lower <= scene.truth <= upper,
                "own": lower <= own <= upper,
                "width": (upper - lower) / scene.oracle(n),
                "lost": not np.isfinite(upper - lower),
            }
    return found


def main() -> None:
    asked = options(__doc__, repeats=200, longest=30_000)
    made_by = provenance(SEED)
    jobs = [[number, asked.longest] for number in range(asked.repeats)]
    results = repeat(one_repeat, jobs, partial_file("save"), processes=asked.processes)
    cells: list[dict[str, Any]] = []
    for key in results[0]:
        features, length = key.split("|")
        runs = [result[key] for result in results]
        widths = [run["width"] for run in runs]
        for of in ("value", "own"):
            labels = {"features": features, "length": int(length), "of": of}
            cells.append(coverage_cell([run[of] for run in runs], widths, **labels))
            print(f"{key:40s} {of:6s} {cells[-1]['coverage']:.3f} {cells[-1]['median_width']}")
    print(write_results("save", {"provenance": made_by, "cells": cells}).name)


if __name__ == "__main__":
    main()
