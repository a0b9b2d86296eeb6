"""A random MDP evaluated off-policy, whose value function is linear in the features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from inferl.environments.finite import FiniteMDP
from inferl.errors import SettingError

__all__ = ["RandomProblem", "random_mdp"]


class RandomProblem(NamedTuple):
    """An MDP, two policies and the exact solution: the value of ``target`` is ``features @ theta``.

    >>> problem = random_mdp(seed=0)
    >>> values = problem.mdp.values(problem.target, problem.discount)
    >>> bool(np.allclose(values, problem.features @ problem.theta))
    True
    """

    mdp: FiniteMDP
    features: NDArray[np.float64]  # (S, d)
    target: NDArray[np.float64]  # (S, A)
    behaviour: NDArray[np.float64]  # (S, A)
    theta: NDArray[np.float64]  # (d,)
    discount: float


def random_mdp(
    seed: int | Sequence[int] | np.random.SeedSequence,
    n_states: int = 50,
    n_actions: int = 5,
    n_features: int = 10,
    discount: float = 0.9,
) -> RandomProblem:
    """Draw a random MDP whose target policy has a value linear in the features, V = Phi theta.

    Transition rows are Dirichlet(1). The behaviour is Dirichlet(1) with probabilities of at least .02 before it is
    normalised; the target takes the behaviour's likeliest action with probability .8, else any action at random.
    Features are Gaussian of norm 1, theta is standard normal, and leaving state s pays entry s of
    r = (I - discount P^target) Phi theta, for every action, so the Bellman equation of the *target* holds. (The paper
    builds the reward for the behaviour policy and then evaluates another.) Episodes never end; the initial law is
    uniform.

    Parameters
    ----------
    seed
        Anything :func:`numpy.random.default_rng` takes.
    n_states, n_actions, n_features
        Sizes.
    discount
        In [0, 1).

    Examples
    --------
    >>> problem = random_mdp(seed=0)
    >>> value = problem.mdp.values(problem.target, problem.discount)
    >>> bool(np.allclose(value, problem.features @ problem.theta))
    True
    """
    if min(n_states, n_actions, n_features) < 1:
        raise SettingError(f"{n_states} states, {n_actions} actions, {n_features} features: all must be at least 1")
    if not 0 <= discount < 1:
        raise SettingError(f"discount is {discount}; episodes never end, so it must be in [0, 1)")
    generator = np.random.default_rng(seed)
    transition = generator.dirichlet(np.ones(n_states), size=(n_actions, n_states))
    features = generator.standard_normal((n_states, n_features))
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    theta = generator.standard_normal(n_features)
    behaviour = np.maximum(generator.dirichlet(np.ones(n_actions), size=n_states), 0.02)
    behaviour /= behaviour.sum(axis=1, keepdims=True)
    target = 0.8 * np.eye(n_actions)[behaviour.argmax(axis=1)] + 0.2 / n_actions

    following = np.einsum("sa,ast->st", target, transition)
    reward = features @ theta - discount * (following @ (features @ theta))
    mdp = FiniteMDP(
        transition,
        np.broadcast_to(reward[None, :, None], transition.shape),
        initial=np.full(n_states, 1 / n_states),
    )
    return RandomProblem(mdp, features, target, behaviour, theta, discount)
