"""A simulated path through a finite MDP, and the simulation itself."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from inferl.data.transitions import Transitions
from inferl.environments.outcomes import Outcomes
from inferl.errors import DataError, ShapeError

__all__ = ["Trajectory", "simulate"]

Seed: TypeAlias = int | Sequence[int] | np.random.SeedSequence

CHUNK = 1 << 14  # the uniforms of one chunk, as Python floats, stay in the cache


@dataclass(frozen=True, eq=False)
class Trajectory:
    """Steps of one path through a finite MDP, episode after episode.

    ``next_states[t]`` is the true successor, also if it is terminal. The row after the end of an episode starts a new
    one, so ``states[t + 1] == next_states[t]`` wherever neither ``terminated[t]`` nor ``truncated[t]``.

    Examples
    --------
    >>> import numpy as np
    >>> from inferl.environments import random_walk
    >>> mdp, features = random_walk(3)
    >>> path = mdp.sample(np.ones((5, 1)), n=6, seed=0)
    >>> path.states.tolist(), path.next_states.tolist()
    ([2, 1, 2, 3, 2, 3], [1, 0, 3, 4, 3, 4])
    >>> path.terminated.tolist()
    [False, True, False, True, False, True]
    """

    states: NDArray[np.int64]  # (n,)
    actions: NDArray[np.int64]  # (n,)
    rewards: NDArray[np.float64]  # (n,)
    next_states: NDArray[np.int64]  # (n,)
    terminated: NDArray[np.bool_]  # (n,)
    truncated: NDArray[np.bool_] | None = None  # (n,) where an episode was truncated; None: nowhere

    def __len__(self) -> int:
        return int(self.states.size)

    def transitions(
        self, discount: float, features: ArrayLike | None = None, ratios: float | NDArray[np.float64] = 1.0
    ) -> Transitions:
        """The path as data for an evaluator: g_{t+1} = discount, or 0 where the episode terminated.

        A truncated episode keeps its discount, and its last step is marked by `last`.

        Parameters
        ----------
        discount
            In [0, 1].
        features
            (S, d), row s the features of state s; None: tabular, the states themselves.
        ratios
            Importance ratios, as :meth:`ratios` gives them.

        Examples
        --------
        >>> import numpy as np
        >>> from inferl.environments import random_walk
        >>> mdp, features = random_walk(3)
        >>> path = mdp.sample(np.ones((5, 1)), n=6, seed=0)
        >>> path.transitions(0.9).discounts.tolist()
        [0.9, 0.0, 0.9, 0.0, 0.9, 0.0]
        >>> path.transitions(0.9, features).features.shape
        (6, 3)
        """
        discounts = np.where(self.terminated, 0.0, discount)
        last = (discounts == 0) if self.truncated is None else (discounts == 0) | self.truncated
        if features is None:
            return Transitions(self.states, self.rewards, self.next_states, discounts, ratios=ratios, last=last)
        phi = np.asarray(features, dtype=np.float64)
        largest = max(int(self.states.max()), int(self.next_states.max()))
        if phi.ndim != 2 or phi.shape[0] <= largest:
            raise ShapeError(
                f"features has shape {phi.shape}; give one row per state, and the path visits state {largest}"
            )
        return Transitions(phi[self.states], self.rewards, phi[self.next_states], discounts, ratios=ratios, last=last)

    def ratios(self, target: ArrayLike, behaviour: ArrayLike) -> NDArray[np.float64]:
        """Importance ratios rho_t = target(a_t given s_t) / behaviour(a_t given s_t).

        Parameters
        ----------
        target, behaviour
            (S, A) probabilities; the path was sampled from ``behaviour``.

        Examples
        --------
        >>> import numpy as np
        >>> from inferl.environments import random_mdp
        >>> problem = random_mdp(seed=0)
        >>> path = problem.mdp.sample(problem.behaviour, n=10_000, seed=0)
        >>> print(f"{path.ratios(problem.target, problem.behaviour).mean():.1f}")
        1.0
        """
        above = np.asarray(target, dtype=np.float64)
        below = np.asarray(behaviour, dtype=np.float64)
        if above.ndim != 2 or above.shape != below.shape:
            raise ShapeError(f"target {above.shape} and behaviour {below.shape} must both be (states, actions)")
        taken = below[self.states, self.actions]
        for row in np.flatnonzero(~(taken > 0))[:1]:
            raise DataError(
                f"row {row} takes action {self.actions[row]} in state {self.states[row]}, which has probability "
                f"{taken[row]} under behaviour; give the policy that the path was sampled from"
            )
        return np.asarray(above[self.states, self.actions] / taken)


def simulate(
    outcomes: Outcomes,
    weights: NDArray[np.float64],
    initial: NDArray[np.float64],
    terminal: NDArray[np.bool_],
    n: int,
    seed: Seed,
    start: int | None,
) -> Trajectory:
    """Draw n steps by inversion: one uniform per step selects among the outcomes of the current state.

    ``weights[k]`` is the probability of row k of ``outcomes`` given its state, including the policy. A restart is
    simulated as a step out of a terminal state and dropped from the path afterwards, so the loop has no branch.
    """
    # One extra state, "outside": an episode has ended, or none has begun. Its outcomes are the starts.
    outside = terminal.size
    possible = np.flatnonzero(weights)
    starts = np.flatnonzero(initial)
    owner = np.concatenate([outcomes.states[possible], np.full(starts.size, outside)])
    chances = np.concatenate([weights[possible], initial[starts]])
    after = np.where(terminal, outside, np.arange(outside))
    leads_to = np.concatenate([after[outcomes.next_states[possible]], starts, [outside if start is None else start]])

    begin = np.searchsorted(owner, np.arange(outside + 1))
    end = np.searchsorted(owner, np.arange(outside + 1), side="right")
    # The last cut point, 1 up to rounding, is left out: the last outcome gets the remainder.
    cuts = [np.cumsum(chances[i : max(i, j - 1)]).tolist() for i, j in zip(begin, end, strict=True)]
    first: list[int] = begin[leads_to].tolist()
    bounds: list[list[float]] = [cuts[state] for state in leads_to]

    generator = np.random.default_rng(seed)
    row = len(first) - 1
    path = np.empty(n, dtype=np.int64)
    filled = 0
    while filled < n:
        uniforms = generator.random(min(n - filled, CHUNK)).tolist()
        rows = np.array([row := first[row] + bisect_right(bounds[row], uniform) for uniform in uniforms])
        steps = rows[rows < possible.size]
        path[filled : filled + steps.size] = steps
        filled += steps.size

    taken = possible[path]
    next_states = outcomes.next_states[taken]
    return Trajectory(
        states=outcomes.states[taken],
        actions=outcomes.actions[taken],
        rewards=outcomes.rewards[taken],
        next_states=next_states,
        terminated=terminal[next_states],
    )
