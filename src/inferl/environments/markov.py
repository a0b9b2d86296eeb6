"""Stationary law, Poisson equation and relaxation time of a finite Markov chain, by sparse linear algebra."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import SuperLU, splu

from inferl.errors import SettingError

__all__ = ["LongRun", "long_run", "reached"]


class LongRun(NamedTuple):
    """Stationary law of a chain with one recurrent class, and a solver of Poisson's equation on that class."""

    law: NDArray[np.float64]  # (S,), mu = mu P, 0 outside the recurrent class
    recurrent: NDArray[np.int64]  # the states of the class
    factors: SuperLU  # of [[I - P, 1], [1', 0]] on the class

    def poisson(self, means: NDArray[np.float64]) -> NDArray[np.float64]:
        """Solve (I - P) x = m, sum of x equal to 0, for m (S, d) of mean 0 under the law; x is 0 outside the class."""
        solution = np.zeros_like(means)
        right = np.vstack([means[self.recurrent], np.zeros(means.shape[1])])
        solution[self.recurrent] = self.factors.solve(right)[:-1]
        return solution

    def relaxation_time(self) -> float:
        """The largest Re 1 / (1 - lambda) over the eigenvalues lambda of P other than 1; at least 1.

        1 / (1 - lambda) are the eigenvalues of the solution operator of Poisson's equation; the border adds a 0.
        """
        means = np.eye(self.law.size) - self.law
        times = np.linalg.eigvals(self.poisson(means)[np.ix_(self.recurrent, self.recurrent)])
        return max(1.0, float(times.real.max()))


def reached(chain: sparse.csr_array | sparse.csc_array, sources: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which states can be reached from ``sources``, including these."""
    found = sources
    while True:
        grown = sources | (chain.T @ found.astype(np.float64) > 0)
        if (grown == found).all():
            return found
        found = found | grown


def long_run(chain: sparse.csr_array, initial: NDArray[np.float64]) -> LongRun:
    """Find the recurrent class and the stationary law of a chain that starts from ``initial``: mu = mu P, sum(mu) = 1.

    I - P is singular; a border of ones makes it regular without favouring a state. The transposed system with
    right-hand side (0, 1) gives the law, the system itself solves Poisson's equation.
    """
    visited = np.flatnonzero(reached(chain, initial > 0))
    inner = chain[visited][:, visited].tocoo()
    count, label = connected_components(inner, connection="strong")
    source, sink = label[inner.row], label[inner.col]
    closed = np.setdiff1d(np.arange(count), source[source != sink])
    if closed.size > 1:
        one, other = (int(visited[label == k][0]) for k in closed[:2])
        raise SettingError(
            f"the chain of this policy has {closed.size} recurrent classes (of state {one}, of state {other}), "
            "so there is no single stationary law; choose a policy or an initial law that leads to only one"
        )
    recurrent = visited[label == closed[0]]
    ones = np.ones((recurrent.size, 1))
    generator = sparse.diags_array(np.ones(recurrent.size)) - chain[recurrent][:, recurrent]
    factors = splu(sparse.block_array([[generator, sparse.csr_array(ones)], [sparse.csr_array(ones.T), None]]).tocsc())
    unit = np.append(np.zeros(recurrent.size), 1.0)
    masses = factors.solve(unit, trans="T")[:-1]  # type: ignore[call-overload]  # the stubs lack trans
    masses = np.maximum(masses, 0.0)  # rounding can leave -1e-18
    law = np.zeros(initial.size)
    law[recurrent] = masses / masses.sum()
    return LongRun(law, recurrent, factors)
