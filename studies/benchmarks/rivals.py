"""Rivals: the same recursion as a user would write it. All return the averages of the replicas, (B, p).

Algorithm 1 for TD(0), with w_t the multipliers and c_t the weight of the newest iterate in the average::

    theta  <-  theta + alpha_t w_t (r + g phi' theta - phi theta) phi
    bar    <-  bar + c_t (theta - bar)
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from math import sqrt
from typing import Any

import numpy as np

from inferl.data.arrays import Floats
from inferl.errors import MissingExtraError
from studies.benchmarks.problems import Problem

__all__ = ["JaxScan", "naive", "river_bagging", "step", "step_gtd2", "uniform"]

LOW, HIGH = 1 - 1 / sqrt(3), 1 + 1 / sqrt(3)

Multiplier = Callable[[], float]
Multipliers = Callable[[], Floats]  # of all replicas at once


def uniform(n_replicas: int | None, seed: int = 0) -> Callable[[], Any]:
    """Draw multipliers U(1 -+ 1/sqrt 3) with NumPy's PCG64: one at a time, or those of all replicas."""
    generator = np.random.default_rng(seed)
    return lambda: generator.uniform(LOW, HIGH, n_replicas)


def naive(problem: Problem, n_replicas: int, multiplier: Multiplier) -> Floats:
    """Algorithm 1 as it is printed: for each transition, for each replica."""
    theta, bar = np.zeros((n_replicas, problem.p)), np.zeros((n_replicas, problem.p))
    rewards, discounts = problem.transitions.rewards, problem.transitions.discounts
    alpha, fraction = problem.step_size, problem.fraction
    for t in range(len(problem)):
        phi, phi_next = problem.phi[t], problem.phi_next[t]
        for b in range(n_replicas):
            error = rewards[t] + discounts[t] * (phi_next @ theta[b]) - phi @ theta[b]
            theta[b] += alpha[t] * multiplier() * error * phi
            bar[b] += fraction[t] * (theta[b] - bar[b])
    return bar


def step(problem: Problem, n_replicas: int, multipliers: Multipliers, printed: bool = False) -> Floats:
    """NumPy, all replicas at once: one transition after the other.

    With `printed` the lines are those of the algorithm: two products for the error, and H before it is multiplied.
    Otherwise they are folded by hand, so that one product and one large temporary less are needed.
    """
    theta, bar = np.zeros((n_replicas, problem.p)), np.zeros((n_replicas, problem.p))
    rewards, discounts = problem.transitions.rewards, problem.transitions.discounts
    alpha, fraction = problem.step_size, problem.fraction
    for t in range(len(problem)):
        phi, phi_next = problem.phi[t], problem.phi_next[t]
        if printed:
            error = rewards[t] + discounts[t] * (theta @ phi_next) - theta @ phi
            increment = error[:, None] * phi
            theta += alpha[t] * multipliers()[:, None] * increment
        else:
            error = rewards[t] + theta @ (discounts[t] * phi_next - phi)
            theta += (alpha[t] * multipliers() * error)[:, None] * phi
        bar += fraction[t] * (theta - bar)
    return bar


def step_gtd2(problem: Problem, n_replicas: int, multipliers: Multipliers, printed: bool = False) -> Floats:
    """GTD2 in the same ways: y follows phi (delta - phi y), theta follows (phi - g phi') (phi y)."""
    theta, y, bar = (np.zeros((n_replicas, problem.p)) for _ in range(3))
    rewards, discounts = problem.transitions.rewards, problem.transitions.discounts
    alpha, fraction = problem.step_size, problem.fraction
    for t in range(len(problem)):
        phi, phi_next = problem.phi[t], problem.phi_next[t]
        along = y @ phi
        change = phi - discounts[t] * phi_next
        gain = alpha[t] * multipliers()
        if printed:
            error = rewards[t] + discounts[t] * (theta @ phi_next) - theta @ phi
            increment_y, increment = (error - along)[:, None] * phi, along[:, None] * change
            y += gain[:, None] * increment_y
            theta += gain[:, None] * increment
        else:
            error = rewards[t] - theta @ change
            y += (gain * (error - along))[:, None] * phi
            theta += (gain * along)[:, None] * change
        bar += fraction[t] * (theta - bar)
    return bar


class JaxScan:
    """The step as the body of `jax.lax.scan`, compiled for one shape; in float64, multipliers from JAX's own generator.

    Parameters
    ----------
    n_replicas
        B.
    gtd2
        GTD2 instead of TD(0).
    """

    def __init__(self, n_replicas: int, gtd2: bool = False) -> None:
        try:
            self.jax = import_module("jax")
        except ImportError:
            raise MissingExtraError("jax", "bench") from None
        self.jax.config.update("jax_enable_x64", True)
        self.n_replicas = n_replicas
        self.parameters = 3 if gtd2 else 2  # vectors a replica: theta, y, average
        self.step = _scan_gtd2 if gtd2 else _scan_td
        self.compiled = self.jax.jit(self._run)

    def prepare(self, problem: Problem) -> tuple[Any, ...]:
        """Hand the data over to JAX, so that this is not timed."""
        discounted = problem.transitions.discounts[: len(problem), None] * problem.phi_next
        rewards = problem.transitions.rewards[: len(problem)]
        columns = (problem.phi, discounted - problem.phi, rewards, problem.step_size, problem.fraction)
        return tuple(self.jax.numpy.asarray(column) for column in columns)

    def __call__(self, columns: tuple[Any, ...], multipliers: Floats | None = None) -> Floats:
        """Run, with multipliers (T, B) that are given or drawn."""
        key = self.jax.random.key(0)
        given = None if multipliers is None else self.jax.numpy.asarray(multipliers)
        return np.asarray(self.compiled(columns, key, given))

    def _run(self, columns: tuple[Any, ...], key: Any, multipliers: Any) -> Any:
        n, p = columns[0].shape
        if multipliers is None:
            shape = (n, self.n_replicas)
            multipliers = self.jax.random.uniform(key, shape, "float64", LOW, HIGH)
        start = tuple(self.jax.numpy.zeros((self.n_replicas, p)) for _ in range(self.parameters))
        end, _ = self.jax.lax.scan(self.step, start, (*columns, multipliers))
        return end[-1]


def _scan_td(state: Any, row: Any) -> Any:
    theta, bar = state
    phi, change, reward, alpha, fraction, multiplier = row
    theta = theta + (alpha * multiplier * (reward + theta @ change))[:, None] * phi
    return (theta, bar + fraction * (theta - bar)), None


def _scan_gtd2(state: Any, row: Any) -> Any:
    theta, y, bar = state
    phi, change, reward, alpha, fraction, multiplier = row
    error, along, gain = reward + theta @ change, y @ phi, alpha * multiplier
    y = y + (gain * (error - along))[:, None] * phi
    theta = theta - (gain * along)[:, None] * change
    return (theta, y, bar + fraction * (theta - bar)), None


def river_bagging(problem: Problem, n_replicas: int) -> Callable[[], object]:
    """River's online bagging of linear regressions on the same rows: the nearest thing in a library for streams.

    It is not the same: each model regresses the reward on the features (there is no bootstrapped target, so the answer
    is not a value), weights are Poisson(1) repetitions of the step, and the iterates are not averaged.
    """
    try:
        ensemble, linear_model = import_module("river.ensemble"), import_module("river.linear_model")
    except ImportError:
        raise MissingExtraError("river", "bench") from None
    rows = [dict(enumerate(phi)) for phi in problem.phi.tolist()]
    rewards = problem.transitions.rewards[: len(rows)].tolist()

    model = ensemble.BaggingRegressor(linear_model.LinearRegression(), n_models=n_replicas, seed=0)

    def run() -> object:
        for features, reward in zip(rows, rewards, strict=True):
            model.learn_one(features, reward)
        return model

    return run
