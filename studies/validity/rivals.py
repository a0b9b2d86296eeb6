"""What others would do: random scaling and batch means of the iterates, and a HAC variance for LSTD.

The first two follow the averaged TD recursion and need its path; many streams walk at once, a row each.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri, stdtrit

import inferl
from inferl.data.arrays import Floats
from studies.validity.problems import Problem

LEVEL = 0.95
RANDOM_SCALING = 6.747  # 97.5 % point of the studentised limit law (Abadir and Paruolo 1997)

Bounds = dict[str, tuple[Floats, Floats]]  # method -> lower and upper, (streams, targets)


def of_iterates(problem: Problem, n: int, seeds: list[list[int]]) -> Bounds:
    """Follow uniformly averaged TD along n steps of many streams; intervals by random scaling and by batch means."""
    paths = [problem.path(n, seed) for seed in seeds]
    phi = np.eye(problem.mdp.n_states) if problem.features is None else problem.features
    phi = np.where(problem.mdp.terminal[:, None], 0.0, phi)
    columns = ("states", "next_states", "rewards")
    states, successors, rewards = (np.array([getattr(path, name) for path in paths]) for name in columns)
    ratios = np.array([np.broadcast_to(problem.ratios(path), n) for path in paths])
    scale, rows, initial = (phi**2).sum(axis=1), problem.rows, problem.initial
    theta = np.zeros((len(seeds), phi.shape[1]))
    mean = np.zeros((len(seeds), len(rows)))
    squares, crossed, weights = np.zeros_like(mean), np.zeros_like(mean), 0.0
    edges, batch = batch_edges(n), np.zeros_like(mean)
    batches: list[Floats] = []
    for t in range(n):
        s = states[:, t]
        now, later = phi[s], phi[successors[:, t]]
        step_size = np.minimum(initial / (t + 1) ** 0.65, 0.5 / np.maximum(scale[s], 1e-12))
        error = rewards[:, t] + np.einsum("rd,rd->r", problem.discount * later - now, theta)
        theta += (step_size * ratios[:, t] * error)[:, None] * now
        seen = theta @ rows.T
        mean += (seen - mean) / (t + 1)
        weight = float(t + 1) ** 2
        squares += weight * mean**2
        crossed += weight * mean
        weights += weight
        batch += seen
        if t + 1 == edges[len(batches) + 1]:
            batches.append(batch / (edges[len(batches) + 1] - edges[len(batches)]))
            batch = np.zeros_like(mean)
    path_variance = (squares - 2 * crossed * mean + weights * mean**2) / n**2
    scaled = RANDOM_SCALING * np.sqrt(np.maximum(path_variance, 0.0) / n)
    deviations = np.array(batches) - mean
    batch_variance = (np.diff(edges)[:, None, None] * deviations**2).mean(axis=0)
    batched = stdtrit(len(batches) - 1, (1 + LEVEL) / 2) * np.sqrt(batch_variance / n)
    return {
        "random scaling": (mean - scaled, mean + scaled),
        "batch means": (mean - batched, mean + batched),
    }


def batch_edges(n: int) -> list[int]:
    """n^(1/3) batches that grow as the step size falls, so that each is about equally long in its own time."""
    number = max(8, round(n ** (1 / 3)))
    return [int(edge) for edge in np.unique(np.round(n * (np.arange(number + 1) / number) ** (1 / (1 - 0.65))))]


def hac(problem: Problem, data: inferl.Transitions) -> tuple[Floats, Floats]:
    """LSTD with a Newey-West variance of the scores, by statsmodels with its own number of lags."""
    from statsmodels.stats.sandwich_covariance import S_hac_simple

    features, later = (np.asarray(x) for x in (data.features, data.next_features))
    if features.ndim == 1:
        features, later = np.eye(problem.mdp.n_states)[features], np.eye(problem.mdp.n_states)[later]
    change = features - data.discounts[:, None] * later
    weighted = data.ratios[:, None] * features
    matrix = weighted.T @ change
    inverse = np.linalg.pinv(matrix, rcond=1e-10)
    theta = inverse @ (weighted.T @ data.rewards)
    influence = problem.rows @ inverse  # (k, d)
    scores = (data.rewards - change @ theta)[:, None] * (weighted @ influence.T)  # (n, k): h . f_t
    variance = np.diagonal(np.atleast_2d(S_hac_simple(scores)))
    reach = ndtri((1 + LEVEL) / 2) * np.sqrt(np.maximum(variance, 0.0))
    return problem.rows @ theta - reach, problem.rows @ theta + reach
