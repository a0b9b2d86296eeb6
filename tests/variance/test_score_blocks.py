"""The dependence check of a nonlinear recursion: block sums of scores against plain loops, alarms on slow streams."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.signal import lfilter

import inferl
from inferl.data.arrays import Floats
from inferl.diagnostics import Check
from inferl.errors import CheckpointCorruptError
from inferl.methods.bootstrap import BootstrapState
from inferl.testing import assert_same_bits, check_resume
from inferl.variance.score_blocks import FIRST_EPOCH, ScoreBlocks


def towards_mean(theta: Floats, step: Any) -> Floats:
    return np.asarray(step.reward - theta)


def towards_moments(theta: Floats, step: Any) -> Floats:
    """The mean of the reward, and of its square about it."""
    return np.stack([step.reward - theta[:, 0], (step.reward - theta[:, 0]) ** 2 - theta[:, 1]], axis=1)


def slow(n: int, rho: float, seed: int) -> Floats:
    """An autoregressive series of variance 1."""
    noise = np.random.default_rng(seed).normal(size=n + 200) * np.sqrt(1 - rho**2)
    return np.asarray(lfilter([1.0], [1.0, -rho], noise)[200:])


def stream(rewards: Floats, **columns: Any) -> inferl.Transitions:
    one = np.ones((len(rewards), 1))
    return inferl.Transitions(one, rewards, one, 0.5, **columns)


def evaluated(rewards: Floats, clock: Any = "step", **options: Any) -> inferl.Evaluator:
    method = inferl.OnlineBootstrap(inferl.Polynomial(1.0), 20, inferl.Multipliers(clock=clock), **options)
    return inferl.Evaluator(inferl.Field(1, towards_mean), method).update(stream(rewards))


def dependence(evaluator: inferl.Evaluator) -> Check:
    (found,) = (check for check in evaluator.report([1.0]).checks if check.name == "dependence")
    return found


def kept(evaluator: inferl.Evaluator) -> ScoreBlocks:
    state = evaluator.with_pending().method
    assert isinstance(state, BootstrapState)
    assert state.scores is not None
    return state.scores


@pytest.mark.parametrize("seed", range(5))
def test_a_slow_stream_fails_and_blocks_of_multipliers_are_the_remedy(seed: int) -> None:
    found = dependence(evaluated(slow(2000, 0.9, seed)))
    assert found.failed
    assert "too narrow" in found.message
    assert found.remedy == "use multipliers with BlockClock() as their clock"
    assert found.value == pytest.approx(np.sqrt(19), rel=0.6)  # of (1 + rho) / (1 - rho), at some block length
    allowed = dependence(evaluated(slow(2000, 0.9, seed), inferl.BlockClock()))
    assert allowed.status == "passed"
    assert "accounts for dependence" in allowed.message


def test_independent_scores_seldom_raise_an_alarm() -> None:
    """At most a few of 200 streams, by chance: 3 standard errors at each of about 8 lengths."""
    alarms = [dependence(evaluated(slow(1500, 0.0, seed))).failed for seed in range(200)]
    assert sum(alarms) <= 6


def test_short_streams_and_runs_without_companion_are_not_available() -> None:
    assert dependence(evaluated(slow(FIRST_EPOCH, 0.9, 0))).status == "not available"
    assert dependence(evaluated(slow(1000, 0.9, 0), companion=False)).status == "not available"


def test_moments_are_those_of_plain_loops() -> None:
    """Two streams, interleaved at random; the pilot is the average at the start of the epoch."""
    n, end = 4 * FIRST_EPOCH, 4 * FIRST_EPOCH - 10
    rng = np.random.default_rng(0)
    label, rewards = rng.integers(2, size=n), slow(n, 0.5, 1)
    method = inferl.OnlineBootstrap(inferl.Polynomial(1.0), 5)
    algorithm = inferl.Field(2, towards_moments, n_features=1)
    evaluator = inferl.Evaluator(algorithm, method).update(stream(rewards[:end], stream=label[:end]))
    scores = kept(evaluator)
    expected = {}
    for epoch, (start, stop) in enumerate([(FIRST_EPOCH, 2 * FIRST_EPOCH), (2 * FIRST_EPOCH, end)]):
        before = inferl.Evaluator(algorithm, method).update(stream(rewards[:start], stream=label[:start]))
        pilot = np.array([before.estimate([1.0, 0.0]), before.estimate([0.0, 1.0])])
        own = [
            [
                towards_moments(pilot[None], SimpleNamespace(reward=rewards[t]))[0]
                for t in range(start, stop)
                if label[t] == s
            ]
            for s in range(2)
        ]
        for level in range(scores.count.shape[1]):
            k = 2**level
            sums = [sum(f[i : i + k]) for f in map(np.array, own) for i in range(0, len(f) - k + 1, k)]
            expected[epoch, level] = np.array(sums)
    np.testing.assert_allclose(scores.pilot, pilot, rtol=1e-12)
    last = scores.count.shape[1] - 1
    assert scores.count.tolist() == [
        [len(expected[0, level]) if level < last else 0 for level in range(last + 1)],
        [len(expected[1, level]) for level in range(last + 1)],
    ]
    for level in range(last):
        both = [expected[0, level], expected[1, level]]
        centred = sum((((x - x.mean(axis=0)) ** 2).sum(axis=0) for x in both), np.zeros(2))
        np.testing.assert_allclose(scores.rate()[level], centred / 2**level / (sum(map(len, both)) - 2), rtol=1e-9)


def test_chunks_make_no_difference() -> None:
    rewards = slow(1100, 0.5, 3)
    whole = evaluated(rewards)
    parts = evaluated(rewards[:300])
    for start in range(300, 1100, 37):
        parts.update(stream(rewards[start : start + 37]))
    assert_same_bits(whole, parts)


def test_a_run_goes_on_from_a_file_to_the_same_bits() -> None:
    rewards, field = slow(1100, 0.5, 3), inferl.Field(1, towards_mean)
    for stop in (100, 300, 700):
        check_resume(field, inferl.OnlineBootstrap(inferl.Polynomial(1.0), 5), stream(rewards), stop)


def test_a_file_with_impossible_moments_is_refused() -> None:
    scores = kept(evaluated(slow(1100, 0.5, 3)))
    scores.verify()
    for wrong in ({"count": scores.count - 10_000}, {"total": scores.total[:1]}, {"pilot": np.array([np.nan])}):
        with pytest.raises(CheckpointCorruptError):
            replace(scores, **wrong).verify()
