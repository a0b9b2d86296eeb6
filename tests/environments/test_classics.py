"""Boyan's chain, Baird's star, Garnet, and relaxation times, against known results."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

from inferl.environments import (
    FiniteMDP,
    baird,
    boyan_chain,
    frozen_lake,
    garnet,
    random_walk,
    ring,
    two_state_chain,
)
from inferl.errors import SettingError


def test_boyans_features_hold_his_value() -> None:
    mdp, features = boyan_chain()
    policy = np.ones((14, 1))
    np.testing.assert_allclose(mdp.values(policy, 1.0), -2.0 * np.arange(14), atol=1e-12)
    theta = mdp.fixed_point(features, policy, None, 1.0)
    np.testing.assert_allclose(theta, [-26, -18, -10, -2], atol=1e-10)
    assert (features[1:].sum(axis=1) == 1).all()
    assert sorted(mdp.sample(policy, 1000, seed=0).rewards.tolist())[:1] == [-3.0]


@pytest.mark.parametrize("slip", [0.0, 0.1])
def test_bairds_star_diverges_as_a_recursion_and_has_a_linear_value(slip: float) -> None:
    mdp, features, target, behaviour, theta, discount = baird(0.99, slip)
    np.testing.assert_allclose(features @ theta, mdp.values(target, discount), atol=1e-9)
    exact = mdp.score_covariance(features, target, behaviour, discount)
    assert np.linalg.eigvals(-exact.matrix).real.max() > 0.01  # theta <- theta + alpha (b - A theta) grows
    noise = np.abs(exact.long_run).max()
    assert noise > 0.01 if slip else noise < 1e-9


def test_the_frozen_lake_is_that_of_gymnasium() -> None:
    """The same table to rounding, so the same seed gives the same path."""
    lake, other = frozen_lake(), FiniteMDP.from_toy_text(gymnasium.make("FrozenLake-v1", map_name="8x8"))
    for mine, theirs in zip(lake.outcomes, other.outcomes, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-15)
    assert (lake.initial == other.initial).all()
    assert (lake.terminal == other.terminal).all()


def test_garnet() -> None:
    mdp, features, policy = garnet(seed=3, n_states=20, n_actions=2, branching=4, n_features=5)
    states, actions, _, probabilities, _ = mdp.outcomes
    pairs = np.bincount(states * 2 + actions, minlength=40)
    assert (pairs == 4).all()
    assert np.bincount(states * 2 + actions, probabilities) == pytest.approx(1.0)
    theta = mdp.fixed_point(features, policy, None, 0.9)
    assert np.abs(features @ theta - mdp.values(policy, 0.9)).max() > 0.1
    with pytest.raises(SettingError, match="branching"):
        garnet(seed=0, branching=99)


def test_relaxation_times() -> None:
    mdp, _ = ring(20, 4, laziness=0.5)
    assert mdp.relaxation_time(np.ones((20, 1))) == pytest.approx(2 / (1 - np.cos(np.pi / 10)))
    periodic, _ = ring(20, 4)  # an eigenvalue of -1, which averages out at once
    assert periodic.relaxation_time(np.ones((20, 1))) == pytest.approx(1 / (1 - np.cos(np.pi / 10)))
    chain, _ = two_state_chain(-0.5)
    assert chain.relaxation_time(np.ones((2, 1))) == 1.0
    episodes, _ = random_walk(5)
    following = np.zeros((5, 5))  # a step off either end starts again in the middle
    for s in range(5):
        for t in (s - 1, s + 1):
            following[s, t if 0 <= t < 5 else 2] += 0.5
    eigenvalues = np.linalg.eigvals(following)
    others = eigenvalues[np.abs(eigenvalues - 1) > 1e-9]
    assert episodes.relaxation_time(np.ones((7, 1))) == pytest.approx((1 / (1 - others)).real.max())
