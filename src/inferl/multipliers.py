"""Multipliers: the random weights W of the bootstrap, a pure function of (seed, slot, replica, tick).

A law says how a random word becomes a multiplier of mean 1; a clock says when a new one is drawn. The map from words to
multipliers is part of the checkpoint format (`LAYOUT`): changing it changes everybody's numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt

import numpy as np

from inferl.errors import SettingError
from inferl.philox import Words, philox
from inferl.rows import Floats, Integers
from inferl.streams import Clock

__all__ = ["LAWS", "LAYOUT", "Blocks", "Law", "Multipliers"]

LAYOUT = 1  # of the words below


@dataclass(frozen=True)
class Law:
    """How a random word becomes a multiplier.

    `deviation` is the standard deviation that intervals divide by; one Philox call serves `lanes` ticks of a replica.
    """

    deviation: float
    lanes: int
    multiplier: Callable[[Words, Words], Floats]  # (word, tick) -> W


def _unit(word: Words) -> Floats:
    """Map a 32-bit word to the middle of its cell of (0, 1)."""
    return (word.astype(np.float64) + 0.5) * 2.0**-32


def _uniform(word: Words, tick: Words) -> Floats:
    return 1.0 + (2.0 * _unit(word) - 1.0) * (1.0 / sqrt(3.0))


def _two_point(word: Words, tick: Words) -> Floats:
    return ((word >> (tick % np.uint64(32))) & np.uint64(1)).astype(np.float64) * 2.0


def _exponential(word: Words, tick: Words) -> Floats:
    return -np.log(_unit(word))


LAWS = {
    "uniform": Law(1.0 / 3.0, 4, _uniform),  # the paper's U(1 -+ 1/sqrt 3), with its true deviation
    "two-point": Law(1.0, 128, _two_point),  # 0 or 2
    "exponential": Law(1.0, 4, _exponential),
    "as-printed": Law(1.0, 4, _uniform),  # the same uniform law under the paper's claim that its variance is 1
}


@dataclass(frozen=True)
class Blocks:
    r"""A clock whose ticks last for growing blocks of about `length` t^`growth` steps of a stream.

    .. math:: \text{tick}(n) = \lfloor n^{1-a} / (c (1-a)) \rfloor

    >>> clock = Blocks(4, 0.5)
    >>> clock.tick(np.array([1, 4, 15, 16, 10_000]))
    array([ 0,  1,  1,  2, 50])
    """

    length: float = 4.0
    growth: float = 0.5

    def __post_init__(self) -> None:
        if not 0 < self.length < np.inf or not 0 <= self.growth < 1:
            raise SettingError(f"{self}: the length must be positive and the growth in [0, 1)")

    def tick(self, count: Integers) -> Integers:
        """Number of the block that the count-th step of a stream is in."""
        rate = 1.0 - self.growth
        return np.floor(count.astype(np.float64) ** rate / (self.length * rate)).astype(np.int64)


@dataclass(frozen=True)
class Multipliers:
    """A law and a clock: W of replica b is drawn anew at each tick and stays until the next.

    With ``clock="step"`` every transition has its own multiplier; with ``"episode"`` or `Blocks` a multiplier stays
    for a stretch of a stream, so that the replicas feel its dependence.

    >>> Multipliers("two-point", clock=Blocks()).deviation
    1.0
    """

    law: str = "uniform"
    clock: str | Blocks = "step"

    def __post_init__(self) -> None:
        if self.law not in LAWS:
            raise SettingError(f"there is no law {self.law!r}; choose one of {', '.join(LAWS)}")
        if not isinstance(self.clock, Blocks) and self.clock not in ("step", "episode"):
            raise SettingError(f"there is no clock {self.clock!r}; choose 'step', 'episode' or Blocks(length, growth)")

    @property
    def deviation(self) -> float:
        """Standard deviation that the bootstrap's deviations are divided by."""
        return LAWS[self.law].deviation

    def ticks(self, clock: Clock) -> Integers:
        """Tick of each row: (T,)."""
        if isinstance(self.clock, Blocks):
            return self.clock.tick(clock.count)
        return clock.step if self.clock == "step" else clock.episode

    def draw(self, seed: int, tick: Integers, stream: Integers, replica: Integers) -> Floats:
        """Draw the multipliers of rows (T,), whose streams are told by their slots, for replicas (B,): (B, T).

        >>> rows = np.arange(3)
        >>> Multipliers("two-point").draw(0, tick=rows, stream=0 * rows, replica=np.arange(2))
        array([[2., 0., 2.],
               [2., 0., 0.]])
        """
        law = LAWS[self.law]
        call, row = np.unique(np.stack([tick // law.lanes, stream]), axis=1, return_inverse=True)
        key = (seed & 0xFFFFFFFF, seed >> 32)
        row = row.reshape(-1)  # NumPy 2.0.0 keeps an axis
        number, label = call[0].astype(np.uint64), call[1].astype(np.uint64)
        counter = (number & np.uint64(0xFFFFFFFF), number >> np.uint64(32), replica[:, None], label)
        words = philox(counter, key)  # (B, calls, 4)
        lane = tick % law.lanes // (law.lanes // 4)
        return law.multiplier(words[:, row, lane], tick.astype(np.uint64))
