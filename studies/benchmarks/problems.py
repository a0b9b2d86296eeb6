"""Streams of random transitions, in the shapes that users have."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from inferl.data.arrays import Floats
from inferl.data.transitions import Transitions
from inferl.methods.step_sizes import Polynomial

__all__ = ["STEP_SIZE", "Problem", "dense_problem", "one_hot_problem"]

STEP_SIZE = Polynomial(1.0)
DISCOUNT = 0.9


@dataclass(frozen=True, eq=False)
class Problem:
    """T transitions, with the features written out for those who cannot use row numbers."""

    transitions: Transitions
    phi: Floats  # (T, p)
    phi_next: Floats  # (T, p)

    def __len__(self) -> int:
        return len(self.phi)

    @property
    def p(self) -> int:
        """Number of features."""
        return int(self.phi.shape[1])

    @property
    def step_size(self) -> Floats:
        """Step size alpha_t, (T,)."""
        return STEP_SIZE(np.arange(1, len(self) + 1), np.add.reduce(self.phi * self.phi, axis=1))

    @property
    def fraction(self) -> Floats:
        """How far the average moves towards each iterate when weights grow like t: 2 / (t + 1), (T,)."""
        return 2.0 / np.arange(2, len(self) + 2)

    def first(self, n: int) -> Problem:
        """Cut off all but the first n transitions."""
        return Problem(self.transitions[:n], self.phi[:n], self.phi_next[:n])


def dense_problem(n: int, p: int) -> Problem:
    """Random features of length about 1."""
    rng = np.random.default_rng(0)
    phi = rng.normal(size=(n + 1, p)) / np.sqrt(p)
    return Problem(Transitions(phi[:-1], rng.normal(size=n), phi[1:], DISCOUNT), phi[:-1], phi[1:])


def one_hot_problem(n: int, p: int, written_out: int) -> Problem:
    """Random states of a table; the first few transitions are written out as unit vectors too."""
    rng = np.random.default_rng(0)
    state, reward = rng.integers(p, size=n + 1), rng.normal(size=n)
    unit = np.eye(p)
    few = min(written_out, n)
    return Problem(Transitions(state[:-1], reward, state[1:], DISCOUNT), unit[state[:few]], unit[state[1 : few + 1]])
