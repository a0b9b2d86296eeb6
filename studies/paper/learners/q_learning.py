"""Q-learning in a table: a near-optimal policy from experience alone."""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from inferl.data.arrays import Floats
from inferl.environments import FiniteMDP
from inferl.errors import SettingError

__all__ = ["Learned", "q_learning"]

CHUNK = 1 << 14  # uniforms drawn at once


class Learned(NamedTuple):
    """What Q-learning found."""

    policy: Floats  # (S, A) one-hot rows: the best action by the learned values
    action_values: Floats  # (S, A)


def q_learning(
    mdp: FiniteMDP,
    discount: float,
    n_steps: int = 1_000_000,
    seed: int = 0,
    exploration: float = 0.1,
    optimism: float = 1.0,
    memory: float = 100.0,
) -> Learned:
    r"""Learn a policy by walking through an MDP whose transitions are not looked at, only drawn.

    .. math:: Q(s, a) \leftarrow Q(s, a) + \frac{m + 1}{m + N(s, a)} \big(r + g \max_{a'} Q(s', a') - Q(s, a)\big)

    N(s, a) counts visits, m is `memory`. Values start at `optimism`, so that what has not been tried looks good and a
    distant reward is found.

    Parameters
    ----------
    mdp
        Where to walk; for an environment of Gymnasium's toy-text, `FiniteMDP.from_toy_text`.
    discount
        In [0, 1).
    n_steps
        Length of the walk, episode after episode.
    seed
        Anything :func:`numpy.random.default_rng` takes.
    exploration
        Probability of an action at random.
    optimism
        First value of everything; at least as much as any state is worth.
    memory
        About 1 / (1 - discount): how slowly early, wrong values are forgotten.

    Examples
    --------
    Two states; action 1 changes the state, and being in state 1 pays.

    >>> mdp = FiniteMDP(transition=[[[1, 0], [0, 1]], [[0, 1], [1, 0]]], reward=[0, 1], initial=0)
    >>> q_learning(mdp, discount=0.9, n_steps=5000, optimism=10.0).policy.tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    if not 0 <= discount < 1:
        raise SettingError(f"discount is {discount}; Q-learning needs one in [0, 1)")
    if n_steps < 1 or not 0 <= exploration <= 1 or memory < 0:
        raise SettingError(
            f"n_steps is {n_steps}, exploration {exploration}, memory {memory}; they must be at least 1, in [0, 1], "
            "and at least 0"
        )
    bounds, successors, rewards = _outcomes(mdp)
    starts = np.flatnonzero(mdp.initial)
    start_bounds = np.cumsum(mdp.initial[starts])[:-1].tolist()
    terminal: list[bool] = mdp.terminal.tolist()
    n_actions = mdp.n_actions
    values = np.where(mdp.terminal[:, None], 0.0, np.full((mdp.n_states, n_actions), optimism)).tolist()
    visits = [[0] * n_actions for _ in range(mdp.n_states)]
    generator = np.random.default_rng(seed)
    state = -1  # no episode is under way
    for begin in range(0, n_steps, CHUNK):
        for choice, luck, restart in generator.random((min(CHUNK, n_steps - begin), 3)).tolist():
            if state < 0:
                state = int(starts[bisect_right(start_bounds, restart)])
            row = values[state]
            action = int(choice / exploration * n_actions) if choice < exploration else row.index(max(row))
            outcome = bisect_right(bounds[state][action], luck)
            following = successors[state][action][outcome]
            visits[state][action] = count = visits[state][action] + 1
            worth = rewards[state][action][outcome] + discount * max(values[following])
            row[action] += (memory + 1) / (memory + count) * (worth - row[action])
            state = -1 if terminal[following] else following
    learned = np.array(values)
    return Learned(np.eye(n_actions)[learned.argmax(axis=1)], learned)


def _outcomes(mdp: FiniteMDP) -> tuple[list[list[list[float]]], list[list[list[int]]], list[list[list[float]]]]:
    """Cuts of the unit interval, successors and rewards, by state and action."""
    states, actions, next_states, probabilities, rewards = mdp.outcomes
    pair = states * mdp.n_actions + actions
    order = np.argsort(pair, kind="stable")
    edges = np.searchsorted(pair[order], np.arange(mdp.n_states * mdp.n_actions + 1))
    bounds, successors, paid = [], [], []
    for i, j in pairwise(edges.tolist()):
        rows = order[i:j]
        bounds.append(np.cumsum(probabilities[rows])[: max(j - i - 1, 0)].tolist())
        successors.append(next_states[rows].tolist())
        paid.append(rewards[rows].tolist())
    a = mdp.n_actions
    n = mdp.n_states
    return (
        [bounds[a * s : a * s + a] for s in range(n)],
        [successors[a * s : a * s + a] for s in range(n)],
        [paid[a * s : a * s + a] for s in range(n)],
    )
