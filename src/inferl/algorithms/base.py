"""The base class of all algorithms, and helpers that several of them share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from inferl import engine
from inferl.data.arrays import Floats, Integers, is_integer, is_number, lengthened, short
from inferl.data.increments import Increments
from inferl.data.streams import Clock, Steps
from inferl.data.transitions import Transitions
from inferl.data.vectors import Sparse, Vectors, one_hot, squared_norm, subtract_scaled, terms
from inferl.errors import DataError, SettingError, ShapeError, TargetError

__all__ = ["Algorithm", "Carry", "carried", "check_setting", "count", "lengths", "single", "transitions_of"]

Carry = dict[str, Any]  # state between chunks: arrays with one row per stream, or steps whose increments are pending


@dataclass(frozen=True)
class Algorithm:
    """Base of all algorithms: d features, and p parameters of which the first d are those of the value."""

    dimension: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "dimension", count(self.dimension, type(self).__name__))

    @property
    def n_parameters(self) -> int:
        """Length p of the parameter vector."""
        return self.dimension

    @property
    def n_features(self) -> int:
        """Length of the features, or number of rows of the table."""
        return self.dimension

    @property
    def n_terms(self) -> int:
        """Number of rank-one terms per step."""
        return 1

    @property
    def affine(self) -> bool:
        """Whether increments are affine in the parameters, so that least squares can solve for them."""
        return True

    @property
    def sparse(self) -> bool:
        """Whether a step with tabular features involves only a few parameters."""
        return True

    @property
    def delayed(self) -> bool:
        """Whether the increment of a step needs later steps."""
        return False

    @property
    def checks_rows(self) -> bool:
        """Whether `check` requires more than valid rows with features of the right length."""
        return type(self).check is not Algorithm.check

    @property
    def recursive(self) -> bool:
        """Whether the equation can be solved by stochastic approximation, as a bootstrap does."""
        return True

    @property
    def blocks(self) -> str:
        """Default blocks over which least squares sums scores."""
        return "dyadic"

    @property
    def outputs(self) -> Integers:
        """Value parameters that occur in no equation but their own."""
        return np.zeros(0, np.int64)

    @property
    def n_values(self) -> int:
        """Length of a vector of features that a value can be asked for."""
        return self.dimension

    def named_targets(self) -> dict[str, Floats]:
        """Return the targets that have a name: rows (k, dimension)."""
        return {}

    def checked_targets(self) -> list[Floats]:
        """Return rows (5, dimension) for each policy; the last three are 0 if the features can express the value."""
        return []

    def of_features(self, vectors: Floats) -> Floats:
        """Convert vectors (k, n_values) to targets (k, dimension)."""
        return vectors

    def increments(self, steps: Steps, carry: Carry) -> tuple[Increments, Clock, Carry]:
        """Convert steps to increments with their positions in time, and return the carry for later steps."""
        raise NotImplementedError

    def value_form(self, increments: Increments) -> Increments:
        """Reduce to the d equations in theta alone, which least squares solves."""
        return increments

    def check(self, data: Transitions | Increments) -> None:
        """Raise for data of another kind or dimension."""
        if not isinstance(data, Transitions):
            raise ShapeError(f"{type(self).__name__} takes Transitions; Increments are for Linear")
        if data.ratios.ndim == 2:
            raise ShapeError(f"there are {data.ratios.shape[1]} columns of ratios; Stack takes several, others one")
        if not data.tabular and data.features.shape[1] != self.n_features:
            raise ShapeError(f"features have length {data.features.shape[1]}, but this is {self}")
        if data.tabular:
            for name, index in (("features", data.features), ("next_features", data.next_features)):
                outside = np.flatnonzero(index >= self.n_features)
                if outside.size:
                    raise DataError(
                        f"row {outside[0]}: {name} index is {index[outside[0]]}, but the table of {self} "
                        f"has rows 0 to {self.n_features - 1}; enlarge it or repair the row"
                    )

    def pad(self, target: Floats) -> Floats:
        """Pad targets (k, d) with zeros to (k, p)."""
        return lengthened(target, self.n_parameters)

    def state_vector(self, state: int) -> Floats:
        """Convert the number of a state to a target (d,)."""
        if not 0 <= state < self.dimension:
            raise TargetError(f"state {state} is outside the table, whose rows are 0 to {self.dimension - 1}")
        vector = np.zeros(self.dimension)
        vector[state] = 1.0
        return vector

    def vectors(self, features: Floats | Integers) -> Vectors:
        """Convert row numbers of a table to unit vectors."""
        if features.ndim == 1:
            return one_hot(features.astype(np.int64, copy=False), self.dimension)
        return features.astype(np.float64, copy=False)

    def features(self, data: Transitions) -> tuple[Vectors, Vectors]:
        """Return phi and dphi = phi - g phi'."""
        phi = self.vectors(data.features)
        return phi, _difference(phi, self.vectors(data.next_features), data.discounts)


def count(number: Any, who: str) -> int:
    """Validate a number of features; the message helps users who pass the features themselves.

    >>> count(np.int64(3), "TD")
    3
    """
    if not is_integer(number):
        dimension = getattr(number, "dimension", None)
        hint = f": {who}({dimension}), or features.dimension" if isinstance(dimension, int) else ""
        raise SettingError(f"{who} takes the number of features, not {short(number)}{hint}")
    if number < 1:
        raise SettingError(f"{who} needs at least one feature, not {number}")
    return int(number)


def check_setting(name: str, value: Any, low: float, high: float, remedy: str) -> None:
    """Raise for a setting that is not a number in [low, high]."""
    if not (is_number(value) and low <= value <= high):
        raise SettingError(f"{name} is {short(value)}; {remedy}")


def transitions_of(steps: Steps) -> Transitions:
    """Return the data of steps; `Algorithm.check` has made sure that they are transitions."""
    assert isinstance(steps.data, Transitions)
    return steps.data


def single(u: Vectors, v: Vectors, c: Floats, phi: Vectors) -> Increments:
    """Build increments with one term per step."""
    size = phi.size if isinstance(phi, Sparse) else phi.shape[1]
    return Increments(terms([u]), terms([v]), c[:, None], np.zeros(size), lengths(phi))


def lengths(phi: Vectors) -> Floats:
    """Compute |phi|^2 of each row; dense ones in the backend."""
    use = engine.active()
    return squared_norm(phi) if isinstance(phi, Sparse) else use.squared_norms(phi, use.threads)


def _difference(x: Vectors, y: Vectors, factor: Floats) -> Vectors:
    """Compute x - factor y row by row; dense ones in the backend."""
    if isinstance(x, Sparse) or isinstance(y, Sparse):
        return subtract_scaled(x, y, factor)
    use = engine.active()
    return use.subtract_scaled(x, y, factor, use.threads)


def carried(carry: Carry, name: str, slot: Integers, *shape: int) -> Floats:
    """Copy a carried array, with rows of zeros for new streams."""
    old = carry.get(name, np.zeros((0, *shape)))
    new = np.zeros((max(len(old), int(slot.max(initial=-1)) + 1), *shape))
    new[: len(old)] = old
    return new
