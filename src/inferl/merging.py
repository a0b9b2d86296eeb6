"""Joining: several evaluators become one.

`merge` adds what was learned from separate streams; `concatenate` puts the replicas of one stream's shards together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

import numpy as np

from inferl.data.fingerprints import combined
from inferl.errors import SettingError
from inferl.evaluator import Evaluator

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
    with merged._schedule.working(), np.errstate(all="ignore"):  # where numbers overflow, a check says so
        state.method = first.method.merge([part.method for part in parts])
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

    >>> from inferl import TD, OnlineBootstrap, Polynomial, Transitions
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
    if not shards:
        raise SettingError("concatenate needs at least one evaluator")
    for shard in shards:
        if shard.algorithm != shards[0].algorithm:
            raise SettingError(f"{shard} does not continue {shards[0]}; all must have the same algorithm")
        if (shard.n, shard.fingerprint) != (shards[0].n, shards[0].fingerprint):
            raise SettingError("the shards have not seen the same stream: their transitions differ")
    joined = shards[0].copy()
    # What all shards share is taken from the copy of the first: it may be changed in place.
    states = [joined._state.method, *(shard._state.method for shard in shards[1:])]
    method, joined._state.method = joined.method.concatenate([shard.method for shard in shards], states)
    joined._schedule = replace(joined._schedule, method=method)
    return joined
