"""Threads that share the work of evaluators: several evaluators at once, and processes that were forked."""

from __future__ import annotations

import multiprocessing
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import inferl
from inferl import engine
from inferl.evaluator import Evaluator
from inferl.methods.bootstrap import OnlineBootstrap
from inferl.methods.step_sizes import Polynomial
from inferl.testing import assert_same_bits

P = 70


def evaluated(threads: int, seed: int = 0) -> Evaluator:
    """Enough features and rows for several threads to be woken."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(3001, P)) / P**0.5
    data = inferl.Transitions(features[:-1], rng.normal(size=3000), features[1:], 0.9)
    return Evaluator(inferl.TD(P), OnlineBootstrap(Polynomial(1.0), n_replicas=60), threads=threads).update(data)


def test_evaluators_in_several_threads_do_not_disturb_each_other() -> None:
    """Workers that are busy for one leave the others to do their work themselves."""
    alone = [evaluated(1, seed) for seed in range(6)]
    with ThreadPoolExecutor(6) as pool:
        together = list(pool.map(lambda seed: evaluated(3, seed), range(6)))
    for one, other in zip(alone, together, strict=True):
        assert_same_bits(one, other)


def _estimate(threads: int) -> float:
    return float(evaluated(threads).interval(np.ones(P)).estimate)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork.*:DeprecationWarning")
def test_a_forked_process_has_workers_of_its_own() -> None:
    expected = _estimate(3)  # the workers are there before the fork
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map_async(_estimate, [3, 3]).get(timeout=60) == [expected, expected]


@pytest.mark.parametrize(("given", "most"), [("1", 1), ("3,2", 3), ("", None), ("0", None), ("many", None)])
def test_the_number_of_cores_is_limited_by_the_environment(
    given: str, most: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    there = engine.cores()
    monkeypatch.setenv("OMP_NUM_THREADS", given)
    assert engine.cores() == (there if most is None else min(most, there))
