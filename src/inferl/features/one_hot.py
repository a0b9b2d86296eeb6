"""Tabular features: one for each state."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from inferl.data.arrays import as_array, as_count
from inferl.data.batches import count
from inferl.errors import DataError, SettingError
from inferl.features.base import Features

__all__ = ["OneHot", "OneState", "as_features"]


@dataclass(frozen=True)
class OneHot:
    """One feature for each of n states (a table). The number of a state represents its unit vector.

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

    tabular: ClassVar[bool] = True

    n: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", as_count("the number of states", self.n, 1))

    @property
    def dimension(self) -> int:
        """Length of the unit vectors."""
        return self.n

    def __call__(self, observations: ArrayLike) -> Any:
        """Return the number of one state as an int, or those of several as an array (T,)."""
        states = as_array("observations", observations)
        if not np.issubdtype(states.dtype, np.integer):
            raise DataError(f"observations are of type {states.dtype}; OneHot takes state numbers, which are integers")
        outside = states[(states < 0) | (states >= self.n)]
        if outside.size:
            raise DataError(f"observation {outside[0]} is outside the table, whose states are 0 to {self.n - 1}")
        return int(states) if states.ndim == 0 else states.astype(np.int64)


@dataclass(frozen=True)
class OneState:
    """A table with one state, for all observations: no features, as for a mean return.

    >>> OneState()(np.zeros((3, 4)))
    array([0, 0, 0])
    """

    dimension = 1
    tabular = True

    def __call__(self, observations: Any) -> Any:
        """Return 0 for each of n observations."""
        return np.zeros(count(observations), np.int64)


def as_features(features: Any) -> Features:
    """Return a feature map unchanged, or `OneHot` for a Gymnasium ``Discrete`` space.

    Examples
    --------
    >>> import gymnasium
    >>> as_features(gymnasium.make("FrozenLake-v1").observation_space)
    OneHot(n=16)
    """
    gymnasium = sys.modules.get("gymnasium")  # whoever created a space has imported it
    if gymnasium is not None and isinstance(features, gymnasium.spaces.Discrete):
        if features.start != 0:
            raise SettingError(
                f"the states of {features} are numbered from {features.start}, those of a table from 0; subtract "
                "it with gymnasium.wrappers.TransformObservation"
            )
        return OneHot(int(features.n))
    if not (callable(features) and hasattr(features, "dimension")):
        raise SettingError(
            f"features is a {type(features).__name__}; give a feature map such as OneHot(n) or Fourier(low, high, 3), "
            "Function(f, dimension) for a function, Network(module) for a torch module, Transform(transformer) for "
            "a scikit-learn one, or a Discrete observation space; names such as 'auto' are for rollouts"
        )
    feature_map: Features = features
    return feature_map
