"""Philox 4x32-10: random words as a pure function of (counter, key).

A counter-based generator (Salmon et al. 2011) has no state to store or to advance: the words of replica 17 at tick
4 000 000 are computed, not reached. That is why results do not depend on how a stream was cut into chunks.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["philox"]

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
