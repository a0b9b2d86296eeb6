"""The study of comparisons: its short form of a result is evaluate_policy, and its summaries count what they say."""

from __future__ import annotations

import numpy as np
import pytest

import inferl
from studies.validity.returns import PROBLEMS
from studies.validity.selfcompare import Drawn, cell_of, comparison_of, race_of


def test_a_comparison_is_that_of_evaluate_policy() -> None:
    problem = PROBLEMS["Blackjack"]
    results = [inferl.evaluate_policy(problem.env, problem.policy(), episodes=60, seed=seed) for seed in (1, 2)]
    whole = inferl.compare({"0": results[0], "1": results[1]}).difference("0", "1")
    short = comparison_of(np.stack([result.returns for result in results])).difference("0", "1")  # type: ignore[misc]
    assert (short.lower, short.upper) == pytest.approx((whole.lower, whole.upper))


def test_alarms_are_counted() -> None:
    rng = np.random.default_rng(0)
    returns = rng.normal(size=(3, 4, 50))
    returns[1, 2] += 5
    cell = cell_of("noise", 4, 50, returns.ravel(), 3)
    assert (cell["alarms"], cell["met"]) == (1, False)
    assert cell["pointwise"] >= 1


def test_races_are_summarised() -> None:
    found = race_of(1.0, [[False, True, 96], [True, False, 104]], 32)
    assert (found["wrong"], found["won"], found["episodes"], found["fixed"]) == (1, 1, 100.0, 32)


def test_the_lead_is_that_of_the_first_policy() -> None:
    env = Drawn(np.array([0.0, 2.0]), lead=3.0)
    for action, possible in ((0, {3.0, 5.0}), (1, {0.0, 2.0})):
        for seed in range(8):
            env.reset(seed=seed)
            assert env.step(action)[1] in possible
