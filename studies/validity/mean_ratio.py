"""False alarms and power of the mean ratio check, with right propensities and with 1 / (number of actions) instead.

Run it with `python -m studies.validity.mean_ratio`; it prints the figures of docs/method.md in about a minute.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from inferl.data.arrays import Floats
from inferl.data.ratios import RatioSummary
from inferl.diagnostics import mean_ratio
from inferl.environments import random_mdp

RUNS = 2000
MDP = random_mdp(seed=5, n_states=12, n_features=4)

Ratios = tuple[Floats, Floats]  # right, and with uniform propensities


def independent(rng: np.random.Generator, n: int) -> Ratios:
    """A bandit of four actions."""
    behaviour, target = np.array([0.1, 0.2, 0.3, 0.4]), np.array([0.4, 0.3, 0.2, 0.1])
    action = rng.choice(4, size=n, p=behaviour)
    return (target / behaviour)[action], (target / 0.25)[action]


def rare(rng: np.random.Generator, n: int) -> Ratios:
    """A bandit; the behaviour takes one of two actions in 1 of 100 steps, the target in 30."""
    behaviour, target = np.array([0.01, 0.99]), np.array([0.3, 0.7])
    action = rng.choice(2, size=n, p=behaviour)
    return (target / behaviour)[action], (target / 0.5)[action]


def slow(rng: np.random.Generator, n: int) -> Ratios:
    """Two states that last 200 steps; both policies depend on the state."""
    state = np.cumsum(rng.random(n) < 1 / 200) % 2
    behaviour, target = np.where(state, 0.9, 0.3), np.where(state, 0.6, 0.5)
    chosen = rng.random(n) < behaviour
    right = np.where(chosen, target / behaviour, (1 - target) / (1 - behaviour))
    return right, np.where(chosen, target, 1 - target) / 0.5


def chain(rng: np.random.Generator, n: int) -> Ratios:
    """The paper's random MDP, with 12 states."""
    path = MDP.mdp.sample(MDP.behaviour, n, seed=int(rng.integers(2**31)))
    uniform = MDP.target[path.states, path.actions] * MDP.target.shape[1]
    return path.ratios(MDP.target, MDP.behaviour), uniform


def users(rng: np.random.Generator, n: int) -> Ratios:
    """One draw decides all 20 visits of a user."""
    chosen = np.repeat(rng.random(-(-n // 20)) < 0.3, 20)[:n]
    return np.where(chosen, 0.6 / 0.3, 0.4 / 0.7), np.where(chosen, 0.6, 0.4) / 0.5


def failed(ratios: Floats) -> bool:
    """Whether the check fails."""
    check = mean_ratio(RatioSummary().updated(ratios, np.ones(len(ratios))))
    return check is not None and check.failed


def main() -> None:
    """Print the share of logs in which the check fails, and in which single steps alone would fail."""
    problems: tuple[Callable[[np.random.Generator, int], Ratios], ...] = (independent, rare, slow, chain, users)
    for problem in problems:
        for n in (300, 3000):
            found = np.zeros(3)
            for seed in range(RUNS):
                right, uniform = problem(np.random.default_rng([seed, n]), n)
                error = right.std() / np.sqrt(n)
                found += failed(right), abs(right.mean() - 1) > 4 * error, failed(uniform)
            alarms, single, power = found / RUNS
            print(f"{problem.__name__:11} {n:5} steps: false alarms {alarms:.4f}, {single:.4f} by single steps; "
                  f"uniform propensities {power:.3f}")  # fmt: skip


if __name__ == "__main__":
    main()
