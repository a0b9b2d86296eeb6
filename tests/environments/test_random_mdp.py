"""The random MDP has the properties that its experiment relies on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from inferl.environments import random_mdp
from inferl.errors import SettingError


@pytest.mark.parametrize("seed", range(3))
def test_the_target_value_is_linear(seed: int) -> None:
    mdp, features, target, behaviour, theta, discount = random_mdp(seed)
    assert (mdp.n_states, mdp.n_actions, features.shape, discount) == (50, 5, (50, 10), 0.9)
    np.testing.assert_allclose(mdp.values(target, discount), features @ theta, atol=1e-12)
    for acting in (None, behaviour):
        np.testing.assert_allclose(mdp.fixed_point(features, target, acting, discount), theta, atol=1e-9)
    # realisable: scores are martingale differences under any behaviour
    exact = mdp.score_covariance(features, target, behaviour, discount)
    np.testing.assert_allclose(exact.long_run, exact.lag_zero, atol=1e-12)
    # the value of the behaviour differs
    assert np.abs(mdp.values(behaviour, discount) - features @ theta).max() > 0.01


def test_policies_and_features() -> None:
    problem = random_mdp(7)
    np.testing.assert_allclose(np.linalg.norm(problem.features, axis=1), 1.0)
    assert problem.behaviour.min() > 0.02 / 1.1
    assert np.sort(problem.target, axis=1)[:, -1] == pytest.approx(0.84)
    assert np.sort(problem.target, axis=1)[:, :-1] == pytest.approx(0.04)
    np.testing.assert_array_equal(problem.target.argmax(axis=1), problem.behaviour.argmax(axis=1))
    np.testing.assert_allclose(problem.behaviour.sum(axis=1), 1.0)


def test_the_reward_depends_on_the_state_left_alone() -> None:
    problem = random_mdp(1, n_states=8, n_actions=3, n_features=4, discount=0.5)
    for state in range(8):
        assert np.unique(problem.mdp.outcomes.rewards[problem.mdp.outcomes.states == state]).size == 1


def test_seeds() -> None:
    np.testing.assert_array_equal(random_mdp(3).theta, random_mdp(3).theta)
    assert (random_mdp(3).theta != random_mdp(4).theta).all()


@pytest.mark.parametrize("settings", [{"n_states": 0}, {"n_actions": 0}, {"n_features": 0}, {"discount": 1.0}])
def test_impossible_settings(settings: dict[str, Any]) -> None:
    with pytest.raises(SettingError):
        random_mdp(0, **settings)
