"""Benchmark problems from the literature: Garnet, Boyan's chain, Baird's counterexample, the frozen lake."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from inferl.environments.finite import FiniteMDP
from inferl.environments.random_mdp import RandomProblem
from inferl.errors import SettingError

__all__ = ["baird", "boyan_chain", "frozen_lake", "garnet"]

# S: start, F: ice, H: a hole, G: the goal. The 8x8 map of Gymnasium's FrozenLake.
LAKE = ("SFFFFFFF", "FFFFFFFF", "FFFHFFFF", "FFFFFHFF", "FFFHFFFF", "FHHFFFHF", "FHFFHFHF", "FFFHFFFG")


def boyan_chain() -> tuple[FiniteMDP, NDArray[np.float64]]:
    """Boyan's chain: 14 states, 4 features that interpolate between every fourth state, value -2 x distance.

    From state s > 1 the walk goes one or two states down with equal probability at a reward of -3, from state 1 to
    the terminal state 0 at a reward of -2; episodes begin in state 13. Undiscounted, V(s) = -2 s, which the features
    express exactly.

    Examples
    --------
    >>> mdp, features = boyan_chain()
    >>> mdp.values(np.ones((14, 1)), discount=1.0)[[13, 1]].round(12).tolist()
    [-26.0, -2.0]
    >>> (features @ [-26, -18, -10, -2])[[13, 2, 1]].tolist()
    [-26.0, -4.0, -2.0]
    """
    transition, reward = np.zeros((1, 14, 14)), np.zeros((1, 14, 14))
    for state in range(2, 14):
        transition[0, state, [state - 1, state - 2]] = 0.5
        reward[0, state] = -3.0
    transition[0, 1, 0], reward[0, 1, 0] = 1.0, -2.0
    # States 13, 9, 5 and 1 carry one feature each; the others lie between two of them.
    position = np.clip((13 - np.arange(14)) / 4, 0, 3)
    features = np.maximum(1 - np.abs(position[:, None] - np.arange(4)), 0.0)
    features[0] = 0.0
    return FiniteMDP(transition, reward, initial=13, terminal=[0]), features


def baird(discount: float = 0.9, slip: float = 0.1) -> RandomProblem:
    """Baird's star off-policy, with rewards: 7 states, 8 features, a target that always heads for the last state.

    Action 0 leads to one of the first six states; action 1 to the last one, or with probability ``slip`` as action 0
    does. The behaviour takes action 0 with probability 6/7, the target always takes action 1. Entering state s pays
    (s + 1) / 7. (In Baird's original there is neither reward nor slip, and so no uncertainty.) The TD recursion with
    ratios diverges here. The value is linear in the features; there are more features than states, so theta is not
    unique, and the one of least norm is returned.

    Examples
    --------
    >>> problem = baird()
    >>> problem.mdp.values(problem.target, problem.discount).round(9).tolist()
    [9.5, 9.5, 9.5, 9.5, 9.5, 9.5, 9.5]
    """
    transition = np.zeros((2, 7, 7))
    transition[0, :, :6] = 1 / 6
    transition[1] = slip * transition[0]
    transition[1, :, 6] = 1 - slip
    features = np.zeros((7, 8))
    features[np.arange(6), np.arange(6)] = 2.0
    features[:6, 7] = 1.0
    features[6, [6, 7]] = 1.0, 2.0
    mdp = FiniteMDP(transition, reward=np.arange(1, 8) / 7, initial=np.full(7, 1 / 7))
    target, behaviour = np.tile([0.0, 1.0], (7, 1)), np.tile([6 / 7, 1 / 7], (7, 1))
    theta = np.linalg.pinv(features) @ mdp.values(target, discount)
    return RandomProblem(mdp, features, target, behaviour, theta, discount)


def garnet(
    seed: int | Sequence[int],
    n_states: int = 50,
    n_actions: int = 4,
    branching: int = 3,
    n_features: int = 10,
) -> tuple[FiniteMDP, NDArray[np.float64], NDArray[np.float64]]:
    """A Garnet problem: each action leads to `branching` random states, rewards are normal, features are random bits.

    Returns ``(mdp, features, policy)``; the policy is Dirichlet(1) in each state. The features (one constant, the
    others 0 or 1 with equal probability) cannot express the value, and episodes never end.

    Examples
    --------
    >>> mdp, features, policy = garnet(seed=0)
    >>> mdp, features.shape
    (FiniteMDP(50 states, 4 actions, 0 terminal), (50, 10))
    """
    if not 1 <= branching <= n_states:
        raise SettingError(f"branching is {branching}; an action leads to 1 to {n_states} of {n_states} states")
    generator = np.random.default_rng(seed)
    transition = np.zeros((n_actions, n_states, n_states))
    for action, state in np.ndindex(n_actions, n_states):
        successors = generator.choice(n_states, branching, replace=False)
        transition[action, state, successors] = generator.dirichlet(np.ones(branching))
    reward = np.broadcast_to(generator.standard_normal(n_states)[None, :, None], transition.shape)
    features = generator.integers(2, size=(n_states, n_features)).astype(np.float64)
    features[:, 0] = 1.0
    policy = generator.dirichlet(np.ones(n_actions), size=n_states)
    return FiniteMDP(transition, reward, initial=np.full(n_states, 1 / n_states)), features, policy


def frozen_lake(lake: Sequence[str] = LAKE) -> FiniteMDP:
    """The slippery FrozenLake of Gymnasium, 8x8, without a time limit; Gymnasium need not be installed.

    Actions 0 to 3 are left, down, right and up. One walks in the wanted direction or at a right angle to it, each with
    probability 1/3, and stays in place at the edge. The goal pays 1; the goal and the holes end the episode.

    Parameters
    ----------
    lake
        Rows of the map: S the start, F ice, H a hole, G the goal.

    Examples
    --------
    >>> mdp = frozen_lake()
    >>> mdp
    FiniteMDP(64 states, 4 actions, 11 terminal)
    >>> print(f"{mdp.values(mdp.optimal_policy(0.99), 0.99)[0]:.5f}")
    0.41464
    """
    cells = np.array([list(row) for row in lake])
    rows, columns = np.indices(cells.shape).reshape(2, -1)
    transition = np.zeros((4, cells.size, cells.size))
    for direction, (down, right) in enumerate([(0, -1), (1, 0), (0, 1), (-1, 0)]):
        to_row = np.clip(rows + down, 0, cells.shape[0] - 1)
        to_column = np.clip(columns + right, 0, cells.shape[1] - 1)
        for action in (direction - 1, direction, direction + 1):
            transition[action % 4, np.arange(cells.size), to_row * cells.shape[1] + to_column] += 1 / 3
    kind = cells.ravel()
    start, terminal = np.flatnonzero(kind == "S"), np.flatnonzero((kind == "H") | (kind == "G"))
    return FiniteMDP(transition, reward=kind == "G", initial=int(start[0]), terminal=terminal)
