"""The rule that the study of rules calls chosen is the one that intervals are made by."""

from __future__ import annotations

import numpy as np
import pytest

from inferl import TD, Evaluator, LeastSquares, Transitions
from inferl.environments import two_state_chain
from studies.validity.rules import CHOSEN


@pytest.mark.parametrize("correlation", [-0.5, 0.0, 0.9])
@pytest.mark.parametrize("n", [20, 40, 300, 5000])
def test_the_chosen_rule_is_ours(correlation: float, n: int) -> None:
    mdp, features = two_state_chain(correlation)
    data = mdp.sample(np.ones((2, 1)), n, seed=1).transitions(0.5, features)
    evaluator = Evaluator(TD(1)).update(data)
    reading = LeastSquares().look(evaluator.with_pending().method, np.ones((1, 1)))
    assert reading.levels is not None
    reach = CHOSEN.reach(reading.levels, reading.variance_ess, n)
    assert 2 * reach[0] == pytest.approx(evaluator.interval([1.0]).width, rel=1e-12)


def test_the_chosen_rule_follows_cycles() -> None:
    noise, zero = np.random.default_rng(0).normal(size=4003), np.zeros(4000, np.int64)
    evaluator = Evaluator(TD(1)).update(Transitions(zero, noise[3:] - 0.6 * noise[:-3], zero, 0.0))
    reading = LeastSquares().look(evaluator.with_pending().method, np.ones((1, 1)))
    assert reading.levels is not None
    width = 2 * CHOSEN.reach(reading.levels, reading.variance_ess, 4000)[0]
    assert width == pytest.approx(evaluator.interval(0).width, rel=1e-12)
    assert width < 2 * np.sqrt(reading.levels.rate[0, 0] / 4000)  # half of that of single steps; a third is right
