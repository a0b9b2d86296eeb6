"""The native kernel: the same arithmetic, compiled; this file only hands arrays over."""

from __future__ import annotations

import os

import numpy as np

from inferl.algorithms.gradient import GTD, GTD2, TDC, GradientIncrements
from inferl.increments import FieldIncrements, Increments
from inferl.kernels import _native, reference
from inferl.kernels.seam import Draws, Foldable
from inferl.rows import Bools, Floats, Integers
from inferl.streams import TILE
from inferl.vectors import Sparse, dense

__all__ = ["add_entries", "fold", "instruction_set", "pair_up", "walk"]

_LAWS = {"uniform": 0, "as-printed": 0, "two-point": 1, "exponential": 2}
_KINDS = {GTD: 0, GTD2: 1, TDC: 2}

if "INFERL_ISA" in os.environ:
    _native.choose(os.environ["INFERL_ISA"])


def instruction_set() -> str:
    """Name of the instruction set in use."""
    return str(_native.chosen())


def fold(
    iterate: Floats,
    lag: Floats,
    increments: Foldable,
    step_size: Floats,
    mass: Floats,
    draws: Draws,
    threads: int = 1,
) -> Floats:
    """Fold increments into the rows; see `seam.Fold`. Replicas are shared out to threads; the bits do not change."""
    law = _LAWS.get(draws.multipliers.law)
    if isinstance(increments, FieldIncrements) or law is None:  # the user's own Python
        return reference.fold(iterate, lag, increments, step_size, mass, draws)
    largest = np.empty((-(-len(increments) // TILE), iterate.shape[1]))
    call = (
        iterate,
        lag,
        _flat(step_size),
        _flat(mass),
        TILE,
        largest,
        law,
        draws.seed,
        draws.first_replica,
        np.ascontiguousarray(draws.tick),
        np.ascontiguousarray(draws.stream),
        threads,
    )
    if isinstance(increments, GradientIncrements):
        x = increments
        if isinstance(x.phi, np.ndarray) and isinstance(x.dphi, np.ndarray):
            kind = _KINDS[type(x.algorithm)]
            data = (_flat(x.phi), _flat(x.dphi), _flat(x.ratio), _flat(x.reward))
            _native.fold_gradient(*call, kind, *data, x.algorithm.auxiliary_step)
            return largest
        increments = x.expanded()
    u, v, c, damped = increments.u, increments.v, increments.c, bool(increments.damping.any())
    if isinstance(u, Sparse) and isinstance(v, Sparse) and not damped:
        entries = (np.ascontiguousarray(u.index), _flat(u.value), np.ascontiguousarray(v.index), _flat(v.value))
        _native.fold_sparse(*call, *entries, _flat(c))
    elif c.shape[1] == 1 and not damped:
        _native.fold_single(*call, _flat(dense(u)), _flat(dense(v)), _flat(c))
    else:
        _native.fold_dense(*call, _flat(dense(u)), _flat(dense(v)), _flat(c), _flat(increments.damping))
    return largest


def walk(
    iterate: Floats,
    lag: Floats,
    increments: Increments,
    rows: Integers,
    lengths: Integers,
    step_size: Floats,
    mass: Floats,
    limit: Floats,
) -> None:
    """Let resamples walk along rows of their own; see `seam.Walk`."""
    u, v, c = increments.u, increments.v, _flat(increments.c)
    damping = increments.damping if increments.damping.any() else np.zeros(0)
    call = (iterate, lag, rows, lengths, _flat(step_size), _flat(mass), _flat(limit))
    if isinstance(u, Sparse) and isinstance(v, Sparse) and not len(damping):
        entries = (np.ascontiguousarray(u.index), _flat(u.value), np.ascontiguousarray(v.index), _flat(v.value))
        _native.walk_sparse(*call, *entries, c)
    else:
        _native.walk_dense(*call, _flat(dense(u)), _flat(dense(v)), c, _flat(damping))


def pair_up(
    scores: Floats,
    slot: Integers,
    half: Floats,
    is_open: Bools,
    gathered: Floats,
    waiting: Integers,
    row: int,
) -> int:
    """Form block sums of length 1, 2, 4, ... along each stream; see `seam.PairUp`."""
    return _native.pair_up(_flat(scores), np.ascontiguousarray(slot), half, is_open, gathered, waiting, row)


def add_entries(
    index: Integers,
    value: Floats,
    slot: Integers,
    kept_index: Integers,
    kept_value: Floats,
    kept_rows: Integers,
    outer: Floats,
    total: Floats,
    count: Integers,
    p: int,
) -> tuple[Floats, Integers]:
    """Add the short blocks of sparse scores, entry by entry; see `seam.AddEntries`."""
    rows = np.bincount(slot, minlength=len(kept_rows)) + kept_rows
    closing = int(np.sum(rows // kept_index.shape[1]))
    sums, closed_by = np.zeros((closing, p)), np.zeros(closing, np.int64)
    _native.add_entries(
        np.ascontiguousarray(index),
        _flat(value),
        np.ascontiguousarray(slot),
        kept_index,
        kept_value,
        kept_rows,
        outer,
        total,
        count,
        sums,
        closed_by,
    )
    return sums, closed_by


def _flat(array: Floats) -> Floats:
    return np.ascontiguousarray(array, dtype=np.float64)
