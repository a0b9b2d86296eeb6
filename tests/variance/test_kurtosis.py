"""The kurtosis-based effective sample size, where the exact value is known."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

import numpy as np
import pytest
from scipy import stats

from inferl import TD, Evaluator, LeastSquares, OnlineBootstrap, Polynomial, Report, Transitions, merge
from inferl.data.arrays import Floats
from inferl.interval import quantile
from inferl.variance.batch_means import Cascade
from inferl.variance.kurtosis import fourth_moments_of, kurtosis_ess, reduced_df
from inferl.variance.segments import Segments

pytestmark = pytest.mark.usefixtures("both_epochs")

ONE = np.ones((1, 1))


def fourth_moments(scores: Floats) -> Segments:
    cascade = Cascade.empty(12, scores.shape[1])
    cascade.add(scores, np.zeros(len(scores), np.int64))
    return fourth_moments_of(cascade.moments)


def rewards(data: Floats) -> Transitions:
    """One state, left for good after each step: the value is the mean reward."""
    zero = np.zeros(len(data), np.int64)
    return Transitions(zero, data, zero, 0.0)


def rarity(report: Report) -> str:
    return next(check for check in report.checks if check.name == "rarity").status


@pytest.mark.parametrize("n", [50, 127, 128, 1000, 20_000])
def test_the_shortest_blocks_that_are_all_there(n: int) -> None:
    scores = np.random.default_rng(0).normal(size=(n, 2))
    seen = fourth_moments(scores)
    length = int(seen.length[0])
    covered = len(seen.length) * length
    assert 32 <= len(seen.sums) < 128
    assert (seen.length == length).all()
    assert n - length < covered <= n
    np.testing.assert_allclose(seen.sums, scores[:covered].reshape(-1, length, 2).sum(axis=1), atol=1e-12)


@pytest.mark.parametrize(("events", "n"), [(20, 2_000), (20, 20_000), (80, 20_000)])
def test_rare_events_are_counted(events: int, n: int) -> None:
    """For a Bernoulli reward with probability q it is n q (1 - q) / (1 - 6 q (1 - q)), whatever the blocks' length."""
    rng = np.random.default_rng(1)
    q = events / n
    found = [1 / kurtosis_ess([fourth_moments((rng.random((n, 1)) < q).astype(float))], ONE, n)[0] for _ in range(200)]
    # Reciprocals are averaged: a single one is noisy, and may be 0.
    assert 1 / np.mean(found) == pytest.approx(n * q * (1 - q) / (1 - 6 * q * (1 - q)), rel=0.25)


def test_parts_of_a_stream_count_for_the_whole() -> None:
    scores = (np.random.default_rng(2).random((4096, 1)) < 0.01).astype(float)
    halves = [fourth_moments(scores[:2048]), fourth_moments(scores[2048:])]
    joined = Segments.joined(halves)
    whole = kurtosis_ess([joined], ONE, 4096)
    assert kurtosis_ess([joined], ONE, 6144) == pytest.approx(1.5 * whole)
    moved = Segments.joined([half.moved(np.array([2]), 4) for half in halves])
    assert kurtosis_ess([moved], np.eye(4)[[2]], 4096) == pytest.approx(whole)
    assert kurtosis_ess([joined.widened(1)], np.eye(2)[[0]], 4096) == pytest.approx(whole)
    shifted = joined.shifted(np.array([3.0]))  # a common mean
    assert kurtosis_ess([shifted], ONE, 4096) == pytest.approx(whole)


def test_too_few_blocks_say_nothing() -> None:
    few = np.random.default_rng(0).normal(size=(31, 1))
    assert np.isnan(kurtosis_ess([Segments.none(1), fourth_moments(few), None], ONE, 31)).all()
    more = fourth_moments(np.random.default_rng(0).normal(size=(64, 1)))
    assert np.isfinite(1 / kurtosis_ess([more], ONE, 96)).all()
    assert np.isnan(kurtosis_ess([more], ONE, 97)).all()  # too much of the stream is not covered
    for data in (np.arange(20.0), np.zeros(5000)):
        assert rarity(Evaluator(TD(1)).update(rewards(data)).report(0)) == "not available"


@pytest.mark.parametrize("n_streams", [1, 8, 30, 64, 128, 1000])
def test_many_streams_have_witnesses_too(n_streams: int) -> None:
    n = 20_000 // n_streams * n_streams
    rng = np.random.default_rng(0)
    noise = 1e-3 * rng.normal(size=n)
    common = rng.normal(size=n)
    noise[rng.integers(0, n, size=3)] = 1.0
    for data, expected in ((noise, "failed"), (common, "passed")):
        evaluator = Evaluator(TD(1)).update(replace(rewards(data), stream=np.arange(n) % n_streams))
        assert rarity(evaluator.report(0)) == expected


def test_short_streams_of_a_table_too() -> None:
    """Blocks of up to 8 one-hot scores are added entry by entry; whole streams are not."""
    rng = np.random.default_rng(8)
    state, n = rng.integers(64, size=10_000), 10_000
    data = Transitions(state, rng.normal(size=n), state, 0.5, stream=np.arange(n) // 5)
    evaluator = Evaluator(TD(64)).update(data)
    assert np.isfinite(evaluator.interval(0).width)
    assert rarity(evaluator.report(0)) == "passed"


def test_the_check_tells_a_rare_reward_from_a_common_one() -> None:
    rng = np.random.default_rng(3)
    rare = np.zeros(4000)
    rare[[700, 3100, 3900]] = 1.0
    report = Evaluator(TD(1)).update(rewards(rare)).report(0)
    assert rarity(report) == "failed"
    assert any(note.startswith("rarity: the variance estimate rests on about ") for note in report.interval.notes)
    common = Evaluator(TD(1)).update(rewards((rng.random(4000) < 0.1).astype(float))).report(0)
    assert rarity(common) == "passed"


def test_the_check_needs_blocks() -> None:
    data = rewards(np.random.default_rng(4).normal(size=600))
    bootstrap = OnlineBootstrap(Polynomial(1.0), n_replicas=20)
    assert rarity(Evaluator(TD(1), bootstrap).update(data).report(0)) == "passed"
    alone = OnlineBootstrap(Polynomial(1.0), n_replicas=20, companion=False)
    assert rarity(Evaluator(TD(1), alone).update(data).report(0)) == "not available"
    assert rarity(Evaluator(TD(1), LeastSquares("episode")).update(data).report(0)) == "passed"  # 600 episodes


def test_rare_rewards_widen_the_interval() -> None:
    """Coverage of the mean of a Bernoulli reward, 8 expected: too few degrees of freedom are better than too many."""
    rng = np.random.default_rng(5)
    narrower = wider = 0
    for _ in range(300):
        reading = Evaluator(TD(1)).update(rewards((rng.random(2000) < 0.004).astype(float)))
        interval = reading.interval(0)
        normal = 1.959964 * interval.standard_error
        narrower += abs(interval.estimate - 0.004) <= normal
        wider += 0.004 in interval
    assert wider >= narrower + 3


def test_counts_have_intervals_that_hold() -> None:
    """A count is its own effective count, as a sum of equal events: exact coverage of count -+ t x root.

    Means below 3 are not tested: often there is no event, and then nothing can be estimated.
    """
    count = np.arange(1, 200)
    degrees = reduced_df(np.full(len(count), np.inf), count.astype(np.float64))
    reach = quantile(0.95, degrees) * np.sqrt(count)
    for mean in np.arange(3, 60, 0.1):
        coverage = float(stats.poisson.pmf(count, mean)[np.abs(count - mean) <= reach].sum())
        assert 0.925 < coverage < 0.995


@pytest.mark.parametrize(("n_shards", "steps"), [(12, 1500), (30, 256), (60, 100)])
def test_merged_shards_know_as_much_as_one_stream(n_shards: int, steps: int) -> None:
    """The same rows, all at once or merged shard by shard: it rests on three events in both, or in neither."""
    rng = np.random.default_rng(6)
    noise = 1e-3 * rng.normal(size=n_shards * steps)
    common = noise + (rng.random(len(noise)) < 0.1)
    noise[(np.array([0.93, 0.97, 0.99]) * len(noise)).astype(int)] = 1.0  # where both keep the blocks
    for data, expected in ((noise, "failed"), (common, "passed")):
        shards = [Evaluator(TD(1)).update(rewards(shard)) for shard in np.split(data, n_shards)]
        one_by_one = reduce(merge, shards)
        whole = Evaluator(TD(1)).update(rewards(data))
        assert [rarity(e.report(0)) for e in (merge(*shards), one_by_one, whole)] == [expected] * 3


def test_short_shards_with_events_are_not_lost_beside_a_long_one() -> None:
    rng = np.random.default_rng(9)
    whole = Evaluator(TD(1)).update(rewards(1e-3 * rng.normal(size=30_000)))
    for number in range(20):
        short = 1e-3 * rng.normal(size=200)
        short[100] += number in (3, 11)
        whole = merge(whole, Evaluator(TD(1)).update(rewards(short)))
    assert rarity(whole.report(0)) == "failed"


def test_a_shard_without_events_does_not_hide_those_of_another() -> None:
    none, two = np.zeros(2000), np.zeros(1000)
    two[[700, 900]] = 1.0
    shards = [Evaluator(TD(1)).update(rewards(data)) for data in (none, two)]
    assert rarity(merge(*shards).report(0)) == "failed"
    assert rarity(merge(*shards[::-1]).report(0)) == "failed"


def test_one_target_that_nothing_happens_to_does_not_hide_another() -> None:
    rng = np.random.default_rng(11)
    state = rng.integers(3, size=4000)
    reward = np.where(state == 1, rng.normal(size=4000), 0.0)
    reward[np.flatnonzero(state == 0)[[-40, -90]]] = 1.0
    evaluator = Evaluator(TD(3)).update(Transitions(state, reward, state, 0.0))
    for targets in ([0], [0, 1], [0, 2], [0, 1, 2]):
        assert rarity(evaluator.report(np.eye(3)[targets])) == "failed"
    assert rarity(evaluator.report(np.eye(3)[[2]])) == "not available"
