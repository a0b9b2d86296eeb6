"""Simulated paths: their law, by tests whose false-alarm probability is at most 1e-4, and their bookkeeping."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import chdtrc, ndtri

from inferl.environments import FiniteMDP, Trajectory, random_mdp
from inferl.errors import DataError, ShapeError

FALSE_ALARM = 1e-4


def episodic(n_states: int = 8, n_actions: int = 3) -> tuple[FiniteMDP, NDArray[np.float64]]:
    """An MDP with two terminal states, a random first state, impossible transitions and a policy with zeros."""
    rng = np.random.default_rng(5)
    transition = rng.dirichlet(np.ones(n_states), size=(n_actions, n_states))
    transition[transition < 0.05] = 0
    transition /= transition.sum(axis=2, keepdims=True)
    initial = np.append([0, 0], rng.dirichlet(np.ones(n_states - 2)))
    policy = rng.dirichlet(np.ones(n_actions), size=n_states)
    policy[2:4] = [0.0, 0.25, 0.75]
    return FiniteMDP(transition, rng.normal(size=transition.shape), initial, terminal=[0, 1]), policy


def p_value(observed: NDArray[np.int64], chances: NDArray[np.float64]) -> float:
    """Pearson's test, rows independent given their totals; for a Markov chain too (Billingsley 1961)."""
    expected = observed.sum(axis=1, keepdims=True) * chances
    possible = expected > 0
    assert (observed[~possible] == 0).all()
    assert expected[possible].min() > 5
    statistic = ((observed - expected)[possible] ** 2 / expected[possible]).sum()
    return float(chdtrc(possible.sum() - (possible.any(axis=1)).sum(), statistic))


def test_frequencies_of_outcomes_and_restarts() -> None:
    mdp, policy = episodic()
    path = mdp.sample(policy, 300_000, seed=1)
    states, actions, next_states, _, _ = mdp.outcomes
    chances = np.zeros((8, 3 * 8))
    chances[states, actions * 8 + next_states] = mdp.outcomes.weights(policy)
    observed = np.zeros((8, 3 * 8), dtype=np.int64)
    np.add.at(observed, (path.states, path.actions * 8 + path.next_states), 1)
    assert p_value(observed, chances) > FALSE_ALARM
    starts = np.bincount(path.states[1:][path.terminated[:-1]], minlength=8)
    assert p_value(starts[None], mdp.initial[None]) > FALSE_ALARM
    firsts = np.bincount([mdp.sample(policy, 1, seed=k).states[0] for k in range(2000)], minlength=8)
    assert p_value(firsts[None], mdp.initial[None]) > FALSE_ALARM


def test_successive_steps_are_conditionally_independent() -> None:
    """Where the path goes from a state does not depend on the state before: Pearson's test on s_0 s_1 s_2."""
    mdp, policy = episodic()
    path = mdp.sample(policy, 300_000, seed=2)
    law = mdp.outcomes.kernel(mdp.outcomes.weights(policy), 8).toarray()
    inside = ~path.terminated[:-1]
    observed = np.zeros((64, 8), dtype=np.int64)
    np.add.at(observed, (path.states[:-1][inside] * 8 + path.states[1:][inside], path.next_states[1:][inside]), 1)
    assert p_value(observed, np.tile(law, (8, 1))) > FALSE_ALARM


def test_occupation_agrees_with_the_stationary_law() -> None:
    """Reward 1 on entering state k, discount 0, one constant feature: the mean reward has a known standard error."""
    mdp, policy = episodic()
    n = 300_000
    path = mdp.sample(policy, n, seed=3)
    arrivals = mdp.outcomes.kernel(mdp.outcomes.weights(policy), 8).T @ mdp.stationary(policy)
    for state in range(8):
        transition = [np.zeros((8, 8)) for _ in range(3)]
        for s, a, t, p, _ in zip(*mdp.outcomes, strict=True):
            transition[a][s, t] = p
        counting = FiniteMDP(transition, np.eye(8)[state], mdp.initial, mdp.terminal)
        exact = counting.score_covariance(np.ones((8, 1)), policy, None, 0.0)
        assert exact.fixed_point[0] == pytest.approx(arrivals[state], abs=1e-12)
        error = (path.next_states == state).mean() - arrivals[state]
        assert abs(error) < -ndtri(FALSE_ALARM / 8 / 2) * np.sqrt(exact.long_run[0, 0] / n)


def test_a_path_is_coherent() -> None:
    mdp, policy = episodic()
    path = mdp.sample(policy, 50_000, seed=4)
    assert len(path) == 50_000
    np.testing.assert_array_equal(path.terminated, mdp.terminal[path.next_states])
    assert not mdp.terminal[path.states].any()
    inside = ~path.terminated[:-1]
    np.testing.assert_array_equal(path.next_states[:-1][inside], path.states[1:][inside])
    paid = {(s, a, t): r for s, a, t, _, r in zip(*mdp.outcomes, strict=True)}
    seen = zip(path.states, path.actions, path.next_states, strict=True)
    np.testing.assert_array_equal(path.rewards, [paid[key] for key in seen])


@pytest.mark.parametrize("n", [1, 17, 16_384, 20_000])
def test_a_shorter_path_is_the_beginning_of_a_longer_one(n: int) -> None:
    mdp, policy = episodic()
    short, long = mdp.sample(policy, n, seed=6), mdp.sample(policy, 40_000, seed=6)
    for name in ("states", "actions", "rewards", "next_states", "terminated"):
        np.testing.assert_array_equal(getattr(short, name), getattr(long, name)[:n])


def test_start_and_seed() -> None:
    mdp, policy = episodic()
    assert {int(mdp.sample(policy, 1, seed=k, start=5).states[0]) for k in range(20)} == {5}
    assert (mdp.sample(policy, 100, seed=1).states != mdp.sample(policy, 100, seed=2).states).any()
    # a state that nothing leads to can still be the first
    lonely = FiniteMDP([[[1, 0], [1, 0]]], [0, 0], initial=0)
    assert lonely.sample(np.ones((2, 1)), 3, seed=0, start=1).states.tolist() == [1, 0, 0]
    for start in (-1, 8, 0):
        with pytest.raises(DataError, match=f"start is {start}"):
            mdp.sample(policy, 10, seed=0, start=start)
    with pytest.raises(DataError, match="n is 0"):
        mdp.sample(policy, 0, seed=0)


def test_episodes_of_one_step() -> None:
    """Half of the draws are restarts here: the path still has the length asked for."""
    mdp = FiniteMDP([[[0, 0, 1], [0, 0, 1], [0, 0, 1]]], [0, 0, 1], initial=[0.5, 0.5, 0], terminal=[2])
    path = mdp.sample(np.ones((3, 1)), 10_001, seed=0)
    assert len(path) == 10_001
    assert path.terminated.all()
    assert p_value(np.bincount(path.states, minlength=3)[None], mdp.initial[None]) > FALSE_ALARM


def test_transitions() -> None:
    mdp, policy = episodic()
    path = mdp.sample(policy, 500, seed=0)
    table = path.transitions(0.9)
    np.testing.assert_array_equal(table.features, path.states)
    np.testing.assert_array_equal(table.next_features, path.next_states)
    np.testing.assert_array_equal(table.discounts, 0.9 * ~path.terminated)
    np.testing.assert_array_equal(table.last, path.terminated)
    phi = np.random.default_rng(0).normal(size=(8, 3))
    ratios = np.linspace(0.5, 1.5, 500)
    vectors = path.transitions(0.9, features=phi, ratios=ratios)
    np.testing.assert_array_equal(vectors.features, phi[path.states])
    np.testing.assert_array_equal(vectors.next_features, phi[path.next_states])
    np.testing.assert_array_equal(vectors.rewards, path.rewards)
    np.testing.assert_array_equal(vectors.ratios, ratios)
    with pytest.raises(ShapeError, match="one row per state"):
        path.transitions(0.9, features=phi[:4])


def test_ratios() -> None:
    problem = random_mdp(seed=2, n_states=6, n_actions=3, n_features=2)
    path = problem.mdp.sample(problem.behaviour, 200, seed=0)
    expected = [problem.target[s, a] / problem.behaviour[s, a] for s, a in zip(path.states, path.actions, strict=True)]
    np.testing.assert_array_equal(path.ratios(problem.target, problem.behaviour), expected)
    with pytest.raises(ShapeError, match="must both be"):
        path.ratios(problem.target, problem.behaviour[:, :2])
    zero = problem.behaviour.copy()
    zero[path.states[0], path.actions[0]] = 0
    with pytest.raises(DataError, match="row 0 takes action"):
        path.ratios(problem.target, zero)


def test_frozen() -> None:
    path = episodic()[0].sample(episodic()[1], 3, seed=0)
    with pytest.raises(AttributeError):
        path.states = path.actions  # type: ignore[misc]
    assert isinstance(path, Trajectory)
