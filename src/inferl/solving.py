"""Solving A theta = b where A may be singular: what the data do not identify stays at 0, and is measured."""

from __future__ import annotations

import numpy as np

from inferl.rows import Floats

__all__ = ["Factored"]

RIDGE = 1e-10  # relative to the largest entry of A


class Factored:
    """A with a ridge so small that it only matters where the data say nothing, ready to solve with."""

    def __init__(self, matrix: Floats) -> None:
        from scipy.linalg import lu_factor

        self.matrix = matrix
        largest = float(np.abs(matrix).max(initial=0.0))
        self.ridge = RIDGE * largest if largest > 0 else 1.0
        self.factors = lu_factor(matrix + self.ridge * np.eye(len(matrix)), check_finite=False)

    def condition(self) -> float:
        """Estimate the condition number."""
        from scipy.linalg.lapack import dgecon

        reciprocal, _ = dgecon(self.factors[0], float(np.abs(self.matrix).sum(axis=0).max(initial=0.0)))
        return 1 / reciprocal if reciprocal > 0 else np.inf

    def solve(self, right: Floats) -> Floats:
        """Return A^-1 right; one refinement takes the ridge's own bias out."""
        from scipy.linalg import lu_solve

        rough = lu_solve(self.factors, right, check_finite=False)
        return rough + lu_solve(self.factors, right - self.matrix @ rough, check_finite=False)

    def solve_transposed(self, right: Floats) -> Floats:
        """Return A^-T right."""
        from scipy.linalg import lu_solve

        return lu_solve(self.factors, right, trans=1, check_finite=False)
