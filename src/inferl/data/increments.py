"""Increments: what an algorithm computes from a transition, before replicas, step sizes and multipliers apply."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from inferl.data.arrays import Floats, Integers, Rows, as_floats, shared
from inferl.data.device import as_device
from inferl.data.invariants import demand, shapes
from inferl.data.transitions import Transitions
from inferl.data.vectors import Sparse, Vectors, dense, slice_of, stored_numbers, terms, verify_vectors
from inferl.errors import DataError, ShapeError

__all__ = [
    "FieldFunction",
    "FieldIncrements",
    "GradientForm",
    "GradientIncrements",
    "Increments",
    "Transition",
    "unexplained",
]

MOST_LEVERAGE = 0.999  # above it, a row alone determines its own fit


@dataclass(frozen=True, eq=False)
class Increments(Rows):
    r"""Affine increments of T steps, each a few rank-one terms minus a diagonal damping.

    .. math:: H_t(\theta) = \sum_k u_{tk} (c_{tk} - v_{tk} \cdot \theta) - d \theta = b_t - A_t \theta

    Examples
    --------
    >>> step = Increments.dense(matrix=np.diag([1.0, 2.0]), vector=[3.0, 4.0])
    >>> step.at(np.array([1.0, 1.0]))
    array([[2., 2.]])
    """

    u: Vectors  # (T, K, p)
    v: Vectors  # (T, K, p)
    c: Floats  # (T, K)
    damping: Floats = field(metadata=shared)  # (p,)
    scale: Floats  # (T,) |phi_t|^2, for the cap on the step size

    def verify(self) -> None:
        """Raise if the arrays do not fit together."""
        super().verify()
        sizes = shapes(self, {"c": "T K", "scale": "T"})
        sizes = verify_vectors(self, "T K p", ["u", "v"], **sizes)
        demand(len(self.damping) in (0, sizes["p"]), "Increments.damping has another length than u and v")

    @property
    def n_parameters(self) -> int:
        """Length p of the parameter vector."""
        return len(self.damping)

    @property
    def n_terms(self) -> int:
        """Number K of rank-one terms per step."""
        return int(self.c.shape[1])

    def on(self, device: str) -> Increments:
        """Return the same increments with their vectors on a device; sparse ones stay on the host."""
        if isinstance(self.u, Sparse) or isinstance(self.v, Sparse):
            return self
        return replace(self, u=as_device(self.u, device), v=as_device(self.v, device))

    def at(self, theta: Floats) -> Floats:
        """Evaluate H_t(theta) for one theta (p,): (T, p)."""
        return _summed("tkp,tk->tp", dense(self.u), self.residual(theta)) - self.damping * theta

    def residual(self, theta: Floats) -> Floats:
        """Residuals of each term, c - v . theta: (T, K)."""
        v = self.v
        if isinstance(v, Sparse):
            products = v.value * theta[v.index]
            return np.asarray(self.c - sum(products[..., i] for i in range(products.shape[-1])))  # they are few
        return np.asarray(self.c - v @ theta)

    def scores(self, theta: Floats, inverse: Floats | None = None) -> Vectors:
        """Evaluate H_t(theta) like `at`, but leave one-hot increments sparse: (T, m) entries.

        If theta was fitted to these rows, the `inverse` of the sum of all A_t corrects for it (see `unexplained`).
        """
        u, residual = self.u, self.residual(theta)
        if inverse is not None:
            residual = unexplained(residual, self.leverage(inverse))
        if not isinstance(u, Sparse) or self.damping.any():
            return _summed("tkp,tk->tp", dense(u), residual) - self.damping * theta
        return _together(Sparse(u.index, u.value * residual[..., None], u.size))

    def leverage(self, inverse: Floats) -> Floats:
        """Leverage of each term, v . A^-1 u with the inverse (p, p) of the sum of all A_t: (T, K)."""
        u, v = self.u, self.v
        if isinstance(u, Sparse) and isinstance(v, Sparse):
            between = inverse[v.index[..., :, None], u.index[..., None, :]]
            return np.asarray(np.einsum("tki,tkij,tkj->tk", v.value, between, u.value))
        left, right = dense(v), dense(u)
        along = (right.reshape(-1, right.shape[-1]) @ inverse.T).reshape(right.shape)  # one product, not one per row
        return np.asarray(np.einsum("tkp,tkp->tk", left, along))

    def expanded(self) -> Increments:
        """Return self: these terms are expanded already."""
        return self

    # The interface that least squares uses; the compact forms implement it too.

    def named(self) -> Integers | None:
        """Indices of the parameters that these increments involve, row by row; None: all."""
        u, v = self.u, self.v
        if not isinstance(u, Sparse) or not isinstance(v, Sparse) or self.damping.any():
            return None
        # A value of 0 is padding, or follows a termination: it involves no parameter.
        both = [_together(x) for x in (u, v)]
        index, value = (np.concatenate([getattr(x, name) for x in both], axis=1) for name in ("index", "value"))
        return np.asarray(index[value != 0])

    def at_indices(self, index: Integers, seen: Integers, capacity: int) -> Increments:
        """Express sparse increments in compact indices instead of parameter numbers."""
        if not isinstance(self.u, Sparse) or not isinstance(self.v, Sparse):
            return self
        damping = np.zeros(capacity)
        damping[: len(seen)] = self.damping[seen]
        u, v = (Sparse(np.maximum(index[x.index], 0), x.value, capacity) for x in (self.u, self.v))
        return replace(self, u=u, v=v, damping=damping)

    def products(self) -> tuple[Vectors, Vectors, Floats]:
        """Vectors u and v (N, p), and c (N,), whose products add up to A and b, apart from `add_rest`."""
        return _rows_of(self.u), _rows_of(self.v), self.c.reshape(-1)

    def add_rest(self, matrix: Floats) -> None:
        """Add to A the part that is not a product of u and v: the damping."""
        matrix.reshape(-1)[:: len(matrix) + 1] += len(self) * self.damping

    def features(self) -> Vectors:
        """The features of the steps: u, all terms together, (T, p) or (T, entries)."""
        u = self.u
        if isinstance(u, Sparse):
            return _together(u)
        return u[:, 0] if u.shape[1] == 1 else u.sum(axis=1)

    def measured(self) -> Floats | None:
        """The features that have units, (N, p); None if they are one-hot."""
        return None if isinstance(self.u, Sparse) else self.u.reshape(-1, self.u.shape[-1])

    def numbers(self) -> int:
        """Number of stored numbers of these rows."""
        return stored_numbers(self.u) + stored_numbers(self.v)

    def following(self) -> Increments:
        """Return the same rows, to be joined to others with which they share the damping."""
        return replace(self, damping=np.zeros(0))

    def matrix(self) -> Floats:
        """Write out A_t, (T, p, p); for tests and small problems."""
        return _summed("tkp,tkq->tpq", dense(self.u), dense(self.v)) + np.diag(self.damping)

    def vector(self) -> Floats:
        """Write out b_t, (T, p)."""
        return _summed("tkp,tk->tp", dense(self.u), self.c)

    @classmethod
    def dense(cls, matrix: ArrayLike, vector: ArrayLike, scale: ArrayLike | None = None) -> Increments:
        """Build increments from A_t and b_t: one step, (p, p) and (p,), or T steps, (T, p, p) and (T, p).

        `scale` (T,) enters the cap on the step size; its default is the spectral norm of A_t.
        """
        a, b = as_floats("matrix", matrix), as_floats("vector", vector)
        size = None if scale is None else as_floats("scale", scale)
        a, b = (a[None], b[None]) if a.ndim == 2 else (a, b)
        if a.ndim != 3 or a.shape[1] != a.shape[2] or b.shape != a.shape[:2] or 0 in a.shape:
            raise ShapeError(f"matrix {a.shape} and vector {b.shape} do not fit: expected (T, p, p) and (T, p)")
        for name, array in (("matrix", a), ("vector", b)):
            _refuse_infinite(f"{name} entry", array)
        if size is None:
            size = np.linalg.norm(a, ord=2, axis=(1, 2))
        if size.shape not in ((), (len(a),)):
            raise ShapeError(f"scale has shape {size.shape}, but there are {len(a)} steps")
        size = np.broadcast_to(size, len(a))
        bad = np.flatnonzero(~((size >= 0) & (size < np.inf)))
        if bad.size:
            raise DataError(f"row {bad[0]}: scale is {size[bad[0]]}; it is a squared length: finite and not negative")
        p = a.shape[1]
        return cls(np.broadcast_to(np.eye(p), a.shape), a, b, np.zeros(p), size)

    def check(self, n_parameters: int) -> None:
        """Raise for arrays that do not fit together or are not finite; a user may have built these increments."""
        c, p = self.c, n_parameters
        if not (_is_floats(self.damping, 1) and _is_floats(c, 2) and _is_floats(self.scale, 1)):
            raise ShapeError(
                "c, damping and scale must be arrays of float64: (T, K), (p,) and (T,); see Increments.dense"
            )
        if len(self.damping) != p:
            raise ShapeError(f"the increments have {len(self.damping)} parameters, but the algorithm has {p}")
        if len(self.scale) != len(c) or c.shape[1] == 0:
            raise ShapeError(f"c has shape {c.shape} and scale {self.scale.shape}; expected (T, K) and (T,)")
        for name, x in (("u", self.u), ("v", self.v)):
            if isinstance(x, Sparse):
                fits = _is_floats(x.value, 3) and np.shape(x.index) == x.value.shape and x.size == p
                if not fits or x.value.shape[:2] != c.shape or x.index.dtype != np.int64 or x.value.shape[2] == 0:
                    raise ShapeError(f"{name} does not fit c: expected index and value (T, K, m) of size {p}")
                if x.index.size and not (x.index.min() >= 0 and x.index.max() < p):
                    raise DataError(
                        f"{name} has indices from {x.index.min()} to {x.index.max()}; they must lie in 0 to {p - 1}"
                    )
            elif not _is_floats(x, 3) or x.shape != (*c.shape, p):
                raise ShapeError(f"{name} does not fit c of shape {c.shape}: expected float64 {(*c.shape, p)}")
            _refuse_infinite(f"{name} entry", x.value if isinstance(x, Sparse) else x)
        _refuse_infinite("c entry", c)
        for name, sizes in (("damping", self.damping), ("scale", self.scale)):
            for i in np.flatnonzero(~((sizes >= 0) & (sizes < np.inf)))[:1]:
                raise DataError(f"row {i}: {name} is {sizes[i]}; it must be finite and not negative")

    def form(self) -> tuple[Any, ...]:
        """What rows must have in common to be processed together."""
        entries = [x.index.shape[-1] if isinstance(x, Sparse) else 0 for x in (self.u, self.v)]
        return (self.n_terms, *entries, self.damping.tobytes())

    def part(self, term: int, n_terms: int, offset: int, n_parameters: int) -> Increments:
        """Extract some terms and the coordinates that they involve."""
        stop = offset + n_parameters
        return Increments(
            slice_of(self.u, offset, stop, term, n_terms),
            slice_of(self.v, offset, stop, term, n_terms),
            self.c[:, term : term + n_terms],
            self.damping[offset:stop],
            self.scale,
        )


def _is_floats(x: Any, ndim: int) -> bool:
    return type(x) is np.ndarray and x.dtype == np.float64 and x.ndim == ndim


def _refuse_infinite(name: str, array: Floats) -> None:
    if not np.isfinite(array).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise DataError(f"row {where[0]}: {name} {where[1:]} is {array[where]}; drop or repair the row")


def unexplained(residual: Floats, leverage: Floats) -> Floats:
    """Residuals (T, K) corrected for leverage: as large, in quadratic mean, as if the estimate had not used the rows.

    With leverage h, residuals are too small by the root of 1 - h (the HC2 correction of White's standard errors). A row
    that determines its own fit, such as the only visit to a state, has residual 0; it gets the root mean square of the
    other rows, if there are any.
    """
    alone = leverage > MOST_LEVERAGE
    corrected = residual / np.sqrt(1 - np.minimum(leverage, MOST_LEVERAGE))
    others = np.sum(~alone, axis=0)
    usual = np.sqrt(np.sum(corrected**2, axis=0, where=~alone) / np.maximum(others, 1))
    return np.asarray(np.where(alone & (others > 0), usual, corrected))


def _rows_of(x: Vectors) -> Vectors:
    """Flatten the terms (T, K, p) of all steps to rows: (T K, p)."""
    if isinstance(x, Sparse):
        m = x.index.shape[-1]
        return Sparse(x.index.reshape(-1, m), x.value.reshape(-1, m), x.size)
    return x.reshape(-1, x.shape[-1])


def _together(x: Sparse) -> Sparse:
    """Put the entries of all terms (T, K, m) of a step in one row: (T, K m)."""
    shape = len(x.index), x.index.shape[1] * x.index.shape[2]  # not -1: there may be no step
    return Sparse(x.index.reshape(shape), x.value.reshape(shape), x.size)


def _summed(indices: str, x: Floats, y: Floats) -> Floats:
    return np.asarray(np.einsum(indices, x, y), dtype=np.float64)


@runtime_checkable
class GradientForm(Protocol):
    """The terms of a gradient algorithm: one that a kernel implements by name, or any that can expand them."""

    @property
    def kernel(self) -> str:
        """Return "gtd", "gtd2" or "tdc"."""
        ...

    @property
    def auxiliary_step(self) -> float:
        """Return the step size of y relative to theta's."""
        ...

    @property
    def dimension(self) -> int:
        """Return the number of features."""
        ...

    def written_out(
        self, phi: Vectors, dphi: Vectors, rho: Floats, reward: Floats
    ) -> list[tuple[Vectors, Vectors, Floats]]:
        """Return (u, v, c) of each term, that of y first."""
        ...

    def damping(self) -> float:
        """Return the damping of y."""
        ...


@dataclass(frozen=True, eq=False)
class GradientIncrements(Rows):
    """Increments of a gradient algorithm, before their terms are expanded over both blocks of parameters."""

    phi: Vectors  # (T, d)
    dphi: Vectors  # (T, d)
    ratio: Floats  # (T,)
    reward: Floats  # (T,)
    scale: Floats  # (T,)
    form: GradientForm = field(metadata=shared)

    def verify(self) -> None:
        """Raise if the arrays do not fit together."""
        super().verify()
        sizes = verify_vectors(self, "T d", ["phi", "dphi"])
        shapes(self, {"ratio": "T", "reward": "T", "scale": "T"}, **sizes)
        demand(sizes["d"] == self.form.dimension, "GradientIncrements.form has another number of features")

    @property
    def n_parameters(self) -> int:
        """Length p of the parameter vector."""
        return 2 * self.form.dimension

    def numbers(self) -> int:
        """Number of stored numbers of these rows."""
        return stored_numbers(self.phi) + stored_numbers(self.dphi)

    def following(self) -> GradientIncrements:
        """Return the same rows, to be joined to others."""
        return self

    def expanded(self) -> Increments:
        """Expand the terms."""
        u, v, c = zip(*self.form.written_out(self.phi, self.dphi, self.ratio, self.reward), strict=True)
        damping = np.repeat([0.0, self.form.damping()], self.form.dimension)
        return Increments(terms(u), terms(v), np.stack(c, axis=1), damping, self.scale)

    def measured(self) -> Floats | None:
        """The features that have units, (T, d); None if they are one-hot."""
        return None if isinstance(self.phi, Sparse) else self.phi


class Transition(NamedTuple):
    """One step, as passed to the function of a nonlinear field."""

    features: Any  # (d,) or the row number of a table
    reward: float
    next_features: Any
    discount: float
    ratio: float


FieldFunction = Callable[[Floats, Transition], Floats]  # theta (R, p), transition -> H (R, p)


@dataclass(frozen=True, eq=False)
class FieldIncrements(Rows):
    """Increments of a nonlinear recursion: a function, and the transitions to evaluate it at."""

    data: Transitions
    scale: Floats  # (T,)
    function: FieldFunction = field(metadata=shared)

    def at(self, t: int, theta: Floats) -> Floats:
        """Evaluate H_t for all rows of theta (R, p): (R, p)."""
        d = self.data
        step = Transition(d.features[t], d.rewards[t], d.next_features[t], d.discounts[t], d.ratios[t])
        change = as_floats("what the function returned", self.function(theta, step))
        if change.shape != theta.shape:
            raise ShapeError(
                f"the function returned shape {change.shape} for parameters {theta.shape}; return one row per row"
            )
        return change

    def measured(self) -> Floats | None:
        """The features that have units, (T, d); None if they are one-hot."""
        return None if self.data.tabular else self.data.features.astype(np.float64, copy=False)
