"""Coverage of the mean return that people quote: from the start distribution, up to the time limit.

    python -m studies.validity.returns [--quick] [--processes 2] [--seed 91000]

A run is `evaluate_policy` with 200 episodes and no features; there are 200 of each problem (`returns_auto` has the same
with features). The truth is the mean of other episodes, as many as a problem says: its standard error is at most a
tenth of that of a run. Without features the answer depends on the returns of the episodes alone, so episodes are played
in large rollouts, and each run takes its own 200 of them. Writes validity/results/returns.json; about two hours of
one core.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

import inferl
from inferl.data.arrays import Floats
from inferl.diagnostics import Report
from inferl.sources import rollout
from studies.provenance import provenance
from studies.repeats import Result, repeat
from studies.validity.study import coverage_cell, options, partial_file, write_results

SEED = 91_000
RUNS, EPISODES, LEVEL = 200, 200, 0.95
AT_ONCE = 2000  # episodes of a job


def upright(pole: Any) -> int:
    return int(pole[2] + 0.3 * pole[3] + 0.02 * pole[0] + 0.05 * pole[1] > 0)


def with_the_swing(acrobot: Any) -> int:
    return 2 if acrobot[5] > 0 else 0


def with_the_motion(car: Any) -> int:
    return 2 if car[1] >= 0 else 0


@dataclass(frozen=True)
class Problem:
    """An environment and a policy; the truth is the mean of so many episodes."""

    env: str
    policy: Callable[[], Any]
    truth: int = 100_000


def _optimal(env: str) -> Callable[[], Any]:
    import gymnasium

    return lambda: inferl.environments.FiniteMDP.from_toy_text(gymnasium.make(env)).optimal_policy(0.99)


def lander_pilot() -> Any:
    from gymnasium.envs.box2d.lunar_lander import heuristic  # here: Box2D is wanted by this problem only

    lander = SimpleNamespace(unwrapped=SimpleNamespace(continuous=False))  # all that it asks of the environment
    return lambda seen: cast(Callable[[Any, Any], int], heuristic)(lander, seen)


def _greedy(function: Callable[[Any], int], epsilon: float, n_actions: int) -> Callable[[], Any]:
    return lambda: inferl.policies.epsilon_greedy(function, epsilon, n_actions)


PROBLEMS = {
    "CartPole, stochastic": Problem("CartPole-v1", _greedy(upright, 0.5, 2)),
    "CartPole, deterministic": Problem("CartPole-v1", lambda: lambda pole: int(pole[2] > 0)),
    "CartPole, nearly perfect": Problem("CartPole-v1", _greedy(upright, 0.25, 2)),
    "Acrobot": Problem("Acrobot-v1", _greedy(with_the_swing, 0.1, 3)),
    "MountainCar, succeeds sometimes": Problem("MountainCar-v0", _greedy(with_the_motion, 0.5, 3)),
    "Taxi, optimal": Problem("Taxi-v4", _optimal("Taxi-v4")),
    "Blackjack": Problem("Blackjack-v1", lambda: lambda hand: int(hand[0] < 17)),
    "CliffWalking, nothing random": Problem("CliffWalking-v1", _optimal("CliffWalking-v1"), 2_000),
    "LunarLander, Gymnasium's heuristic": Problem("LunarLander-v3", lander_pilot),
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


def found_in(report: Report, returns: Floats) -> Result:
    """Return what a run found: the interval, the checks that failed, and what the returns alone say."""
    interval = report.interval
    return {
        "interval": [float(x) for x in (interval.estimate, interval.lower, interval.upper)],
        "failed": [check.name for check in report.checks if check.failed],
        "mean": float(returns.mean()),
        "plain width": float(2 * 1.96 * returns.std(ddof=1) / np.sqrt(len(returns))),
    }


def one_run(returns: Floats) -> Result:
    """Return what a run without features finds: an episode as one step earns the same."""
    evaluator = inferl.Evaluator(inferl.DoublyRobust(1)).update(inferl.Transitions.from_returns(returns))
    return found_in(evaluator.report(), returns)


def cell_of(name: str, features: str, runs: list[Result], episodes: int, truth: float, error: float) -> dict[str, Any]:
    """Summarise the runs of a problem; `misses` has the checks that failed in each run that missed."""
    held, widths = [], []
    for run in runs:
        _, lower, upper = run["interval"]
        held.append(bool(lower <= truth <= upper))
        widths.append(upper - lower)
    said = {"problem": name, "features": features, "episodes": episodes, "truth": truth, "error of the truth": error}
    return coverage_cell(held, widths, **said) | {
        "plain covered": sum(abs(run["mean"] - truth) <= run["plain width"] / 2 for run in runs),
        "median_plain_width": float(np.median([run["plain width"] for run in runs])),
        "misses": [run["failed"] for run, covered in zip(runs, held, strict=True) if not covered],
    }


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
        found = [one_run(returns) for returns in parts["runs"][: runs * episodes].reshape(runs, episodes)]
        truth, error = float(parts["truth"].mean()), float(parts["truth"].std(ddof=1) / np.sqrt(len(parts["truth"])))
        cells.append(cell_of(name, "none", found, episodes, truth, error))
        print(cells[-1], flush=True)
    if not asked.quick:
        print(write_results("returns", {"provenance": made_by, "cells": cells}).name)


if __name__ == "__main__":
    main()
