"""Regression under Markov noise: a mean and a linear regression whose errors depend on each other.

Stochastic gradient steps on dependent data are linear stochastic approximation: the paper's setting without a policy.
Covariates and errors are autoregressions, so the variance that an interval needs is known. What is compared are the
clocks of the multipliers (a new one each step, each growing block, each episode) and least squares.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.signal import lfilter
from scipy.special import ndtri

import inferl
from inferl.data.arrays import Floats
from studies.paper.machinery import Part, Result
from studies.paper.study import Study
from studies.paper.summaries import LEVEL, cells, diverged, feed, readings

__all__ = ["CASES", "MarkovNoise", "run"]

CASES = (
    "mean, dependent errors",
    "regression, independent errors",
    "regression, dependent errors",
    "regression, episodes of dependent errors",
)


@dataclass(frozen=True)
class MarkovNoise:
    """Settings of the study; fixed before the reported run.

    >>> print(f"{MarkovNoise().long_run('mean, dependent errors'):.1f} times the variance of single errors")
    9.0 times the variance of single errors
    """

    seed: int = 66_000
    lengths: tuple[int, ...] = (300, 1_000, 3_000, 10_000)
    correlation: float = 0.8  # of successive covariates, and of successive errors
    n_covariates: int = 3
    episode: int = 40  # steps, after which covariates and errors are drawn afresh
    n_replicas: int = 200
    initial: float = 5.0  # over the mean squared norm of the features: the rule of thumb
    small_initial: float = 0.5  # likewise; see `methods_of`
    decay: float = 0.65
    cap: float = 0.5

    def long_run(self, case: str) -> float:
        """Variance of sqrt(n) times the error of least squares: of the mean, or of the first slope.

        The scores of a slope are products of two autoregressions, whose correlations multiply.
        """
        one = self.correlation
        if case == "mean, dependent errors":
            return (1 + one) / (1 - one)
        if case == "regression, independent errors":
            return 1.0
        if case == "regression, dependent errors":
            return (1 + one**2) / (1 - one**2)
        lags = np.arange(1, self.episode)
        return float(1 + 2 * ((1 - lags / self.episode) * one ** (2 * lags)).sum())


def draw(settings: MarkovNoise, case: str, number: int) -> tuple[inferl.Transitions, Floats]:
    """Data of a repeat, and the coefficients.

    TD with no next value is regression: H(theta) = x (y - x . theta).
    """
    n, one = max(settings.lengths), settings.correlation
    random = np.random.default_rng([settings.seed, number, CASES.index(case)])
    d = settings.n_covariates if case.startswith("regression") else 0
    theta = np.arange(1.0, d + 2)
    ends = np.zeros(n, np.bool_)
    if case.endswith("episodes of dependent errors"):
        ends[settings.episode - 1 :: settings.episode] = True
        count = -(-n // settings.episode)
        walks = autoregression(random.standard_normal((count, settings.episode, d + 1)), one)
        walks = walks.reshape(-1, d + 1)[:n]
    else:
        walks = autoregression(random.standard_normal((n, d + 1)), one)
    errors = random.standard_normal(n) if case.endswith("independent errors") else walks[:, d]
    features = np.column_stack([np.ones(n), walks[:, :d]])
    data = inferl.Transitions(features, features @ theta + errors, np.zeros_like(features), 1.0, last=ends)
    return data, theta


def autoregression(innovations: Floats, correlation: float) -> Floats:
    """Stationary autoregressions of variance 1 along the last axis but one, from standard normal innovations."""
    scale = np.sqrt(1 - correlation**2)
    started = np.concatenate([innovations[..., :1, :], scale * innovations[..., 1:, :]], axis=-2)
    return np.asarray(lfilter([1.0], [1.0, -correlation], started, axis=-2))


def methods_of(settings: MarkovNoise, case: str, number: int) -> dict[str, Any]:
    """The clocks, and least squares with and without blocks.

    A multiplier that lasts longer than the recursion remembers, about 1 / (alpha_t lambda) steps, changes the speed of
    a replica and not its weight on the block. So blocks are tried with small steps, too.
    """
    d = settings.n_covariates + 1 if case.startswith("regression") else 1
    block = inferl.BlockClock()
    clocks: dict[str, tuple[Any, float]] = {
        "step": ("step", settings.initial),
        "block": (block, settings.initial),
        "block, small steps": (block, settings.small_initial),
    }
    if "episodes" in case:
        clocks["episode"] = ("episode", settings.initial)
    made: dict[str, Any] = {
        f"bootstrap, by {name}": inferl.OnlineBootstrap(
            inferl.Polynomial(initial / d, settings.decay, settings.cap),
            settings.n_replicas,
            inferl.Multipliers(clock=clock),
            seed=settings.seed + number,
            companion=False,
        )
        for name, (clock, initial) in clocks.items()
    }
    return made | {"least squares": inferl.LeastSquares(), "least squares, i.i.d.": inferl.LeastSquares("none")}


def coverage_repeat(settings: MarkovNoise, number: int) -> Result:
    """All methods on one draw of each case."""
    found = {}
    for case in CASES:
        data, theta = draw(settings, case, number)
        target = np.eye(len(theta))[min(1, len(theta) - 1)]  # the mean, or the first slope
        truth = float(target @ theta)
        for name, method in methods_of(settings, case, number).items():
            evaluator: inferl.Evaluator | None = inferl.Evaluator(inferl.TD(len(theta)), method)
            start = 0
            for n in settings.lengths:
                evaluator = evaluator and feed(evaluator, data[start:n])
                start = n
                oracle = float(2 * ndtri((1 + LEVEL) / 2) * np.sqrt(settings.long_run(case) / n))
                found[f"{case}: {name}|{n}"] = (
                    diverged(truth, method.kinds, oracle)
                    if evaluator is None
                    else readings(evaluator, target, truth, oracle)
                )
    return found


def summary(settings: MarkovNoise, found: dict[str, list[Result]]) -> Result:
    """Coverage, and the variance that each case needs over that of single scores."""
    return {
        "long_run": {case: settings.long_run(case) for case in CASES},
        "coverage": cells(found["coverage"]),
    }


PARTS = (Part("coverage", coverage_repeat, 400, 20),)
STUDY = Study("markov-noise", PARTS, MarkovNoise(), MarkovNoise(lengths=(300, 1_000, 3_000)), summary)
run = STUDY.run
