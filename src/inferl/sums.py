"""Sums of increments: A and b, gathered so that a matrix product does the adding.

Dense rows wait until there are `GATHER` of them; then one product adds them all, at the speed of arithmetic instead of
memory. Sparse rows touch a few entries and are added at once. Either way the order is that of arrival.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from inferl.increments import Increments
from inferl.invariants import bounds, demand, shapes
from inferl.rows import Floats, InPlace, lengthened, squared
from inferl.vectors import Sparse, dense

__all__ = ["GATHER", "Sums", "add_product"]

GATHER = 128  # rows; a multiple keeps the processor busier, and a copy of the state larger


@dataclass(eq=False)
class Sums(InPlace):
    """A and b over all increments; changed in place."""

    matrix: Floats  # (p, p) without the rows that wait
    vector: Floats  # (p,)
    size: Floats  # (p,) largest |v| of each parameter; of one-hot vectors 0, as they have no units
    u: Floats  # (GATHER, p) rows that wait; empty until the first dense ones
    v: Floats  # (GATHER, p)
    c: Floats  # (GATHER,)
    waiting: int

    def verify(self) -> None:
        """Refuse more rows that wait than there is room for."""
        sizes = shapes(self, {"matrix": "p p", "vector": "p", "size": "p", "u": "G p", "v": "G p", "c": "G"})
        demand(sizes["G"] in (0, GATHER), f"Sums has room for {sizes['G']} rows, not {GATHER}")
        bounds(self, {"waiting": (0, max(sizes["G"] - 1, 0))})

    @classmethod
    def empty(cls, p: int) -> Sums:
        """Start with nothing."""
        none = np.zeros((0, p))
        return cls(np.zeros((p, p)), np.zeros(p), np.zeros(p), none, none, np.zeros(0), 0)

    def add(self, increments: Increments) -> None:
        """Take in increments."""
        p = len(self.vector)
        increments.add_rest(self.matrix)
        u, v, c = increments.products()
        if isinstance(u, Sparse) and isinstance(v, Sparse):
            self._add_sparse(u, v, c)
            return
        if len(self.u) == 0:
            self.u, self.v, self.c = np.zeros((GATHER, p)), np.zeros((GATHER, p)), np.zeros(GATHER)
        u, v = dense(u), dense(v)
        self.size = np.maximum(self.size, np.maximum(v.max(axis=0), -v.min(axis=0)))
        start = 0
        while start < len(u):
            taken = min(GATHER - self.waiting, len(u) - start)
            rows, free = slice(start, start + taken), slice(self.waiting, self.waiting + taken)
            self.u[free], self.v[free], self.c[free] = u[rows], v[rows], c[rows]
            self.waiting += taken
            start += taken
            if self.waiting == GATHER:
                self.matrix, self.vector = self.total()
                self.waiting = 0

    def total(self) -> tuple[Floats, Floats]:
        """Return A and b with the waiting rows added; once all `GATHER` rows are there, A is added to in place."""
        if self.waiting == 0:
            return self.matrix, self.vector
        u, v = self.u[: self.waiting], self.v[: self.waiting]
        matrix = self.matrix if self.waiting == GATHER else self.matrix.copy()
        add_product(matrix, u, v)
        return matrix, self.vector + self.c[: self.waiting] @ u

    def widened(self, more: int) -> Sums:
        """Add room for more parameters."""
        p = len(self.vector) + more
        return Sums(
            squared(self.matrix, p),
            lengthened(self.vector, p),
            lengthened(self.size, p),
            lengthened(self.u, p),
            lengthened(self.v, p),
            self.c,
            self.waiting,
        )

    def _add_sparse(self, u: Sparse, v: Sparse, c: Floats) -> None:
        entries = u.index[..., :, None] * len(self.vector) + v.index[..., None, :]
        products = u.value[..., :, None] * v.value[..., None, :]
        np.add.at(self.matrix.reshape(-1), entries.reshape(-1), products.reshape(-1))
        np.add.at(self.vector, u.index.reshape(-1), (u.value * c[..., None]).reshape(-1))


def add_product(matrix: Floats, u: Floats, v: Floats) -> None:
    """Add u' v to a matrix (p, p), in place."""
    from scipy.linalg.blas import dgemm

    # BLAS counts columns first: the transposes of our arrays are its own, so nothing is copied.
    dgemm(1.0, v.T, u.T, beta=1.0, c=matrix.T, trans_b=True, overwrite_c=True)
