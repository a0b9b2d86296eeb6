"""LeastSquares and its blocks: against the formulas written out, and against exact truth."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from mdps import small_problem
from scipy import stats

from inferl.algorithms import TD, DoublyRobust, Linear
from inferl.data.arrays import Floats, Integers
from inferl.data.increments import Increments
from inferl.data.streams import Clock, Streams
from inferl.data.transitions import Transitions
from inferl.data.vectors import Sparse, dense
from inferl.environments import random_walk
from inferl.errors import KindError, SettingError
from inferl.evaluator import Evaluator
from inferl.methods.least_squares import LeastSquares, LeastSquaresState
from inferl.variance.batch_means import Cascade, Scores
from inferl.variance.episode_sums import EpisodeSums
from inferl.variance.long_run import long_run
from inferl.variance.sparse_batch_means import SparseCascade

pytestmark = pytest.mark.usefixtures("short_epochs")

PROBLEM = small_problem()


def test_the_estimate_solves_the_equation() -> None:
    data = PROBLEM.sample(777, seed=0)
    dphi = data.features - data.discounts[:, None] * data.next_features
    a = (data.ratios[:, None] * data.features).T @ dphi
    b = (data.ratios * data.rewards) @ data.features
    estimate = Evaluator(TD(2)).update(data).estimate(np.eye(2))
    np.testing.assert_allclose(estimate, np.linalg.solve(a, b), rtol=1e-11)


def clock_of(slot: Integers, episode: Integers | None = None, last: Floats | None = None) -> Clock:
    n = len(slot)
    number = np.arange(1, n + 1)
    return Clock(
        number,
        slot,
        slot,
        number,
        np.ones(n, np.int64) if episode is None else episode,
        np.zeros(n, np.bool_) if last is None else last.astype(np.bool_),
    )


@pytest.mark.parametrize("cuts", [[], [1, 2, 3, 50, 77], list(range(1, 100))])
def test_cascade_forms_blocks_along_each_stream(cuts: list[int]) -> None:
    rng = np.random.default_rng(1)
    scores, slot = rng.normal(size=(100, 2)), rng.integers(3, size=100)
    cascade = Cascade.empty(5, 2)
    for start, stop in zip([0, *cuts], [*cuts, 100], strict=True):
        cascade.add(scores[start:stop], slot[start:stop])
    for level in range(5):
        blocks = []
        for s in range(3):
            own = scores[slot == s]
            whole = len(own) // 2**level * 2**level
            blocks += list(own[:whole].reshape(-1, 2**level, 2).sum(axis=1))
        g = np.array(blocks)
        assert cascade.moments.blocks[level] == len(g)
        with_pending = cascade.moments.with_pending()
        np.testing.assert_allclose(with_pending.outer[level], np.tril(g.T @ g), rtol=1e-12)
        np.testing.assert_allclose(with_pending.total[level], g.sum(axis=0), rtol=1e-12, atol=1e-12)
        along = g @ [1.0, 2.0]
        rates = Scores((cascade.moments,), None).rates(np.array([[1.0, 2.0]]))
        assert rates[level, 0] == pytest.approx(along.var(ddof=1) / 2**level)


def test_episode_sums_close_where_episodes_end() -> None:
    rng = np.random.default_rng(2)
    data = PROBLEM.sample(200, seed=3)
    _, steps = Streams().place(data)
    scores = rng.normal(size=(200, 2))
    sums = EpisodeSums.empty(3, 2)
    for start in range(0, 200, 13):
        sums.add(scores[start : start + 13], steps.clock[start : start + 13])
    closed = [scores[steps.clock.episode == e].sum(axis=0) for e in np.unique(steps.clock.episode[data.last])]
    g = np.array(closed)
    assert sums.moments.blocks[0] == len(g) == data.last.sum()
    np.testing.assert_allclose(sums.moments.with_pending().outer[0], np.tril(g.T @ g), rtol=1e-12)


def test_an_episode_is_summed_over_epochs() -> None:
    """What was added before an epoch ended is part of the episode that ends after it."""
    rng = np.random.default_rng(4)
    data = PROBLEM.sample(100, seed=6)
    _, steps = Streams().place(data)
    scores = rng.normal(size=(100, 2))
    whole, cut = EpisodeSums.empty(3, 2), EpisodeSums.empty(3, 2)
    whole.add(scores, steps.clock)
    ends = np.flatnonzero(data.last)
    edge = int(ends[3]) + 2  # inside the fifth episode
    assert edge not in ends + 1
    cut.add(scores[:edge], steps.clock[:edge])
    after = cut.next_epoch(3)
    after.add(scores[edge:], steps.clock[edge:])
    total = cut.moments.with_pending().total[0] + after.moments.with_pending().total[0]
    np.testing.assert_allclose(total, whole.moments.with_pending().total[0], rtol=1e-12)
    assert after.closed == whole.closed == len(ends)


@pytest.mark.parametrize(("n_streams", "steps"), [(1000, 4), (1500, 6), (300, 16)])
def test_scores_that_alternate_in_many_short_streams(n_streams: int, steps: int) -> None:
    """Blocks run along single streams: there may be none of the length that so many steps would ask for."""
    noise = np.random.default_rng(1).normal(size=(n_streams, steps + 1))
    rewards = (noise[:, 1:] - 0.9 * noise[:, :-1]).ravel()
    zero = np.zeros(n_streams * steps, np.int64)
    data = Transitions(zero, rewards, zero, 0.0, stream=np.repeat(np.arange(n_streams), steps))
    interval = Evaluator(TD(1)).update(data).interval(0)
    exact = np.sqrt((1.81 * steps - 1.8 * (steps - 1)) / (n_streams * steps**2))
    assert 0.8 * exact < interval.standard_error < 2.0 * exact


def leverage(u: Floats, v: Floats) -> Floats:
    """How much rows of A = u' v explain themselves."""
    return np.asarray(np.einsum("tp,pq,tq->t", v, np.linalg.inv(u.T @ v), u))


@pytest.mark.parametrize("rare", [False, True])
def test_standard_error_is_the_formula(rare: bool) -> None:
    """448 rows: an epoch of 256 and 192 rows of the next, both scored with the solution at 256.

    The first have made that solution, so what it leaves of them is stretched.
    """
    data, target = PROBLEM.sample(448, seed=8), PROBLEM.features[0]
    if rare:
        data = replace(data, rewards=data.rewards + 30.0 * (np.arange(448) % 90 == 0))
    phi, dphi = data.features, data.features - data.discounts[:, None] * data.next_features
    u = data.ratios[:, None] * phi
    pilot = np.linalg.solve(u[:256].T @ dphi[:256], data.rewards[:256] @ u[:256])
    h = 448 * np.linalg.solve((u.T @ dphi).T, target)
    scores = (data.rewards - dphi @ pilot) * (u @ h)
    scores[:256] /= np.sqrt(1 - leverage(u[:256], dphi[:256]))
    rate, df = [], []
    for j in range(7):
        blocks = []
        for epoch, n_levels in ((scores[:256], 6), (scores[256:], 7)):  # blocks of at most a sixth of 256 and of 512
            if j < n_levels:
                blocks.append(epoch[: len(epoch) // 2**j * 2**j].reshape(-1, 2**j).sum(axis=1))
        g = np.concatenate(blocks)
        rate.append(g.var(ddof=1) / 2**j)
        df.append(len(g) - 1)
    (long,), (degrees,), _ = long_run(np.array(rate)[:, None], np.array(df))
    error = np.sqrt(long / 448)
    interval = Evaluator(TD(2)).update(data).interval(target, level=0.9)
    assert interval.standard_error == pytest.approx(error, rel=1e-8)  # the ridge of A
    # The shortest blocks of which there are fewer than 128: of 4 rows in the first epoch, of 2 in the second.
    g = np.concatenate([scores[:256].reshape(64, 4).sum(axis=1), scores[256:].reshape(96, 2).sum(axis=1)])
    length = np.repeat([4, 2], [64, 96])
    g -= length * scores.mean()
    variance = np.sum(g**2)
    fourth = np.sum(g**4) - 3 * np.sum((length * variance / 448) ** 2)
    fewer = 2 / (2 / degrees + max(fourth, 0.0) / variance**2)
    assert (fewer < degrees) == rare
    assert interval.width == pytest.approx(2 * error * stats.t.ppf(0.95, fewer), rel=1e-8)


def test_first_epoch_is_scored_at_its_own_solution() -> None:
    """A pilot of 0 would call the reward of -1 a step noise."""
    mdp, _ = random_walk(8)
    policy = np.ones((10, 1)) if mdp.n_actions == 1 else np.full((10, 2), 0.5)
    path = mdp.sample(policy, 200, seed=1)
    evaluator = Evaluator(TD(10)).update(path.transitions(1.0))
    exact = mdp.values(policy, 1.0)[4]
    interval = evaluator.interval(4)
    assert interval.standard_error < abs(exact)


def test_episode_blocks_are_the_formula() -> None:
    data = PROBLEM.sample(200, seed=5)  # inside the first epoch: scored at the current solution
    evaluator = Evaluator(TD(2), LeastSquares("episode")).update(data)
    phi, dphi = data.features, data.features - data.discounts[:, None] * data.next_features
    a = (data.ratios[:, None] * phi).T @ dphi
    theta = np.linalg.solve(a, (data.ratios * data.rewards) @ phi)
    u = data.ratios[:, None] * phi
    f = u * ((data.rewards - dphi @ theta) / np.sqrt(1 - leverage(u, dphi)))[:, None]
    ends = np.flatnonzero(data.last) + 1
    g = np.array([part.sum(axis=0) for part in np.split(f, ends)])
    assert not data.last[-1]  # the last episode is open, and counts as far as it has come
    along = g @ np.linalg.solve(a.T, PROBLEM.features[0])
    e = len(g)
    squares = e * np.sum((along - along.mean()) ** 2) / (e - 1)
    assert evaluator.interval(PROBLEM.features[0]).standard_error == pytest.approx(np.sqrt(squares), rel=1e-9)


def test_no_interval_before_eight_steps() -> None:
    data = PROBLEM.sample(20, seed=0)
    evaluator = Evaluator(TD(2)).update(data[:7])
    assert evaluator.interval(PROBLEM.features[0]).width == np.inf
    assert np.isfinite(evaluator.update(data[7:8]).interval(PROBLEM.features[0]).width)


def test_what_the_data_do_not_identify_has_no_interval() -> None:
    # State 1 is entered and never left, so neither its value nor that of state 0, which leads there, is known.
    n = 300
    data = Transitions(np.zeros(n, int), np.ones(n), np.tile([0, 1], n // 2), 0.9, first=np.ones(n, bool))
    evaluator = Evaluator(TD(3)).update(data)
    interval = evaluator.interval(np.eye(3))
    assert (interval.width == np.inf).all()
    assert any("identification" in note for note in interval.notes)
    # With a way out of state 1, states 0 and 1 are known; state 2 never is.
    evaluator.update(Transitions(np.ones(n, int), np.ones(n), np.zeros(n, int), 0.9, first=np.ones(n, bool)))
    assert np.isfinite(evaluator.interval(np.eye(3)).width).tolist() == [True, True, False]


def test_percentile_is_a_named_error() -> None:
    with pytest.raises(KindError, match="OnlineBootstrap"):
        Evaluator(TD(2)).update(PROBLEM.sample(20, seed=0)).interval([1.0, 0.0], kind="percentile")
    with pytest.raises(SettingError):
        LeastSquares("weekly")


def test_a_statistician_s_own_increments() -> None:
    """A mean of 3 coordinates as a linear problem: the standard error is that of the mean."""
    x = np.random.default_rng(0).normal(size=(448, 3)) + np.array([1.0, 2.0, 3.0])
    evaluator = Evaluator(Linear(3), LeastSquares("none"))
    for row in x:
        evaluator.update(Increments.dense(np.eye(3), row))
    interval = evaluator.interval(np.eye(3))
    np.testing.assert_allclose(interval.estimate, x.mean(axis=0), rtol=1e-9)
    scores = x - x[:256].mean(axis=0)  # the first 256 rows have made the pilot
    scores[:256] /= np.sqrt(1 - 1 / 256)
    np.testing.assert_allclose(interval.standard_error, scores.std(axis=0, ddof=1) / np.sqrt(448), rtol=1e-9)


def test_episodes_told_by_their_labels_are_blocks_too() -> None:
    """Borders said with `episode` alone give the same interval as borders said with `last`."""
    data = PROBLEM.sample(2000, seed=5)
    label = np.cumsum(np.r_[0, data.last[:-1]])
    truncated = np.where(data.discounts == 0, 1e-300, data.discounts)  # not a termination any more
    columns = (data.features, data.rewards, data.next_features, truncated, data.ratios)
    said = Evaluator(TD(2), LeastSquares("episode")).update(Transitions(*columns, last=data.last))
    labelled = Evaluator(TD(2), LeastSquares("episode")).update(Transitions(*columns, episode=label))
    one, other = said.interval([1.0, 0.0]), labelled.interval([1.0, 0.0])
    assert other.standard_error > 0
    assert other.standard_error == pytest.approx(one.standard_error, rel=0.02)  # the open episode differs by one


def test_an_episode_that_an_epoch_cuts_belongs_to_the_next() -> None:
    """Episodes of 100 steps: those that are open at 256 and 512 rows go on."""
    n = 600
    zero = np.zeros(n, np.int64)
    data = Transitions(zero, np.ones(n), zero, 0.9, last=np.arange(1, n + 1) % 100 == 0)
    state = Evaluator(TD(1), LeastSquares("episode")).update(data).with_pending().method
    assert isinstance(state, LeastSquaresState)
    assert isinstance(state.current, EpisodeSums)
    assert state.current.closed == 6
    # The first two epochs (1 to 256, 257 to 512) saw 5 of them end, the third one.
    assert state.past is not None
    assert state.past.blocks[0] == 5
    assert state.current.moments.blocks[0] == 1


def test_observing_minds_the_limit_too() -> None:
    seen = np.arange(1990)
    evaluator = Evaluator(TD(5000)).update(Transitions(seen, np.zeros(1990), seen, 0.9))
    for state in range(1990, 2000):
        evaluator.observe(state, 0.0, state, 0.9)
    with pytest.raises(SettingError, match="states seen"):
        evaluator.observe(2000, 0.0, 2000, 0.9)
    assert evaluator.n == 2000


@pytest.mark.parametrize("cuts", [[], [1, 2, 3, 50, 177], list(range(1, 300))])
@pytest.mark.parametrize("p", [3, 40])
def test_sparse_blocks_are_those_of_the_dense_cascade(cuts: list[int], p: int) -> None:
    rng = np.random.default_rng(1)
    scores = Sparse(rng.integers(p, size=(300, 2)), rng.normal(size=(300, 2)), p)
    slot = rng.integers(3, size=300)
    sparse, dense_blocks = SparseCascade.empty(6, p, 2), Cascade.empty(6, p)
    for start, stop in zip([0, *cuts], [*cuts, 300], strict=True):
        sparse.add(scores[start:stop], clock_of(slot[start:stop]))
        dense_blocks.add(dense(scores[start:stop]), slot[start:stop])
    ours, theirs = sparse.moments.with_pending(), dense_blocks.moments.with_pending()
    assert ours.count.tolist() == theirs.count.tolist()
    np.testing.assert_allclose(ours.outer, theirs.outer, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(ours.total, theirs.total, rtol=1e-12, atol=1e-12)
    assert len(sparse.short.count) == (0 if p == 3 else 2)


def test_equal_returns_of_long_episodes_have_no_spread() -> None:
    """Epochs end within episodes; moving the pilot must not make returns differ that are all the same."""
    n = 50_000
    state, ends = np.zeros(n, np.int64), np.arange(1, n + 1) % 500 == 0
    found = (
        Evaluator(DoublyRobust(1)).update(Transitions(state, np.ones(n), state, np.where(ends, 0.0, 1.0))).interval()
    )
    assert (found.estimate, found.standard_error) == (500.0, 0.0)
    assert [note.partition(":")[0] for note in found.notes] == ["length"]
