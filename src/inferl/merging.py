"""Joining: several evaluators become one.

`merge` adds what was learned from separate streams; `concatenate` puts the replicas of one stream's shards together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import cast

import numpy as np

from inferl.data.fingerprints import combined
from inferl.errors import SettingError
from inferl.evaluator import Evaluator
from inferl.methods.bootstrap import BootstrapState, OnlineBootstrap
from inferl.methods.bootstrap import concatenate as concatenate_states
from inferl.methods.least_squares import LeastSquares, LeastSquaresState

__all__ = ["concatenate", "merge"]


def merge(*evaluators: Evaluator) -> Evaluator:
    """Merge least-squares evaluators of separate streams, for example of several machines.

    Sums add; all must have the same algorithm. The streams count as independent, so that what they differ by is part of
    the interval. Rows that arrive later continue the streams of the first.

    >>> import numpy as np
    >>> from inferl import TD, Transitions
    >>> coin = np.random.default_rng(0).integers(2, size=2000)
    >>> data = Transitions(0 * coin, coin, 0 * coin, 0.9)
    >>> merged = merge(*(Evaluator(TD(1)).update(data[k : k + 500]) for k in range(0, 2000, 500)))
    >>> merged.n, bool(abs(merged.estimate(0) - Evaluator(TD(1)).update(data).estimate(0)) < 1e-9)
    (2000, True)
    """
    if not evaluators:
        raise SettingError("merge needs at least one evaluator")
    first = evaluators[0]
    if not isinstance(first.method, LeastSquares):
        raise SettingError("only LeastSquares can be merged: the rows of a bootstrap follow one stream")
    for other in evaluators[1:]:
        if (first.algorithm, first.method) != (other.algorithm, other.method):
            raise SettingError(f"{first} and {other} differ; all must have the same algorithm and method")
    filled = [evaluator for evaluator in evaluators if evaluator.n] or [first]
    if len(filled) == 1:
        return filled[0].copy()
    parts = [evaluator.with_pending() for evaluator in filled]
    if len({(part.tabular, part.ratios_ndim) for part in parts}) > 1:
        raise SettingError("some have row numbers of a table or one column of ratios, others vectors or several")
    merged = filled[0].copy()
    state = merged._state
    with np.errstate(all="ignore"):  # where numbers overflow, a check says so
        state.method = first.method.merge([cast(LeastSquaresState, part.method) for part in parts])
    state.carry, state.pending = parts[0].carry, None
    state.ratios = reduce(lambda one, other: one.plus(other), (part.ratios for part in parts))
    state.episodes = reduce(lambda one, other: one.plus(other), (part.episodes for part in parts))
    state.fingerprint = combined([part.fingerprint for part in parts])
    state.outcomes = combined([part.outcomes for part in parts])
    completed = state.streams.completed.copy()
    completed[0] += sum(int(part.streams.completed.sum()) for part in parts[1:])
    state.streams = replace(state.streams, n=sum(part.streams.n for part in parts), completed=completed)
    return merged


def concatenate(shards: Sequence[Evaluator]) -> Evaluator:
    """Put bootstrap evaluators that ran different replicas of one stream together.

    The shards are made with ``first_replica`` set so that their replicas follow each other; they must have seen the
    same rows. The result is, bit for bit, the evaluator that would have run all replicas.

    >>> from inferl import TD, Polynomial, Transitions
    >>> coin = np.random.default_rng(0).integers(2, size=2000)
    >>> data = Transitions(0 * coin, coin, 0 * coin, 0.9)
    >>> shards = [
    ...     Evaluator(TD(1), OnlineBootstrap(Polynomial(5.0), n_replicas=50, first_replica=50 * i)).update(data)
    ...     for i in range(2)
    ... ]
    >>> whole = Evaluator(TD(1), OnlineBootstrap(Polynomial(5.0), n_replicas=100)).update(data)
    >>> str(concatenate(shards).interval(0)) == str(whole.interval(0))
    True
    """
    methods = [shard.method for shard in shards]
    expected = shards[0].method
    for shard, method in zip(shards, methods, strict=True):
        if not isinstance(method, OnlineBootstrap) or not isinstance(expected, OnlineBootstrap):
            raise SettingError("only replicas of OnlineBootstrap can be concatenated; LeastSquares are merged")
        if replace(expected, n_replicas=method.n_replicas) != method or shard.algorithm != shards[0].algorithm:
            raise SettingError(f"{method} does not continue the replicas before it, which end at {expected}")
        if shard.n != shards[0].n or not np.array_equal(_row_zero(shard), _row_zero(shards[0])):
            raise SettingError("the shards have not seen the same stream: their estimates differ")
        expected = replace(expected, first_replica=method.first_replica + method.n_replicas)
    joined = shards[0].copy()
    total = sum(cast(OnlineBootstrap, method).n_replicas for method in methods)
    joined._schedule = replace(joined._schedule, method=replace(cast(OnlineBootstrap, methods[0]), n_replicas=total))
    joined._state.method = concatenate_states([cast(BootstrapState, shard._state.method) for shard in shards])
    return joined


def _row_zero(shard: Evaluator) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return np.asarray(cast(BootstrapState, shard.with_pending().method).iterate[:, 0])
