"""A buffer for steps that are passed one by one: each is validated at once, and many become one chunk later.

Building arrays for a single step costs more than processing it. So an ordinary step is validated with plain comparisons
and buffered; any other step is left to `Transitions`, which raises the right error.
"""

from __future__ import annotations

from math import inf, isfinite
from typing import Any

import numpy as np

from inferl.data.transitions import MOST_STREAM, Transitions

__all__ = ["Observations"]

# Types of the values of an ordinary step: exactly these, because many other types can be compared with numbers.
INTEGERS = frozenset({int, np.int64, np.int32})
_TOO_LARGE = 2**63  # for a NumPy integer
NUMBERS = INTEGERS | {float, np.float64, np.float32}


class Observations:
    """Buffered steps that will become a chunk, at most `capacity` of them.

    Only ordinary steps are buffered: valid values, features of the kind seen before, no explicit `first` or `episode`.
    """

    def __init__(self, dimension: int, capacity: int) -> None:
        self.dimension = dimension
        self.capacity = capacity
        self.tabular: bool | None = None  # whether features are row numbers; None: not known yet
        self.rows: list[tuple[Any, ...]] = []
        self._shape = (dimension,)
        self._vectors = np.zeros((0, 2 * dimension))  # features and next features, where they are vectors

    def __len__(self) -> int:
        return len(self.rows)

    def append(
        self,
        features: Any,
        reward: Any,
        next_features: Any,
        discount: Any,
        ratio: Any,
        last: Any,
        stream: Any,
    ) -> bool:
        """Buffer a step and return True; return False if it is not an ordinary one."""
        if not (type(stream) in INTEGERS and type(reward) in NUMBERS and type(discount) in NUMBERS):
            return False
        tabular = self.tabular
        if tabular is None or type(ratio) not in NUMBERS or not 0 <= stream <= MOST_STREAM:
            return False
        if not (0.0 <= discount <= 1.0 and -inf < reward < inf and 0.0 <= ratio < inf):
            return False
        if (type(reward) is int and abs(reward) >= _TOO_LARGE) or (type(ratio) is int and ratio >= _TOO_LARGE):
            return False
        if last is None:
            ends = bool(discount == 0)
        elif last is True or (last is False and discount != 0):
            ends = last
        else:
            return False
        if tabular:
            if type(features) not in INTEGERS or type(next_features) not in INTEGERS:
                return False
            if not (0 <= features < self.dimension and 0 <= next_features < self.dimension):
                return False
        elif self._keep(features, next_features):
            features = next_features = 0
        else:
            return False
        self.rows.append((features, reward, next_features, discount, ratio, ends, stream))
        return True

    def chunk(self) -> Transitions:
        """Return the buffered steps as a chunk."""
        features, rewards, next_features, discounts, ratios, last, stream = zip(*self.rows, strict=True)
        tabular = self.tabular
        vectors, d = self._vectors[: len(self.rows)], self.dimension
        ends, discount = np.array(last, np.bool_), np.array(discounts, np.float64)
        return Transitions.of_checked(
            features=np.array(features, np.int64) if tabular else vectors[:, :d].copy(),
            rewards=np.array(rewards, np.float64),
            next_features=np.array(next_features, np.int64) if tabular else vectors[:, d:].copy(),
            discounts=discount,
            ratios=np.array(ratios, np.float64),
            last=ends,
            stream=np.array(stream, np.int64),
            truncated=ends & (discount != 0),
        )

    def clear(self) -> None:
        """Drop the buffered steps, once they have been processed."""
        self.rows = []

    def _keep(self, features: Any, next_features: Any) -> bool:
        """Copy two vectors into the next free row, and return whether they are valid."""
        if len(self._vectors) == 0:
            self._vectors = np.zeros((self.capacity, 2 * self.dimension))
        if type(features) is list:
            features, next_features = _listed(features), _listed(next_features)
        for vector in (features, next_features):
            if type(vector) is not np.ndarray or vector.shape != self._shape or vector.dtype.kind not in "biuf":
                return False
        row = self._vectors[len(self.rows)]
        row[: self.dimension] = features
        row[self.dimension :] = next_features
        # One product finds every NaN and infinity. If it overflows, `Transitions` looks at the step more closely.
        try:
            return isfinite(row.dot(row))
        except RuntimeWarning:  # where warnings are errors
            return False


def _listed(values: Any) -> Any:
    """Convert a list of plain numbers to an array; return anything else unchanged."""
    return np.array(values) if type(values) is list and all(type(x) in NUMBERS for x in values) else values
