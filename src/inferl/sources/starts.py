"""Starts: where the episodes of a log began. Their mean is a target, the start distribution as it was observed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from inferl.data.arrays import Floats, Integers
from inferl.data.invariants import COUNT, bounds, shapes
from inferl.errors import TargetError

__all__ = ["Starts"]


@dataclass(frozen=True, eq=False)
class Starts:
    """The mean features of observed episode starts, kept as a running sum; a target wherever an array is one.

    The interval for it is conditional: it speaks of these starts, not of those that might have been drawn.

    Examples
    --------
    >>> starts = Starts().updated(np.array([[1.0, 0.0], [3.0, 2.0]]))
    >>> np.asarray(starts), starts.text
    (array([2., 1.]), 'the 2 observed starts')
    >>> np.asarray(Starts().updated(np.array([0, 2, 2, 2]), n_states=3))
    array([0.25, 0.  , 0.75])
    """

    number: int = 0
    total: Floats = field(default_factory=lambda: np.zeros(0))  # (d,), or how often each state of a table began

    def verify(self) -> None:
        """Refuse what no starts leave."""
        shapes(self, {"total": "d"})
        bounds(self, {"number": COUNT})

    def updated(self, features: Floats | Integers, n_states: int | None = None) -> Starts:
        """Add the first rows of some episodes: vectors (k, d), or states (k,) of a table of `n_states`."""
        if len(features) == 0:
            return self
        if n_states is not None:
            counts = np.bincount(features.astype(np.int64), minlength=n_states)
            return Starts(self.number + len(features), counts + (self.total if self.number else np.zeros(n_states)))
        rows = features if self.number == 0 else np.concatenate([self.total[None], features])
        # One after the other, so that the sum does not depend on how rows were batched; `sum` adds in pairs.
        return Starts(self.number + len(features), np.add.accumulate(rows, axis=0)[-1].astype(np.float64))

    def of(self, latest: Callable[[], Starts]) -> Starts:
        """Return the same starts, which know how to ask for those observed later: `Evaluator.until` looks at these."""
        asked = replace(self)
        object.__setattr__(asked, "latest", latest)
        return asked

    @property
    def text(self) -> str:
        """What the target is, for a report."""
        return f"the {self.number:,} observed starts"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Floats:
        if self.number == 0:
            raise TargetError("no episode has begun yet, so there is no observed start; read the log first")
        mean: Floats = self.total / self.number
        return mean if dtype is None else mean.astype(dtype)
