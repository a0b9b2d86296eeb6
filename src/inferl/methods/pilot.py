"""The pilot of a bootstrap: its first rows, kept until a step size or a start can be computed from them.

It has as many rows as the first epoch of least squares. What is computed from it is fixed from then on, is the same for
all replicas or a function of their own multipliers, and does not depend on how the stream was cut.
"""

from __future__ import annotations

import numpy as np

from inferl.data.arrays import Floats, Integers
from inferl.data.increments import Increments
from inferl.data.streams import Clock
from inferl.data.vectors import Sparse, dense
from inferl.engine.multipliers import Multipliers
from inferl.methods.linear_system import Factored, Sums
from inferl.methods.step_sizes import Polynomial

__all__ = ["Solution", "automatic"]

FORGETS = 1 / 8  # alpha_0 times the slowest rate: after 10,000 steps a start is forgotten up to exp(-8)
DECAY = 2 / 3  # that of the authors' scripts; it balances what is left of the start and the noise of the iterates
TOGETHER = 64  # replicas whose multipliers are in memory at once
LARGEST_STEP = 0.5  # of a step size times the rate at which a single step contracts


class Solution:
    """The least-squares solution of some rows, and of the same rows perturbed by each replica's own multipliers.

    >>> rows = Increments.dense(np.ones((100, 1, 1)), np.arange(100.0)[:, None])
    >>> Solution(rows).theta.tolist()
    [49.5]
    """

    def __init__(self, rows: Increments) -> None:
        sums = Sums.empty(rows.n_parameters)
        sums.add(rows)
        matrix, vector = sums.total()
        self.rows = rows
        self.factored = Factored(matrix, sums.size)
        self.theta = self.factored.solve(vector)

    def replicas(self, clock: Clock, multipliers: Multipliers, seed: int, replica: Integers) -> Floats:
        """Solutions (p, B) of the perturbed rows, to first order: theta + A^-1 sum of (W_t - 1) f_t.

        Each is computed by itself, so it does not depend on which other replicas there are.
        """
        inverse = self.factored.inverse
        scores, tick = self.rows.scores(self.theta, inverse), multipliers.ticks(clock)
        found = np.empty((len(self.theta), len(replica)))
        for start in range(0, len(replica), TOGETHER):
            drawn = multipliers.draw(seed, tick, clock.slot, replica[start : start + TOGETHER]) - 1.0
            for b, deviation in enumerate(drawn, start):
                if isinstance(scores, Sparse):
                    index, value = scores.index.reshape(-1), (scores.value * deviation[:, None]).reshape(-1)
                    total = np.bincount(index, value, len(self.theta))
                else:
                    total = np.einsum("t,tp->p", deviation, scores)
                found[:, b] = self.theta + np.einsum("pq,q->p", inverse, total)
        return found


def automatic(rows: Increments) -> Polynomial:
    r"""Choose a step size for a linear recursion from its first rows.

    .. math:: \alpha_t = \min\Bigl(\frac{1}{8 \lambda} t^{-2/3},\; \frac{\kappa}{|\phi_t|^2}\Bigr)

    lambda is the smallest real part of the eigenvalues of the mean A: the rate at which the recursion forgets in its
    slowest direction. It counts as so large at least that the cap no longer binds after the n rows: the step size is
    kappa / m there at most, m the mean squared length of the features. kappa is 1/2, and smaller where a step contracts
    faster than by the length of its features.

    >>> rng = np.random.default_rng(0)
    >>> features = rng.normal(size=(1000, 2))
    >>> automatic(Increments.dense(features[:, :, None] * features[:, None], features, (features**2).sum(axis=1)))
    Polynomial(initial=0.13, decay=0.6666666666666666, cap=0.5)
    """
    n, p = len(rows), rows.n_parameters
    sums = Sums.empty(p)
    sums.add(rows)
    matrix = sums.total()[0] / n
    seen = np.flatnonzero(np.abs(matrix).sum(axis=0) + np.abs(matrix).sum(axis=1))
    length = float(rows.scale.mean())
    if len(seen) == 0 or not np.isfinite(matrix).all() or length == 0:
        return Polynomial(1.0, DECAY, LARGEST_STEP)
    slowest = float(np.linalg.eigvals(matrix[np.ix_(seen, seen)]).real.min())
    cap = LARGEST_STEP * _margin(rows)
    initial = cap * n**DECAY / length
    if slowest > 0:
        initial = min(initial, FORGETS / slowest)
    # Two digits: the last bits of an eigenvalue depend on the machine, and so would those of all that follows.
    return Polynomial(float(f"{initial:.2g}"), DECAY, float(f"{cap:.2g}"))


def _margin(rows: Increments) -> float:
    """The squared length of features over the rate at which their step contracts, of all rows together; at most 1."""
    if rows.n_terms > 3:  # the user's own matrices, whose scale is their norm
        return 1.0
    links = _links(rows)
    if not np.isfinite(links).all():  # features that overflow
        return 1.0
    rate = float(np.abs(np.linalg.eigvals(links)).max(axis=1).sum())
    return min(float(rows.scale.sum()) / rate, 1.0) if rate > 0 else 1.0


def _links(rows: Increments) -> Floats:
    """v_i . u_j of all pairs of terms (T, K, K): the eigenvalues of A_t that are not 0."""
    u, v = rows.u, rows.v
    if isinstance(u, Sparse) and isinstance(v, Sparse):
        same = v.index[:, :, None, :, None] == u.index[:, None, :, None, :]
        return np.asarray(np.einsum("tia,tijab,tjb->tij", v.value, same, u.value))
    return np.asarray(np.einsum("tip,tjp->tij", dense(v), dense(u)))
