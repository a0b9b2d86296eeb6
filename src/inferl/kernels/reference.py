"""The reference kernel: Algorithm 1 in NumPy, one transition after the other, always there.

Arrays of rows are (p, R): parameters down, replicas across, so that each replica's sums run in the same order whatever
replicas stand beside it. Nothing here calls BLAS, whose order of summation depends on the shape.
"""

from __future__ import annotations

import numpy as np

from inferl.increments import FieldIncrements, Increments
from inferl.rows import Floats
from inferl.vectors import Sparse

__all__ = ["fold"]


def fold(iterate: Floats, lag: Floats, increments: Increments | FieldIncrements, gain: Floats, mass: Floats) -> None:
    """Fold T increments into the rows, in place.

    For t = 1..T:  Delta = gain_t * H_t(iterate),  lag += mass_t * Delta,  iterate += Delta.

    `gain` (T, R) is step size times multiplier. `mass` (T,) is the sum of the averaging weights before t; with it the
    weighted average of all iterates is iterate - lag / (mass with t included), at the cost of one more row of sums
    instead of a pass over all parameters (a summation by parts).
    """
    if isinstance(increments, FieldIncrements):
        _fold_field(iterate, lag, increments, gain, mass)
    elif isinstance(increments.u, Sparse) and isinstance(increments.v, Sparse):
        _fold_sparse(iterate, lag, increments.u, increments.v, increments, gain, mass)
    else:
        _fold_dense(iterate, lag, increments, gain, mass)


def _fold_dense(iterate: Floats, lag: Floats, increments: Increments, gain: Floats, mass: Floats) -> None:
    u, v, c = increments.u, increments.v, increments.c
    assert isinstance(u, np.ndarray) and isinstance(v, np.ndarray)
    damping = increments.damping[:, None]
    for t in range(len(increments)):
        change = -damping * iterate if damping.any() else np.zeros_like(iterate)
        for k in range(increments.n_terms):
            rest = c[t, k] - np.add.reduce(v[t, k][:, None] * iterate, axis=0)
            change += u[t, k][:, None] * rest
        change *= gain[t]
        lag += mass[t] * change
        iterate += change


def _fold_field(iterate: Floats, lag: Floats, increments: FieldIncrements, gain: Floats, mass: Floats) -> None:
    for t in range(len(increments)):
        change = gain[t] * increments.at(t, iterate.T.copy()).T  # a copy: the user's function may write to it
        lag += mass[t] * change
        iterate += change


def _fold_sparse(
    iterate: Floats, lag: Floats, u: Sparse, v: Sparse, increments: Increments, gain: Floats, mass: Floats
) -> None:
    """Touch only the parameters that an increment names."""
    damped = np.flatnonzero(increments.damping)
    damping = increments.damping[damped, None]
    # Plain Python numbers: indexing NumPy scalars costs more than the arithmetic on 200 replicas.
    u_terms, v_terms, constants = _entries(u), _entries(v), increments.c.tolist()
    for t, moment in enumerate(mass.tolist()):
        rests = []
        for k, entries in enumerate(v_terms[t]):
            rest = constants[t][k]
            for index, value in entries:
                rest = rest - value * iterate[index]
            rests.append(gain[t] * rest)
        if damped.size:
            change = -gain[t] * damping * iterate[damped]
            lag[damped] += moment * change
            iterate[damped] += change
        for rest, entries in zip(rests, u_terms[t], strict=True):
            for index, value in entries:
                change = value * rest
                lag[index] += moment * change
                iterate[index] += change


def _entries(x: Sparse) -> list[list[list[tuple[int, float]]]]:
    """Non-zeros of each term of each row."""
    return [
        [
            [(index, value) for index, value in zip(indices, values, strict=True) if value != 0.0]
            for indices, values in zip(row_indices, row_values, strict=True)
        ]
        for row_indices, row_values in zip(x.index.tolist(), x.value.tolist(), strict=True)
    ]
