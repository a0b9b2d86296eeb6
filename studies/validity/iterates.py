"""Intervals from the path of an iterate alone: random scaling, batch means, and the multiplier subsample bootstrap.

A recursion with decaying steps gives x_t, the iterate along one target. Its average is near the limit, and these
methods estimate the error of the average from the path itself: they need no matrix and no replicas, so they serve any
number of parameters. They were published for the uniform average. With weights proportional to t the same long-run
variance counts 4/3 times, and random scaling has a limit law of its own.

- *Random scaling* (Lee, Liao, Seo and Shin 2022) divides by the path of the average. Its limit has no unknown variance;
  the quantile is computed here.
- *Batch means* (Chen, Lee, Tong and Zhang 2020): batches that are about equally long in the iterate's own time.
- *Online batch means* (Zhu, Chen and Wu 2023): the same with batches that do not depend on n, and overlap.
- *Multiplier subsample bootstrap* (Samsonov, Sheshukova, Moulines and Naumov 2025, for linear recursions with Markov
  noise): windows of b steps get independent normal multipliers. Given the data this law is exactly normal, with the
  variance of overlapping batch means, so that nothing needs to be drawn. b = n^(4/5) is the rule of their theorem on
  the bootstrap (there with steps of order t^(-3/5)), b = n^(3/4) that of their corollary on the variance.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import numpy as np
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import ndtri, stdtrit

from inferl.data.arrays import Floats

LEVEL = 0.95
AVERAGES = {"uniform": 0, "linear": 1}  # weights t^power
LONG_RUN = {"uniform": 1.0, "linear": 4 / 3}  # n times the variance of the average, over the long-run variance

Interval = tuple[float, float, float]  # estimate, lower, upper


def intervals(path: Floats, decay: float) -> dict[str, Interval]:
    """All methods with both averages, by name, from the iterates x_1, ..., x_n and the decay of the step size."""
    found: dict[str, Interval] = {}
    for average in AVERAGES:
        estimate = averaged(path, average)
        found[f"random scaling|{average}"] = random_scaling(path, average)
        deviations = np.r_[0.0, np.cumsum(path - estimate)]
        variance, number = batch_means(deviations, decay)
        quantile = float(stdtrit(number - 1, (1 + LEVEL) / 2))
        found[f"batch means|{average}"] = around(estimate, variance, len(path), average, quantile)
        variance = online_batch_means(deviations, decay)
        found[f"online batch means|{average}"] = around(estimate, variance, len(path), average)
        for name, power in (("4/5", 0.8), ("3/4", 0.75)):
            variance = overlapping_batch_means(deviations, int(np.ceil(len(path) ** power)))
            found[f"subsample bootstrap, n^{name}|{average}"] = around(estimate, variance, len(path), average)
    return found


def around(
    estimate: float, variance: float, n: int, average: str, quantile: float = float(ndtri((1 + LEVEL) / 2))
) -> Interval:
    """The interval of an average, from the long-run variance."""
    reach = quantile * float(np.sqrt(LONG_RUN[average] * variance / n))
    return estimate, estimate - reach, estimate + reach


def averaged(path: Floats, average: str) -> float:
    """The average of a path."""
    return float(np.average(path, weights=np.arange(1.0, len(path) + 1) ** AVERAGES[average]))


def random_scaling(path: Floats, average: str) -> Interval:
    """The mean square of the partial sums of weighted deviations, instead of a variance."""
    weights = np.arange(1.0, len(path) + 1) ** AVERAGES[average]
    estimate = float(np.average(path, weights=weights))
    sums = np.cumsum(weights * (path - estimate))
    reach = critical_value(average) * float(np.sqrt(np.mean(sums**2)) / weights.sum())
    return estimate, estimate - reach, estimate + reach


@cache
def critical_value(average: str, level: float = LEVEL, steps: int = 400) -> float:
    """Quantile of random scaling: of |M| / sqrt(integral of B^2), M the limit of the average and B that of the sums.

    Both are linear in white noise, so |M| > c sqrt(...) says that a quadratic form of normal variables is positive: its
    probability is one integral (Imhof 1961). For the uniform average B is a Brownian bridge, and c is 6.747.

    >>> print(f"{critical_value('uniform'):.2f}")
    6.75
    """
    weights = ((np.arange(steps) + 0.5) / steps) ** AVERAGES[average]
    share = np.cumsum(weights) / weights.sum()
    sums = np.tril(np.ones((steps, steps))) * weights - np.outer(share, weights)
    squares, outer = sums.T @ sums / steps, np.outer(weights, weights)

    def excess(c: float) -> float:
        return positive(np.asarray(np.linalg.eigvalsh(outer - c**2 * squares), np.float64)) - (1 - level)

    return float(brentq(excess, 1.0, 50.0, xtol=1e-6))


def positive(eigenvalues: Floats) -> float:
    """P(sum of eigenvalue_i z_i^2 > 0) for independent standard normal z_i, by Imhof's integral.

    >>> print(f"{positive(np.array([2.0, -2.0])):.6f}")
    0.500000
    """
    scaled = eigenvalues / np.abs(eigenvalues).max()

    def term(u: float) -> float:
        angle = 0.5 * np.arctan(scaled * u).sum()
        return float(np.sin(angle) / u * np.exp(-0.25 * np.log1p((scaled * u) ** 2).sum()))

    pieces = np.r_[0.0, np.geomspace(1.0, 1e7, 15)]
    whole = sum(quad(term, low, high, limit=200)[0] for low, high in pairwise(pieces))
    return 0.5 + whole / np.pi


def batch_means(deviations: Floats, decay: float) -> tuple[float, int]:
    """Long-run variance from about n^(1/3) batches, and their number; deviations are sums of the first 0, ..., n."""
    n = len(deviations) - 1
    number = max(8, round(n ** (1 / 3)))
    edges = np.unique(np.round(n * (np.arange(number + 1) / number) ** (1 / (1 - decay)))).astype(int)
    lengths = np.diff(edges)
    return float(np.mean(np.diff(deviations[edges]) ** 2 / lengths)), len(lengths)


def online_batch_means(deviations: Floats, decay: float) -> float:
    """Long-run variance from the sums since the start of each step's batch; batch k starts at k^(2 / (1 - decay))."""
    n = len(deviations) - 1
    starts = np.unique(np.arange(1, int(n ** ((1 - decay) / 2)) + 2).astype(float) ** (2 / (1 - decay)) // 1).astype(
        int
    )
    steps = np.arange(1, n + 1)
    begun = starts[np.searchsorted(starts, steps, side="right") - 1]  # the first step of the batch
    sums = deviations[1:] - deviations[begun - 1]
    return float((sums**2).sum() / (steps - begun + 1).sum())


def overlapping_batch_means(deviations: Floats, length: int) -> float:
    """Long-run variance from all windows of a length: what the multiplier subsample bootstrap has, given the data."""
    sums = deviations[length:] - deviations[:-length]
    return float(np.mean(sums**2) / length)
