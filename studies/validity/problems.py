"""The problems of the study: where the truth is exact, from harmless to hard for an interval.

All lengths are in steps. A problem knows its relaxation time, so that lengths of different problems can be compared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import gymnasium as gym
import numpy as np

import inferl
from inferl.algorithms import Algorithm
from inferl.data.arrays import Floats
from inferl.environments import (
    FiniteMDP,
    Trajectory,
    baird,
    boyan_chain,
    garnet,
    random_mdp,
    random_walk,
    ring,
    two_state_chain,
)

MDP_SEED = 7  # of the problems that are drawn at random, once for all


@dataclass(frozen=True, eq=False)
class Problem:
    """A policy to evaluate from the data of another (or the same), and the answer."""

    mdp: FiniteMDP
    target: Floats  # (S, A) the policy that is evaluated
    discount: float
    algorithm: Algorithm
    asked: dict[str, int | list[float]]  # what is asked for, by name
    lengths: tuple[int, ...]
    features: Floats | None = None  # (S, d); None: tabular
    behaviour: Floats | None = None  # the policy that acts; None: the target
    step: float | None = None  # initial step size of the bootstraps; None: 5 over the mean squared length of features
    steps: int = 1  # of the algorithm's windows; the exact variance is known for 1 only

    @property
    def initial(self) -> float:
        if self.step is not None:
            return self.step
        law = self.mdp.stationary(self.acting)
        return 5.0 if self.features is None else 5.0 / float(law @ (self.features**2).sum(axis=1))

    @property
    def walking(self) -> Algorithm:
        """What the bootstraps run: TD need not be stable off-policy."""
        return self.algorithm if self.behaviour is None else inferl.TDC(self.algorithm.dimension)

    @property
    def acting(self) -> Floats:
        return self.target if self.behaviour is None else self.behaviour

    @property
    def rows(self) -> Floats:
        """All targets, (k, d)."""
        return np.array([self.algorithm.state_vector(c) if isinstance(c, int) else c for c in self.asked.values()])

    @property
    def relaxation_time(self) -> float:
        return self.mdp.relaxation_time(self.acting)

    def path(self, n: int, seed: list[int]) -> Trajectory:
        return self.mdp.sample(self.acting, n, seed=seed)

    def ratios(self, path: Trajectory) -> Floats | float:
        return 1.0 if self.behaviour is None else path.ratios(self.target, self.behaviour)

    def data(self, n: int, seed: list[int]) -> inferl.Transitions:
        path = self.path(n, seed)
        return path.transitions(self.discount, self.features, self.ratios(path))

    def solution(self) -> tuple[Floats, Floats | None]:
        """What is true of the targets, and n times the variance of the best estimate of it in a long stream."""
        phi = np.eye(self.mdp.n_states) if self.features is None else self.features
        policies = (self.target, self.behaviour)
        if self.steps > 1:  # the fixed point is the value, which the features hold
            return self.rows @ self.mdp.fixed_point(phi, *policies, self.discount), None
        exact = self.mdp.score_covariance(phi, *policies, self.discount)
        inverse = np.linalg.pinv(exact.matrix, rcond=1e-12)
        influence = self.rows @ inverse
        return self.rows @ exact.fixed_point, np.einsum("kp,pq,kq->k", influence, exact.long_run, influence)


def alone(mdp: FiniteMDP) -> Floats:
    """The only policy of a chain."""
    return np.ones((mdp.n_states, 1))


def lake(n_steps: int = 1) -> Problem:
    mdp = FiniteMDP.from_toy_text(gym.make("FrozenLake-v1", map_name="8x8", is_slippery=True))
    algorithm = inferl.TD(64) if n_steps == 1 else inferl.NStepTD(64, n_steps)
    lengths: tuple[int, ...] = (3_000, 10_000, 30_000, 100_000)
    if n_steps > 1:
        lengths = lengths[:-1]  # open windows make it slow
    asked: dict[str, int | list[float]] = {"V(s0)": 0}
    return Problem(mdp, mdp.optimal_policy(0.99), 0.99, algorithm, asked, lengths, step=100.0, steps=n_steps)


def chain(correlation: float) -> Problem:
    mdp, features = two_state_chain(correlation)
    return Problem(mdp, alone(mdp), 0.5, inferl.TD(1), {"V": [1.0]}, (100, 300, 1_000, 10_000), features)


def around(n_states: int, n_groups: int, laziness: float, lengths: tuple[int, ...]) -> Problem:
    mdp, features = ring(n_states, n_groups, laziness)
    asked: dict[str, int | list[float]] = {
        f"V(group {group})": np.eye(n_groups)[group].tolist() for group in range(0, n_groups, max(n_groups // 4, 1))
    }
    return Problem(mdp, alone(mdp), 0.9, inferl.TD(n_groups), asked, lengths, features)


def walk(n_states: int, n_groups: int | None, lengths: tuple[int, ...]) -> Problem:
    mdp, features = random_walk(n_states, n_groups)
    middle = features[(n_states + 1) // 2].tolist()
    algorithm = inferl.TD(features.shape[1])
    return Problem(mdp, alone(mdp), 1.0, algorithm, {"V(start)": middle}, lengths, features)


def random(kind: str) -> Problem:
    """A random MDP seen through features that hold the value, or do not, or in slow motion."""
    mdp, features, target, behaviour, _, discount = random_mdp(seed=MDP_SEED)
    lengths: tuple[int, ...] = (300, 1_000, 3_000, 10_000)
    algorithm: Algorithm = inferl.TD(10)
    if kind in ("misspecified", "lazy"):
        generator = np.random.default_rng(MDP_SEED)
        transition = generator.dirichlet(np.ones(50), size=(1, 50))
        reward = generator.standard_normal(50)
        if kind == "lazy":
            transition = 0.05 * transition + 0.95 * np.eye(50)
            lengths = (300, 1_000, 3_000, 10_000, 30_000)
        mdp = FiniteMDP(transition, reward, initial=np.full(50, 1 / 50))
        features, target = features[:, :5], alone(mdp)
        algorithm = inferl.TD(5)
    if kind == "off-policy":
        lengths = (1_000, 3_000, 10_000, 30_000)
    asked: dict[str, int | list[float]] = {"V(s0)": features[0].tolist(), "V(start)": features.mean(axis=0).tolist()}
    steps = 5 if kind == "5-step" else 1
    if kind == "tabular":
        return Problem(mdp, target, discount, inferl.TD(50), {"V(s0)": 0}, lengths[1:], step=25.0)
    if steps > 1:
        algorithm = inferl.NStepTD(10, steps)
    acting = behaviour if kind == "off-policy" else None
    return Problem(mdp, target, discount, algorithm, asked, lengths, features, acting, steps=steps)


def garnet_problem() -> Problem:
    mdp, features, policy = garnet(seed=MDP_SEED)
    asked: dict[str, int | list[float]] = {"V(s0)": features[0].tolist(), "V(start)": features.mean(axis=0).tolist()}
    return Problem(mdp, policy, 0.9, inferl.TD(10), asked, (300, 1_000, 3_000, 10_000), features)


def boyan() -> Problem:
    mdp, features = boyan_chain()
    asked: dict[str, int | list[float]] = {"V(start)": features[13].tolist()}
    return Problem(mdp, alone(mdp), 1.0, inferl.TD(4), asked, (300, 1_000, 10_000), features)


def star() -> Problem:
    mdp, features, target, behaviour, _, discount = baird()
    asked: dict[str, int | list[float]] = {"V(s0)": features[0].tolist(), "V(last)": features[6].tolist()}
    return Problem(mdp, target, discount, inferl.TD(8), asked, (1_000, 3_000, 10_000), features, behaviour)


PROBLEMS: dict[str, Callable[[], Problem]] = {
    "FrozenLake": lake,
    "FrozenLake, 5-step": lambda: lake(5),
    "two-state chain -.5": lambda: chain(-0.5),
    "two-state chain 0": lambda: chain(0.0),
    "two-state chain .5": lambda: chain(0.5),
    "two-state chain .8": lambda: chain(0.8),
    "two-state chain .95": lambda: chain(0.95),
    "ring 20/4, lazy": lambda: around(20, 4, 0.5, (1_000, 3_000, 10_000, 30_000, 100_000)),
    "ring 20/4": lambda: around(20, 4, 0.0, (1_000, 3_000, 10_000, 30_000)),
    "ring 60/6, lazy": lambda: around(60, 6, 0.5, (10_000, 30_000, 100_000, 300_000)),
    "ring 60/6": lambda: around(60, 6, 0.0, (3_000, 10_000, 30_000, 100_000)),
    "ring 100/10, lazy": lambda: around(100, 10, 0.5, (10_000, 30_000, 100_000, 300_000)),
    "ring 100/10": lambda: around(100, 10, 0.0, (10_000, 30_000, 100_000, 300_000)),
    "random MDP, linear": lambda: random("linear"),
    "random MDP, tabular": lambda: random("tabular"),
    "random MDP, misspecified": lambda: random("misspecified"),
    "random MDP, lazy": lambda: random("lazy"),
    "random MDP, off-policy": lambda: random("off-policy"),
    "random MDP, 5-step": lambda: random("5-step"),
    "walk 5, tabular": lambda: walk(5, None, (100, 300, 1_000, 10_000)),
    "walk 50/10": lambda: walk(50, 10, (3_000, 10_000, 30_000, 100_000)),
    "Garnet": garnet_problem,
    "Boyan's chain": boyan,
    "Baird's star, off-policy": star,
}


@cache
def problem(name: str) -> Problem:
    """The problem of that name; made once in each process."""
    return PROBLEMS[name]()
