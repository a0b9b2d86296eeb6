"""The interface of a policy: a function of an observation and a uniform number.

All randomness is one number in [0, 1) per step. So a policy holds no generator, acts on a batch exactly as on each
observation alone, and one seed determines a whole rollout.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from inferl.data.arrays import Floats, as_array, as_floats
from inferl.data.batches import rows, stacked
from inferl.errors import DataError, SettingError, ShapeError

__all__ = ["Policy", "chosen", "cuts", "distributions", "draw", "one_hot_law"]

TABLE_TOLERANCE = 1e-9  # on the sum of a row of probabilities
NETWORK_TOLERANCE = 1e-4  # the same for the output of a function, possibly in single precision


class Policy(ABC):
    """Base of all policies: `batch` acts on several observations at once.

    >>> class Coin(Policy):  # heads above one half
    ...     def batch(self, observations, uniforms):
    ...         return (uniforms > 0.5).astype(int)
    >>> int(Coin()(observation=0, uniform=0.7))
    1
    """

    deterministic: bool = False  # whether the action is a function of the observation: the uniform number is not used

    @abstractmethod
    def batch(self, observations: Any, uniforms: Floats) -> Any:
        """Choose an action for each of n observations, from n uniform numbers in [0, 1)."""

    def __call__(self, observation: Any, uniform: float) -> Any:
        """Choose an action for one observation."""
        return rows(self.batch(stacked([observation]), np.array([uniform])), 0)

    def probabilities(self, observations: Any) -> Floats:
        """Return the probabilities of all actions for each of n observations, (n, actions)."""
        raise SettingError(
            f"{self} has no probabilities; give a table or Probabilities(function), or, if the action is a function of "
            "the observation, epsilon_greedy(policy, 0.0, n_actions)"
        )


def draw(probabilities: Floats, uniforms: Floats) -> Any:
    """Draw one action per row, by inversion of the distribution function.

    >>> draw(np.array([[0.5, 0.5], [0.0, 1.0]]), np.array([0.2, 0.2]))
    array([0, 1])
    """
    if len(probabilities) != len(uniforms):
        raise ShapeError(f"there are probabilities for {len(probabilities)} observations, not {len(uniforms)}")
    return np.sum(cuts(probabilities) <= uniforms[:, None], axis=1)


def cuts(probabilities: Floats) -> Floats:
    """Divide [0, 1) into one piece per action: the inner cut points, (n, actions - 1)."""
    cumulated = np.cumsum(probabilities, axis=1)
    # Divided by the total, so that rounding gives no piece to a last action of probability 0.
    return (cumulated / cumulated[:, -1:])[:, :-1]


def distributions(values: ArrayLike, tolerance: float, what: str) -> Floats:
    """Validate that rows are distributions, (n, actions)."""
    table = as_floats(what, values)
    if table.ndim != 2 or table.size == 0:
        raise ShapeError(f"{what} has shape {table.shape}; expected probabilities (n, actions)")
    sums = table.sum(axis=1)
    for row in np.flatnonzero(~((table >= 0).all(axis=1) & (np.abs(sums - 1) <= tolerance)))[:1]:
        raise DataError(
            f"row {row} of {what} is not a distribution: its sum is {sums[row]:g}, its smallest entry "
            f"{table[row].min():g}; give probabilities that add up to 1"
        )
    return table


def one_hot_law(actions: Any, n_actions: int) -> Floats:
    """Return distributions with probability 1 on one action each, (n, actions).

    >>> one_hot_law([1], 3)
    array([[0., 1., 0.]])
    """
    law: Floats = np.eye(n_actions)[chosen(actions, n_actions)]
    return law


def chosen(actions: Any, n_actions: int) -> Any:
    """Validate that actions are action numbers, (n,)."""
    array = as_array("actions", actions)
    if array.ndim != 1 or not np.issubdtype(array.dtype, np.integer):
        raise DataError(
            f"actions of type {array.dtype} and shape {array.shape} have no probabilities; "
            "expected action numbers: integers (n,)"
        )
    for action in array[(array < 0) | (array >= n_actions)][:1]:
        raise DataError(f"action {action} is outside 0 to {n_actions - 1}; check n_actions")
    return array
