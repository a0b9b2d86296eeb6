"""Resampled sums: least-squares solutions on many resamples of the same data.

The equation of a resample is a sum over units, weighted by how often each was drawn, so rows need not be repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

import numpy as np

from inferl.baselines.replay import Units
from inferl.data.arrays import Floats, Integers
from inferl.data.increments import Increments
from inferl.data.vectors import Sparse, dense
from inferl.methods.least_squares import UNIDENTIFIED
from inferl.methods.linear_system import Coordinates, Factored

__all__ = ["solutions"]

MOST_HELD = 2**23  # largest number of floats stored for sums over units, or over resamples

Sums = Callable[[Floats], Floats]  # counts (G, E) of the units in G resamples -> their [A b] (G, p, p + 1)


def solutions(
    form: Increments, units: Units, counts: Iterable[Integers], targets: Floats
) -> Iterator[tuple[Floats, bool]]:
    """Yield, for each set of counts (E,) of the units, the targets' values (k,) and whether one is not identified."""
    coordinates = Coordinates.none_of(form.n_parameters).including(form)
    inside, missing = coordinates.targets(targets)
    x = coordinates.relabelled(form)
    size = np.zeros(x.n_parameters) if isinstance(x.v, Sparse) else np.abs(x.v).max(axis=(0, 1))
    for sums, length in _summed(x, units, counts):
        factored = Factored(sums[:, :-1] + np.diag(length * x.damping), size)
        _, unidentified_fraction = factored.influence(inside, missing)
        yield inside @ factored.solve(sums[:, -1]), bool((unidentified_fraction > UNIDENTIFIED).any())


def _summed(x: Increments, units: Units, counts: Iterable[Integers]) -> Iterator[tuple[Floats, float]]:
    """Sum [A b] over units, weighted by their counts, and count the rows; several resamples at once."""
    p = x.n_parameters
    unit = np.empty(len(x), np.int64)  # of each row
    unit[units.order] = np.repeat(np.arange(len(units)), units.length)
    if isinstance(x.u, Sparse) and isinstance(x.v, Sparse):
        sums = _of_entries(x.u, x.v, x.c, unit, len(units))
    else:
        u, right = dense(x.u), np.concatenate([dense(x.v), x.c[..., None]], axis=2)
        # Storing the sums of units pays off if they are much fewer than the rows.
        stored = 4 * len(units) <= len(x) and len(units) * p * (p + 1) <= MOST_HELD
        sums = (_of_units if stored else _of_rows)(u, right, unit, units)
    counts, some = iter(counts), max(MOST_HELD // (p * (p + 1)), 1)
    while batch := list(islice(counts, min(some, 64))):
        often = np.array(batch, dtype=np.float64)
        yield from zip(sums(often), (often @ units.length).tolist(), strict=True)


def _of_entries(u: Sparse, v: Sparse, c: Floats, unit: Integers, n_units: int) -> Sums:
    """Sum the contributions to each entry of [A b] by unit; a batch of resamples is then one sparse product."""
    from scipy.sparse import csr_array

    p = u.size
    right = np.concatenate([v.index, np.full((*c.shape, 1), p)], axis=2)
    entry = (u.index[..., :, None] * (p + 1) + right[..., None, :]).reshape(len(unit), -1)
    factor = np.concatenate([v.value, c[..., None]], axis=2)
    value = (u.value[..., :, None] * factor[..., None, :]).reshape(len(unit), -1)
    entries, row = np.unique(entry, return_inverse=True)
    column = np.repeat(unit, entry.shape[1])
    of_units = csr_array((value.ravel(), (row.ravel(), column)), shape=(len(entries), n_units))

    def sums(often: Floats) -> Floats:
        total = np.zeros((len(often), p * (p + 1)))
        total[:, entries] = (of_units @ often.T).T
        return total.reshape(-1, p, p + 1)

    return sums


def _of_units(u: Floats, right: Floats, unit: Integers, units: Units) -> Sums:
    """Store [A b] of every unit; a batch of resamples is then one matrix product."""
    p = u.shape[2]
    held = np.empty((len(units), p, p + 1))
    for e, (start, length) in enumerate(zip(units.start.tolist(), units.length.tolist(), strict=True)):
        rows = units.order[start : start + length]
        np.matmul(u[rows].reshape(-1, p).T, right[rows].reshape(-1, p + 1), out=held[e])
    return lambda often: (often @ held.reshape(len(held), -1)).reshape(-1, p, p + 1)


def _of_rows(u: Floats, right: Floats, unit: Integers, units: Units) -> Sums:
    """Weight every row by the count of its unit; one matrix product per resample."""
    p = u.shape[2]
    flat, columns = u.reshape(-1, p), right.reshape(-1, p + 1)
    row_unit = np.repeat(unit, u.shape[1])
    return lambda often: np.stack([(flat * own[row_unit, None]).T @ columns for own in often])
