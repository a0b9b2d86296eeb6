"""Solving A theta = b where A may be singular: what the data do not identify stays at 0, and is measured."""

from __future__ import annotations

import numpy as np

from inferl.rows import Floats

__all__ = ["Factored"]

RIDGE = 1e-10  # relative to the largest entry of A


class Factored:
    """A with a ridge so small that it only matters where the data say nothing, ready to solve with."""

    def __init__(self, matrix: Floats) -> None:
        from scipy.linalg.lapack import dgetrf

        self.matrix = matrix
        largest = float(np.abs(matrix).max(initial=0.0))
        self.ridge = RIDGE * largest if largest > 0 else 1.0
        self.factors, self.pivots, _ = dgetrf(matrix + self.ridge * np.eye(len(matrix)))

    def condition(self) -> float:
        """Estimate the condition number."""
        from scipy.linalg.lapack import dgecon

        reciprocal, _ = dgecon(self.factors, float(np.abs(self.matrix).sum(axis=0).max(initial=0.0)))
        return 1 / reciprocal if reciprocal > 0 else np.inf

    def solve(self, right: Floats) -> Floats:
        """Return A^-1 right; one refinement takes the ridge's own bias out."""
        rough = self._solve(right)
        return rough + self._solve(right - self.matrix @ rough)

    def inverse(self) -> Floats:
        """Return A^-1 written out."""
        return self._solve(np.eye(len(self.matrix)))

    def solve_transposed(self, right: Floats) -> Floats:
        """Return A^-T right."""
        return self._solve(right, transposed=True)

    def _solve(self, right: Floats, transposed: bool = False) -> Floats:
        from scipy.linalg.lapack import dgetrs

        return np.asarray(dgetrs(self.factors, self.pivots, right, trans=transposed)[0])
