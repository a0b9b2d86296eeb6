"""Observations: steps handed in one by one, checked at once and gathered into a chunk later.

Building arrays for a single step costs more than working on it. So a step of the ordinary kind is checked with plain
comparisons and remembered; whatever is out of the ordinary is left to `Transitions`, which knows how to complain.
"""

from __future__ import annotations

from math import isfinite
from typing import Any

import numpy as np

from inferl.rows import Floats
from inferl.transitions import Transitions

__all__ = ["Observations"]


class Observations:
    """Ordinary steps that wait to become a chunk.

    Ordinary: valid values, features of the kind seen before, a known stream, and no explicit `first` or `episode`.
    """

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension
        self.known: dict[int, bool] = {}  # stream -> whether its features are tabular
        self.rows: list[tuple[Any, ...]] = []

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
            if not (0.0 <= discount <= 1.0 and isfinite(reward) and ratio >= 0.0 and isfinite(ratio)):
                return 0
            ends = discount == 0 if last is None else bool(last)
            if discount == 0 and not ends:
                return 0
            if tabular:
                if type(features) is not int or type(next_features) is not int:
                    features, next_features = features.__index__(), next_features.__index__()
                if not (0 <= features < self.dimension and 0 <= next_features < self.dimension):
                    return 0
            else:
                features, next_features = self._vector(features), self._vector(next_features)
                if features is None or next_features is None:
                    return 0
        except (TypeError, AttributeError, ValueError):
            return 0
        self.rows.append((features, reward, next_features, discount, ratio, ends, stream))
        return len(self.rows)

    def chunk(self) -> Transitions:
        """Gather the steps into a chunk, and forget them."""
        features, rewards, next_features, discounts, ratios, last, stream = zip(*self.rows, strict=True)
        self.rows = []
        return Transitions(
            np.array(features), rewards, np.array(next_features), discounts, ratios, last=last, stream=stream
        )

    def _vector(self, features: Any) -> Floats | None:
        vector = np.array(features, dtype=np.float64)
        # One product finds every NaN and infinity; one that overflows is looked at more closely elsewhere.
        return vector if vector.shape == (self.dimension,) and isfinite(vector @ vector) else None
