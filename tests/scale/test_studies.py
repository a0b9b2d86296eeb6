"""Studies: functions of seeds by any executor."""

from __future__ import annotations

import numpy as np
import pytest
from scale.test_plans import Inline

import inferl
from inferl.scale import study


def shard(first: int) -> inferl.Evaluator:
    coin = np.random.default_rng(0).integers(2, size=2000)
    method = inferl.OnlineBootstrap(inferl.Polynomial(5.0), n_replicas=50, first_replica=first)
    return inferl.Evaluator(inferl.TD(1), method).update(inferl.Transitions(0 * coin, coin, 0 * coin, 0.9))


def fails(seed: int) -> float:
    return 1 / seed


def test_shards_of_a_bootstrap() -> None:
    shards = study(shard, [0, 50], executor=2)
    whole = inferl.OnlineBootstrap(inferl.Polynomial(5.0), n_replicas=100)
    coin = np.random.default_rng(0).integers(2, size=2000)
    one = inferl.Evaluator(inferl.TD(1), whole).update(inferl.Transitions(0 * coin, coin, 0 * coin, 0.9))
    assert str(inferl.concatenate(shards).interval(0)) == str(one.interval(0))


def test_the_order_is_that_of_the_seeds_and_errors_are_raised() -> None:
    assert study(fails, [4, 2, 1], executor=Inline(late=True)) == [0.25, 0.5, 1.0]
    with pytest.raises(ZeroDivisionError):
        study(fails, [1, 0, 2], executor=2)
