"""The interface of a feature map, and helpers that several of them share."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from inferl.data.arrays import Floats, as_floats
from inferl.errors import DataError, SettingError, ShapeError

__all__ = ["Bounds", "Features", "as_bounds", "unit", "vectors"]

Bounds = tuple[float, ...]


class Features(Protocol):
    """Anything with a `dimension` that maps observations to features.

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
            "low below high; for an unbounded space, give the range that matters"
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
