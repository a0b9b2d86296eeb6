"""Vectors: one per row, dense or sparse, with the same few operations on both.

A one-hot feature is stored as a row number, not as a row of zeros with a single one. Algorithms are written once, with
the functions of this file, and a tabular problem stays sparse all the way to the kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from inferl.data.arrays import Floats, Integers, Rows, shared
from inferl.data.invariants import COUNT, bounds, demand, shapes

__all__ = [
    "Sparse",
    "Vectors",
    "add",
    "dense",
    "embed",
    "one_hot",
    "scale",
    "side_by_side",
    "slice_of",
    "squared_norm",
    "stored_numbers",
    "subtract",
    "subtract_scaled",
    "terms",
    "verify_vectors",
]


@dataclass(frozen=True, eq=False)
class Sparse(Rows):
    """Vectors of length `size` given by a few entries each; entries with the same index add up.

    >>> x = one_hot(np.array([2, 0]), 3)
    >>> dense(x)
    array([[0., 0., 1.],
           [1., 0., 0.]])
    """

    index: Integers  # (..., m)
    value: Floats  # (..., m)
    size: int = field(metadata=shared)

    def verify(self) -> None:
        """Raise for indices outside the vectors."""
        demand(self.index.shape == self.value.shape and self.index.ndim > 1, "Sparse has indices without values")
        bounds(self, {"size": COUNT, "index": (0, self.size - 1)})


Number = TypeVar("Number", np.int64, np.float64)
Vectors = Floats | Sparse  # (T, p) or, for the terms of an increment, (T, K, p)


def one_hot(index: Integers, size: int) -> Sparse:
    """Turn row numbers into unit vectors."""
    return Sparse(index[:, None], np.ones((len(index), 1)), size)


def verify_vectors(of: Any, letters: str, names: Sequence[str], **sizes: int) -> dict[str, int]:
    """Raise for vectors of other shapes, dense or sparse, like `invariants.shapes`; the last letter is their length."""
    *rows, length = letters.split()
    for name in names:
        x = getattr(of, name)
        if isinstance(x, Sparse):
            sizes = shapes(of, {f"{name}.index": " ".join([*rows, f"entries_of_{name}"])}, **sizes)
            demand(sizes.setdefault(length, x.size) == x.size, f"{type(of).__name__}.{name} has length {x.size}")
        else:
            sizes = shapes(of, {name: letters}, **sizes)
    return sizes


def stored_numbers(x: Vectors) -> int:
    """Number of stored numbers."""
    return x.index.size + x.value.size if isinstance(x, Sparse) else x.size


def dense(x: Vectors) -> Floats:
    """Convert to a dense array."""
    if not isinstance(x, Sparse):
        return x
    flat = np.zeros((x.index[..., 0].size, x.size))
    m = x.index.shape[-1]
    rows = np.repeat(np.arange(len(flat)), m)
    np.add.at(flat, (rows, x.index.ravel()), x.value.ravel())
    return flat.reshape(*x.index.shape[:-1], x.size)


def scale(x: Vectors, factor: Floats | float) -> Vectors:
    """Multiply each vector by its own factor (T,), or all by the same one."""
    if np.ndim(factor) and (np.asarray(factor) == 1).all():
        return x  # on-policy
    factor = np.asarray(factor)[..., None]
    return Sparse(x.index, x.value * factor, x.size) if isinstance(x, Sparse) else x * factor


def add(x: Vectors, y: Vectors) -> Vectors:
    """Compute x + y row by row."""
    if isinstance(x, Sparse) and isinstance(y, Sparse):
        return Sparse(np.concatenate([x.index, y.index], axis=-1), np.concatenate([x.value, y.value], axis=-1), x.size)
    return dense(x) + dense(y)


def subtract(x: Vectors, y: Vectors) -> Vectors:
    """Compute x - y row by row."""
    if isinstance(x, Sparse) and isinstance(y, Sparse):
        return Sparse(np.concatenate([x.index, y.index], axis=-1), np.concatenate([x.value, -y.value], axis=-1), x.size)
    return dense(x) - dense(y)


def subtract_scaled(x: Vectors, y: Vectors, factor: Floats) -> Vectors:
    """Compute x - factor y row by row."""
    return subtract(x, scale(y, factor))


def embed(x: Vectors, offset: int, size: int) -> Vectors:
    """Place vectors of length d at `offset` inside zero vectors of length `size`."""
    if isinstance(x, Sparse):
        return Sparse(x.index + offset, x.value, size)
    wide = np.zeros((*x.shape[:-1], size), like=x)
    wide[..., offset : offset + x.shape[-1]] = x
    return wide


def slice_of(x: Vectors, start: int, stop: int, term: int, n_terms: int) -> Vectors:
    """Extract the coordinates start..stop of some of the terms (T, K, p)."""
    which = slice(term, term + n_terms)
    if isinstance(x, Sparse):
        index, value = x.index[:, which], x.value[:, which]
        inside = (index >= start) & (index < stop)
        return Sparse(np.where(inside, index - start, 0), np.where(inside, value, 0.0), stop - start)
    return x[:, which, start:stop]


def squared_norm(x: Vectors) -> Floats:
    """Compute |x|^2 of each vector; entries of a sparse one must be distinct."""
    entries = x.value if isinstance(x, Sparse) else x
    return np.asarray(np.einsum("...i,...i->...", entries, entries))


def terms(parts: Sequence[Vectors]) -> Vectors:
    """Stack K vectors per row, (T, p) each, into (T, K, p)."""
    return side_by_side([_with_term_axis(part) for part in parts])


def side_by_side(parts: Sequence[Vectors]) -> Vectors:
    """Join terms (T, K_i, p) into (T, K, p), padding sparse ones to the same number of entries."""
    if len(parts) == 1:
        return parts[0]
    sparse = [part for part in parts if isinstance(part, Sparse)]
    if len(sparse) < len(parts):
        return np.concatenate([dense(part) for part in parts], axis=1)
    m = max(part.index.shape[-1] for part in sparse)
    return Sparse(
        np.concatenate([_padded(part.index, m) for part in sparse], axis=1),
        np.concatenate([_padded(part.value, m) for part in sparse], axis=1),
        sparse[0].size,
    )


def _with_term_axis(x: Vectors) -> Vectors:
    return Sparse(x.index[:, None], x.value[:, None], x.size) if isinstance(x, Sparse) else x[:, None]


def _padded(x: NDArray[Number], m: int) -> NDArray[Number]:
    """Pad with zero entries to m entries."""
    return np.pad(x, ((0, 0), (0, 0), (0, m - x.shape[-1])))
