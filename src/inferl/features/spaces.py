"""Observation spaces of Gymnasium as numbers: the states of a finite space, and vectors of any other."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

import numpy as np

from inferl.data.arrays import Floats, Integers, as_array, as_floats
from inferl.data.batches import count, rows
from inferl.errors import DataError, SettingError, ShapeError
from inferl.features.base import Features
from inferl.features.one_hot import OneHot

__all__ = ["Combinations", "flattened", "number_of_columns", "table_of"]

MOST_COMBINED = 2000  # states: the parts of a space with more are columns of their own


@dataclass(frozen=True, eq=False)
class Combinations:
    """One feature for each combination of the parts of a finite space.

    >>> import gymnasium
    >>> hands = Combinations(gymnasium.make("Blackjack-v1").observation_space)  # 32 sums, 11 cards, an ace or not
    >>> hands.dimension, hands((20, 10, 1)), hands((np.array([20, 4]), np.array([10, 3]), np.array([1, 0])))
    (704, 461, array([461,  94]))
    """

    tabular: ClassVar[bool] = True

    space: Any

    @property
    def dimension(self) -> int:
        """Number of combinations."""
        return prod(_sizes(self.space) or ())

    def __call__(self, observations: Any) -> Any:
        """Return the number of one combination as an int, or those of several as an array (T,)."""
        try:
            states = np.ravel_multi_index(tuple(_parts(self.space, observations)), _sizes(self.space) or ())
        except (TypeError, ValueError, IndexError, KeyError) as error:
            raise DataError(f"an observation is none of {self.space}: {error}") from None
        return int(states) if np.ndim(states) == 0 else np.asarray(states, np.int64)


def table_of(space: Any) -> Features | None:
    """Return a table with one feature for each state of a finite space, or None if it has none or too many.

    >>> import gymnasium
    >>> table_of(gymnasium.spaces.Discrete(500)), table_of(gymnasium.spaces.Box(-1, 1, (3,)))
    (OneHot(n=500), None)
    """
    spaces = sys.modules["gymnasium"].spaces  # whoever made a space has imported it
    if isinstance(space, spaces.Discrete) and space.start == 0:
        return OneHot(int(space.n))
    sizes = _sizes(space)
    return None if sizes is None or prod(sizes) > MOST_COMBINED else Combinations(space)


def number_of_columns(space: Any) -> int:
    """Return the length of the vectors of `flattened`; raise where observations are no vectors.

    >>> import gymnasium
    >>> number_of_columns(
    ...     gymnasium.spaces.Dict(place=gymnasium.spaces.Box(-1, 1, (2,)), key=gymnasium.spaces.Discrete(3))
    ... )
    5
    """
    spaces = sys.modules["gymnasium"].spaces
    if isinstance(space, spaces.Dict | spaces.Tuple):
        return sum(map(number_of_columns, _inner(space)))
    if not isinstance(space, spaces.Box | spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary):
        raise SettingError(
            f"there are no features by name for observations of {space}; give a feature map, such as "
            "Function(f, dimension)"
        )
    return int(spaces.utils.flatdim(space))


def flattened(space: Any, observations: Any) -> Floats:
    """Return one observation as a vector (k,), or several as (T, k); discrete parts become indicators.

    >>> import gymnasium
    >>> space = gymnasium.spaces.Dict(place=gymnasium.spaces.Box(-1, 1, (2,)), key=gymnasium.spaces.Discrete(3))
    >>> flattened(space, {"place": np.array([0.5, -0.5]), "key": 1}).tolist()
    [0.5, -0.5, 0.0, 1.0, 0.0]
    """
    spaces = sys.modules["gymnasium"].spaces
    if isinstance(space, spaces.Box):
        array = as_floats("observations", observations)
        if array.shape[array.ndim - len(space.shape) :] != space.shape or array.ndim > len(space.shape) + 1:
            raise ShapeError(
                f"observations have shape {array.shape}; expected {space.shape} for one, one axis more for several"
            )
        return array.reshape(*array.shape[: array.ndim - len(space.shape)], -1)
    try:
        if _is_single(space, observations):
            return np.asarray(spaces.utils.flatten(space, observations), np.float64)
        flat = [spaces.utils.flatten(space, rows(observations, i)) for i in range(count(observations))]
        return np.array(flat, np.float64)
    except (TypeError, ValueError, IndexError, KeyError) as error:
        raise ShapeError(f"an observation is none of {space}: {error}") from None


def _inner(space: Any) -> list[Any]:
    """Return the parts of a ``Dict`` or ``Tuple``, in order."""
    return list(space.spaces.values() if isinstance(space.spaces, dict) else space.spaces)


def _is_single(space: Any, observations: Any) -> bool:
    """Whether these are one observation, by the number of axes of the first part."""
    while hasattr(space, "spaces"):
        first = next(iter(space.spaces)) if isinstance(space.spaces, dict) else 0
        space, observations = space.spaces[first], observations[first]
    return np.ndim(observations) == len(space.shape or ())


def _sizes(space: Any) -> tuple[int, ...] | None:
    """Return how many values each part of a finite space has; None for another space."""
    spaces = sys.modules["gymnasium"].spaces
    if isinstance(space, spaces.Discrete):
        return (int(space.n),)
    if isinstance(space, spaces.MultiDiscrete):
        return tuple(map(int, space.nvec.ravel()))
    if isinstance(space, spaces.MultiBinary):
        return (2,) * int(prod(space.shape))
    if isinstance(space, spaces.Dict | spaces.Tuple):
        parts = [_sizes(part) for part in _inner(space)]
        known = [part for part in parts if part is not None]
        return sum(known, ()) if len(known) == len(parts) else None
    return None


def _parts(space: Any, observations: Any) -> list[Integers]:
    """Return the values of each part of a finite space, counted from 0."""
    if hasattr(space, "spaces"):
        given = [observations[name] for name in space.spaces] if isinstance(space.spaces, dict) else observations
        return [part for one, of in zip(given, _inner(space), strict=True) for part in _parts(of, one)]
    values = as_array("observations", observations) - getattr(space, "start", 0)
    shape = space.shape or ()
    columns = values.reshape(*values.shape[: values.ndim - len(shape)], -1) if shape else values[..., None]
    return [columns[..., i].astype(np.int64) for i in range(columns.shape[-1])]
