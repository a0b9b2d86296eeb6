"""Features: what an evaluator sees of an observation.

A feature map has a `dimension` and is called with one observation or with an array of them (its first axis counts
them). It returns one vector or row number, or one per observation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from inferl.errors import DataError, SettingError

__all__ = ["Features", "OneHot"]


class Features(Protocol):
    """Anything with a `dimension` that turns observations into features."""

    @property
    def dimension(self) -> int:
        """Length of a feature vector."""
        ...

    def __call__(self, observations: ArrayLike) -> Any:
        """Return the features of one observation, or of an array of them."""
        ...


@dataclass(frozen=True)
class OneHot:
    """One feature for each of n states: the table. A state's number stands for its unit vector.

    Parameters
    ----------
    n
        Number of states.

    Examples
    --------
    >>> features = OneHot(64)
    >>> features(3), features([0, 63])
    (3, array([ 0, 63]))
    >>> features.dimension
    64
    """

    n: int

    def __post_init__(self) -> None:
        if self.n < 1:
            raise SettingError(f"OneHot needs at least one state, not {self.n}")

    @property
    def dimension(self) -> int:
        """Length of the unit vectors."""
        return self.n

    def __call__(self, observations: ArrayLike) -> Any:
        """Return a state's number as an int, or those of several as an array (T,)."""
        states = np.asarray(observations)
        if not np.issubdtype(states.dtype, np.integer):
            raise DataError(f"observations are of type {states.dtype}; OneHot takes the numbers of states, integers")
        outside = states[(states < 0) | (states >= self.n)]
        if outside.size:
            raise DataError(f"observation {outside[0]} is outside the table, whose states are 0 to {self.n - 1}")
        return int(states) if states.ndim == 0 else states.astype(np.int64)
