"""The small chains against their closed forms."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from inferl.environments import random_walk, ring, two_state_chain
from inferl.errors import SettingError


@pytest.mark.parametrize("correlation", [-0.6, 0.0, 0.5, 0.8, 0.99])
def test_two_state_chain(correlation: float) -> None:
    mdp, features = two_state_chain(correlation)
    exact = mdp.score_covariance(features, np.ones((2, 1)), None, 0.9)
    assert exact.long_run.item() / exact.lag_zero.item() == pytest.approx((1 + correlation) / (1 - correlation))
    assert exact.lag_zero.item() == pytest.approx(1.0)
    assert exact.matrix.item() == pytest.approx(0.1)
    assert exact.fixed_point.item() == pytest.approx(0.0, abs=1e-12)
    path = mdp.sample(np.ones((2, 1)), 1000, seed=0)
    np.testing.assert_array_equal(path.rewards, 2 * path.next_states - 1)


@pytest.mark.parametrize("laziness", [0.0, 0.4])
def test_ring(laziness: float) -> None:
    """The cosine is an eigenfunction of the walk, so its value is known; the extra reward is a geometric series."""
    mdp, features = ring(20, 4, laziness)
    policy, angle = np.ones((20, 1)), 2 * np.pi * np.arange(20) / 20
    np.testing.assert_allclose(mdp.stationary(policy), 1 / 20, atol=1e-14)
    shift = np.eye(20)[(np.arange(20) + 1) % 20]
    walk = laziness * np.eye(20) + (1 - laziness) / 2 * (shift + shift.T)
    eigenvalue = laziness + (1 - laziness) * np.cos(2 * np.pi / 20)
    visits, power = np.zeros(20), np.eye(20)
    for step in range(400):
        power = power @ walk
        visits += 0.9**step * power[:, 5]
    expected = eigenvalue * np.cos(angle) / (1 - 0.9 * eigenvalue) + visits
    np.testing.assert_allclose(mdp.values(policy, 0.9), expected, atol=1e-12)
    np.testing.assert_array_equal(features.argmax(axis=1), np.arange(20) // 5)
    assert (features.sum(axis=1) == 1).all()


def test_ring_is_misspecified_and_dependent() -> None:
    mdp, features = ring(20, 4)
    policy = np.ones((20, 1))
    exact = mdp.score_covariance(features, policy, None, 0.9)
    assert np.abs(features @ exact.fixed_point - mdp.values(policy, 0.9)).max() > 0.1
    assert np.linalg.eigvalsh(exact.long_run).max() > 2 * np.linalg.eigvalsh(exact.lag_zero).max()


@pytest.mark.parametrize(("n_states", "reward"), [(1, -1.0), (6, 2.0), (19, -1.0)])
def test_random_walk(n_states: int, reward: float) -> None:
    mdp, features = random_walk(n_states, reward_per_step=reward)
    state = np.arange(n_states + 2)
    expected = reward * state * (n_states + 1 - state)
    policy = np.ones((n_states + 2, 1))
    np.testing.assert_allclose(mdp.values(policy, 1.0), expected, atol=1e-9)
    np.testing.assert_allclose(features @ mdp.fixed_point(features, policy, None, 1.0), expected, atol=1e-9)
    assert mdp.initial[(n_states + 1) // 2] == 1
    # realisable features: the scores are martingale differences
    exact = mdp.score_covariance(features, policy, None, 1.0)
    np.testing.assert_allclose(exact.long_run, exact.lag_zero, atol=1e-9)


def test_random_walk_in_groups() -> None:
    mdp, features = random_walk(50, n_groups=10)
    assert features.shape == (52, 10)
    assert features.sum(axis=0).tolist() == [5.0] * 10
    assert (features[mdp.terminal] == 0).all()


@pytest.mark.parametrize(
    "make",
    [
        lambda: two_state_chain(1.0),
        lambda: two_state_chain(-1.0),
        lambda: two_state_chain(float("nan")),
        lambda: ring(2, 1),
        lambda: ring(10, 11),
        lambda: ring(10, 0),
        lambda: ring(10, 2, laziness=1.0),
        lambda: ring(10, 2, laziness=-0.1),
        lambda: random_walk(0),
        lambda: random_walk(5, n_groups=6),
        lambda: random_walk(5, n_groups=0),
    ],
)
def test_impossible_chains(make: Callable[[], object]) -> None:
    with pytest.raises(SettingError):
        make()
