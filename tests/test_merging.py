"""Several evaluators become one: merged streams, concatenated replicas."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import cast

import numpy as np
import pytest
from mdps import small_problem
from numpy.typing import ArrayLike
from scipy.signal import lfilter

import inferl
from inferl.algorithms import GTD2, TD
from inferl.algorithms.targets import as_targets
from inferl.data.arrays import Floats
from inferl.environments import ring
from inferl.errors import SettingError
from inferl.evaluator import Evaluator
from inferl.methods.bootstrap import OnlineBootstrap
from inferl.methods.least_squares import LeastSquares, LeastSquaresState
from inferl.methods.step_sizes import Polynomial
from inferl.testing import assert_same_bits

pytestmark = pytest.mark.usefixtures("both_epochs")

PROBLEM = small_problem()


def rates_of_short_blocks(evaluator: Evaluator, target: ArrayLike) -> Floats:
    """Variance rates of blocks of 1, 2, 4, 8 and 16 steps."""
    assert isinstance(evaluator.method, LeastSquares)
    rows = as_targets(target, evaluator.algorithm, None, whole=False).rows
    levels = evaluator.method.look(cast(LeastSquaresState, evaluator.with_pending().method), rows).levels
    assert levels is not None
    return levels.rate[:5, 0]


@pytest.mark.parametrize("blocks", ["dyadic", "episode", "none"])
@pytest.mark.parametrize("tabular", [False, True])
def test_two_halves_merged_agree_with_one_stream(blocks: str, tabular: bool) -> None:
    data = PROBLEM.sample(20_000, seed=1, tabular=tabular)
    cut = int(np.flatnonzero(data.last)[len(np.flatnonzero(data.last)) // 3]) + 1
    algorithm = TD(4 if tabular else 2)
    whole = Evaluator(algorithm, LeastSquares(blocks)).update(data)
    halves = [Evaluator(algorithm, LeastSquares(blocks)).update(part) for part in (data[:cut], data[cut:])]
    merged = inferl.merge(*halves)
    target = 0 if tabular else PROBLEM.features[0]
    one, two = whole.interval(target), merged.interval(target)
    assert merged.n == two.n == 20_000
    assert two.estimate == pytest.approx(one.estimate, rel=1e-9)
    if blocks == "dyadic":  # noise may choose another block length; at the same length both see nearly the same
        rates = [rates_of_short_blocks(evaluator, target) for evaluator in (whole, merged)]
        assert rates[1] == pytest.approx(rates[0], rel=0.1)
    else:
        assert two.standard_error == pytest.approx(one.standard_error, rel=0.05)
    assert merged.episodes == whole.episodes == int(data.last.sum())
    merged.update(data)  # and goes on
    assert merged.interval(target).n == 40_000


def test_a_short_stream_merges_with_a_long_one() -> None:
    data = PROBLEM.sample(5_100, seed=1)
    merged = inferl.merge(Evaluator(TD(2)).update(data[:100]), Evaluator(TD(2)).update(data[100:]))
    whole = Evaluator(TD(2)).update(data)
    c = PROBLEM.features[0]
    assert merged.estimate(c) == pytest.approx(whole.estimate(c), rel=1e-9)
    assert rates_of_short_blocks(merged, c)[:3] == pytest.approx(rates_of_short_blocks(whole, c)[:3], rel=0.1)


def test_tables_that_saw_different_states_merge() -> None:
    mdp, _ = ring(30, 5)
    data = mdp.sample(np.ones((30, 1)), 3000, seed=2).transitions(0.9)
    here, there = (data.features < 12) & (data.next_features < 12), (data.features >= 12) & (data.next_features >= 12)
    parts = [
        inferl.Transitions(data.features[rows], data.rewards[rows], data.next_features[rows], 0.9, first=rows[rows])
        for rows in (here, there)
    ]
    separate = [Evaluator(TD(30)).update(part) for part in parts]
    merged = inferl.merge(*separate)
    together = Evaluator(TD(30)).update(parts[0]).update(parts[1])
    seen = np.unique(np.concatenate([part.features for part in parts]))
    np.testing.assert_allclose(merged.estimate(np.eye(30)[seen]), together.estimate(np.eye(30)[seen]), rtol=1e-8)


def test_only_alike_evaluators_merge() -> None:
    data = PROBLEM.sample(100, seed=1)
    with pytest.raises(SettingError, match="differ"):
        inferl.merge(Evaluator(TD(2)).update(data), Evaluator(TD(2, trace=0.5)).update(data))
    replicas = Evaluator(TD(2), OnlineBootstrap(Polynomial(1.0), 5)).update(data)
    with pytest.raises(SettingError, match="LeastSquares"):
        inferl.merge(replicas, replicas)


def test_shards_concatenate_to_the_whole_bit_for_bit() -> None:
    data = PROBLEM.sample(777, seed=1)
    method = OnlineBootstrap(Polynomial(0.5), n_replicas=9, seed=4)
    whole = Evaluator(GTD2(2), method).update(data)
    cuts = [(0, 3), (3, 2), (5, 4)]
    shards = [Evaluator(GTD2(2), replace(method, first_replica=first, n_replicas=n)).update(data) for first, n in cuts]
    joined = inferl.concatenate(shards)
    assert joined.method == method
    assert_same_bits(joined, whole)
    with pytest.raises(SettingError, match="continue"):
        inferl.concatenate([shards[0], shards[2]])
    shards[1].update(data)
    with pytest.raises(SettingError, match="same stream"):
        inferl.concatenate(shards)
    with pytest.raises(SettingError, match="merged"):
        inferl.concatenate([Evaluator(TD(2)).update(data)])


@pytest.mark.parametrize("n", [640, 650])
def test_shards_and_what_they_become_are_independent(n: int) -> None:
    """Least-squares sums beside the replicas are changed in place: the joined evaluator needs its own."""
    data = PROBLEM.sample(n, seed=1)
    method = OnlineBootstrap(Polynomial(0.5), n_replicas=3)
    shards = [Evaluator(TD(2), replace(method, first_replica=first)).update(data) for first in (0, 3)]
    before = [shard.copy() for shard in shards]
    joined = inferl.concatenate(shards)
    at_first = joined.copy()
    shards[0].update(data[:100])
    assert_same_bits(joined, at_first)
    joined.update(data[:100])
    assert_same_bits(shards[1], before[1])
    assert_same_bits(shards[0], before[0].update(data[:100]))


def test_shards_of_other_rows_with_the_same_estimates_are_refused() -> None:
    states = np.random.default_rng(0).integers(2, size=301)
    rows = [inferl.Transitions(states[:-1], np.zeros(300), after, 0.9) for after in (states[1:], states[:-1])]
    shards = [
        Evaluator(TD(2), OnlineBootstrap(Polynomial(0.5), n_replicas=3, first_replica=3 * k)).update(data)
        for k, data in enumerate(rows)
    ]
    with pytest.raises(SettingError, match="not seen the same stream: their transitions differ"):
        inferl.concatenate(shards)


def test_streams_that_keep_different_shares_count_by_their_length() -> None:
    """One stream keeps half of its scores, the other all; each speaks of a state of its own."""
    rng = np.random.default_rng(12)
    shards = []
    for state, n in ((0, 16_384), (1, 8_000)):
        places = np.full(n, state)
        data = inferl.Transitions(places, rng.normal(size=n), places, 0.0)
        shards.append(Evaluator(TD(2), LeastSquares("none")).update(data))
    merged = inferl.merge(*shards)
    for state, shard in enumerate(shards):
        alone = shard.interval(state).standard_error
        assert merged.interval(state).standard_error == pytest.approx(alone, rel=2e-3)


def test_rows_that_are_still_kept_are_corrected_at_their_places() -> None:
    """The state asked about is seen three times, in the second stream alone; its place is after those of the first."""
    rng = np.random.default_rng(13)
    shards, own = [], np.zeros(0)
    for states in ([4, 5, 6], [0, 1, 2]):
        state, reward = rng.choice(states, size=200), rng.normal(size=200)
        state[state == 0] = 1
        state[[20, 90, 150]] = states[0]
        own = reward[state == states[0]]
        shards.append(Evaluator(TD(7), LeastSquares("none")).update(inferl.Transitions(state, reward, state, 0.0)))
    found = inferl.merge(*shards).interval(0).standard_error
    assert len(own) == 3
    assert found == pytest.approx(own.std(ddof=1) / np.sqrt(3), rel=5e-3)


def test_many_short_streams_merged_have_a_width() -> None:
    """The longest blocks are one of each stream, and about each stream's own mean nothing of them is left."""
    n_streams, steps, rho, errors = 40, 300, 0.95, []
    for seed in range(8):
        noise = np.random.default_rng(seed).normal(size=(n_streams, steps + 200))
        x = np.zeros_like(noise)
        for t in range(1, steps + 200):
            x[:, t] = rho * x[:, t - 1] + noise[:, t]
        zero = np.zeros(steps, np.int64)
        parts = [Evaluator(TD(1)).update(inferl.Transitions(zero, row, zero, 0.0)) for row in x[:, 200:]]
        merged = reduce(inferl.merge, parts)
        errors.append(float(merged.interval(0).standard_error))
        (length,) = (check for check in merged.report(0).checks if check.name == "length")
        assert length.value is not None
        assert length.value < 2 * n_streams * steps * (1 - rho) / (1 + rho)  # a step in 39 is a new one
    exact = 1 / (1 - rho) / np.sqrt(n_streams * steps)
    assert 0.5 * exact < min(errors)
    assert max(errors) < 2.0 * exact


def test_merged_single_steps_are_a_sample() -> None:
    zero, values = np.zeros(1, np.int64), np.arange(12.0)
    parts = [Evaluator(TD(1)).update(inferl.Transitions(zero, np.array([r]), zero, 0.0)) for r in values]
    found = inferl.merge(*parts).interval(0).standard_error
    assert found == pytest.approx(values.std(ddof=1) / np.sqrt(11))  # each step has seen a twelfth of itself


def autoregression(n_streams: int, steps: int, rho: float, seed: int) -> Floats:
    noise = np.random.default_rng(seed).normal(size=(n_streams, steps + 300))
    return np.asarray(lfilter([1.0], [1.0, -rho], noise, axis=1)[:, 300:])


def of_rewards(rows: Floats) -> inferl.Transitions:
    zero = np.zeros(len(rows), np.int64)
    return inferl.Transitions(zero, rows, zero, 0.0)


def test_what_parts_differ_by_is_in_the_interval() -> None:
    """64 parts of 250 steps of an AR(.98): about their own means the standard error would be .59 of the truth."""
    found = []
    for seed in range(10):
        parts = autoregression(64, 250, 0.98, seed)
        merged = inferl.merge(*(Evaluator(TD(1)).update(of_rewards(part)) for part in parts))
        found.append(float(merged.interval(0).standard_error) ** 2)
    exact = 1 / (1 - 0.98) / np.sqrt(64 * 250) * np.sqrt(0.84)  # of sums over 250 steps, not over very long ones
    assert np.sqrt(np.mean(found)) == pytest.approx(exact, rel=0.1)


@pytest.mark.parametrize("steps", [100, 3000])
def test_parts_may_be_merged_in_any_order(steps: int) -> None:
    """Kept rows are scored at the solution of those merged with them, so nested merges differ by terms of second order.

    Short streams are within the first epoch, long ones past it.
    """
    data = [PROBLEM.sample(steps, seed=seed) for seed in range(5)]
    a, b, c, d, e = (Evaluator(TD(2)).update(part) for part in data)
    at_once = inferl.merge(a, b, c, d, e)
    target = PROBLEM.features[0]
    for other in (inferl.merge(e, c, a, b, d), inferl.merge(inferl.merge(a, b), inferl.merge(c, inferl.merge(d, e)))):
        assert other.n == at_once.n
        assert (other.fingerprint, other.outcomes) == (at_once.fingerprint, at_once.outcomes)
        assert at_once.outcomes != a.outcomes
        assert other.estimate(target) == pytest.approx(at_once.estimate(target), rel=1e-9)
        assert rates_of_short_blocks(other, target)[:3] == pytest.approx(
            rates_of_short_blocks(at_once, target)[:3], rel=20 / steps
        )


def test_a_thousand_parts_keep_every_check() -> None:
    rng = np.random.default_rng(3)
    parts = [Evaluator(TD(1)).update(of_rewards(rng.normal(size=40))) for _ in range(1000)]
    report = inferl.merge(*parts).report(0)
    assert {check.name for check in report.checks if check.status == "not available"} == {"features"}
    assert not report.interval.notes
    assert report.interval.standard_error == pytest.approx(1 / np.sqrt(40_000), rel=0.1)


def test_streams_of_one_evaluator_and_merged_ones_agree() -> None:
    for n_streams, steps in ((8, 2000), (64, 250), (512, 31)):
        parts = autoregression(n_streams, steps, 0.9, 5)
        merged = inferl.merge(*(Evaluator(TD(1)).update(of_rewards(part)) for part in parts))
        rows = replace(of_rewards(parts.T.reshape(-1)), stream=np.tile(np.arange(n_streams), steps))
        together = Evaluator(TD(1)).update(rows)
        one, other = together.interval(0), merged.interval(0)
        assert other.estimate == pytest.approx(one.estimate, rel=1e-9)
        assert other.standard_error == pytest.approx(one.standard_error, rel=0.05)
        lengths = [c.value for e in (together, merged) for c in e.report(0).checks if c.name == "length"]
        assert lengths[0] is not None
        assert lengths[1] == pytest.approx(lengths[0], rel=0.3)


@pytest.mark.parametrize("steps", [100, 128])
def test_whole_streams_are_the_longest_blocks(steps: int) -> None:
    """Streams that differ by nothing but their means, which blocks within a stream about a mean of its own do not show.

    128 is the length of a dyadic block too.
    """
    rng = np.random.default_rng(1)
    parts = rng.normal(size=(40, 1)) + 0.1 * rng.normal(size=(40, steps))
    rows = replace(of_rewards(parts.T.reshape(-1)), stream=np.tile(np.arange(40), steps))
    evaluator = Evaluator(TD(1)).update(rows)
    report = evaluator.report(0)
    assert report.interval.standard_error == pytest.approx(parts.mean(axis=1).std(ddof=1) / np.sqrt(40), rel=0.05)
    (dependence,) = (check for check in report.checks if check.name == "dependence")
    if steps == 100:
        assert f"whole streams of {steps} steps" in dependence.message
    band = evaluator.interval(np.ones((2, 1)), kind="simultaneous")  # twice the same: no wider than one
    assert band.width == pytest.approx(evaluator.interval(np.ones((2, 1)), kind="normal").width, rel=1e-6)


@pytest.mark.parametrize("n_streams", [4000, 5000])
def test_streams_that_return_are_known_again(n_streams: int) -> None:
    """Users with an effect of their own, visited in turn for one step; their slots have long been taken by others."""
    rng = np.random.default_rng(2)
    effects = rng.normal(size=n_streams)
    visits = np.tile(np.arange(n_streams), 6)
    rewards = effects[visits] + 0.1 * rng.normal(size=len(visits))
    evaluator = Evaluator(TD(1)).update(replace(of_rewards(rewards), stream=visits))
    assert evaluator.interval(0).standard_error == pytest.approx(1 / np.sqrt(n_streams), rel=0.1)


def test_labels_of_any_size_are_streams() -> None:
    parts = np.random.default_rng(3).normal(size=(50, 1)) + np.zeros((50, 40))
    found = []
    for label in (np.arange(50), 10**9 + 4096 * np.arange(50), 2**32 - 1 - np.arange(50)):
        rows = replace(of_rewards(parts.T.reshape(-1)), stream=np.tile(label, 40))
        found.append(float(Evaluator(TD(1)).update(rows).interval(0).standard_error))
    assert found == pytest.approx([parts.std(ddof=1) / np.sqrt(50)] * 3, rel=0.15)


@pytest.mark.parametrize("n_streams", [2, 3, 5])
def test_a_few_streams_that_differ_are_told(n_streams: int) -> None:
    rng = np.random.default_rng(4)
    for apart, expected in ((0.0, "passed"), (1.0, "failed")):
        parts = apart * np.arange(n_streams)[:, None] + rng.normal(size=(n_streams, 1000))
        merged = inferl.merge(*(Evaluator(TD(1)).update(of_rewards(part)) for part in parts))
        (check,) = (check for check in merged.report(0).checks if check.name == "dependence")
        assert check.status == expected


def test_a_part_that_has_not_answered_yet_may_come_first() -> None:
    """Five-step TD has rows, and no increments of them."""
    algorithm = inferl.NStepTD(4, 5)
    data = [PROBLEM.sample(n, seed=n, tabular=True) for n in (3, 300, 400)]
    for blocks in ("dyadic", "episode"):
        parts = [
            Evaluator(algorithm, LeastSquares(blocks)).update(
                part[: np.flatnonzero(part.last)[-1] + 1] if len(part) > 3 else part
            )
            for part in data
        ]
        first, last = inferl.merge(*parts), inferl.merge(*parts[::-1])
        assert first.interval(0).standard_error == pytest.approx(last.interval(0).standard_error, rel=1e-3)
        assert type(cast(LeastSquaresState, first.with_pending().method).current) is type(
            cast(LeastSquaresState, last.with_pending().method).current
        )


def test_episodes_that_are_open_in_any_part_are_blocks() -> None:
    """No episode has ended: those of the first part go on, those of the others have come to their end."""
    parts = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        zero = np.zeros(400, np.int64)
        data = inferl.Transitions(zero, rng.normal(size=400), zero, 0.5, stream=np.arange(400) % 20)
        parts.append(Evaluator(TD(1), LeastSquares("episode")).update(data))
    merged = inferl.merge(*parts)
    state = cast(LeastSquaresState, merged.with_pending().method)
    levels = LeastSquares("episode").look(state, np.ones((1, 1))).levels
    assert levels is not None
    assert levels.blocks[0] == 60
    alone = np.mean([float(part.interval(0).standard_error) for part in parts])
    assert merged.interval(0).standard_error == pytest.approx(alone / np.sqrt(3), rel=0.1)


def test_evaluators_of_two_versions_of_a_policy_are_not_merged() -> None:
    here = np.zeros(500, int)
    one, other, none = (
        Evaluator(TD(1)).update(inferl.Transitions(here, here, here, 0.5, **version))
        for version in ({"version": here + 1}, {"version": here + 2}, {})
    )
    with pytest.raises(SettingError, match=r"several versions of the policy \(1, 2\)"):
        inferl.merge(one, other)
    merged = inferl.merge(none, one)
    with pytest.raises(SettingError, match="more than one version"):
        merged.update(inferl.Transitions(here, here, here, 0.5, version=here + 2))
