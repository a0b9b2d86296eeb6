"""One policy against itself: how often is it declared different, and how often does a race drop a policy wrongly?

    python -m studies.validity.selfcompare [--quick] [--processes 2] [--seed 95000]

400 comparisons of each kind. Two results, and four, of one policy with other seeds are compared by `inferl.compare`;
what is declared different is a false alarm. `inferl.race` plays three policies whose returns are drawn from one
population: all equally good, or the first better by one standard deviation, or a half. A result of `evaluate_policy`
depends on the returns of its episodes alone, so episodes are played in large rollouts, and each result takes its own.
Writes validity/results/selfcompare.json; about 15 minutes of one core.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import gymnasium
import numpy as np

import inferl
from inferl.data.arrays import Floats
from inferl.interval import quantile
from studies.provenance import provenance
from studies.repeats import Result, repeat
from studies.validity.returns import one_job, returns_of
from studies.validity.study import clopper_pearson, options, partial_file, write_results

SEED = 95_000
RUNS, AT_ONCE = 400, 20  # comparisons of a kind; races of a job
MOST = 35  # false alarms of 400 that are still good enough: an exact 5 % has more with a probability of 0.06 %
CELLS = (  # problem, policies, episodes of each
    ("Taxi, optimal", 2, 100),
    ("Taxi, optimal", 4, 100),
    ("CartPole, stochastic", 2, 100),
    ("CartPole, stochastic", 4, 50),
)
POPULATION = "CartPole, stochastic", 2000  # whose returns the races draw from
LEADS = (0.0, 0.5, 1.0)  # of the first of three policies, in standard deviations of the returns
LONGEST = 500  # episodes of a policy in a race
DESIGNS = (16, 23, 32, 45, 64, 91, 128, 181, 256)  # episodes of each policy that are fixed beforehand
DECIDED = 0.95  # share of designs that must find the best


def comparison_of(returns: Floats) -> inferl.Comparison:
    """Compare independent policies with these returns (policies, episodes)."""
    played = [inferl.Evaluator(inferl.DoublyRobust(1)).update(inferl.Transitions.from_returns(row)) for row in returns]
    return inferl.compare({str(i): one for i, one in enumerate(played)})


def compared(returns: Floats) -> dict[str, bool]:
    """Whether any pair is declared different: jointly, and by pointwise intervals."""
    found = comparison_of(returns).differences.values()
    pointwise = [abs(one.estimate) > quantile(0.95, one.df) * one.standard_error for one in found]
    return {"joint": any(0 not in one for one in found), "pointwise": bool(any(pointwise))}


def cell_of(problem: str, policies: int, episodes: int, returns: Floats, runs: int) -> dict[str, Any]:
    """Count the comparisons in which a pair is declared different: jointly, and one pair at a time."""
    drawn = returns[: runs * policies * episodes].reshape(runs, policies, episodes)
    made = [compared(one) for one in drawn]
    alarms = sum(one["joint"] for one in made)
    return {
        "problem": problem,
        "policies": policies,
        "episodes": episodes,
        "runs": runs,
        "alarms": alarms,
        "binomial_95": clopper_pearson(alarms, runs, 0.95),
        "pointwise": sum(one["pointwise"] for one in made),
        "met": alarms <= MOST * runs / RUNS,
    }


class Drawn(gymnasium.Env[Any, Any]):
    """Episodes of one step: each action pays a return of its own from the population, and the first one its lead."""

    observation_space = gymnasium.spaces.Discrete(1)
    action_space = gymnasium.spaces.Discrete(3)

    def __init__(self, returns: Floats, lead: float) -> None:
        self.returns, self.lead = returns, lead * float(returns.std())

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.chosen = self.np_random.integers(len(self.returns), size=3)
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        return 0, float(self.returns[self.chosen[action]]) + self.lead * (action == 0), True, False, {}


@cache
def population(seed: int) -> Floats:
    return returns_of(*POPULATION, seed)


def race_job(job: list[Any]) -> Result:
    """Some races: whether the best was dropped, or any policy that is as good; who won; the episodes of all."""
    lead, seed, first, number = job
    policies = {str(k): (lambda _, k=k: k) for k in range(3)}
    races = []
    for i in range(first, first + number):
        found = inferl.race(lambda: Drawn(population(seed), lead), policies, episodes=LONGEST, seed=seed + i)
        dropped = {"0"} - set(found.best) if lead else set(policies) - set(found.best)
        races.append([bool(dropped), found.best == ("0",), sum(found.episodes.values())])
    return {"races": races}


def race_of(lead: float, races: list[Any], fixed: int | None) -> dict[str, Any]:
    """Summarise the races with one lead."""
    wrong, won, episodes = (np.array(column) for column in zip(*races, strict=True))
    runs, alarms = len(wrong), int(wrong.sum())
    return {
        "lead": lead,
        "runs": runs,
        "wrong": alarms,
        "binomial_95": clopper_pearson(alarms, runs, 0.95),
        "won": int(won.sum()),
        "episodes": float(episodes.mean()),
        "fixed": fixed,
        "met": alarms <= MOST * runs / RUNS,
    }


def fixed_design(lead: float, seed: int, runs: int) -> int | None:
    """Episodes of each policy, fixed beforehand, with which 95 % of the comparisons find the best."""
    returns, rng = population(seed), np.random.default_rng(seed)
    ahead = lead * returns.std() * np.array([[1.0], [0.0], [0.0]])
    for episodes in DESIGNS:
        found = 0
        for _ in range(runs):
            found += comparison_of(rng.choice(returns, size=(3, episodes)) + ahead).best == ("0",)
        if found >= DECIDED * runs:
            return episodes
    return None


def design_job(job: list[Any]) -> Result:
    return {"fixed": fixed_design(*job)}


def main() -> None:
    asked = options(__doc__, SEED, quick="8 comparisons and races of each kind, to see that it works; writes nothing")
    made_by = provenance(asked.seed)
    runs = 8 if asked.quick else RUNS

    def done(function: Any, jobs: list[Any]) -> list[Result]:
        if asked.quick:
            return [function(job) for job in jobs]
        return repeat(function, jobs, partial_file("selfcompare"), processes=asked.processes)

    pools = {}
    for problem in dict.fromkeys(cell[0] for cell in CELLS):
        most = runs * max(policies * episodes for name, policies, episodes in CELLS if name == problem)
        size = min(2000, most)
        jobs = [[problem, size, asked.seed + 1000 + i] for i in range(-(-most // size))]
        pools[problem] = np.concatenate([result["returns"] for result in done(one_job, jobs)])
    cells = []
    for problem, policies, episodes in CELLS:
        cells.append(cell_of(problem, policies, episodes, pools[problem], runs))
        print(cells[-1], flush=True)
    races = []
    for lead in LEADS:
        at_once = min(AT_ONCE, runs)
        jobs = [[lead, asked.seed, first, at_once] for first in range(0, runs, at_once)]
        outcomes = [race for result in done(race_job, jobs) for race in result["races"]]
        fixed = done(design_job, [[lead, asked.seed, runs // 2]])[0]["fixed"] if lead else None
        races.append(race_of(lead, outcomes, fixed))
        print(races[-1], flush=True)
    if not asked.quick:
        print(write_results("selfcompare", {"provenance": made_by, "cells": cells, "races": races}).name)


if __name__ == "__main__":
    main()
