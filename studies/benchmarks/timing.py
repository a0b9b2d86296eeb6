"""Timing: processor time of several things, taken in turns.

On a shared machine the clock on the wall measures the neighbours too, and speed drifts. So the process's own time is
read, things that are compared take turns (A B C A B C ...), ratios are formed turn by turn, and the median is kept.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from time import process_time

__all__ = ["Case", "Times", "interleaved", "slope"]


@dataclass(frozen=True)
class Case:
    """Something to be timed that does `work` units at each run: transitions, calls or operations."""

    name: str
    run: Callable[[], object]
    work: float


@dataclass(frozen=True)
class Times:
    """Seconds a unit of work, one for each turn.

    >>> ours, theirs = Times("ours", [1e-6, 2e-6, 1e-6]), Times("theirs", [1e-5, 1e-5, 1e-5])
    >>> round(ours.rate), round(ours.over(theirs))
    (1000000, 10)
    """

    name: str
    seconds: Sequence[float]

    @property
    def median(self) -> float:
        """Typical seconds a unit of work."""
        return median(self.seconds)

    @property
    def rate(self) -> float:
        """Units of work a second."""
        return 1.0 / self.median

    def over(self, other: Times) -> float:
        """How many times faster than another."""
        return median(b / a for a, b in zip(self.seconds, other.seconds, strict=True))


def interleaved(cases: Sequence[Case], rounds: int) -> dict[str, Times]:
    """Time all cases in turns, after each has run once to warm up."""
    for case in cases:
        case.run()
    seconds: dict[str, list[float]] = {case.name: [] for case in cases}
    collecting = gc.isenabled()
    gc.disable()
    try:
        for _ in range(rounds):
            for case in cases:
                start = process_time()
                case.run()
                seconds[case.name].append((process_time() - start) / case.work)
    finally:
        if collecting:
            gc.enable()
    return {name: Times(name, own) for name, own in seconds.items()}


def slope(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """Exponent of a power law through times, by least squares on logarithms.

    >>> round(slope([1, 2, 4], [3.0, 12.0, 48.0]), 6)
    2.0
    """
    import numpy as np

    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])
