"""Policies from tables and functions."""

from __future__ import annotations

import operator
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from inferl.data.arrays import Floats, read, short
from inferl.data.batches import count, rows, stacked
from inferl.errors import DataError
from inferl.policies.base import NETWORK_TOLERANCE, TABLE_TOLERANCE, Policy, cuts, distributions, draw

__all__ = ["Deterministic", "Probabilities", "Table", "Uniform"]


@dataclass(frozen=True, eq=False, repr=False)
class Table(Policy):
    """A policy from a table of probabilities: row s is the distribution of the action in state s.

    Parameters
    ----------
    table
        (states, actions).

    Examples
    --------
    >>> import numpy as np
    >>> policy = Table([[0.5, 0.5], [0.0, 1.0]])
    >>> policy
    Table(2 states, 2 actions)
    >>> policy(1, 0.2), policy.batch(np.array([0, 1]), np.array([0.2, 0.2]))
    (1, array([0, 1]))
    >>> policy.probabilities([1])
    array([[0., 1.]])
    """

    table: Floats  # (S, A)
    _cuts: list[list[float]] = field(init=False)  # for one observation: lists are faster to search than arrays

    def __init__(self, table: ArrayLike) -> None:
        checked = distributions(table, TABLE_TOLERANCE, "the policy")
        object.__setattr__(self, "table", checked)
        object.__setattr__(self, "_cuts", cuts(checked).tolist())

    def __repr__(self) -> str:
        return f"Table({self.table.shape[0]} states, {self.table.shape[1]} actions)"

    def __call__(self, observation: Any, uniform: float) -> int:
        """Draw an action for one state."""
        try:
            state = operator.index(observation)
        except TypeError:
            raise _no_number(observation) from None
        if not 0 <= state < len(self._cuts):
            raise self._unknown(state)
        return bisect_right(self._cuts[state], uniform)

    def batch(self, observations: Any, uniforms: Floats) -> Any:
        """Draw an action for each of n states."""
        return draw(self.probabilities(observations), uniforms)

    def probabilities(self, observations: Any) -> Floats:
        """Return the rows of n states, (n, actions)."""
        states = read("observations", observations)
        if states.ndim != 1 or states.dtype.kind not in "iu":
            raise _no_number(observations)
        for state in states[(states < 0) | (states >= len(self.table))][:1]:
            raise self._unknown(state)
        found: Floats = self.table[states]
        return found

    def _unknown(self, observation: Any) -> DataError:
        return DataError(
            f"observation {short(observation)} has no row in the policy, whose rows are 0 to {len(self._cuts) - 1}"
        )


def _no_number(observation: Any) -> DataError:
    return DataError(f"observation {short(observation)} is not a state number; a table has one row per state number")


@dataclass(frozen=True)
class Probabilities(Policy):
    """A policy from a function that returns the probabilities of all actions.

    Parameters
    ----------
    function
        From an observation to probabilities (actions,).
    batched
        Whether the function takes a batch of observations at once and returns probabilities (n, actions).

    Examples
    --------
    >>> import numpy as np
    >>> policy = Probabilities(lambda pole: [0.9, 0.1] if pole[2] < 0 else [0.1, 0.9])
    >>> policy(np.array([0.0, 0.0, 0.2, 0.0]), 0.5)
    np.int64(1)
    """

    function: Callable[[Any], ArrayLike]
    batched: bool = False

    def batch(self, observations: Any, uniforms: Floats) -> Any:
        """Draw an action for each of n observations."""
        return draw(self._of(observations, len(uniforms)), uniforms)

    def probabilities(self, observations: Any) -> Floats:
        """Evaluate the function, (n, actions)."""
        return self._of(observations, count(observations))

    def _of(self, observations: Any, n: int) -> Floats:
        if self.batched:
            values: Any = self.function(observations)
        else:
            values = [self.function(rows(observations, i)) for i in range(n)]
        found = distributions(values, NETWORK_TOLERANCE, "what the policy's function returned")
        if len(found) != n:
            raise DataError(f"the policy's function returned {len(found)} rows of probabilities for {n} observations")
        return found


@dataclass(frozen=True)
class Uniform(Policy):
    """A policy that draws every action from a space, whatever the observation.

    Parameters
    ----------
    space
        The action space of a Gymnasium environment. It is seeded anew for each action.

    Examples
    --------
    >>> import gymnasium, numpy as np
    >>> policy = Uniform(gymnasium.spaces.Discrete(4))
    >>> policy.batch(np.zeros(2), np.array([0.1, 0.9])), policy.probabilities(np.zeros(1))
    (array([0, 3]), array([[0.25, 0.25, 0.25, 0.25]]))
    >>> Uniform(gymnasium.spaces.Box(-1, 1, (2,)))(0, 0.5).shape
    (2,)
    """

    space: Any

    def batch(self, observations: Any, uniforms: Floats) -> Any:
        """Draw an action for each of n observations."""
        if self._discrete:
            return int(self.space.start) + np.floor(uniforms * int(self.space.n)).astype(np.int64)
        return stacked([self._drawn(float(uniform)) for uniform in uniforms])

    def probabilities(self, observations: Any) -> Floats:
        """Return the same probability for each action of a discrete space, (n, actions)."""
        if not self._discrete or self.space.start != 0:
            return super().probabilities(observations)
        return np.full((count(observations), int(self.space.n)), 1 / int(self.space.n))

    @property
    def _discrete(self) -> bool:
        return hasattr(self.space, "n") and hasattr(self.space, "start")  # MultiBinary has an n, too

    def _drawn(self, uniform: float) -> Any:
        self.space.seed(int(uniform * 2**53))  # all digits of a uniform number, so that they alone decide
        return self.space.sample()


@dataclass(frozen=True)
class Deterministic(Policy):
    """A policy from a function of the observation; the uniform number is not used.

    Parameters
    ----------
    function
        From an observation to an action.
    batched
        Whether the function takes a batch of observations at once and returns as many actions.

    Examples
    --------
    >>> import numpy as np
    >>> policy = Deterministic(lambda observation: observation % 4)
    >>> policy(7, 0.5), policy.batch(np.array([7, 8]), np.zeros(2))
    (3, array([3, 0]))
    """

    function: Callable[[Any], Any]
    batched: bool = False
    deterministic = True

    def __call__(self, observation: Any, uniform: float) -> Any:
        """Evaluate the function for one action."""
        return super().__call__(observation, uniform) if self.batched else self.function(observation)

    def batch(self, observations: Any, uniforms: Floats) -> Any:
        """Evaluate the function for n actions."""
        if not self.batched:
            return stacked([self.function(rows(observations, i)) for i in range(len(uniforms))])
        actions = self.function(observations)
        if count(actions) != len(uniforms):
            raise DataError(
                f"the policy's function returned {count(actions)} actions for {len(uniforms)} observations; "
                "use batched=False for a function of a single observation"
            )
        return actions
