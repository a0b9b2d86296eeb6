"""The protocol of a logger, and what all of them write."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, runtime_checkable

import numpy as np

from inferl.data.arrays import is_integer, short
from inferl.errors import SettingError
from inferl.interval import Interval

__all__ = ["Logger", "check_step", "metrics", "named"]


@runtime_checkable
class Logger(Protocol):
    """Anything that can log an interval.

    >>> class Printer:
    ...     def log(self, interval, step):
    ...         print(step, interval)
    >>> isinstance(Printer(), Logger)
    True
    """

    def log(self, interval: Interval, step: int) -> None:
        """Log an interval that was read after `step` steps, of training or of evaluation."""


def named(name: str, interval: Interval) -> Iterator[tuple[str, Interval]]:
    """Name each number of an interval; several targets are numbered.

    >>> two = Interval(np.zeros(2), -np.ones(2), np.ones(2), 0.95, "normal", np.ones(2), 10)
    >>> [each for each, _ in named("value", two)]
    ['value/0', 'value/1']
    """
    if not isinstance(interval, Interval):
        raise SettingError(f"a {type(interval).__name__} is no interval; give its interval, as result.interval")
    single = np.ndim(interval.estimate) == 0
    yield from ((name if single else f"{name}/{i}", one) for i, one in enumerate(interval))


def metrics(name: str, interval: Interval) -> dict[str, float]:
    """Return estimate, lower and upper bound as metrics.

    An interval without finite bounds is left out: charts, and the stores behind them, have no infinity.

    >>> metrics("return", Interval(437.0, 408.0, 466.0, 0.95, "anytime", 14.0, 52_440))
    {'return/estimate': 437.0, 'return/lower': 408.0, 'return/upper': 466.0}
    """
    found: dict[str, float] = {}
    for each, one in named(name, interval):
        numbers = {f"{each}/{part}": float(getattr(one, part)) for part in ("estimate", "lower", "upper")}
        if np.isfinite(list(numbers.values())).all():
            found |= numbers
    return found


def check_step(step: int) -> int:
    """Return a step as a plain integer; raise for anything else."""
    if not is_integer(step) or step < 0:
        raise SettingError(f"step is {short(step)}; give the number of steps so far")
    return int(step)
