"""Multipliers of the bootstrap: their laws, their clocks, and the random numbers behind them.

Random words come from Philox 4x32-10, a counter-based generator (Salmon et al. 2011). It is a pure function of
(counter, key) and has no state: the words of replica 17 at tick 4,000,000 are computed directly. So results do not
depend on how a stream was cut into chunks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import exp, factorial, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from inferl.data.arrays import Floats, Integers
from inferl.data.invariants import COUNT, bounds, shapes
from inferl.data.streams import Clock
from inferl.errors import SettingError

__all__ = ["LAWS", "LAYOUT", "BlockClock", "EffectiveBlocks", "Law", "Multipliers", "philox", "register_law"]

Words = NDArray[np.uint64]

_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_WEYL = (np.uint64(0x9E3779B9), np.uint64(0xBB67AE85))
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


def philox(counter: tuple[ArrayLike, ArrayLike, ArrayLike, ArrayLike], key: tuple[int, int]) -> Words:
    """Apply ten Philox rounds to four 32-bit counter words (broadcast together) under a key of two words.

    Returns
    -------
        Four random 32-bit words along a new last axis, held in 64-bit integers.

    >>> [f"{int(word):08x}" for word in philox((0, 0, 0, 0), (0, 0))]
    ['6627e8d5', 'e169c58d', 'bc57ac4c', '9b00dbd8']
    """
    x0, x1, x2, x3 = np.broadcast_arrays(*(np.asarray(word, dtype=np.uint64) for word in counter))
    k0, k1 = np.uint64(key[0]), np.uint64(key[1])
    for _ in range(10):
        product0, product1 = _MULTIPLIERS[0] * x0, _MULTIPLIERS[1] * x2
        x0 = (product1 >> _HALF) ^ x1 ^ k0
        x1 = product1 & _LOW
        x2 = (product0 >> _HALF) ^ x3 ^ k1
        x3 = product0 & _LOW
        k0 = np.uint64((int(k0) + int(_WEYL[0])) & 0xFFFFFFFF)
        k1 = np.uint64((int(k1) + int(_WEYL[1])) & 0xFFFFFFFF)
    return np.stack([x0, x1, x2, x3], axis=-1)


_ASKED = philox((0, 0, 0, 0), (0, 0)), np.arange(4, dtype=np.uint64)  # words and ticks
LAYOUT = 1  # version of the map from ticks to words; checkpoints record it


@dataclass(frozen=True)
class Law:
    """The law of a multiplier W: mean 1, a known standard deviation, and a map from random words to W.

    Most laws are a function of one uniform number (`of_uniform`). `register_law` gives a law a name, by which
    `Multipliers` and checkpoints refer to it; `inferl.testing.check_law` tests whether it is what it says.

    Parameters
    ----------
    deviation
        Standard deviation of W, which intervals divide by.
    lanes
        Number of ticks of a replica that one call of the generator serves: 4, or 128 if a tick needs one bit only.
    multiplier
        Pure function of words and ticks, elementwise: 32 random bits and the number of the tick, to W.

    Examples
    --------
    >>> Law.of_uniform(lambda u: np.where(u < 0.2, 3.0, 0.5), deviation=1.0).deviation
    1.0
    """

    deviation: float
    lanes: int
    multiplier: Callable[[Words, Words], Floats]  # (word, tick) -> W

    @classmethod
    def of_uniform(cls, function: Callable[[Floats], Floats], deviation: float) -> Law:
        """Return the law of a function of uniform numbers in (0, 1), applied elementwise: a quantile function."""
        return cls(deviation, 4, lambda word, tick: function(_unit(word)))


def _unit(word: Words) -> Floats:
    """Map a 32-bit word to the middle of its cell of (0, 1)."""
    return (word.astype(np.float64) + 0.5) * 2.0**-32


def _uniform(word: Words, tick: Words) -> Floats:
    return 1.0 + (2.0 * _unit(word) - 1.0) * (1.0 / sqrt(3.0))


def _two_point(word: Words, tick: Words) -> Floats:
    return ((word >> (tick % np.uint64(32))) & np.uint64(1)).astype(np.float64) * 2.0


def _exponential(word: Words, tick: Words) -> Floats:
    return -np.log(_unit(word))


_POISSON = np.cumsum([exp(-1) / factorial(k) for k in range(13)])  # P(W <= k); beyond 12, less than a word resolves


def _poisson(word: Words, tick: Words) -> Floats:
    return np.searchsorted(_POISSON, _unit(word), side="right").astype(np.float64)


LAWS = {
    "uniform": Law(1.0 / 3.0, 4, _uniform),  # the paper's U(1 -+ 1/sqrt 3), with its true deviation
    "two-point": Law(1.0, 128, _two_point),  # 0 or 2
    "exponential": Law(1.0, 4, _exponential),
    "poisson": Law(1.0, 4, _poisson),  # how often a row is drawn in a resample of many
    "as-printed": Law(1.0, 4, _uniform),  # the same uniform law under the paper's claim that its variance is 1
}


def register_law(name: str, law: Law) -> None:
    """Give a law of your own a name, for `Multipliers`; do so before a checkpoint that uses it is loaded.

    >>> register_law("seldom three", Law.of_uniform(lambda u: np.where(u < 0.2, 3.0, 0.5), deviation=1.0))
    >>> Multipliers("seldom three").deviation
    1.0
    """
    if name in LAWS:
        raise SettingError(f"there is a law {name!r} already; choose another name")
    if not 0 < law.deviation < np.inf or law.lanes not in (4, 128):
        raise SettingError(f"{law!r} is not a Law with a positive deviation and 4 or 128 lanes")
    LAWS[name] = law


@dataclass(frozen=True)
class BlockClock:
    r"""A clock whose ticks are growing blocks of about `length` t^`growth` steps of a stream.

    .. math:: \text{tick}(n) = \lfloor n^{1-a} / (c (1-a)) \rfloor

    >>> clock = BlockClock(4, 0.5)
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
    """A law and a clock: W of replica b is drawn at each tick and held until the next.

    With ``clock="step"`` every transition has its own multiplier. With ``"episode"`` or `BlockClock` a multiplier is
    held for a block of steps, so that the spread of the replicas accounts for dependence within blocks.

    The law is ``"uniform"``, ``"two-point"``, ``"exponential"``, ``"poisson"``, ``"as-printed"``, or the name of one of
    your own (`register_law`).

    >>> Multipliers("two-point", clock=BlockClock()).deviation
    1.0
    """

    law: str = "uniform"
    clock: str | BlockClock = "step"
    answers: tuple[float, ...] = field(init=False, repr=False, compare=False)  # of the law, to know it in a checkpoint

    def __post_init__(self) -> None:
        if self.law not in LAWS:
            raise SettingError(f"there is no law {self.law!r}; choose one of {', '.join(LAWS)}, or register_law yours")
        answers = LAWS[self.law].multiplier(*_ASKED)
        if not np.allclose(getattr(self, "answers", answers), answers):
            raise SettingError(f"the law {self.law!r} of the file is not the one that has this name here")
        object.__setattr__(self, "answers", tuple(answers.tolist()))
        if not isinstance(self.clock, BlockClock) and self.clock not in ("step", "episode"):
            raise SettingError(
                f"there is no clock {self.clock!r}; choose 'step', 'episode' or BlockClock(length, growth)"
            )

    @property
    def deviation(self) -> float:
        """Standard deviation that the bootstrap's deviations are divided by."""
        return LAWS[self.law].deviation

    def ticks(self, clock: Clock) -> Integers:
        """Tick of each row: (T,)."""
        if isinstance(self.clock, BlockClock):
            return self.clock.tick(clock.count)
        return clock.step if self.clock == "step" else clock.episode

    def draw(self, seed: int, tick: Integers, stream: Integers, replica: Integers) -> Floats:
        """Draw the multipliers (B, T) of T rows, with their ticks and streams (slots), for replicas (B,).

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


@dataclass(frozen=True, eq=False)
class EffectiveBlocks:
    """Effective number of independent multipliers: (sum q)^2 / sum q^2, where q is a block's sum of squared weights."""

    tick: Integers = field(default_factory=lambda: np.zeros(0, np.int64))  # (S,) of the open block
    open: Floats = field(default_factory=lambda: np.zeros(0))  # (S,) q of the open block
    total: float = 0.0
    squares: float = 0.0  # over closed blocks

    def verify(self) -> None:
        """Refuse inconsistent sizes and impossible numbers."""
        shapes(self, {"tick": "S", "open": "S"})
        bounds(self, {"tick": (-1, COUNT[1])} | dict.fromkeys(("open", "total", "squares"), (0, 1e150)))

    def updated(self, slot: Integers, tick: Integers, weight: Floats) -> EffectiveBlocks:
        """Add rows with their averaging weights."""
        new = int(slot.max(initial=-1)) + 1 - len(self.tick)
        ticks = np.r_[self.tick, np.full(max(new, 0), -1)]
        opened = np.r_[self.open, np.zeros(max(new, 0))]
        total, squares = self.total, self.squares
        for s, now, q in zip(slot.tolist(), tick.tolist(), (weight**2).tolist(), strict=True):
            if now != ticks[s]:
                squares += float(opened[s]) ** 2
                ticks[s], opened[s] = now, 0.0
            opened[s] += q
            total += q
        return EffectiveBlocks(ticks, opened, total, squares)

    @property
    def number(self) -> float:
        """K_eff."""
        squares = self.squares + float(np.sum(self.open**2))
        return self.total**2 / squares if squares > 0 else 0.0
