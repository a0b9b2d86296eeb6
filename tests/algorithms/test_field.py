"""Nonlinear recursions, equation (6.1) of the paper: coverage under Markov noise."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter
from scipy.special import expit
from scipy.stats import binom, norm

import inferl
from inferl.data.increments import Transition

LEVEL, REPEATS, N = 0.9, 50, 1000


def logistic(theta: NDArray[np.float64], step: Transition) -> NDArray[np.float64]:
    """H of a logistic regression; theta is (R, 2)."""
    return np.asarray((step.reward - expit(theta @ step.features))[:, None] * step.features)


def median(theta: NDArray[np.float64], step: Transition) -> NDArray[np.float64]:
    """H of a median; theta is (R, 1)."""
    return np.sign(step.reward - theta)


def autoregression(generator: np.random.Generator, n: int, correlation: float) -> NDArray[np.float64]:
    """A stationary path of variance 1."""
    noise = generator.normal(size=n) * np.r_[1.0, np.full(n - 1, np.sqrt(1 - correlation**2))]
    return np.asarray(lfilter([1.0], [1.0, -correlation], noise))


def stream(features: NDArray[np.float64], rewards: NDArray[np.float64]) -> inferl.Transitions:
    return inferl.Transitions(features, rewards, features, 0.0)


def within(held: int, coverage: float) -> bool:
    """Each bound is crossed by one set of seeds in 20,000."""
    return bool(binom.ppf(5e-5, REPEATS, coverage) <= held <= binom.isf(5e-5, REPEATS, coverage))


def test_a_logistic_regression_with_dependent_covariates_is_covered() -> None:
    """Scores are martingale differences, however the covariates depend on each other."""
    held, truth = 0, np.array([0.5, 1.0])
    for repeat in range(REPEATS):
        generator = np.random.default_rng([1, repeat])
        phi = np.column_stack([np.ones(N), autoregression(generator, N, 0.8)])
        answers = (generator.random(N) < expit(phi @ truth)).astype(np.float64)
        method = inferl.OnlineBootstrap(inferl.Polynomial(4.0), 100, seed=repeat)
        evaluator = inferl.Evaluator(inferl.Field(2, logistic), method).update(stream(phi, answers))
        held += truth[1] in evaluator.interval([0.0, 1.0], LEVEL, "normal")
    assert within(held, LEVEL)


def test_a_median_of_dependent_numbers_is_covered_as_seldom_as_its_scores_depend_on_each_other() -> None:
    """A multiplier a step: too narrow by the root of the long-run variance of the signs over their variance, 1."""
    held, correlation = 0, 0.8
    long_run = 1 + 2 * (2 / np.pi * np.arcsin(correlation ** np.arange(1, 200))).sum()
    expected = 2 * norm.cdf(norm.isf((1 - LEVEL) / 2) / np.sqrt(long_run)) - 1
    for repeat in range(REPEATS):
        path = autoregression(np.random.default_rng([2, repeat]), N, correlation)
        method = inferl.OnlineBootstrap(inferl.Polynomial(2.0), 100, seed=repeat)
        evaluator = inferl.Evaluator(inferl.Field(1, median), method).update(stream(np.ones((N, 1)), path))
        held += 0.0 in evaluator.interval([1.0], LEVEL, "normal")
    assert within(held, expected)
    assert not within(held, LEVEL)
