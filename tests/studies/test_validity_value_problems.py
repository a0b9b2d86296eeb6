"""The problems of the value study: their data and their truths belong together."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest

from studies.validity import value_control
from studies.validity import value_problems as problems

QUICK = [
    "FrozenLake",
    "Taxi",
    "CliffWalking",
    "CliffWalking, epsilon-greedy",
    "Blackjack, stick on 18",
    "clinic 5, 0.6",
    "ads",
    "bandit",
    "chain, on-policy",
    "chain, mild",
    "sepsis",
    "CartPole lean",
    "CartPole lean, limit",
    "Acrobot",
]


@pytest.mark.parametrize("family", QUICK)
def test_returns_average_to_the_truth(family: str) -> None:
    problems.check(family, repeats=10, episodes=2_000)


def test_every_name_is_a_problem() -> None:
    assert len(set(problems.NAMES)) == len(problems.NAMES)
    for name in problems.NAMES:
        one = problems.problem(name)
        assert one.name == name
        assert one is problems.problem(name)


@pytest.mark.parametrize(("horizon", "strength"), [(5, 0.6), (10, 0.6), (20, 0.6), (20, 1.0)])
def test_the_clinic_has_the_published_values(horizon: int, strength: float) -> None:
    known = {(5, 0.6): 0.70644, (10, 0.6): 0.72893, (20, 0.6): 0.75168, (20, 1.0): 0.77008}
    assert problems.problem(f"clinic {horizon}, {strength}: rich").truth == pytest.approx(
        known[horizon, strength], abs=6e-6
    )


@pytest.mark.parametrize("name", ["CartPole-v1", "Acrobot-v1"])
def test_dynamics_are_those_of_gymnasium(name: str) -> None:
    generator = np.random.default_rng(0)
    env: Any = gymnasium.make(name).unwrapped
    move = value_control.cartpole_move if name == "CartPole-v1" else value_control.acrobot_move
    env.reset(seed=0)
    for _ in range(500):
        action = int(generator.integers(env.action_space.n))
        state = np.array(env.state, dtype=np.float64)[:, None]
        following, rewards, ended = move(state, np.array([action == 1 if name == "CartPole-v1" else action - 1.0]))
        _, reward, terminated, _, _ = env.step(action)
        np.testing.assert_allclose(following[:, 0], env.state, atol=1e-12)
        assert (rewards[0], ended[0]) == (reward, terminated)
        if terminated:
            env.reset()


def test_a_repeat_depends_on_its_seed_only() -> None:
    one, other = problems.problem("ads: all states"), problems.problem("ads: hidden fatigue")
    first = one.data([3, 5])
    one.data([3, 6])
    again, seen = one.data([3, 5]), other.data([3, 5])
    np.testing.assert_array_equal(first.features, again.features)
    np.testing.assert_array_equal(first.rewards, again.rewards)
    np.testing.assert_array_equal(first.rewards, seen.rewards)  # another set of features, the same sessions
