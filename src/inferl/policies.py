"""Policies: a policy draws an action, from an observation and a generator."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from inferl.errors import DataError, ShapeError
from inferl.rows import Floats

__all__ = ["Deterministic", "Policy", "Table", "as_policy"]

Policy = Callable[[Any, np.random.Generator], Any]

TOLERANCE = 1e-9  # on the sum of a row of probabilities


@dataclass(frozen=True, eq=False, repr=False)
class Table:
    """A policy from a table of probabilities: row s is the law of the action in state s.

    Parameters
    ----------
    probabilities
        (states, actions).

    Examples
    --------
    >>> policy = Table([[0.5, 0.5], [0.0, 1.0]])
    >>> policy
    Table(2 states, 2 actions)
    >>> policy(1, np.random.default_rng(0))
    1
    """

    probabilities: Floats  # (S, A)
    _cuts: list[list[float]] = field(init=False)  # [0, 1) is cut into one piece an action; lists are quick to search

    def __init__(self, probabilities: ArrayLike) -> None:
        try:
            table = np.array(probabilities, dtype=np.float64)
        except (TypeError, ValueError):
            raise ShapeError("a policy is a table (states, actions) of probabilities, or a function") from None
        if table.ndim != 2 or table.size == 0:
            raise ShapeError(f"a policy's table has shape (states, actions), not {table.shape}")
        sums = table.sum(axis=1)
        for state in np.flatnonzero(~((table >= 0).all(axis=1) & (np.abs(sums - 1) <= TOLERANCE)))[:1]:
            raise DataError(
                f"row {state} of the policy is no distribution: its sum is {sums[state]:g}, its smallest entry "
                f"{table[state].min():g}; entries are probabilities that add up to 1"
            )
        cumulated = np.cumsum(table, axis=1)
        object.__setattr__(self, "probabilities", table)
        # Divided by the total, so that rounding gives no piece to a last action of probability 0.
        object.__setattr__(self, "_cuts", (cumulated / cumulated[:, -1:])[:, :-1].tolist())

    def __repr__(self) -> str:
        return f"Table({len(self._cuts)} states, {self.probabilities.shape[1]} actions)"

    def __call__(self, observation: Any, generator: np.random.Generator) -> int:
        """Draw an action."""
        if not 0 <= observation < len(self._cuts):
            raise DataError(
                f"observation {observation} has no row in the policy, whose rows are 0 to {len(self._cuts) - 1}"
            )
        return bisect_right(self._cuts[observation], generator.random())


@dataclass(frozen=True)
class Deterministic:
    """A policy from a function of the observation; what is random in it is its own affair.

    Examples
    --------
    >>> policy = Deterministic(lambda observation: observation % 4)
    >>> policy(7, np.random.default_rng(0))
    3
    """

    function: Callable[[Any], Any]

    def __call__(self, observation: Any, generator: np.random.Generator) -> Any:
        """Ask the function."""
        return self.function(observation)


def as_policy(policy: ArrayLike | Callable[..., Any]) -> Policy:
    """Turn a table of probabilities (states, actions), or a function from an observation to an action, into a policy.

    >>> as_policy([[0.5, 0.5]])
    Table(1 states, 2 actions)
    """
    if isinstance(policy, Table | Deterministic):
        return policy
    return Deterministic(policy) if callable(policy) else Table(policy)
