"""Observations: steps handed in one by one, checked at once and gathered into a chunk later.

Building arrays for a single step costs more than working on it. So a step of the ordinary kind is checked with plain
comparisons and remembered; whatever is out of the ordinary is left to `Transitions`, which knows how to complain.
"""

from __future__ import annotations

from math import inf, isfinite
from typing import Any

import numpy as np

from inferl.transitions import Transitions

__all__ = ["Observations"]


class Observations:
    """Ordinary steps that wait to become a chunk, at most `room` of them.

    Ordinary: valid values, features of the kind seen before, a known stream, and no explicit `first` or `episode`.
    """

    def __init__(self, dimension: int, room: int) -> None:
        self.dimension = dimension
        self.room = room
        self.known: dict[int, bool] = {}  # stream -> whether its features are tabular
        self.rows: list[tuple[Any, ...]] = []
        self._shape = (dimension,)
        self._vectors = np.zeros((0, 2 * dimension))  # features and next features, where they are vectors

    def __len__(self) -> int:
        return len(self.rows)

    def take(
        self,
        features: Any,
        reward: float,
        next_features: Any,
        discount: float,
        ratio: float,
        last: bool | None,
        stream: int,
    ) -> int:
        """Remember a step and answer how many wait; 0 if it is not an ordinary one."""
        tabular = self.known.get(stream)
        if tabular is None:
            return 0
        try:
            if not (0.0 <= discount <= 1.0 and isfinite(reward) and 0.0 <= ratio < inf):
                return 0
            ends = discount == 0 if last is None else bool(last)
            if discount == 0 and not ends:
                return 0
            if not tabular:
                if not self._keep(features, next_features):
                    return 0
                features = next_features = 0
            elif type(features) is not int or type(next_features) is not int:
                features, next_features = features.__index__(), next_features.__index__()
            if not (0 <= features < self.dimension and 0 <= next_features < self.dimension):
                return 0
        except (TypeError, AttributeError, ValueError):
            return 0
        self.rows.append((features, reward, next_features, discount, ratio, ends, stream))
        return len(self.rows)

    def chunk(self) -> Transitions:
        """Gather the steps into a chunk, and forget them."""
        features, rewards, next_features, discounts, ratios, last, stream = zip(*self.rows, strict=True)
        tabular = self.known[stream[0]]
        vectors, d = self._vectors[: len(self.rows)], self.dimension
        self.rows = []
        ends, goes_on = np.array(last, np.bool_), np.array(discounts, np.float64)
        return Transitions.of_checked(
            features=np.array(features, np.int64) if tabular else vectors[:, :d].copy(),
            rewards=np.array(rewards, np.float64),
            next_features=np.array(next_features, np.int64) if tabular else vectors[:, d:].copy(),
            discounts=goes_on,
            ratios=np.array(ratios, np.float64),
            last=ends,
            stream=np.array(stream, np.int64),
            truncated=ends & (goes_on != 0),
        )

    def _keep(self, features: Any, next_features: Any) -> bool:
        """Copy two vectors into the next free place, and say whether they are sound."""
        if len(self._vectors) == 0:
            self._vectors = np.zeros((self.room, 2 * self.dimension))
        for vector in (features, next_features):
            if (vector.shape if type(vector) is np.ndarray else np.shape(vector)) != self._shape:
                return False
        row = self._vectors[len(self.rows)]
        row[: self.dimension] = features
        row[self.dimension :] = next_features
        # One product finds every NaN and infinity; one that overflows is looked at more closely elsewhere.
        return isfinite(row.dot(row))
