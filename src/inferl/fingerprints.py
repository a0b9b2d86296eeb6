"""Fingerprints: one number for a stream, by which two evaluators know that they were fed the same one."""

from __future__ import annotations

import numpy as np

from inferl.rows import Floats, Integers

__all__ = ["fingerprint"]

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
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
    place = _mixed(step.astype(np.uint64) * GOLDEN + _mixed(stream.astype(np.uint64)))
    bits = np.ascontiguousarray(rewards + 0.0).view(np.uint64)  # + 0.0: there is a negative zero
    return int(_mixed(place ^ bits).sum(dtype=np.uint64)) % WHOLE


def _mixed(words: np.ndarray[tuple[int, ...], np.dtype[np.uint64]]) -> np.ndarray[tuple[int, ...], np.dtype[np.uint64]]:
    """Spread every bit over the word (the finisher of splitmix64)."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(words ^ (words >> np.uint64(31)))
