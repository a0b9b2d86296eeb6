"""Statements about every problem, tried on random ones whose matrices are enumerated: no simulation.

Each repeat draws a small MDP, two policies and features, and compares what the paper or docs/method.md says of their
matrices with the matrices.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from inferl.data.arrays import Floats
from inferl.environments import FiniteMDP
from studies.paper.machinery import Part, Result
from studies.paper.study import Study

__all__ = ["Enumerations", "System", "draw", "run", "tdc_matrix"]

LAGS = 20


@dataclass(frozen=True)
class Enumerations:
    """Settings of the study; fixed before the reported run."""

    seed: int = 70_000
    most_states: int = 8
    most_actions: int = 3
    most_features: int = 4
    discounts: tuple[float, ...] = (0.5, 0.9, 0.99)


class System(NamedTuple):
    """A problem with its matrices; all of them under the behaviour's stationary law."""

    mdp: FiniteMDP
    features: Floats
    target: Floats
    behaviour: Floats
    discount: float
    matrix: Floats  # A
    moments: Floats  # M = E[phi phi']
    law: Floats


def draw(settings: Enumerations, number: int, on_policy: bool = False) -> System:
    """A random problem."""
    random = np.random.default_rng([settings.seed, number])
    n_states, n_actions = (int(random.integers(2, most + 1)) for most in (settings.most_states, settings.most_actions))
    d = int(random.integers(1, min(settings.most_features, n_states - 1) + 1))
    # Sharp transitions and features of unequal size: with smooth ones, hardly any recursion is unstable.
    transition = 0.99 * random.dirichlet(np.full(n_states, 0.1), size=(n_actions, n_states)) + 0.01 / n_states
    reward = random.standard_normal((n_actions, n_states, n_states))
    mdp = FiniteMDP(transition, reward, np.full(n_states, 1 / n_states))
    features = random.standard_normal((n_states, d)) * np.exp(random.standard_normal((n_states, 1)))
    behaviour = 0.1 / n_actions + 0.9 * random.dirichlet(np.ones(n_actions), size=n_states)
    target = behaviour if on_policy else random.dirichlet(np.full(n_actions, 0.1), size=n_states)
    discount = float(random.choice(settings.discounts))
    law = mdp.stationary(behaviour)
    matrix = mdp.score_covariance(features, target, behaviour, discount).matrix
    return System(mdp, features, target, behaviour, discount, matrix, features.T @ (law[:, None] * features), law)


def stable(matrix: Floats) -> bool:
    """Whether theta += alpha (b - matrix theta) converges for small alpha: -matrix is Hurwitz."""
    return bool(np.linalg.eigvals(matrix).real.min() > 0)


def gradient_matrix(system: System, auxiliary_step: float, moments: Floats) -> Floats:
    """Mean matrix of GTD2; with the identity for M, of GTD."""
    a, x = system.matrix, auxiliary_step
    return np.block([[np.zeros_like(a), -a.T], [x * a, x * moments]])


def tdc_matrix(system: System, auxiliary_step: float) -> Floats:
    """Mean matrix of TDC; E[rho g phi' phi_t'] is M - A'."""
    a, m, x = system.matrix, system.moments, auxiliary_step
    return np.block([[a, m - a.T], [x * a, x * m]])


def threshold(system: System) -> float:
    """The auxiliary step above which TDC is known to be stable, or 0."""
    symmetric = (system.matrix + system.matrix.T) / 2
    return max(0.0, float(-np.linalg.eigvals(np.linalg.solve(system.moments, symmetric)).real.min()))


def emphasis(system: System) -> tuple[float, float]:
    """Growth of the second moment of emphatic TD's F a step: the spectral radius, and what the mean ratio says of it.

    F has infinite variance where the radius is above 1.
    """
    states, actions, next_states, probabilities, _ = system.mdp.outcomes
    squares = system.target[states, actions] ** 2 / system.behaviour[states, actions] * system.discount**2
    kernel = np.zeros((system.mdp.n_states, system.mdp.n_states))
    np.add.at(kernel, (states, next_states), squares * probabilities)
    return float(np.abs(np.linalg.eigvals(kernel)).max()), float(system.law @ kernel.sum(axis=1))


def stability_repeat(settings: Enumerations, number: int) -> Result:
    """Which recursions are stable on a problem; TDC above and below its threshold."""
    off, on = draw(settings, number), draw(settings, number, on_policy=True)
    limit = threshold(off)
    share = float(np.random.default_rng([settings.seed, number, 1]).uniform())
    return {
        "TD, on-policy": stable(on.matrix),
        "TD, off-policy": stable(off.matrix),
        "TD, sign as printed": stable(-on.matrix),
        "GTD": stable(gradient_matrix(off, 1.0, np.eye(len(off.matrix)))),
        "GTD2": stable(gradient_matrix(off, 1.0, off.moments)),
        "TDC above": stable(tdc_matrix(off, 1.01 * limit + share)),
        "TDC below": stable(tdc_matrix(off, share * limit)) if limit > 0 else None,
        "emphasis": emphasis(off),
    }


def approximation_repeat(settings: Enumerations, number: int) -> Result:
    """Distance of the fixed point from the value over that of the best fit, in units of 1 / sqrt(1 - discount^2)."""
    found = {}
    for name, on_policy in (("on-policy", True), ("off-policy", False)):
        system = draw(settings, number, on_policy)
        phi, law = system.features, system.law
        theta = system.mdp.fixed_point(phi, system.target, system.behaviour, system.discount)
        value = system.mdp.values(system.target, system.discount)
        best = phi @ np.linalg.solve(system.moments, phi.T @ (law * value))
        distances = [np.sqrt(law @ (values - value) ** 2) for values in (phi @ theta, best)]
        found[name] = float(distances[0] / distances[1] * np.sqrt(1 - system.discount**2))
    return found


def mixing_repeat(settings: Enumerations, number: int) -> Result:
    """Total variation over lags (equation 4.1), and the conditional mean of A over its bound (Lemma S2.2)."""
    system = draw(settings, number)
    states, actions, next_states, probabilities, _ = system.mdp.outcomes
    weights = probabilities * system.behaviour[states, actions]
    kernel = np.zeros((system.mdp.n_states, system.mdp.n_states))
    np.add.at(kernel, (states, next_states), weights)
    phi = system.features
    ratios = system.target[states, actions] / system.behaviour[states, actions]
    single = np.einsum("i,ij,ik->ijk", ratios, phi[states], phi[states] - system.discount * phi[next_states])
    largest = float(np.sqrt((single**2).sum(axis=(1, 2))).max())
    by_state = np.zeros((system.mdp.n_states, *system.matrix.shape))  # E[A(X) given s]
    np.add.at(by_state, states, weights[:, None, None] * single)
    power = np.eye(len(kernel))
    distances, shares = [], []
    for _ in range(LAGS):
        power = power @ kernel
        apart = np.abs(power - system.law).sum(axis=1).max()
        errors = np.einsum("xs,sij->xij", power, by_state) - system.matrix
        distances.append(float(apart))
        shares.append(float(np.sqrt((errors**2).sum(axis=(1, 2))).max() / (largest * apart)) if apart > 1e-12 else 0.0)
    second = float(np.sort(np.abs(np.linalg.eigvals(kernel)))[-2])
    return {"second_eigenvalue": second, "distances": distances, "largest_share": max(shares)}


def summary(settings: Enumerations, found: dict[str, list[Result]]) -> Result:
    """Counts, and the worst of each."""
    stability = found["stability"]
    counts = {
        name: {
            "stable": sum(bool(one[name]) for one in stability),
            "cases": sum(one[name] is not None for one in stability),
        }
        for name in stability[0]
        if name != "emphasis"
    }
    grows = np.array([one["emphasis"] for one in stability]) > 1  # (cases, 2): in truth, by the mean
    ratios = {name: np.array([one[name] for one in found["approximation"]]) for name in found["approximation"][0]}
    mixing = [one for one in found["mixing"] if one["second_eigenvalue"] > 0.05]  # or it is over at once
    rates = [(one["distances"][LAGS // 2] / one["distances"][1]) ** (1 / (LAGS // 2 - 1)) for one in mixing]
    excess = [rate - one["second_eigenvalue"] for rate, one in zip(rates, mixing, strict=True)]
    return {
        "stability": counts,
        "emphasis": {
            "infinite": int(grows[:, 0].sum()),
            "by the mean": int(grows[:, 1].sum()),
            "missed": int((grows[:, 0] & ~grows[:, 1]).sum()),
            "false": int((~grows[:, 0] & grows[:, 1]).sum()),
            "cases": len(grows),
        },
        "approximation": {
            name: {
                "largest": float(x.max()),
                "median": float(np.median(x)),
                "above": int((x > 1).sum()),
                "cases": len(x),
            }
            for name, x in ratios.items()
        },
        "mixing": {
            "cases": len(mixing),
            "rate_minus_eigenvalue": np.quantile(excess, (0.025, 0.5, 0.975)).tolist(),
            "largest_share_of_bound": max(one["largest_share"] for one in found["mixing"]),
        },
    }


PARTS = (
    Part("stability", stability_repeat, 5_000, 100),
    Part("approximation", approximation_repeat, 2_000, 100),
    Part("mixing", mixing_repeat, 500, 50),
)
STUDY = Study("enumerations", PARTS, Enumerations(), Enumerations(), summary)
run = STUDY.run
