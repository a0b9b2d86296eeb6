"""Targets: what a user may ask the value of, as rows of numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from inferl.algorithms import Algorithm
from inferl.errors import TargetError
from inferl.rows import Floats

__all__ = ["as_targets"]


def as_targets(target: ArrayLike, algorithm: Algorithm, tabular: bool | None, whole: bool) -> tuple[Floats, bool]:
    """Turn a target into rows (k, d), and say whether a single one was asked for.

    A target is the number of a state (tabular features), a vector of features, or a matrix with k of them; with
    `whole`, vectors of all p parameters too.

    >>> from inferl import TD
    >>> as_targets(1, TD(3), tabular=True, whole=False)
    (array([[0., 1., 0.]]), True)
    """
    array = np.asarray(target)
    if array.ndim == 0:
        if not np.issubdtype(array.dtype, np.integer):
            raise TargetError(f"target {target!r} is neither the number of a state nor a vector of features")
        if tabular is False:
            raise TargetError(f"target {target!r} is the number of a state, but features are vectors; pass phi(s)")
        return algorithm.state_vector(int(array))[None], True
    lengths = {algorithm.dimension, algorithm.n_parameters} if whole else {algorithm.dimension}
    try:
        rows = np.atleast_2d(array).astype(np.float64)
    except (TypeError, ValueError):
        raise TargetError(f"target of type {array.dtype} cannot be read as numbers") from None
    if rows.ndim != 2 or rows.shape[1] not in lengths or len(rows) == 0:
        expected = " or ".join(str(length) for length in sorted(lengths))
        raise TargetError(f"target has shape {array.shape}; expected vectors of length {expected}")
    if not np.isfinite(rows).all():
        raise TargetError("target has entries that are not finite")
    return rows, array.ndim == 1
