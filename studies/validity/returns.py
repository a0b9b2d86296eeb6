"""Coverage of the mean return that people quote: from the start distribution, up to the time limit.

    python -m studies.validity.returns [--quick] [--processes 2] [--seed 91000]

A run is `evaluate_policy` with 200 episodes; there are 200 of each problem. The truth is the mean of other episodes, as
many as a problem says: its standard error is at most a tenth of that of a run. On-policy the answer depends on the
returns of the episodes alone, so episodes are played in large rollouts, and each run takes its own 200 of them. Writes
validity/results/returns.json; about 30 minutes of one core.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import inferl
from inferl.data.arrays import Floats
from inferl.sources import rollout
from studies.provenance import provenance
from studies.repeats import Result, repeat
from studies.validity.study import coverage_cell, options, partial_file, write_results

SEED = 91_000
RUNS, EPISODES, LEVEL = 200, 200, 0.95
AT_ONCE = 2000  # episodes of a job


def _upright(pole: Any) -> int:
    return int(pole[2] + 0.3 * pole[3] + 0.02 * pole[0] + 0.05 * pole[1] > 0)


def _with_the_swing(acrobot: Any) -> int:
    return 2 if acrobot[5] > 0 else 0


def _with_the_motion(car: Any) -> int:
    return 2 if car[1] >= 0 else 0


@dataclass(frozen=True)
class Problem:
    """An environment and a policy; the truth is the mean of so many episodes."""

    env: str
    policy: Callable[[], Any]
    truth: int = 100_000


def _taxi() -> Any:
    import gymnasium

    return inferl.environments.FiniteMDP.from_toy_text(gymnasium.make("Taxi-v4")).optimal_policy(0.99)


def _greedy(function: Callable[[Any], int], epsilon: float, n_actions: int) -> Callable[[], Any]:
    return lambda: inferl.policies.epsilon_greedy(function, epsilon, n_actions)


PROBLEMS = {
    "CartPole, stochastic": Problem("CartPole-v1", _greedy(_upright, 0.5, 2), 20_000),
    "CartPole, deterministic": Problem("CartPole-v1", lambda: lambda pole: int(pole[2] > 0)),
    "CartPole, nearly perfect": Problem("CartPole-v1", _greedy(_upright, 0.25, 2), 20_000),
    "Acrobot": Problem("Acrobot-v1", _greedy(_with_the_swing, 0.1, 3), 20_000),
    "MountainCar, succeeds sometimes": Problem("MountainCar-v0", _greedy(_with_the_motion, 0.5, 3), 20_000),
    "Taxi, optimal": Problem("Taxi-v4", _taxi),
    "Blackjack": Problem("Blackjack-v1", lambda: lambda hand: int(hand[0] < 17)),
}


def returns_of(name: str, episodes: int, seed: int) -> Floats:
    """Returns of so many episodes."""
    problem = PROBLEMS[name]
    source = rollout(problem.env, problem.policy(), seed=seed)
    found = np.zeros(episodes)
    for chunk in source.take(episodes=episodes):
        assert chunk.episode is not None
        np.add.at(found, chunk.episode, chunk.rewards)
    source.close()
    return found


def one_job(job: list[Any]) -> Result:
    """The returns of some episodes."""
    return {"returns": returns_of(*job).tolist()}


def one_run(returns: Floats) -> tuple[inferl.Interval, tuple[str, ...]]:
    """Return the interval of a run, and the checks that failed: an episode as one step earns the same."""
    report = inferl.Evaluator(inferl.DoublyRobust(1)).update(inferl.Transitions.from_returns(returns)).report()
    return report.interval, tuple(check.name for check in report.checks if check.failed)


def cell_of(name: str, returns: Floats, others: Floats, runs: int, episodes: int) -> dict[str, Any]:
    """Summarise the runs of a problem."""
    truth, error = float(others.mean()), float(others.std(ddof=1) / np.sqrt(len(others)))
    held, widths, missed = [], [], []
    for run in returns[: runs * episodes].reshape(runs, episodes):
        interval, failed = one_run(run)
        held.append(truth in interval)
        widths.append(float(interval.width))
        if not held[-1]:
            missed.append("rarity" in failed or "length" in failed)
    said = {"problem": name, "episodes": episodes, "truth": truth, "error of the truth": error}
    return coverage_cell(held, widths, **said) | {"misses": len(missed), "misses with a failed check": sum(missed)}


def main() -> None:
    asked = options(__doc__, SEED, quick="4 runs of 50 episodes, to see that it works; writes nothing")
    made_by = provenance(asked.seed)
    runs, episodes = (4, 50) if asked.quick else (RUNS, EPISODES)
    cells = []
    for name, problem in PROBLEMS.items():
        amounts = {"runs": runs * episodes, "truth": 400 if asked.quick else problem.truth}
        parts = {}
        for number, (what, amount) in enumerate(amounts.items()):
            size = min(AT_ONCE, amount)
            jobs = [[name, size, asked.seed + 1000 * number + i] for i in range(-(-amount // size))]
            if asked.quick:
                results = [one_job(job) for job in jobs]
            else:
                results = repeat(one_job, jobs, partial_file("returns"), processes=asked.processes)
            parts[what] = np.concatenate([result["returns"] for result in results])
        cells.append(cell_of(name, parts["runs"], parts["truth"], runs, episodes))
        print(cells[-1], flush=True)
    if not asked.quick:
        print(write_results("returns", {"provenance": made_by, "cells": cells}).name)


if __name__ == "__main__":
    main()
