"""Solving A theta = b where A may be singular: what the data do not identify stays at 0, and is measured.

Nothing here depends on the units of the features. Columns are divided by the largest difference of features that was
seen, rows by their largest entry; only then a ridge is added, so small that it matters where the data say nothing.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from inferl.rows import Floats, Integers

__all__ = ["Factored"]

RIDGE = 1e-10  # relative to the largest entry of a row, in scaled units
NONE = np.zeros(0, np.int64)


class Factored:
    """A, scaled and with a ridge, ready to solve with.

    Parameters
    ----------
    matrix
        A, (p, p).
    size
        The largest absolute coefficient of each parameter in any equation, (p,); 0 where there was none.
    outputs
        Parameters that no equation but their own contains, such as a mean of what the others give. They are solved for
        last, and without a ridge: their own coefficient is a count.

    Examples
    --------
    >>> factored = Factored(np.array([[2.0, 0.0], [0.0, 4e12]]), np.array([1.0, 1e6]))
    >>> factored.solve(np.array([1.0, 1.0])).tolist()
    [0.5, 2.5e-13]
    """

    def __init__(self, matrix: Floats, size: Floats, outputs: Integers = NONE) -> None:
        from scipy.linalg.lapack import dgetrf

        self.matrix = matrix
        self.outputs = outputs
        self.core: slice | Integers = slice(0, len(matrix))
        if len(outputs):
            core = np.setdiff1d(np.arange(len(matrix)), outputs)
            # A slice, where it is one: no copies.
            self.core = slice(0, len(core)) if len(core) == 0 or core[-1] == len(core) - 1 else core
            self.counts = matrix[outputs, outputs]
            self.links = matrix[outputs][:, self.core]
        inner = matrix[self.core][:, self.core]
        self.columns = _or_one(size[self.core])
        scaled = inner / self.columns
        self.rows = _or_one(np.abs(scaled).max(axis=1, initial=0.0))
        self.scaled = scaled / self.rows[:, None]
        self.factors, self.pivots, _ = dgetrf(self.scaled + RIDGE * np.eye(len(inner)))

    def condition(self) -> float:
        """Estimate the condition number, in scaled units."""
        from scipy.linalg.lapack import dgecon

        reciprocal, _ = dgecon(self.factors, float(np.abs(self.scaled).sum(axis=0).max(initial=0.0)))
        return 1 / reciprocal if reciprocal > 0 else np.inf

    def solve(self, right: Floats) -> Floats:
        """Return A^-1 right; one refinement takes the ridge's own bias out."""
        inner = right[self.core] / self.rows
        rough = self._solve(inner)
        theta = np.zeros(len(right))
        theta[self.core] = (rough + self._solve(inner - self.scaled @ rough)) / self.columns
        if len(self.outputs):
            left = right[self.outputs] - self.links @ theta[self.core]
            theta[self.outputs] = np.where(self.counts > 0, left / _or_one(self.counts), 0.0)
        return theta

    @cached_property
    def inverse(self) -> Floats:
        """A^-1 written out, without the rows and columns of the outputs, which are 0."""
        whole, core = np.zeros_like(self.matrix), np.arange(len(self.matrix))[self.core]
        whole[np.ix_(core, core)] = self._solve(np.eye(len(self.scaled))) / self.columns[:, None] / self.rows
        return whole

    def influence(self, targets: Floats) -> tuple[Floats, Floats, Floats]:
        """Return A^-T c of targets (k, p), and the length of what is not identified of each, and of all of it."""
        along = np.zeros_like(targets)
        inner = targets[:, self.core] / self.columns
        size = np.linalg.norm(inner, axis=1)
        unknown = np.zeros(len(targets))
        if len(self.outputs):
            asked = targets[:, self.outputs]
            weights = np.where(self.counts > 0, asked / _or_one(self.counts), 0.0)
            links = self.links / self.columns
            inner = inner - weights @ links
            # Parts may cancel, as what an episode's rewards add to the value of its start does; each counts by itself.
            size = size + np.abs(weights) @ np.linalg.norm(links, axis=1) + np.abs(asked).sum(axis=1)
            unknown = np.abs(asked) @ (self.counts == 0)
            along[:, self.outputs] = weights
        scores = self._solve(inner.T, transposed=True).T
        along[:, self.core] = scores / self.rows
        return along, np.hypot(RIDGE * np.linalg.norm(scores, axis=1), unknown), size

    def _solve(self, right: Floats, transposed: bool = False) -> Floats:
        from scipy.linalg.lapack import dgetrs

        return np.asarray(dgetrs(self.factors, self.pivots, right, trans=transposed)[0])


def _or_one(sizes: Floats) -> Floats:
    return np.where(sizes > 0, sizes, 1.0)
