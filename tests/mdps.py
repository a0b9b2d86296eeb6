"""Small problems with exact answers, for tests."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from inferl.data.arrays import Floats
from inferl.data.transitions import Transitions
from inferl.environments import FiniteMDP


@dataclass(frozen=True)
class Problem:
    """An episodic off-policy problem: 4 states, the last terminal, 2 actions, 2 features."""

    mdp: FiniteMDP
    features: Floats  # (4, 2)
    target: Floats  # (4, 2)
    behaviour: Floats  # (4, 2)
    discount: float

    def sample(self, n: int, seed: int, tabular: bool = False) -> Transitions:
        path = self.mdp.sample(self.behaviour, n, seed=seed)
        features = None if tabular else self.features
        return path.transitions(self.discount, features, path.ratios(self.target, self.behaviour))


def small_problem() -> Problem:
    rng = np.random.default_rng(7)
    transition = rng.dirichlet(np.ones(4), size=(2, 4))
    reward = rng.normal(size=(2, 4, 4))
    target, behaviour = rng.dirichlet(np.ones(2) * 3, size=4), rng.dirichlet(np.ones(2) * 3, size=4)
    return Problem(
        FiniteMDP(transition, reward, np.array([0.5, 0.3, 0.2, 0.0]), [3]),
        rng.normal(size=(4, 2)),
        target,
        0.5 * behaviour + 0.25,
        0.8,
    )
