"""Exact quantities of finite MDPs against plain loops, enumeration and published numbers."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.toy_text.cliffwalking import CliffWalkingEnv
from gymnasium.envs.toy_text.taxi import TaxiEnv
from numpy.typing import NDArray
from scipy import sparse

import inferl
from inferl import Objectives, Transitions
from inferl.environments import FiniteMDP, random_mdp
from inferl.errors import DataError, InferlError, SettingError, ShapeError

Array = NDArray[np.float64]


class Dense(NamedTuple):
    """An episodic MDP as dense arrays, with two policies and features: the input of the reference loops below."""

    transition: Array
    reward: Array
    initial: Array
    terminal: NDArray[np.bool_]
    target: Array
    behaviour: Array
    features: Array

    @property
    def mdp(self) -> FiniteMDP:
        return FiniteMDP(self.transition, self.reward, self.initial, self.terminal)


def dense(seed: int, n_states: int = 6, n_actions: int = 3, n_terminal: int = 2) -> Dense:
    rng = np.random.default_rng(seed)
    transition = rng.dirichlet(np.full(n_states, 0.5), size=(n_actions, n_states))
    transition[transition < 0.02] = 0.0
    transition /= transition.sum(axis=2, keepdims=True)
    terminal = np.arange(n_states) >= n_states - n_terminal
    transition[:, terminal] = np.nan  # rows that must never be read
    initial = np.where(terminal, 0.0, rng.random(n_states))
    target, behaviour = rng.dirichlet(np.ones(n_actions), size=(2, n_states))
    reward = rng.normal(size=transition.shape)
    return Dense(
        transition, reward, initial / initial.sum(), terminal, target, behaviour, rng.normal(size=(n_states, 2))
    )


def steps(problem: Dense) -> list[tuple[int, int, int, float]]:
    """Every (s, a, s') with P(s' given s, a)."""
    n_actions, n_states, _ = problem.transition.shape
    triples = itertools.product(np.flatnonzero(~problem.terminal), range(n_actions), range(n_states))
    return [
        (int(s), a, t, float(problem.transition[a, s, t])) for s, a, t in triples if problem.transition[a, s, t] > 0
    ]


def chain(problem: Dense, policy: Array) -> Array:
    """Transition matrix of the current state, restarts included."""
    matrix = np.zeros((len(policy), len(policy)))
    for s, a, t, p in steps(problem):
        if problem.terminal[t]:
            matrix[s] += policy[s, a] * p * problem.initial
        else:
            matrix[s, t] += policy[s, a] * p
    return matrix


def frozen_lake() -> FiniteMDP:
    return FiniteMDP.from_toy_text(gymnasium.make("FrozenLake-v1", map_name="8x8"))


@pytest.mark.parametrize(("discount", "value"), [(0.99, 0.41464), (0.95, 0.04825)])
def test_frozen_lake_optimum(discount: float, value: float) -> None:
    mdp = frozen_lake()
    values = mdp.values(mdp.optimal_policy(discount), discount)
    assert values[0] == pytest.approx(value, abs=5e-6)
    assert (values[mdp.terminal] == 0).all()


def test_frozen_lake_episodes() -> None:
    """Mean length and success rate of the optimal policy, from its stationary law: 1 / P(end), P(goal) / P(end)."""
    mdp = frozen_lake()
    flow = mdp.stationary(mdp.optimal_policy(0.99))
    arrivals = mdp.outcomes.kernel(mdp.outcomes.weights(mdp.optimal_policy(0.99)), 64).T @ flow
    ending = arrivals[mdp.terminal].sum()
    assert 1 / ending == pytest.approx(85.9, abs=0.05)
    assert arrivals[63] / ending == pytest.approx(0.894, abs=5e-4)


@pytest.mark.parametrize("discount", [0.0, 0.6, 0.97, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_values_by_iteration(seed: int, discount: float) -> None:
    problem = dense(seed)
    values, previous = np.zeros(6), np.ones(6)
    while np.abs(values - previous).max() > 1e-15:
        previous, values = values, np.zeros(6)
        for s, a, t, p in steps(problem):
            values[s] += problem.target[s, a] * p * (problem.reward[a, s, t] + discount * previous[t])
    np.testing.assert_allclose(problem.mdp.values(problem.target, discount), values, atol=1e-12)

    action_values = np.zeros((6, 3))
    for s, a, t, p in steps(problem):
        action_values[s, a] += p * (problem.reward[a, s, t] + discount * values[t])
    np.testing.assert_allclose(problem.mdp.action_values(problem.target, discount), action_values, atol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_optimal_policy_beats_every_other(seed: int) -> None:
    mdp = dense(seed, n_states=5, n_terminal=1).mdp
    best = mdp.values(mdp.optimal_policy(0.9), 0.9)
    everyone = [mdp.values(np.eye(3)[[*choice, 0]], 0.9) for choice in itertools.product(range(3), repeat=4)]
    np.testing.assert_allclose(best, np.max(everyone, axis=0), atol=1e-12)


def test_ties_go_to_the_lowest_action() -> None:
    """Four copies of one action; rounding differs between them, because the rows are summed in another order."""
    problem = dense(0, n_actions=2)
    copies = problem.transition[[0, 1, 0, 1]]
    rewards = problem.reward[[0, 1, 0, 1]] * np.array([1, 1, 1 + 1e-15, 1 - 1e-15])[:, None, None]
    mdp = FiniteMDP(copies, rewards, problem.initial, problem.terminal)
    assert (mdp.optimal_policy(0.9)[:, 2:] == 0).all()


def test_undiscounted_values_need_an_end() -> None:
    stuck = FiniteMDP([[[1.0, 0, 0], [0, 0.5, 0.5], [0, 0, 1]]], [0.0, 0, 1], initial=1, terminal=[2])
    with pytest.raises(SettingError, match="from state 0 this policy never ends"):
        stuck.values(np.ones((3, 1)), 1.0)
    assert stuck.values(np.ones((3, 1)), 0.5).tolist() == pytest.approx([0, 2 / 3, 0])
    with pytest.raises(DataError, match="below 1"):
        stuck.optimal_policy(1.0)


@pytest.mark.parametrize("seed", range(5))
def test_stationary_is_the_eigenvector(seed: int) -> None:
    problem = dense(seed)
    sizes, vectors = np.linalg.eig(chain(problem, problem.behaviour).T)
    law = np.real(vectors[:, np.argmin(np.abs(sizes - 1))])
    np.testing.assert_allclose(problem.mdp.stationary(problem.behaviour), law / law.sum(), atol=1e-13)


def test_stationary_of_transient_unreachable_and_periodic_states() -> None:
    # 0 -> 1 <-> 2 (period 2); 3 leads to 0 and is never entered; 4 is a class of its own, never reached
    rows = np.eye(5)[[1, 2, 1, 0, 4]]
    mdp = FiniteMDP(rows[None], np.zeros(5), initial=0)
    assert mdp.stationary(np.ones((5, 1))).tolist() == pytest.approx([0, 0.5, 0.5, 0, 0], abs=1e-15)
    assert FiniteMDP(rows[None], np.zeros(5), initial=4).stationary(np.ones((5, 1))).tolist() == [0, 0, 0, 0, 1]
    both = FiniteMDP(rows[None], np.zeros(5), initial=[0.5, 0, 0, 0, 0.5])
    with pytest.raises(SettingError, match=r"2 recurrent classes \(of state 1, of state 4\)"):
        both.stationary(np.ones((5, 1)))


@pytest.mark.parametrize("discount", [0.0, 0.9, 1.0])
def test_fixed_point_of_tabular_features_is_the_value(discount: float) -> None:
    problem = dense(1)
    values = problem.mdp.values(problem.target, discount)
    for behaviour in (None, problem.behaviour):
        theta = problem.mdp.fixed_point(np.eye(6), problem.target, behaviour, discount)
        np.testing.assert_allclose(theta, values, atol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_score_covariance_by_enumeration(seed: int) -> None:
    """The chain of triples (s, a, s'), in full; its autocovariances summed lag by lag until they vanish."""
    problem = dense(seed)
    for behaviour, discount in [(None, 0.9), (problem.behaviour, 0.9), (problem.behaviour, 1.0)]:
        acting = problem.target if behaviour is None else problem.behaviour
        exact = problem.mdp.score_covariance(problem.features, problem.target, behaviour, discount)
        law = np.linalg.matrix_power(chain(problem, acting), 4096)[0]
        listed = steps(problem)
        matrix, vector = np.zeros((2, 2)), np.zeros(2)
        moves = np.zeros((len(listed), len(listed)))
        weight, scores = np.zeros(len(listed)), np.zeros((len(listed), 2))
        for k, (s, a, t, p) in enumerate(listed):
            phi, discounted = problem.features[s], 0 if problem.terminal[t] else discount * problem.features[t]
            reward, ratio = problem.reward[a, s, t], problem.target[s, a] / acting[s, a]
            weight[k] = law[s] * acting[s, a] * p
            matrix += weight[k] * ratio * np.outer(phi, phi - discounted)
            vector += weight[k] * ratio * reward * phi
            scores[k] = ratio * (reward + (discounted - phi) @ exact.fixed_point) * phi
            for j, (s_next, a_next, _, p_next) in enumerate(listed):
                arrival = problem.initial[s_next] if problem.terminal[t] else float(s_next == t)
                moves[k, j] = arrival * acting[s_next, a_next] * p_next

        np.testing.assert_allclose(exact.matrix, matrix, atol=1e-12)
        np.testing.assert_allclose(exact.matrix @ exact.fixed_point, vector, atol=1e-12)
        theta = problem.mdp.fixed_point(problem.features, problem.target, behaviour, discount)
        np.testing.assert_array_equal(exact.fixed_point, theta)

        long_run = lag_zero = scores.T @ (weight[:, None] * scores)
        later = scores
        for _ in range(2000):
            later = moves @ later
            covariance = scores.T @ (weight[:, None] * later)
            long_run = long_run + covariance + covariance.T
        np.testing.assert_allclose(exact.lag_zero, lag_zero, atol=1e-10, rtol=1e-10)
        np.testing.assert_allclose(exact.long_run, long_run, atol=1e-10, rtol=1e-10)
        assert np.abs(exact.long_run - exact.lag_zero).max() > 1e-3  # otherwise the test shows nothing


def test_features_never_seen_and_collinear_features() -> None:
    rows = np.eye(4)[[1, 0, 0, 3]]  # 0 <-> 1, 2 leads there, 3 is terminal and never reached
    mdp = FiniteMDP(rows[None], [1.0, 2, 0, 0], initial=0, terminal=[3])
    policy = np.ones((4, 1))
    values = mdp.values(policy, 0.5)
    assert mdp.fixed_point(np.eye(4), policy, None, 0.5).tolist() == pytest.approx([values[0], values[1], 0, 0])
    doubled = np.hstack([np.eye(4), np.eye(4)])
    assert mdp.fixed_point(doubled, policy, None, 0.5).tolist() == pytest.approx(
        [values[0] / 2, values[1] / 2, 0, 0] * 2
    )
    assert mdp.fixed_point(np.eye(4)[:, 2:3], policy, None, 0.5).tolist() == [0.0]
    with pytest.raises(SettingError, match="no solution: its matrix has rank 0, not 1"):
        mdp.fixed_point(np.full((4, 1), 0.1), policy, None, 1.0)  # a mean reward of 1.5 for ever


def test_a_rare_state_is_not_a_missing_one() -> None:
    rare = 1e-14
    mdp = FiniteMDP([[[1 - rare, rare], [1, 0]]], [0.0, 1.0], initial=0)
    theta = mdp.fixed_point(np.eye(2), np.ones((2, 1)), None, 0.5)
    np.testing.assert_allclose(theta, mdp.values(np.ones((2, 1)), 0.5), rtol=1e-10)


def test_the_behaviour_must_try_what_the_target_does() -> None:
    problem = dense(2)
    never = np.tile([0.5, 0.5, 0.0], (6, 1))
    with pytest.raises(SettingError, match="takes action 2 in state 0 and the behaviour never does"):
        problem.mdp.fixed_point(problem.features, problem.target, never, 0.9)
    problem.mdp.score_covariance(problem.features, never, problem.behaviour, 0.9)


def test_sparse_and_dense_are_the_same() -> None:
    problem = dense(3)
    transition = [sparse.csc_matrix(matrix) for matrix in problem.transition]
    reward = tuple(sparse.coo_array(np.nan_to_num(matrix)) for matrix in problem.reward * (problem.transition > 0))
    initial = problem.initial.tolist()
    same = FiniteMDP(transition, reward, initial, np.flatnonzero(problem.terminal))
    for one, other in zip(problem.mdp.outcomes, same.outcomes, strict=True):
        np.testing.assert_array_equal(one, other)
    entering = np.arange(6.0)
    paid = FiniteMDP(transition, entering, initial, problem.terminal).outcomes
    np.testing.assert_array_equal(paid.rewards, entering[paid.next_states])
    spread = FiniteMDP(transition, np.broadcast_to(entering, (3, 6, 6)), initial, problem.terminal).outcomes
    np.testing.assert_array_equal(paid.rewards, spread.rewards)


def test_the_table_cannot_be_changed() -> None:
    mdp = dense(0).mdp
    for array in (*mdp.outcomes, mdp.initial, mdp.terminal):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    with pytest.raises(AttributeError):
        mdp.n_actions = 1  # type: ignore[misc]


@pytest.mark.parametrize(("make", "shape"), [(CliffWalkingEnv, (48, 4, 1)), (TaxiEnv, (500, 6, 4))])
def test_toy_text(make: Callable[[], Any], shape: tuple[int, int, int]) -> None:
    """These two are deterministic: value iteration on their own table takes three lines."""
    env = make()
    mdp = FiniteMDP.from_toy_text(env)
    assert (mdp.n_states, mdp.n_actions, int(mdp.terminal.sum())) == shape
    listed = np.array([[env.P[s][a][0] for a in range(shape[1])] for s in range(shape[0])])
    successor, reward, live = listed[..., 1].astype(int), listed[..., 2], listed[..., 3] == 0
    values = np.zeros(shape[0])
    for _ in range(3000):
        values = (reward + 0.99 * live * values[successor]).max(axis=1)
    expected = mdp.initial @ values
    assert mdp.initial @ mdp.values(mdp.optimal_policy(0.99), 0.99) == pytest.approx(expected, rel=1e-9)


def toy(table: dict[int, Any]) -> FiniteMDP:
    env = SimpleNamespace(P=table, initial_state_distrib=[1.0, 0.0])
    return FiniteMDP.from_toy_text(SimpleNamespace(unwrapped=env))


def test_toy_text_merges_duplicates_and_refuses_contradictions() -> None:
    end = {0: [(1.0, 1, 0.0, True)]}
    merged = toy({0: {0: [(0.25, 1, 2.0, True), (0.5, 0, 0.0, False), (0.25, 1, 2.0, True)]}, 1: end}).outcomes
    assert merged.probabilities.tolist() == [0.5, 0.5]
    assert merged.rewards.tolist() == [0.0, 2.0]
    with pytest.raises(SettingError, match=r"from state 0 to state 1 pays 2.0 or 3.0"):
        toy({0: {0: [(0.5, 1, 2.0, True), (0.5, 1, 3.0, True)]}, 1: end})
    with pytest.raises(SettingError, match="state 1 ends the episode on some transitions and not on others"):
        toy({0: {0: [(0.5, 1, 2.0, True), (0.5, 1, 2.0, False)]}, 1: end})
    with pytest.raises(SettingError, match="has no transition table"):
        FiniteMDP.from_toy_text(gymnasium.make("CartPole-v1"))


FAIR = [[[0.5, 0.5], [0.5, 0.5]]]


@pytest.mark.parametrize(
    ("error", "message", "arguments"),
    [
        (ShapeError, "shape", ([[0.5, 0.5]], [0, 0], 0)),
        (ShapeError, "empty", (np.zeros((0, 2, 2)), [0, 0], 0)),
        (ShapeError, "empty", (np.zeros((1, 0, 0)), [0, 0], 0)),
        (ShapeError, r"action 0 has shape \(2, 3\)", (np.ones((1, 2, 3)), [0, 0], 0)),
        (ShapeError, r"action 1 has shape \(3, 3\)", ([sparse.eye(2), sparse.eye(3)], [0, 0], 0)),
        (SettingError, "action 0 in state 1 sum to 0.9", ([[[0.5, 0.5], [0.5, 0.4]]], [0, 0], 0)),
        (SettingError, "action 0 in state 1 sum to 0,", ([[[0.5, 0.5], [0, 0]]], [0, 0], 0)),
        (SettingError, "state 1 to state 0 with probability -0.5", ([[[0.5, 0.5], [-0.5, 1.5]]], [0, 0], 0)),
        (SettingError, "probability nan", ([[[0.5, np.nan], [0.5, 0.5]]], [0, 0], 0)),
        (ShapeError, "reward has shape", (FAIR, [0, 0, 0], 0)),
        (ShapeError, "reward has", (FAIR, [sparse.eye(2), sparse.eye(2)], 0)),
        (SettingError, "from state 0 to state 1 pays inf", (FAIR, [0, np.inf], 0)),
        (SettingError, "initial is state 2", (FAIR, [0, 0], 2)),
        (ShapeError, "initial has shape", (FAIR, [0, 0], [1.0])),
        (ShapeError, "initial has shape", (FAIR, [0, 0], 0.5)),
        (SettingError, "sum to 0.9", (FAIR, [0, 0], [0.5, 0.4])),
        (SettingError, "state 1 has probability -1", (FAIR, [0, 0], [2, -1])),
        (SettingError, "state 0 has probability nan", (FAIR, [0, 0], [np.nan, 1])),
        (SettingError, "state 1 is terminal", (FAIR, [0, 0], [0.5, 0.5], [1])),
        (SettingError, "terminal names state 2", (FAIR, [0, 0], 0, [2])),
        (SettingError, "terminal names state -1", (FAIR, [0, 0], 0, [-1])),
        (ShapeError, "terminal is a mask", (FAIR, [0, 0], 0, [False, True, False])),
        (ShapeError, "terminal is", (FAIR, [0, 0], 0, [0.5])),
    ],
)
def test_an_mdp_that_cannot_be_built(error: type[InferlError], message: str, arguments: tuple[Any, ...]) -> None:
    with pytest.raises(error, match=message):
        FiniteMDP(*arguments)


def test_bad_policies_features_and_discounts() -> None:
    mdp = FiniteMDP(FAIR, [0, 1], 0)
    with pytest.raises(ShapeError, match=r"policy has shape \(2, 2\); give \(states, actions\) = \(2, 1\)"):
        mdp.values(np.full((2, 2), 0.5), 0.9)
    for row in (0.9, -1.0, np.nan):
        with pytest.raises(SettingError, match="action probabilities in state 1"):
            mdp.stationary([[1.0], [row]])
    with pytest.raises(SettingError, match="behaviour: the action probabilities in state 0"):
        mdp.fixed_point(np.eye(2), np.ones((2, 1)), np.zeros((2, 1)), 0.9)
    for discount in (-0.1, 1.1, np.nan):
        for call in (mdp.values, mdp.action_values, lambda p, g: mdp.fixed_point(np.eye(2), p, None, g)):
            with pytest.raises(DataError, match="discount is"):
                call(np.ones((2, 1)), discount)
    for features in (np.eye(3), np.ones(2), np.ones((2, 0))):
        with pytest.raises(ShapeError, match="features has shape"):
            mdp.fixed_point(features, np.ones((2, 1)), None, 0.9)
    with pytest.raises(DataError, match="feature 0 of state 1 is nan"):
        mdp.fixed_point([[1.0], [np.nan]], np.ones((2, 1)), None, 0.9)


# MSPBE and NEU.


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("off_policy", [False, True])
def test_against_enumeration_and_the_definitions(seed: int, off_policy: bool) -> None:
    """NEU is the squared norm of E[rho delta phi]; the MSPBE is a distance from a projection."""
    problem, discount = dense(seed), 0.9
    acting = problem.behaviour if off_policy else problem.target
    law = problem.mdp.stationary(acting)
    theta = np.random.default_rng(seed).normal(size=2)
    exact = problem.mdp.objectives(problem.features, problem.target, acting, discount)
    phi = np.where(problem.terminal[:, None], 0.0, problem.features)
    values, live = phi @ theta, np.flatnonzero(~problem.terminal)
    update, backup = np.zeros(2), np.zeros(len(values))
    for s, a, after, chance in steps(problem):
        gain = problem.reward[a, s, after] + discount * values[after]
        ratio = problem.target[s, a] / acting[s, a]
        update += law[s] * acting[s, a] * chance * ratio * (gain - values[s]) * phi[s]
        backup[s] += problem.target[s, a] * chance * gain
    root = np.sqrt(law[live])
    fitted = np.linalg.lstsq(root[:, None] * phi[live], root * backup[live])[0]
    distance = phi[live] @ (fitted - theta)
    assert exact.neu(theta) == pytest.approx(update @ update, rel=1e-12)
    assert exact.mspbe(theta) == pytest.approx(law[live] @ distance**2, rel=1e-12)
    solution = problem.mdp.fixed_point(problem.features, problem.target, acting, discount)
    np.testing.assert_allclose(np.array([exact.neu(solution), exact.mspbe(solution)]), 0.0, atol=1e-24)
    both = np.array([exact.mspbe(theta), 0.0])
    np.testing.assert_allclose(exact.mspbe(np.stack([theta, solution])), both, rtol=1e-12, atol=1e-24)


def test_a_log_against_plain_loops_and_in_chunks() -> None:
    problem = dense(1)
    path = problem.mdp.sample(problem.behaviour, 500, seed=3)
    data = path.transitions(0.9, problem.features, path.ratios(problem.target, problem.behaviour))
    theta = np.array([0.3, -0.2])
    update, moments = np.zeros(2), np.zeros((2, 2))
    for t in range(500):
        phi, after = data.features[t], data.next_features[t]
        delta = data.rewards[t] + data.discounts[t] * after @ theta - phi @ theta
        update += data.ratios[t] * delta * phi / 500
        moments += np.outer(phi, phi) / 500
    whole = Objectives.of(data)
    assert whole.n == 500
    assert whole.neu(theta) == pytest.approx(update @ update, rel=1e-12)
    assert whole.mspbe(theta) == pytest.approx(update @ np.linalg.solve(moments, update), rel=1e-12)
    parts = Objectives.of(data[k : k + 7] for k in range(0, 500, 7))
    for name in ("neu", "mspbe"):
        assert getattr(parts, name)(theta) == pytest.approx(getattr(whole, name)(theta), rel=1e-12)


def test_a_table_is_its_unit_vectors() -> None:
    problem = dense(2)
    path = problem.mdp.sample(problem.target, 300, seed=1)
    theta = np.arange(6.0)
    table = Objectives.of(path.transitions(0.9), 6)
    vectors = Objectives.of(path.transitions(0.9, np.eye(6)))
    assert table.mspbe(theta) == vectors.mspbe(theta)  # terminal states are never left: their moments are 0


def test_a_long_log_shows_what_is_exact_and_is_minimised_by_least_squares() -> None:
    mdp, features, target, behaviour, _, discount = random_mdp(seed=0)
    path = mdp.sample(behaviour, 200_000, seed=2)
    data = path.transitions(discount, features, path.ratios(target, behaviour))
    exact, shown = mdp.objectives(features, target, behaviour, discount), Objectives.of(data)
    assert shown.mspbe(np.zeros(10)) == pytest.approx(float(exact.mspbe(np.zeros(10))), rel=0.05)
    assert shown.neu(np.zeros(10)) == pytest.approx(float(exact.neu(np.zeros(10))), rel=0.05)
    theta = inferl.Evaluator(inferl.TD(10)).update(data).estimate(np.eye(10))
    assert shown.mspbe(theta) < 1e-12 * shown.mspbe(np.zeros(10))
    assert exact.mspbe(theta) < 1e-2 * exact.mspbe(np.zeros(10))


def test_objectives_that_have_no_meaning_are_refused() -> None:
    data = Transitions(np.ones((3, 1)), np.ones(3), np.ones((3, 1)), 0.9)
    with pytest.raises(ShapeError, match="theta has shape"):
        Objectives.of(data).neu([1.0, 2.0])
    with pytest.raises(ShapeError, match="n_features"):
        Objectives.of(Transitions([0], [1.0], [0], 0.9))
    with pytest.raises(ShapeError, match="columns of ratios"):
        Objectives.of(Transitions(np.ones((1, 1)), [1.0], np.ones((1, 1)), 0.9, np.ones((1, 2))))
    with pytest.raises(DataError, match="no transitions"):
        Objectives.of([])
    with pytest.raises(DataError, match="no transitions"):
        Objectives.of(data[:0])
    exact = dense(0).mdp.objectives(dense(0).features, dense(0).target)
    with pytest.raises(ShapeError, match="added"):
        exact.plus(Objectives.of(data))
