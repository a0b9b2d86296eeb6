"""Combining evaluators: `merge` adds the sums of separate streams, `concatenate` joins the replicas of one stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from inferl.errors import SettingError
from inferl.evaluator import Evaluator
from inferl.methods.schedule import merged_states

__all__ = ["concatenate", "merge"]


def merge(*evaluators: Evaluator) -> Evaluator:
    """Merge least-squares evaluators of separate streams, for example of several machines.

    All must have the same algorithm and method. The streams are treated as independent, so the interval includes the
    variation between them. Later updates continue the streams of the first evaluator.

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
    if any(evaluator.window for evaluator in filled):
        raise SettingError("an evaluator with a window follows one stream, so there is nothing to merge it with")
    parts = [evaluator.with_pending() for evaluator in filled]
    if len({(part.tabular, part.ratios_ndim) for part in parts}) > 1:
        raise SettingError(
            "the evaluators have features or ratios of different forms: row numbers of a table and "
            "vectors, or one column of ratios and several"
        )
    merged = filled[0].copy()
    merged._state = merged_states(merged._schedule, parts)
    return merged


def concatenate(shards: Sequence[Evaluator]) -> Evaluator:
    """Concatenate bootstrap evaluators that ran different replicas of one stream.

    Set ``first_replica`` of the shards so that their replicas are consecutive; all shards must have seen the same rows.
    The result equals, bit for bit, an evaluator that ran all replicas.

    >>> import numpy as np
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
    # Parts that all shards share come from the copy of the first, because they may be changed in place.
    states = [joined._state.method, *(shard._state.method for shard in shards[1:])]
    method, joined._state.method = joined.method.concatenate([shard.method for shard in shards], states)
    joined._schedule = replace(joined._schedule, method=method)
    return joined
