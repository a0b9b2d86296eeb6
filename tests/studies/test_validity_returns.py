"""The study of mean returns: its short form of a run is evaluate_policy, and its summary counts what it says."""

from __future__ import annotations

import numpy as np
import pytest

import inferl
from studies.validity.returns import PROBLEMS, cell_of, one_run, returns_of


@pytest.mark.parametrize("name", ["CartPole, deterministic", "Blackjack"])
def test_a_run_is_evaluate_policy(name: str) -> None:
    problem = PROBLEMS[name]
    result = inferl.evaluate_policy(problem.env, problem.policy(), episodes=40, seed=3)
    found, _ = one_run(returns_of(name, 40, seed=3))
    assert (found.estimate, found.lower, found.upper) == pytest.approx(
        (result.interval.estimate, result.interval.lower, result.interval.upper)
    )


def test_runs_that_miss_are_counted_with_their_checks() -> None:
    rare = np.where(np.arange(400) % 200 == 0, 1.0, 0.0)
    cell = cell_of("rare", rare, np.full(1000, 0.5), runs=2, episodes=200)
    assert (cell["covered"], cell["misses"], cell["misses with a failed check"]) == (0, 2, 2)
