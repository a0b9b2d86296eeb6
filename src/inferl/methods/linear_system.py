"""The linear system A theta = b of least squares: its sums, its solution, and the parameters that it contains.

Dense rows are buffered until there are `GATHER` of them. Then one matrix product adds them all, which is limited by
arithmetic instead of memory bandwidth. Sparse rows touch few entries and are added at once. Both keep the rows' order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from inferl import engine
from inferl.data.arrays import GATHER, Floats, InPlace, Integers, lengthened, squared
from inferl.data.increments import Increments
from inferl.data.invariants import bounds, demand, shapes
from inferl.data.transitions import Transitions
from inferl.data.vectors import Sparse, dense
from inferl.errors import SettingError

__all__ = ["MOST_SOLVED", "Coordinates", "Factored", "Sums", "too_large"]


@dataclass(eq=False)
class Sums(InPlace):
    """A and b over all increments; changed in place."""

    matrix: Floats  # (p, p) without the buffered rows
    vector: Floats  # (p,)
    size: Floats  # (p,) largest |v| of each parameter; 0 for one-hot vectors, which have no units
    u: Floats  # (GATHER, p) buffered rows; empty until the first dense ones
    v: Floats  # (GATHER, p)
    c: Floats  # (GATHER,)
    waiting: int

    def verify(self) -> None:
        """Refuse more buffered rows than the buffer holds."""
        sizes = shapes(self, {"matrix": "p p", "vector": "p", "size": "p", "u": "G p", "v": "G p", "c": "G"})
        demand(sizes["G"] in (0, GATHER), f"Sums has a buffer of {sizes['G']} rows, not {GATHER}")
        bounds(self, {"waiting": (0, max(sizes["G"] - 1, 0))})

    @classmethod
    def empty(cls, p: int) -> Sums:
        """Return sums over no increments."""
        none = np.zeros((0, p))
        return cls(np.zeros((p, p)), np.zeros(p), np.zeros(p), none, none, np.zeros(0), 0)

    def add(self, increments: Increments) -> None:
        """Add increments."""
        p = len(self.vector)
        increments.add_rest(self.matrix)
        u, v, c = increments.products()
        if isinstance(u, Sparse) and isinstance(v, Sparse):
            self._add_sparse(u, v, c)
            return
        if len(self.u) == 0:
            self.u, self.v, self.c = (np.zeros(shape, like=self.matrix) for shape in ((GATHER, p), (GATHER, p), GATHER))
        use, buffers = engine.active(), (self.u, self.v, self.c)
        sums = self.matrix, self.vector, self.size
        self.waiting = use.add_products(*sums, buffers, self.waiting, dense(u), dense(v), c, use.threads)

    def total(self) -> tuple[Floats, Floats]:
        """Return A and b with the buffered rows added."""
        if self.waiting == 0:
            return self.matrix, self.vector
        u, v, c = (buffer[: self.waiting] for buffer in (self.u, self.v, self.c))
        return self.matrix + u.T @ v, self.vector + c @ u

    def widened(self, more: int) -> Sums:
        """Return sums with zeros for more parameters."""
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


RIDGE = 1e-10  # relative to the largest entry of a row, in scaled units
NONE = np.zeros(0, np.int64)


class Factored:
    """The LU factors of A, scaled and with a small ridge.

    Parameters
    ----------
    matrix
        A, (p, p).
    size
        The largest absolute coefficient of each parameter in any equation, (p,); 0 where there was none.
    outputs
        Parameters that appear only in their own equation, such as a mean of predictions. They are solved for last, and
        without a ridge: their coefficient is a count.

    Examples
    --------
    >>> factored = Factored(np.array([[2.0, 0.0], [0.0, 4e12]]), np.array([1.0, 1e6]))
    >>> factored.solve(np.array([1.0, 1.0])).tolist()
    [0.5, 2.5e-13]
    """

    def __init__(self, matrix: Floats, size: Floats, outputs: Integers = NONE) -> None:
        # Not `scipy.linalg.lu_factor`: it warns about singular matrices, which are common here, and warnings cannot be
        # turned off for a single thread.
        from scipy.linalg.lapack import dgetrf

        self.matrix = matrix
        self.outputs = outputs
        self.core: slice | Integers = slice(0, len(matrix))
        if len(outputs):
            core = np.setdiff1d(np.arange(len(matrix)), outputs)
            # A slice where possible: it makes no copies.
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
        """Return A^-1 right; one step of iterative refinement removes the bias of the ridge."""
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
        """A^-1, with zeros in the rows and columns of the outputs."""
        whole, core = np.zeros_like(self.matrix), np.arange(len(self.matrix))[self.core]
        whole[np.ix_(core, core)] = self._solve(np.eye(len(self.scaled))) / self.columns[:, None] / self.rows
        return whole

    def influence(self, targets: Floats, missing: Floats) -> tuple[Floats, Floats]:
        """Return A^-T c for targets c (k, p), and the fraction of each that the data do not identify.

        `missing` (k,) is the norm of a target's part along parameters that no equation contains.
        """
        along = np.zeros_like(targets)
        inner = targets[:, self.core] / self.columns
        size = np.linalg.norm(inner, axis=1)
        unknown = np.zeros(len(targets))
        if len(self.outputs):
            asked = targets[:, self.outputs]
            weights = np.where(self.counts > 0, asked / _or_one(self.counts), 0.0)
            links = self.links / self.columns
            inner = inner - weights @ links
            # Parts may cancel, as in the corrections that DoublyRobust adds to a fitted value: add their sizes.
            size = size + np.abs(weights) @ np.linalg.norm(links, axis=1) + np.abs(asked).sum(axis=1)
            unknown = np.abs(asked) @ (self.counts == 0)
            along[:, self.outputs] = weights
        scores = self._solve(inner.T, transposed=True).T
        along[:, self.core] = scores / self.rows
        unidentified = np.hypot(np.hypot(RIDGE * np.linalg.norm(scores, axis=1), unknown), missing)
        return along, np.minimum(unidentified / np.maximum(np.hypot(size, missing), 1e-300), 1.0)

    def _solve(self, right: Floats, transposed: bool = False) -> Floats:
        from scipy.linalg.lapack import dgetrs

        return np.asarray(dgetrs(self.factors, self.pivots, right, trans=transposed)[0])


def _or_one(sizes: Floats) -> Floats:
    return np.where(sizes > 0, sizes, 1.0)


SMALLEST_CAPACITY = 16
MOST_SOLVED = 2000  # parameters of which least squares keeps the square
MATRICES = 16  # of this size that it keeps: A, and products of scores for 2^15 blocks
SECONDS = 1.4e-10  # times the squared number of parameters, for a transition on one core (docs/performance.md)


@dataclass(frozen=True, eq=False)
class Coordinates:
    """Indices 0, 1, 2, ... of parameters, in the order in which they are first seen.

    One-hot increments name the few parameters that they involve; dense ones involve all, and then index i is parameter
    i.

    >>> none = Coordinates.none_of(5)
    >>> len(none), none.capacity
    (0, 0)
    """

    index: Integers  # (p,) of each parameter, -1 where it has not been seen
    seen: Integers  # (S,) the parameters, in order of their index
    capacity: int  # length of the arrays that hold them: S and some spare

    def verify(self) -> None:
        """Refuse indices that are not those of the parameters seen."""
        sizes = shapes(self, {"index": "p", "seen": "S"})
        bounds(self, {"seen": (0, sizes["p"] - 1), "capacity": (sizes["S"], sizes["p"])})
        index = np.full(sizes["p"], -1)
        index[self.seen] = np.arange(sizes["S"])
        demand(np.array_equal(index, self.index), "Coordinates.index is not the inverse of Coordinates.seen")

    @classmethod
    def none_of(cls, n_parameters: int) -> Coordinates:
        """Return coordinates of p parameters, none of them seen."""
        return cls(np.full(n_parameters, -1), np.zeros(0, np.int64), 0)

    def __len__(self) -> int:
        return len(self.seen)

    def including(self, increments: Increments) -> Coordinates:
        """Return coordinates with indices for all parameters that these increments name."""
        if len(self.seen) == len(self.index):
            return self
        named = increments.named()
        return self._with(np.arange(len(self.index)) if named is None else named)

    @staticmethod
    def check_room_for(known: Sequence[Coordinates], chunks: Sequence[Transitions | Increments]) -> None:
        """Refuse data that would name more parameters, together with those known, than can be solved for."""
        if len(known[0].index) <= MOST_SOLVED:
            return
        if any(isinstance(chunk, Increments) or not chunk.tabular for chunk in chunks):
            raise SettingError(too_large(len(known[0].index), "parameters"))
        named = [x for c in chunks for x in (c.features, c.next_features)]  # type: ignore[union-attr]
        total = len(np.unique(np.concatenate([*(one.seen for one in known), *named])))
        if total > MOST_SOLVED:
            raise SettingError(too_large(total, "states seen"))

    def union(self, other: Coordinates) -> Coordinates:
        """Return coordinates with indices for all parameters that the other has seen too."""
        return self._with(other.seen)

    def indices(self, other: Coordinates) -> Integers:
        """Return the index in our arrays of each entry of the other's, spare ones included."""
        free = np.setdiff1d(np.arange(self.capacity), self.index[other.seen])
        return np.concatenate([self.index[other.seen], free[: other.capacity - len(other)]])

    def relabelled(self, increments: Increments) -> Increments:
        """Return increments whose parameters are written as indices."""
        return increments.at_indices(self.index, self.seen, self.capacity)

    def targets(self, targets: Floats) -> tuple[Floats, Floats]:
        """Return targets (k, p) by index (k, capacity), and the norm of their part that has never been seen."""
        inside = np.zeros((len(targets), self.capacity))
        inside[:, : len(self)] = targets[:, self.seen]
        missing = np.linalg.norm(targets[:, self.index < 0], axis=1)
        return inside, missing

    def _with(self, named: Integers) -> Coordinates:
        new = named[self.index[named] < 0]
        if new.size == 0:
            return self
        values, first = np.unique(new, return_index=True)
        seen = np.r_[self.seen, values[np.argsort(first)]]
        index = self.index.copy()
        index[seen] = np.arange(len(seen))
        # Powers of two: the total cost of growing is small, and the capacity depends only on the number seen.
        capacity = min(max(1 << (len(seen) - 1).bit_length(), SMALLEST_CAPACITY), len(index))
        return Coordinates(index, seen, capacity)


def too_large(number: int, of_what: str) -> str:
    """Explain why least squares is refused, what it would cost, and what to use instead.

    The step size is 1 / 8 over the slowest rate of a table whose states are visited equally often.

    >>> print(too_large(10_000, "parameters"))
    LeastSquares takes at most 2,000 parameters, not 10,000: their squares would need about 13 GB of memory, and a
    million transitions 3.9 hours; use fewer features, or TD with OnlineBootstrap(Polynomial(1250 / (1 - discount),
    decay=2/3), multipliers=Multipliers(clock=BlockClock())), whose memory grows with their number
    """
    memory, hours = 8e-9 * MATRICES * number**2, 1e6 * SECONDS * number**2 / 3600
    return (
        f"LeastSquares takes at most {MOST_SOLVED:,} {of_what}, not {number:,}: their squares would need about "
        f"{memory:,.2g} GB of memory, and a million transitions {hours:,.2g} hours; use fewer features, or TD with "
        f"OnlineBootstrap(Polynomial({round(number / 8)} / (1 - discount), decay=2/3), "
        "multipliers=Multipliers(clock=BlockClock())), whose memory grows with their number"
    )
