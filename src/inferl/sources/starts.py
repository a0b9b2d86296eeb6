"""Starts: the observed start distribution of a source, as a target."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, ClassVar

import numpy as np

from inferl.data.arrays import Floats, Integers
from inferl.data.invariants import COUNT, bounds, shapes
from inferl.errors import TargetError

__all__ = ["Starts"]


@dataclass(frozen=True, eq=False)
class Starts:
    """The mean features of the observed episode starts, as a running sum; a target wherever an array is one.

    With `DoublyRobust` the estimand is the value of the distribution that they were drawn from, or, if `conditional`,
    their own mean value. With plain TD it is their own, by the features alone.

    Examples
    --------
    >>> starts = Starts().updated(np.array([[1.0, 0.0], [3.0, 2.0]]))
    >>> np.asarray(starts), starts.text
    (array([2., 1.]), 'the 2 observed starts')
    >>> np.asarray(Starts().updated(np.array([0, 2, 2, 2]), n_states=3))
    array([0.25, 0.  , 0.75])
    """

    conditional: ClassVar[bool] = False

    number: int = 0
    total: Floats = field(default_factory=lambda: np.zeros(0))  # (d,), or how often each state of a table began

    def verify(self) -> None:
        """Check shapes and bounds of a state that comes from a file."""
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
        # Row by row, so that the sum does not depend on the batches; `sum` adds in pairs.
        return Starts(self.number + len(features), np.add.accumulate(rows, axis=0)[-1].astype(np.float64))

    @classmethod
    def joined(cls, parts: Sequence[Starts]) -> Starts:
        """Add the starts of several sources, in this order."""
        filled = [part for part in parts if part.number]
        totals = (part.total for part in filled)
        return cls(sum(part.number for part in filled), reduce(np.add, totals)) if filled else cls()

    def of(self, latest: Callable[[bool], Starts], conditional: bool = False) -> Starts:
        """Attach a function that returns the starts observed by now; `Evaluator.until` calls it before each look.

        With `conditional`, the target are these starts themselves, and not the distribution that they were drawn from.
        """
        asked = replace(self)
        object.__setattr__(asked, "latest", lambda: latest(conditional))
        object.__setattr__(asked, "conditional", conditional)
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
