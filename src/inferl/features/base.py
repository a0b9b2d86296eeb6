"""The interface of a feature map, and helpers that several of them share."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from inferl.data.arrays import Floats, as_count, as_floats
from inferl.errors import DataError, SettingError, ShapeError

__all__ = [
    "Bounds",
    "Features",
    "as_bounds",
    "as_seed",
    "bounds_of",
    "combined",
    "median_distance",
    "rows_of",
    "set_fields",
    "typical",
    "unit",
    "vectors",
]

Bounds = tuple[float, ...]


class Features(Protocol):
    """Anything with a `dimension` that maps observations to features.

    A map may also say whether it is `tabular`: True if it returns row numbers of a table, False if it returns vectors.
    Too many vectors are then refused before any of them is computed.

    >>> class Square:
    ...     dimension = 2
    ...
    ...     def __call__(self, observations):
    ...         return np.stack([observations, np.square(observations)], axis=-1)
    >>> Square()(np.array([1.0, 3.0])).tolist()
    [[1.0, 1.0], [3.0, 9.0]]
    """

    @property
    def dimension(self) -> int:
        """Length of a feature vector."""
        ...

    def __call__(self, observations: Any) -> Any:
        """Return the features of one observation, or of an array of them."""
        ...


def vectors(observations: ArrayLike, length: int) -> Floats:
    """Convert one observation (k,), or several (T, k), to finite floats.

    >>> vectors([0, 1], 2)
    array([0., 1.])
    """
    array = as_floats("observations", observations)
    if array.ndim not in (1, 2) or array.shape[-1] != length:
        raise ShapeError(
            f"observations have shape {array.shape}; expected one of length {length}, or several: (T, {length})"
        )
    for index in np.argwhere(~np.isfinite(array))[:1]:
        where = f"row {index[0]}, " if array.ndim == 2 else ""
        raise DataError(f"{where}column {index[-1]}: the observation is {array[tuple(index)]}; drop or repair it")
    return array


def as_bounds(low: ArrayLike, high: ArrayLike) -> tuple[Bounds, Bounds]:
    """Validate the bounds of a box: finite, and each low below its high.

    >>> as_bounds(0, [1, 2])
    ((0.0, 0.0), (1.0, 2.0))
    """
    try:
        lower, upper = np.broadcast_arrays(*(np.atleast_1d(as_floats(*x)) for x in (("low", low), ("high", high))))
    except ValueError as error:  # also those of this package
        raise SettingError(f"low and high must be numbers, or vectors of the same length: {error}") from None
    if lower.ndim != 1 or lower.size == 0:
        raise SettingError(f"low and high have shape {lower.shape}; expected one number each, or vectors")
    for i in np.flatnonzero(~(np.isfinite(lower) & np.isfinite(upper) & (lower < upper)))[:1]:
        raise SettingError(
            f"column {i} of the observations lies between {lower[i]} and {upper[i]}; bounds must be finite, with "
            "low below high; for an unbounded space, give the range that matters, or let the data choose it: from_data"
        )
    return tuple(lower.tolist()), tuple(upper.tolist())


def unit(observations: ArrayLike, low: Bounds, high: Bounds) -> Floats:
    """Map the box between low and high to [0, 1]^k; observations outside are clipped to the box.

    >>> unit([1.0, 5.0], (0.0, 0.0), (2.0, 2.0))
    array([0.5, 1. ])
    """
    lower, upper = np.array(low), np.array(high)
    scaled: Floats = np.clip((vectors(observations, len(low)) - lower) / (upper - lower), 0.0, 1.0)
    return scaled


MARGIN = 0.1  # of the observed range, on both sides: later observations lie outside a little
CONSTANT = 1e-6  # a column that varies by less than this share of its size is taken for a constant


def rows_of(observations: ArrayLike) -> Floats:
    """Convert the observations that a map is fitted to: finite numbers (T, k), at least two rows.

    >>> rows_of([[0, 1], [2, 3]])
    array([[0., 1.], [2., 3.]])
    """
    array = as_floats("observations", observations)
    if array.ndim != 2 or len(array) < 2 or array.shape[1] == 0:
        raise ShapeError(f"observations have shape {array.shape}; expected (T, k), one row each, at least two")
    return vectors(array, array.shape[1])


def bounds_of(observations: ArrayLike) -> tuple[Floats, Floats]:
    """Return bounds of the columns of observations (T, k): their range, and a tenth of it on both sides.

    >>> bounds_of([[0.0, 5.0], [10.0, 5.0]])
    (array([-1. ,  2.5]), array([11. ,  7.5]))
    """
    rows = rows_of(observations)
    low, high = rows.min(axis=0), rows.max(axis=0)
    wide = np.where(high - low > CONSTANT * np.abs(high), MARGIN * (high - low), 0.5 * np.maximum(np.abs(high), 1.0))
    return low - wide, high + wide


def typical(observations: ArrayLike) -> tuple[Floats, Floats]:
    """Return mean and standard deviation of the columns of observations (T, k); 1 for a column that is constant.

    >>> typical([[0.0, 5.0], [2.0, 5.0]])
    (array([1., 5.]), array([1., 1.]))
    """
    rows = rows_of(observations)
    mean, deviation = rows.mean(axis=0), rows.std(axis=0)
    return mean, np.where(deviation > CONSTANT * np.abs(mean), deviation, 1.0)


def median_distance(rows: Floats) -> float:
    """Return the median distance between two different rows, at most 1,000 of them; 1 if all are the same.

    >>> median_distance(np.array([[0.0], [1.0], [3.0]]))
    2.0
    """
    from scipy.spatial.distance import pdist

    distances = pdist(rows[:: -(-len(rows) // 1000)])
    distances = distances[distances > 0]
    return float(np.median(distances)) if distances.size else 1.0


def as_seed(seed: int) -> int:
    """Validate a seed: 32 bits."""
    if as_count("seed", seed, 0) >= 2**32:
        raise SettingError(f"seed is {seed}; it must be below 2^32")
    return int(seed)


def combined(points: Floats, weights: Floats) -> Floats:
    """Return points @ weights, with the same bits for a row whatever the other rows are.

    A matrix product of BLAS adds in another order for another number of rows, and features would depend on the chunks.

    >>> combined(np.array([[1.0, 2.0]]), np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]]))
    array([[1., 2., 3.]])
    """
    total: Floats = np.zeros((*points.shape[:-1], weights.shape[1]))
    for column, row in zip(np.moveaxis(points, -1, 0), weights, strict=True):
        total += column[..., None] * row
    return total


def set_fields(instance: object, **values: object) -> None:
    """Set the fields of a frozen dataclass."""
    for name, value in values.items():
        object.__setattr__(instance, name, value)
