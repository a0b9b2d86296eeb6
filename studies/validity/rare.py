"""What is rare: Baird's star by the number of events that decide, and rare rewards by the number of decisive steps.

    python -m studies.validity.rare [--repeats 1000] [--processes 2] [--seed 57000]

An event of the star is a step in the last state with the action that the target takes, from which the chain slips away.
Rare rewards come about six times in 4000 steps, and are all equal or not. Writes validity/results/rare.json; about 3
minutes of one core.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import inferl
from inferl.data.arrays import Floats
from studies.provenance import provenance
from studies.repeats import Result, repeat
from studies.validity.problems import problem
from studies.validity.study import options, partial_file, write_results

SEED = 57_000
NAME = "Baird's star, off-policy"
AT_ONCE = 50  # repeats of a job
MOST = 6  # events; more are counted together
STEPS, EXPECTED = 4000, 6  # of rare rewards
SIZES: dict[str, Callable[[np.random.Generator, int], Floats]] = {
    "equal": lambda rng, k: np.ones(k),
    "exponential": lambda rng, k: rng.exponential(size=k),
    "lognormal": lambda rng, k: rng.lognormal(size=k),
}
MEANS = {"equal": 1.0, "exponential": 1.0, "lognormal": float(np.exp(0.5))}
VARIANCE_ESS = ((0, 2), (2, 5), (5, np.inf))


def one_job(job: list[Any]) -> Result:
    """What a few runs of both kinds found."""
    return star_runs(*job) | reward_runs(*job)


def reward_runs(first: int, last: int, seed: int) -> Result:
    """Decisive steps, and whether the mean reward was held, for each kind of sizes."""
    columns: Result = {}
    for number in range(first, last):
        rng = np.random.default_rng([seed, number])
        for name, sizes in SIZES.items():
            hit = rng.random(STEPS) < EXPECTED / STEPS
            rewards = np.zeros(STEPS)
            rewards[hit] = sizes(rng, int(hit.sum()))
            here = np.zeros(STEPS, np.int64)
            report = inferl.Evaluator(inferl.TD(1)).update(inferl.Transitions(here, rewards, here, 0.0)).report(0)
            (rarity,) = (check for check in report.checks if check.name == "rarity")
            variance_ess = -1.0 if rarity.value is None else float(rarity.value)  # none came, and nothing is known
            held = MEANS[name] * EXPECTED / STEPS in report.interval
            columns.setdefault(name, []).append([variance_ess, held])
    return columns


def star_runs(first: int, last: int, seed: int) -> Result:
    """Events, whether V(s0) was held, and whether a check fired, in a few runs of each length."""
    asked = problem(NAME)
    truth = float(asked.solution()[0][0])
    home = asked.mdp.n_states - 1
    towards_home = int(np.argmax(asked.target[home]))
    columns: Result = {}
    for number in range(first, last):
        for n in asked.lengths:
            path = asked.path(n, [seed, number])
            slips = (path.states == home) & (path.actions == towards_home) & (path.next_states != home)
            data = path.transitions(asked.discount, asked.features, asked.ratios(path))
            report = inferl.Evaluator(asked.algorithm).update(data).report(asked.rows[0], level=0.95)
            fired = any(check.failed for check in report.checks)
            columns.setdefault(str(n), []).append([int(slips.sum()), truth in report.interval, fired])
    return columns


def cells(results: list[Result]) -> Iterator[dict[str, Any]]:
    """Runs, runs that held and runs with a check that fired, for each length and number of events."""
    for n in problem(NAME).lengths:
        events, held, fired = np.array([run for result in results for run in result[str(n)]]).T
        for count in range(MOST + 1):
            those = np.minimum(events, MOST) == count
            yield {
                "length": int(n),
                "events": count,
                "or more": count == MOST,
                "runs": int(those.sum()),
                "held": int(held[those].sum()),
                "fired": int(fired[those].sum()),
                "mean events of all runs": float(events.mean()),
            }


def reward_cells(results: list[Result]) -> Iterator[dict[str, Any]]:
    """Runs, and runs that held, for each kind of sizes and range of decisive steps."""
    for name in SIZES:
        variance_ess, held = np.array([run for result in results for run in result[name]]).T
        for least, most in VARIANCE_ESS:
            those = (variance_ess >= least) & (variance_ess < most)
            labels = {"sizes": name, "at least": least, "below": None if most == np.inf else most}
            yield labels | {"runs": int(those.sum()), "held": int(held[those].sum())}


def main() -> None:
    asked = options(__doc__, SEED, repeats=1000)
    made_by = provenance(asked.seed)
    todo = [[i, min(i + AT_ONCE, asked.repeats), asked.seed] for i in range(0, asked.repeats, AT_ONCE)]
    results = repeat(one_job, todo, partial_file("rare"), processes=asked.processes)
    star, rewards = list(cells(results)), list(reward_cells(results))
    for cell in star + rewards:
        print(cell)
    print(write_results("rare", {"provenance": made_by, "cells": star, "rewards": rewards}).name)


if __name__ == "__main__":
    main()
