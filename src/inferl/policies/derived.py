"""Policies built from other policies, and importance ratios of two."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from inferl.data.arrays import Floats, as_count, is_number, short
from inferl.data.batches import count, is_module, rows, stacked
from inferl.errors import DataError, SettingError, ShapeError
from inferl.policies.base import Policy, chosen, one_hot_law
from inferl.policies.models import Predictor
from inferl.policies.simple import Deterministic, Table

__all__ = ["EpsilonGreedy", "Ratio", "as_policy", "epsilon_greedy"]

_BELOW_ONE = np.nextafter(1.0, 0.0)


@dataclass(frozen=True, eq=False)
class EpsilonGreedy(Policy):
    """With probability epsilon a uniformly random action, else that of another policy; built by `epsilon_greedy`.

    A function is assumed to be deterministic: its action has probability 1 - epsilon, plus its share of epsilon, which
    all actions share equally.

    Examples
    --------
    >>> policy = EpsilonGreedy(Deterministic(lambda observation: 2), epsilon=0.4, n_actions=4)
    >>> policy.probabilities(np.array([0, 1])).round(12).tolist()
    [[0.1, 0.1, 0.7, 0.1], [0.1, 0.1, 0.7, 0.1]]
    """

    policy: Policy
    epsilon: float
    n_actions: int

    def __post_init__(self) -> None:
        if not (is_number(self.epsilon) and 0 <= self.epsilon <= 1):
            raise SettingError(f"epsilon is {short(self.epsilon)}; it must be a probability, between 0 and 1")
        as_count("n_actions", self.n_actions, 1)

    def batch(self, observations: Any, uniforms: Floats) -> Any:
        """Choose n actions. A uniform below epsilon is rescaled to draw a random action, others for the policy."""
        actions = np.zeros(len(uniforms), dtype=np.int64)
        explores = uniforms < self.epsilon
        if explores.any():
            rescaled = uniforms[explores] / self.epsilon
            actions[explores] = np.minimum((rescaled * self.n_actions).astype(np.int64), self.n_actions - 1)
        if not explores.all():
            # Rounding must not produce a 1.
            remaining = np.minimum((uniforms[~explores] - self.epsilon) / (1 - self.epsilon), _BELOW_ONE)
            taken = self.policy.batch(rows(observations, ~explores), remaining)
            actions[~explores] = chosen(taken, self.n_actions)
        return actions

    def probabilities(self, observations: Any) -> Floats:
        """Mix the other policy's probabilities with the uniform ones, (n, actions)."""
        policy = self.policy
        if policy.deterministic:
            base = one_hot_law(policy.batch(observations, np.zeros(count(observations))), self.n_actions)
        else:
            base = policy.probabilities(observations)
        return (1 - self.epsilon) * base + self.epsilon / self.n_actions


def epsilon_greedy(policy: Any, epsilon: float, n_actions: int) -> EpsilonGreedy:
    """Make any policy take a random action with probability epsilon.

    Parameters
    ----------
    policy
        Anything that `as_policy` accepts.
    epsilon
        Probability of a random action (which may be the policy's own).
    n_actions
        Number of actions; they are 0 to n_actions - 1.

    Examples
    --------
    >>> epsilon_greedy([[0.0, 1.0]], epsilon=0.5, n_actions=2).probabilities([0])
    array([[0.25, 0.75]])
    """
    return EpsilonGreedy(as_policy(policy), epsilon, n_actions)


@dataclass(frozen=True, eq=False, init=False)
class Ratio:
    """Importance ratios pi(a given s) / b(a given s) of two policies that have probabilities.

    Parameters
    ----------
    target
        pi: the policy that is evaluated.
    behaviour
        b: the policy that generated the data.

    Examples
    --------
    >>> ratio = Ratio(target=[[0.0, 1.0]], behaviour=[[0.5, 0.5]])
    >>> ratio(0, 1), ratio.batch(np.array([0, 0]), np.array([0, 1]))
    (2.0, array([0., 2.]))
    """

    target: Policy
    behaviour: Policy

    def __init__(self, target: Any, behaviour: Any) -> None:
        object.__setattr__(self, "target", as_policy(target))
        object.__setattr__(self, "behaviour", as_policy(behaviour))

    def __call__(self, observation: Any, action: Any) -> float:
        """Return the ratio of one action."""
        return float(self.batch(stacked([observation]), np.array([action]))[0])

    def batch(self, observations: Any, actions: Any) -> Floats:
        """Return the ratios of n actions, (n,)."""
        above, below = self.target.probabilities(observations), self.behaviour.probabilities(observations)
        if above.shape != below.shape:
            raise SettingError(f"target has {above.shape[1]} actions and behaviour {below.shape[1]}; they must agree")
        taken = chosen(actions, below.shape[1])
        if len(taken) != len(below):
            raise ShapeError(f"there are {len(taken)} actions for {len(below)} observations")
        each = np.arange(len(taken))
        for row in np.flatnonzero(below[each, taken] <= 0)[:1]:
            raise DataError(
                f"action {taken[row]} was taken, but has probability 0 under the behaviour policy; "
                "give the policy that generated the data"
            )
        with np.errstate(over="ignore"):
            ratios: Floats = above[each, taken] / below[each, taken]
        for row in np.flatnonzero(ratios == np.inf)[:1]:
            raise DataError(
                f"action {taken[row]} has probability {below[row, taken[row]]} under the behaviour policy, so its "
                "ratio is infinite; check the behaviour probabilities"
            )
        return ratios


def as_policy(policy: ArrayLike | Callable[..., Any] | Any) -> Policy:
    """Convert a table, a function or a model to a policy.

    Parameters
    ----------
    policy
        A policy (returned unchanged); a table of probabilities (states, actions); a function from an observation to an
        action; a model with ``predict(observations, deterministic=...)``, which then takes its best action. A torch
        module must be given as `Logits`, because its outputs may be logits or action values.

    Examples
    --------
    >>> as_policy([[0.5, 0.5]])
    Table(1 states, 2 actions)
    """
    if isinstance(policy, Policy):
        return policy
    if hasattr(policy, "predict"):
        return Predictor(policy)
    if is_module(policy):
        raise SettingError(
            "a torch module is not a policy, because its outputs may be logits or action values; use Logits(module) to "
            "draw from their softmax, or Logits(module, greedy=True) to take the largest"
        )
    return Deterministic(policy) if callable(policy) else Table(policy)
