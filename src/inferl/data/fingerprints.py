"""Fingerprints: a 64-bit hash of a stream, which tells whether two evaluators have seen the same data."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import numpy as np

from inferl.data.arrays import Integers, Words

__all__ = ["combined", "fingerprints"]

FINISHER = (
    (np.uint64(30), np.uint64(0xBF58476D1CE4E5B9)),
    (np.uint64(27), np.uint64(0x94D049BB133111EB)),
)
WHOLE, ONE = 1 << 64, np.uint64(1)
BLOCK = 32_768  # rows whose words stay in the cache

SumWords = Callable[[Any, Words], Words]  # the words (T, m) of each row times their keys (m,), added up: (T,)


def sum_words(words: Words, keys: Words) -> Words:
    """Sum the words of each row times their keys; unsigned integers wrap around, so that any order will do."""
    return np.asarray(np.einsum("tm,m->t", words, keys))


def fingerprints(
    step: Integers,
    stream: Integers,
    outcomes: Iterable[Any],
    others: Iterable[Any] = (),
    sum_words: SumWords = sum_words,
) -> tuple[int, int]:
    """Return two 64-bit hashes of rows and their order: one of the outcomes, one of all columns.

    Columns have one row per step, of numbers or of arrays of numbers. Use `combined` for those of successive chunks.
    `sum_words` is the arithmetic for arrays, that of a backend if it is faster.

    >>> step, stream, rewards = np.arange(4), np.zeros(4, np.int64), np.array([1.0, 2.0, 3.0, 4.0])
    >>> (whole, _), (head, _), (tail, _) = (
    ...     fingerprints(step[k], stream[k], [rewards[k]]) for k in (slice(4), slice(3), slice(3, 4))
    ... )
    >>> combined([head, tail]) == whole, fingerprints(step, stream, [rewards[::-1]])[0] == whole
    (True, False)
    """
    seen, more = list(outcomes), list(others)
    keys = _keys(len(seen) + len(more) + 2)
    first = second = 0
    seen, more = ([_one_each(x, sum_words) for x in some] for some in (seen, more))
    for start in range(0, len(step), BLOCK):
        rows = slice(start, start + BLOCK)
        columns = [_words(column[rows]) * key for column, key in zip((step, stream, *seen, *more), keys, strict=True)]
        words = _spread(_sum(columns[: 2 + len(seen)]))
        first += int(words.sum(dtype=np.uint64))
        if more:  # the word of a row's outcomes is the key for its other columns
            second += int(np.dot(words | ONE, _sum(columns[2 + len(seen) :])))
    return first % WHOLE, (first + second) % WHOLE


def combined(parts: Iterable[int]) -> int:
    """Return the fingerprint of several streams, or of successive chunks of one; their order does not matter.

    >>> combined([combined([1, 2]), 2**64 - 1]) == combined([1, combined([2**64 - 1, 2])])
    True
    """
    return sum(parts) % WHOLE


def _words(column: Any) -> Words:
    """One word per row: the bits of a number."""
    if column.dtype == np.bool_:
        return np.asarray(column.astype(np.uint64))
    words: Words = (column + 0.0 if column.dtype == np.float64 else column).view(np.uint64)
    return words  # + 0.0 turns negative zero into zero


def _one_each(column: Any, sum_words: SumWords) -> Any:
    """Return a column of numbers as it is; of arrays, one word for each row."""
    if column.ndim == 1:
        return column
    rows = column.reshape(len(column), -1)
    return sum_words(rows.view(np.uint64) if isinstance(rows, np.ndarray) else rows, _keys(rows.shape[1]))


def _sum(columns: list[Words]) -> Words:
    total = columns[0]
    for column in columns[1:]:
        total += column
    return total


def _spread(words: Words) -> Words:
    """Mix the bits of each word (the finaliser of splitmix64), in place."""
    for shift, factor in FINISHER:
        words ^= words >> shift
        words *= factor
    words ^= words >> np.uint64(31)
    return words


@cache
def _keys(number: int) -> Words:
    """Fixed pseudo-random odd words."""
    return _spread(np.arange(1, number + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)) | ONE
