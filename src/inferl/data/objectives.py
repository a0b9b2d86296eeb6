"""The objectives of the gradient algorithms: MSPBE, which GTD2 and TDC minimise, and NEU, which GTD minimises."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from inferl.data.arrays import Floats, as_floats
from inferl.data.transitions import Transitions
from inferl.errors import DataError, ShapeError

__all__ = ["Objectives"]


@dataclass(frozen=True, eq=False)
class Objectives:
    r"""How far parameters are from the projected Bellman equation A theta = b, with M = E[phi phi'].

    .. math:: \text{NEU}(\theta) = |b - A \theta|^2, \qquad
        \text{MSPBE}(\theta) = (b - A \theta)^\top M^{-1} (b - A \theta)

    With the values V = Phi theta, the MSPBE is the squared distance of V from the projection of r + g P V on the
    features, in the norm of the behaviour's stationary distribution. Both are 0 at the solution. The MSPBE does not
    depend on the scale of the features, and the NEU does.

    `FiniteMDP.objectives` computes the expectations exactly; `of` takes their means over a log.

    Attributes
    ----------
    matrix
        A, (d, d).
    vector
        b, (d,).
    moments
        M, (d, d), without ratios.
    n
        Number of transitions of the log; 0 if the expectations are exact.

    Examples
    --------
    >>> data = Transitions([[1.0], [1.0]], [1.0, 3.0], [[1.0], [1.0]], 0.5)
    >>> objectives = Objectives.of(data)  # 0.5 theta = 2
    >>> objectives.neu([[4.0], [0.0]]).tolist()
    [0.0, 4.0]
    """

    matrix: Floats
    vector: Floats
    moments: Floats
    n: int = 0

    @classmethod
    def of(cls, data: Transitions | Iterable[Transitions], n_features: int | None = None) -> Objectives:
        """Return the objectives as a log shows them: with means over its rows in place of expectations.

        Parameters
        ----------
        data
            Transitions, or chunks of them, as a source yields them.
        n_features
            Number of rows of the table, if features are row numbers.

        Examples
        --------
        >>> from inferl import TD, Evaluator
        >>> coin = np.random.default_rng(1).integers(2, size=2000)
        >>> data = Transitions(np.ones((2000, 1)), coin, np.ones((2000, 1)), 0.9)
        >>> objectives = Objectives.of(data)
        >>> theta = Evaluator(TD(1)).update(data).estimate([1.0])
        >>> print(f"{objectives.mspbe([theta]):.4f} {objectives.mspbe([0.0]):.4f}")
        0.0000 0.2570
        """
        total: Objectives | None = None
        for chunk in (data,) if isinstance(data, Transitions) else data:
            own = cls._of_rows(chunk, n_features)
            total = own if total is None else total.plus(own)
        if total is None:
            raise DataError("there are no transitions; give one at least")
        return total

    @classmethod
    def _of_rows(cls, data: Transitions, n_features: int | None) -> Objectives:
        phi, after = data.features, data.next_features
        if data.ratios.ndim != 1:
            raise ShapeError(f"there are {data.ratios.shape[1]} columns of ratios; take one, by with_ratios")
        if len(data) == 0:
            raise DataError("a chunk has no transitions")
        if data.tabular:
            if n_features is None:
                raise ShapeError("features are row numbers of a table; give its length, n_features")
            table = np.eye(n_features)
            phi, after = table[phi], table[after]
        weighted = data.ratios[:, None] * phi
        n = len(data)
        return cls(
            weighted.T @ (phi - data.discounts[:, None] * after) / n, data.rewards @ weighted / n, phi.T @ phi / n, n
        )

    def plus(self, other: Objectives) -> Objectives:
        """Return the objectives of both logs together."""
        if not (self.n and other.n) or self.vector.shape != other.vector.shape:
            raise ShapeError("only objectives of logs with the same features can be added")
        n = self.n + other.n
        matrix, vector, moments = (
            (self.n * x + other.n * y) / n
            for x, y in (
                (self.matrix, other.matrix),
                (self.vector, other.vector),
                (self.moments, other.moments),
            )
        )
        return Objectives(matrix, vector, moments, n)

    def neu(self, theta: ArrayLike) -> Floats:
        """Norm of the expected TD update, squared: of theta (d,), or of each row of (k, d)."""
        rest = self._rest(theta)
        return np.asarray(np.sum(rest**2, axis=-1))[()]

    def mspbe(self, theta: ArrayLike) -> Floats:
        """Mean-square projected Bellman error of theta (d,), or of each row of (k, d)."""
        length = np.sqrt(np.diagonal(self.moments))
        unit = np.where(length > 0, length, 1.0)  # features in units of their own, or small ones would count as none
        rest, moments = self._rest(theta) / unit, self.moments / np.outer(unit, unit)
        # M is singular if features are redundant; b - A theta is in its range.
        return np.asarray(np.sum(rest * (rest @ np.linalg.pinv(moments, hermitian=True)), axis=-1))[()]

    def _rest(self, theta: ArrayLike) -> Floats:
        given = as_floats("theta", theta)
        if given.ndim not in (1, 2) or given.shape[-1] != len(self.vector):
            raise ShapeError(f"theta has shape {given.shape}; give vectors of length {len(self.vector)}")
        return self.vector - given @ self.matrix.T
