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
    found = one_run(returns_of(name, 40, seed=3))
    assert found["interval"] == pytest.approx([result.interval.estimate, result.interval.lower, result.interval.upper])
    assert found["mean"] == pytest.approx(result.interval.estimate)


def test_runs_that_miss_are_counted_with_their_checks() -> None:
    rare = one_run(np.where(np.arange(200) == 0, 1.0, 0.0))
    usual = one_run(np.tile([0.0, 1.0], 100))
    cell = cell_of("rare", "none", [rare, usual], episodes=200, truth=0.5, error=0.0)
    assert (cell["repeats"], cell["covered"], cell["plain covered"]) == (2, 1, 1)
    assert ["rarity" in failed for failed in cell["misses"]] == [True]
    assert cell["median_plain_width"] == pytest.approx(1.96 * (0.005 + np.sqrt(1 / 796)))  # 1 / 200 and .25 / 199
