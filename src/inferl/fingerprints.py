"""Fingerprints: one number for a stream, by which two evaluators know that they were fed the same one."""

from __future__ import annotations

import numpy as np

from inferl.rows import Floats, Integers

__all__ = ["fingerprint"]

GOLDEN, SILVER = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD1B54A32D192ED03)
FINISHER = (
    (np.uint64(30), np.uint64(0xBF58476D1CE4E5B9)),
    (np.uint64(27), np.uint64(0x94D049BB133111EB)),
)
WHOLE = 1 << 64


def fingerprint(step: Integers, stream: Integers, rewards: Floats) -> int:
    """Return a number below 2^64 that tells rows apart, and their order; those of successive chunks add (modulo 2^64).

    >>> step, stream, rewards = np.arange(4), np.zeros(4, np.int64), np.array([1.0, 2.0, 3.0, 4.0])
    >>> whole = fingerprint(step, stream, rewards)
    >>> (
    ...     fingerprint(step[:3], stream[:3], rewards[:3]) + fingerprint(step[3:], stream[3:], rewards[3:])
    ... ) % 2**64 == whole
    True
    >>> fingerprint(step, stream, rewards[::-1]) == whole
    False
    """
    words = (rewards + 0.0).view(np.uint64)  # + 0.0: there is a negative zero
    words ^= step.astype(np.uint64) * GOLDEN + stream.astype(np.uint64) * SILVER
    for shift, factor in FINISHER:  # spreads every bit over the word (splitmix64)
        words ^= words >> shift
        words *= factor
    words ^= words >> np.uint64(31)
    return int(words.sum(dtype=np.uint64)) % WHOLE
