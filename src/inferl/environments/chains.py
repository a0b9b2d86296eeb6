"""Small chains with one action whose exact values are known: from easy to hard for an interval.

Each function returns ``(mdp, features)``; the only policy is ``numpy.ones((mdp.n_states, 1))``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from inferl.environments.finite import FiniteMDP
from inferl.errors import SettingError

__all__ = ["random_walk", "ring", "two_state_chain"]


def two_state_chain(correlation: float) -> tuple[FiniteMDP, NDArray[np.float64]]:
    """Two states with switching probability (1 - correlation) / 2, reward ±1, one constant feature.

    The smallest example of dependent scores. Entering state 1 pays +1, entering state 0 pays -1, and the scores have
    autocorrelation correlation^k. Their long-run variance is (1 + correlation) / (1 - correlation) times that at lag 0.

    Parameters
    ----------
    correlation
        Of successive states, in (-1, 1).

    Examples
    --------
    >>> mdp, features = two_state_chain(0.8)
    >>> mdp.stationary(np.ones((2, 1))).round(12).tolist(), features.tolist()
    ([0.5, 0.5], [[1.0], [1.0]])
    """
    if not -1 < correlation < 1:
        raise SettingError(f"correlation is {correlation}; it must lie strictly between -1 and 1")
    stay, change = (1 + correlation) / 2, (1 - correlation) / 2
    mdp = FiniteMDP([[[stay, change], [change, stay]]], reward=[-1.0, 1.0], initial=[0.5, 0.5])
    return mdp, np.ones((2, 1))


def ring(n_states: int, n_groups: int, laziness: float = 0.0) -> tuple[FiniteMDP, NDArray[np.float64]]:
    """A walk around a ring with groups of neighbours as features: it mixes slowly, and they cannot express the value.

    The walk stays with probability ``laziness`` and otherwise moves one step either way with equal probability.
    Entering state s pays cos(2 pi s / n_states), and 1 more in state n_states // 4.

    Parameters
    ----------
    n_states
        At least 3.
    n_groups
        Number of features; feature k is 1 on the k-th of n_groups contiguous groups of (nearly) equal size.
    laziness
        In [0, 1).

    Examples
    --------
    >>> mdp, features = ring(20, 4)
    >>> features.sum(axis=0).tolist()
    [5.0, 5.0, 5.0, 5.0]
    """
    if n_states < 3:
        raise SettingError(f"n_states is {n_states}; a ring has at least 3 states")
    if not 0 <= laziness < 1:
        raise SettingError(f"laziness is {laziness}; it must be in [0, 1)")
    state = np.arange(n_states)
    move = np.full(n_states, (1 - laziness) / 2)
    chances = np.concatenate([move, move, np.full(n_states, laziness)])
    successors = np.concatenate([(state + 1) % n_states, (state - 1) % n_states, state])
    transition = sparse.csr_array((chances, (np.tile(state, 3), successors)), shape=(n_states, n_states))
    reward = np.cos(2 * np.pi * state / n_states) + (state == n_states // 4)
    mdp = FiniteMDP([transition], reward, initial=np.full(n_states, 1 / n_states))
    return mdp, _groups(n_states, n_groups)


def random_walk(
    n_states: int, n_groups: int | None = None, reward_per_step: float = -1.0
) -> tuple[FiniteMDP, NDArray[np.float64]]:
    """Episodes of a symmetric walk from the middle of 1, ..., n_states to either end, 0 or n_states + 1.

    Undiscounted, the value of state s is reward_per_step * s * (n_states + 1 - s).

    Parameters
    ----------
    n_states
        Number of states that are not terminal; the MDP has two more.
    n_groups
        Number of features, indicators of contiguous groups; None: one for each state. Terminal states have features 0.
    reward_per_step
        Paid at every step.

    Examples
    --------
    >>> mdp, features = random_walk(5)
    >>> mdp
    FiniteMDP(7 states, 1 action, 2 terminal)
    >>> mdp.values(np.ones((7, 1)), discount=1.0).round(12).tolist()
    [0.0, -5.0, -8.0, -9.0, -8.0, -5.0, 0.0]
    """
    if n_states < 1:
        raise SettingError(f"n_states is {n_states}; a walk has at least 1 state between the ends")
    transition = sparse.diags_array([0.5, 0.5], offsets=[-1, 1], shape=(n_states + 2, n_states + 2)).tocsr()
    reward = np.full(n_states + 2, reward_per_step)
    mdp = FiniteMDP([transition], reward, initial=(n_states + 1) // 2, terminal=[0, n_states + 1])
    features = np.zeros((n_states + 2, n_groups or n_states))
    features[1:-1] = _groups(n_states, n_groups if n_groups is not None else n_states)
    return mdp, features


def _groups(n_states: int, n_groups: int) -> NDArray[np.float64]:
    if not 1 <= n_groups <= n_states:
        raise SettingError(f"n_groups is {n_groups}; give 1 to {n_states} groups for {n_states} states")
    return np.eye(n_groups)[np.arange(n_states) * n_groups // n_states]
