"""Scaling of observations, and an intercept for other features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from inferl.data.arrays import Floats, as_floats
from inferl.errors import SettingError
from inferl.features.base import Bounds, Features, as_bounds, bounds_of, unit
from inferl.features.one_hot import OneHot, as_features

__all__ = ["Scaled", "WithIntercept"]


@dataclass(frozen=True, init=False)
class Scaled:
    """Observations scaled to [-1, 1]^k, used as features or as the input of another feature map.

    An observation outside the bounds is clipped to them.

    Parameters
    ----------
    low, high
        Bounds of the observations, (k,).
    features
        Takes the scaled observations; None: they are the features.

    Examples
    --------
    >>> Scaled(low=[0, 0], high=[10, 4])([5, 4])
    array([0., 1.])
    >>> from inferl.features import Function
    >>> Scaled(low=0, high=10, features=Function(lambda x: np.concatenate([x, x**2], axis=-1), 2))([0])
    array([-1.,  1.])
    """

    tabular: ClassVar[bool] = False

    low: Bounds
    high: Bounds
    features: Features | None

    def __init__(self, low: ArrayLike, high: ArrayLike, features: Features | None = None) -> None:
        lower, upper = as_bounds(low, high)
        object.__setattr__(self, "low", lower)
        object.__setattr__(self, "high", upper)
        object.__setattr__(self, "features", None if features is None else as_features(features))

    @classmethod
    def from_data(cls, observations: ArrayLike, features: Features | None = None) -> Scaled:
        """Take the bounds from observations (T, k): their range, and a tenth of it on both sides.

        >>> Scaled.from_data([[0.0], [10.0]])
        Scaled(low=(-1.0,), high=(11.0,), features=None)
        """
        return cls(*bounds_of(observations), features)

    @property
    def dimension(self) -> int:
        """Length of a feature vector."""
        return len(self.low) if self.features is None else self.features.dimension

    def __call__(self, observations: ArrayLike) -> Any:
        """Return the features of one observation (d,), or of several (T, d)."""
        scaled = 2 * unit(observations, self.low, self.high) - 1
        return scaled if self.features is None else self.features(scaled)


@dataclass(frozen=True)
class WithIntercept:
    """Other features with a constant 1 prepended.

    Parameters
    ----------
    features
        A feature map that returns vectors. `OneHot` needs no constant; `Fourier`, `RandomFourier` and `TileCoding`
        contain one.

    Examples
    --------
    >>> features = WithIntercept(Scaled(low=0, high=10))
    >>> features([[0], [5]])
    array([[ 1., -1.], [ 1.,  0.]])
    >>> features.dimension
    2
    """

    tabular: ClassVar[bool] = False

    features: Features

    def __post_init__(self) -> None:
        as_features(self.features)  # raises if it is not a feature map
        if isinstance(self.features, OneHot):
            raise SettingError(f"{self.features} needs no intercept: its features add up to 1 already")

    @property
    def dimension(self) -> int:
        """One more than without the constant."""
        return self.features.dimension + 1

    def __call__(self, observations: Any) -> Floats:
        """Return the features of one observation (d,), or of several (T, d)."""
        values = as_floats("features", self.features(observations))
        return np.concatenate([np.ones((*values.shape[:-1], 1)), values], axis=-1)
