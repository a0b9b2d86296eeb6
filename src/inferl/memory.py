r"""Memory: how long a stream of scores remembers, read off the growth of its variance with the length of blocks.

Scores whose correlation dies out as exp(-k / tau) show, in blocks of L steps, the variance rate 1 + g s(L / tau) with
s(x) = 1 - (1 - exp(-x)) / x: flat for short blocks, flat again for blocks much longer than tau. The tau whose curve
explains most of the observed growth is the memory. It is a rough number (the slowest part of a chain may hide behind
faster ones), but it averages over all parameters, and so sees what the variance of a single target hides in its noise.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from inferl.rows import Floats, Integers

__all__ = ["Memory", "memory_of"]

FEWEST = 4  # blocks, of a level that is heard
TIMES = 2.0 ** np.arange(-1, 30, 0.25)  # memories that are tried


class Memory(NamedTuple):
    """What the growth of the variance says."""

    steps: float  # tau; 0 if the variance does not grow at all
    evidence: float  # how much of the growth it explains, as a chi-square with one degree of freedom


def memory_of(growth: Floats, blocks: Integers) -> Memory:
    """Find the memory from variance rates (J,) of blocks of 1, 2, 4, ... steps, relative to single steps.

    A rate from K blocks has a relative error of sqrt(2 / K), which weighs it.

    >>> lengths = 2.0 ** np.arange(12)
    >>> growth = 1 + 5 * (1 - (1 - np.exp(-lengths / 8)) / (lengths / 8))
    >>> memory_of(growth / growth[0], 100_000 // lengths.astype(int)).steps
    8.0
    >>> memory_of(np.ones(12), 100_000 // lengths.astype(int)).steps
    0.0
    """
    lengths = 2.0 ** np.arange(len(growth))
    heard = blocks >= FEWEST
    weight = np.where(heard, blocks / 2 / np.maximum(growth, 0.5) ** 2, 0.0)
    curve = _curve(lengths[:, None] / TIMES) - _curve(1 / TIMES)  # (J, times)
    match = (weight * (growth - 1)) @ curve
    size = weight @ curve**2
    explained = np.where(match > 0, match**2 / np.maximum(size, 1e-300), 0.0)
    best = int(np.argmax(explained))
    return Memory(float(TIMES[best]), float(explained[best])) if explained[best] > 0 else Memory(0.0, 0.0)


def _curve(x: Floats) -> Floats:
    return np.asarray(1 + np.expm1(-x) / x)
