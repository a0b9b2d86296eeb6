"""A table of more states than least squares takes, with the exact truth.

From each state the chain goes to one of a few others, by permutations of the states that are drawn once: so all states
are visited equally often. A hidden sign keeps its value for a while and is added to every reward. A state cannot tell
it, so with a correlation the errors of successive steps depend on each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from inferl.data.arrays import Floats, Integers
from inferl.environments import Trajectory

MDP_SEED = 11  # of the permutations and the mean rewards


@dataclass(frozen=True)
class ManyStates:
    """The chain, and the mean of its values over all states, which is what is asked for."""

    n_states: int
    correlation: float
    discount: float = 0.5
    branches: int = 5

    @cached_property
    def successors(self) -> Integers:
        """(S, branches), each column a permutation."""
        generator = np.random.default_rng(MDP_SEED)
        return np.stack([generator.permutation(self.n_states) for _ in range(self.branches)], axis=1)

    @cached_property
    def rewards(self) -> Floats:
        """Mean reward of each state, (S,)."""
        return np.asarray(1.0 + np.random.default_rng([MDP_SEED, 1]).standard_normal(self.n_states))

    @cached_property
    def values(self) -> Floats:
        """V, (S,)."""
        move = np.zeros((self.n_states, self.n_states))
        np.add.at(move, (np.arange(self.n_states)[:, None], self.successors), 1 / self.branches)
        return np.asarray(np.linalg.solve(np.eye(self.n_states) - self.discount * move, self.rewards))

    @property
    def target(self) -> Floats:
        """The mean over all states, (S,)."""
        return np.full(self.n_states, 1 / self.n_states)

    @property
    def truth(self) -> float:
        return float(self.values.mean())

    @property
    def rate(self) -> float:
        """n times the variance of the best estimate of the target in a long stream.

        A^-T c is 1 / (1 - discount) for all states, so that the score is the TD error times this number. TD errors are
        a martingale difference, from the next state, plus the hidden sign.
        """
        errors = (self.rewards + self.discount * self.values[self.successors].T).T - self.values[:, None]
        sign = (1 + self.correlation) / (1 - self.correlation)
        return float((np.mean(errors**2) + sign) / (1 - self.discount) ** 2)

    def path(self, n: int, seed: list[int]) -> Trajectory:
        """n steps from a state drawn at random."""
        generator = np.random.default_rng(seed)
        branch = generator.integers(self.branches, size=n).tolist()
        table = self.successors.tolist()
        states = [int(generator.integers(self.n_states))]
        for choice in branch:
            states.append(table[states[-1]][choice])
        visited = np.array(states)
        changes = np.where(generator.random(n) < (1 - self.correlation) / 2, -1.0, 1.0)
        changes[0] = generator.choice([-1.0, 1.0])
        rewards = self.rewards[visited[:-1]] + np.cumprod(changes)
        none = np.zeros(n, bool)
        return Trajectory(visited[:-1], np.zeros(n, np.int64), rewards, visited[1:], none)
